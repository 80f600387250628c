"""The statistics that the monitor of clusters reads: numbers from 0 to 1 that clients send, and
that should not rise. Each has evidence (``evidence.py``), kept in the run's state.

Shapes: N clients, n clients of a round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.method import State
from fedkin.core.world import World
from fedkin.options.monitor.evidence import Evidence
from fedkin.tasks.feature_distance import FeatureDistance
from fedkin.tasks.fit_checks import BoundedLoss

Cause = Literal["loss", "features"]


class Observed(NamedTuple):
    """The observations of the clients of a round.

    Attributes:
        values: number of each client, from 0 to 1.
        known: the clients that have replied and have samples.
    """

    values: Float[np.ndarray, "n"]
    known: Bool[np.ndarray, "n"]


@dataclass(frozen=True)
class Statistic:
    """A number that clients send.

    Attributes:
        cause: the cause of an alarm of this statistic.
        sends: what a client sends, in words.
        of_model: whether the number depends on the client's model.
        arrays: names of the arrays of its evidence in the state: observations, detectors, spells.
        ask: the function that asks clients for it. Its arguments are the world, the state, the
            clients and the split of the samples.
    """

    cause: Cause
    sends: str
    of_model: bool
    arrays: tuple[str, str, str]
    ask: Callable[[World, State, Int[np.ndarray, "n"], str], Observed]

    def read(self, arrays: Mapping[str, np.ndarray]) -> Evidence:
        """The evidence that some arrays of a state hold."""
        observations, detectors, spell = (arrays[name] for name in self.arrays)
        return Evidence(observations, detectors, spell)

    def written(self, evidence: Evidence) -> dict[str, np.ndarray]:
        """The arrays of a state that hold the evidence."""
        observations, detectors, spell = self.arrays
        return {
            observations: evidence.observations,
            detectors: evidence.detectors,
            spell: evidence.spell,
        }


def _losses(world: World, state: State, clients: Int[np.ndarray, "n"], split: str) -> Observed:
    """The loss of each client's model."""
    models = state.models_for(clients)
    reply = world.run(BoundedLoss(models.models, models.model_index, split=split), clients)
    return Observed(reply.loss, reply.arrived & (reply.examples > 0))


def _features(world: World, state: State, clients: Int[np.ndarray, "n"], split: str) -> Observed:
    """How far the features of each client have moved."""
    del state  # features do not depend on models
    reply = world.run(FeatureDistance(split=split), clients)
    return Observed(reply.distance, reply.arrived & (reply.examples > 0))


LOSS = Statistic(
    cause="loss",
    sends="the loss of its model",
    of_model=True,
    arrays=("losses", "evidence", "spell"),
    ask=_losses,
)
FEATURES = Statistic(
    cause="features",
    sends="how far its features have moved",
    of_model=False,
    arrays=("features", "features_evidence", "features_spell"),
    ask=_features,
)
