"""Private clustering by sketches: a sketch is a client's first update, projected at random to a few
numbers and scaled to length 1.

The tasks here request sums of sketches, or the direction that is nearest to each client's sketch. A
client adds one vector of length 1 to one sum, so noise of a fixed size makes the sum private
(``charged = "unit_sum"``). The client trains again for each of these tasks, and gets the same
update from the same stream. Shapes: r rows (clients) of a portion, P parameters, K directions, s
numbers of a sketch, m = s (s + 1) / 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.client import Client, ClientRows
from fedkin.core.errors import TaskError
from fedkin.core.method import UNASSIGNED
from fedkin.core.schema import Rows, Schema, Sums, floats, integers
from fedkin.core.task import Task, initial, setting, shared
from fedkin.core.training import LocalTraining
from fedkin.measures.sketch import second_moments, unit_sketches


@dataclass(frozen=True)
class _Sketching:
    """Fields and computation that all sketch tasks share.

    Attributes:
        start: the run's initial model, from which clients train.
        work: settings of the training.
        size: number of values s in a sketch.
        seed: seed of the sketches.
    """

    start: Float[np.ndarray, "P"] = initial("P")
    work: LocalTraining = setting()
    size: int = 64
    seed: int = 0

    def compute(self, client: Client) -> dict[str, Any]:
        local = client.train(self.start, self.work)
        arrays = self.arrays(self._sketches(local.update[None]))
        reply = {name: array[0] for name, array in arrays.items()}
        # A choice must not reveal anything else, so no number of samples is sent with it.
        if "nearest" in arrays:
            return reply
        return reply | {"examples": len(client.samples()[1])}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        examples = rows.data.train.sizes[rows.clients].astype(np.int64)
        call = rows.train_call(self.start[None], np.zeros(len(rows.clients), np.int64), self.work)
        for portion in rows.portions(len(self.start)):
            local = rows.trainer.train(call.select(portion))
            arrays = self.arrays(self._sketches(np.asarray(local.update)))
            if "nearest" not in arrays:
                arrays["examples"] = examples[portion]
            yield portion, arrays

    def arrays(self, sketches: Float[np.ndarray, "r s"]) -> dict[str, np.ndarray]:
        """The reply's arrays, without numbers of samples."""
        raise NotImplementedError

    def check_reply(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise TaskError if a reply names a direction that was not sent."""
        directions = self.sizes()["K"]
        task_name = self.name  # type: ignore[attr-defined]
        for name in {"nearest", "model_index"} & arrays.keys():
            if arrays[name].size and arrays[name].max() >= directions:
                raise TaskError(f"task {task_name}: {name} is outside 0..{directions - 1}")

    def sizes(self) -> dict[str, int]:
        """Sizes of the reply's axes by name. K (directions) is 1 for moments, of which there is
        only one mean over all clients."""
        size = int(self.size)
        sizes = super().sizes()  # type: ignore[misc]
        return {"K": 1, **sizes, "s": size, "m": size * (size + 1) // 2}

    def _sketches(self, updates: Float[np.ndarray, "r P"]) -> Float[np.ndarray, "r s"]:
        """The sketch of each client's update: projected to ``size`` numbers, and of length 1."""
        return unit_sketches(updates, self.size, self.seed)


@dataclass(frozen=True)
class SketchMoments(_Sketching, Task):
    """The mean over all clients of the second moments x x^T of their sketches x.

    Attributes:
        reduce: whether the server needs only the mean.
    """

    reduce: bool = True

    detectors = None
    charged = "unit_sum"

    @property
    def up(self) -> Schema:
        """Schema of the reply: the moments (or their mean), and numbers of samples."""
        return _schema("moments", "m", self.reduce)

    def arrays(self, sketches: Float[np.ndarray, "r s"]) -> dict[str, np.ndarray]:
        return {
            "moments": second_moments(sketches),
            "model_index": np.zeros(len(sketches), np.int64),
        }

    def single(self) -> SketchMoments:
        return replace(self, reduce=False)


@dataclass(frozen=True)
class SketchSums(_Sketching, Task):
    """For each of K directions, the mean of the sketches that are nearest to it.

    A sketch is nearest to the direction with which its inner product is highest.

    Attributes:
        directions: directions with which each client compares its sketch.
        reduce: whether the server needs only the means.
    """

    directions: Float[np.ndarray, "K s"] = shared("K s", default=None)
    reduce: bool = True

    detectors = None
    charged = "unit_sum"

    @property
    def up(self) -> Schema:
        """Schema of the reply: the sketch (or its mean for each direction), numbers of samples, and
        nearest directions."""
        return _schema("sketch", "s", self.reduce)

    def arrays(self, sketches: Float[np.ndarray, "r s"]) -> dict[str, np.ndarray]:
        return {"sketch": sketches, "model_index": _nearest(sketches, self.directions)}

    def single(self) -> SketchSums:
        return replace(self, reduce=False)


@dataclass(frozen=True)
class NearestSketch(_Sketching, Task):
    """The one of K directions that has the highest inner product with each client's sketch.

    -1 if a client does not reply, or if its update is zero.

    Attributes:
        directions: directions with which each client compares its sketch.
    """

    directions: Float[np.ndarray, "K s"] = shared("K s", default=None)

    up = Rows(nearest=integers(low=UNASSIGNED, missing=UNASSIGNED, counted=False))
    detectors = None
    charged = "choice"

    def arrays(self, sketches: Float[np.ndarray, "r s"]) -> dict[str, np.ndarray]:
        has_direction = np.isfinite(sketches).all(axis=1) & sketches.any(axis=1)
        nearest = _nearest(sketches, self.directions)
        return {"nearest": np.where(has_direction, nearest, UNASSIGNED)}


def _nearest(
    sketches: Float[np.ndarray, "r s"], directions: Float[np.ndarray, "K s"]
) -> np.ndarray:
    """The direction that has the highest inner product with each client's sketch; in a tie, the
    first one."""
    # One direction at a time, so that the bits do not depend on how many there are.
    products = [np.nan_to_num(sketches) @ direction for direction in directions]
    return np.stack(products, axis=1).argmax(axis=1)


@cache
def _schema(name: str, axes: str, reduce: bool) -> Schema:
    """The schema of a reply of a sketch task, made once for each combination and cached.

    Args:
        name: name of the array that is summed.
        axes: its axes.
        reduce: whether the server needs only the means.
    """
    over = "model" if reduce else "row"
    arrays: dict[str, Any] = {}
    arrays[name] = floats(axes, missing=0.0, over=over, norm_checked=True)
    arrays["examples"] = integers(over="row", counted=False, registered=True)
    arrays["model_index"] = integers(over="row", counted=False)
    kind = Sums if reduce else Rows
    return kind(**arrays)
