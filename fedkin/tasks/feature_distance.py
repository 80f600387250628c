"""How far a client's features have moved since it was asked for the first time. It is an
observation of the monitor of clusters (``fedkin/options/monitor``).

The measure is our own. Shapes: n rows (clients), s samples, d numbers of a sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32

from fedkin.core.client import Client
from fedkin.core.errors import MethodError
from fedkin.core.schema import Memory, Rows, floats, integers
from fedkin.core.task import Task

_MEANS = "first_feature_means"
_SPREAD = "first_feature_spread"
_MEMORY = {_MEANS: Memory("d", np.float32), _SPREAD: Memory("", np.float32)}


@dataclass(frozen=True)
class FeatureDistance(Task):
    """How far the means of a client's features are from those of its first reply, as a number from
    0 to 1, and the number of its samples.

    With the present means m, the means r and the standard deviations s of the first reply, the
    distance is q / (1 + q) with q = ||m - r|| / ||s||. It is 0 without a change, 1/2 if every
    feature has moved by its standard deviation, and below 1 however far features move. Of new
    samples, q is about sqrt(2 / samples) by chance alone.

    Attributes:
        split: the samples: ``validation``, ``train`` or ``test``.
    """

    split: str = "validation"

    # The distance of a client without samples is 0, and says nothing.
    up = Rows(distance=floats(low=0, high=1, missing=0.0), examples=integers())
    memory = _MEMORY
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        samples = client.samples(self.split)[0]
        if samples.dtype.kind != "f":
            raise MethodError(
                "monitor.features = true needs features that are numbers, but these samples are "
                f"of type {samples.dtype}, such as the tokens of texts; leave it out"
            )
        if not len(samples):
            return {"distance": np.float32(0), "examples": 0}
        present = _summary(samples)
        if _MEANS not in client.memory:
            client.memory[_MEANS] = present.means
            client.memory[_SPREAD] = present.spread
        first = _Summary(client.memory[_MEANS], client.memory[_SPREAD])
        return {"distance": _distance(present, first), "examples": len(samples)}


class _Summary(NamedTuple):
    """The features of some samples.

    Attributes:
        means: mean of each feature.
        spread: norm of the standard deviations of all features.
    """

    means: Float32[np.ndarray, "d"]
    spread: Float32[np.ndarray, ""] | np.float32


def _summary(samples: Float32[np.ndarray, "s ..."]) -> _Summary:
    """The means and the spread of features."""
    features = samples.reshape(len(samples), -1).astype(np.float64)
    means = features.mean(axis=0).astype(np.float32)
    spread = np.linalg.norm(features.std(axis=0))
    return _Summary(means, np.float32(spread))


def _distance(present: _Summary, first: _Summary) -> np.float32:
    """The distance of two summaries, from 0 to 1."""
    moved = np.linalg.norm(present.means - first.means)
    if moved == 0:
        return np.float32(0)
    # moved / spread / (1 + moved / spread), which is 1 if no feature had a spread.
    return np.float32(moved / (moved + first.spread))
