"""Similarities between clients' updates and directions of clusters. Shapes: n rows (clients), K
directions, P parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.client import Client, ClientRows
from fedkin.core.schema import Rows, floats
from fedkin.core.task import Task, initial, kept, setting
from fedkin.core.training import LocalTraining
from fedkin.measures.cosine import unit_rows


@dataclass(frozen=True)
class Directions(Task):
    """Directions of clusters (vectors with which updates are compared), which clients keep.

    No message is sent for this task: a real client receives the directions with its first task
    ``Similarities``.
    """

    directions: Float[np.ndarray, "K P"] = kept("K P")

    name = "send"
    delivery = "announced"
    detectors = None
    can_be_lost = False

    def compute(self, client: Client) -> dict[str, Any]:
        return {}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        yield rows.every, {}


@dataclass(frozen=True)
class Similarities(Task):
    """Cosines between each client's update and the directions that it keeps (``Directions``).

    NaN if a client does not reply, or if its update is zero or not finite.

    Attributes:
        start: the run's initial model, from which clients train.
        directions: directions of the clusters.
        work: settings of the training.
    """

    start: Float[np.ndarray, "P"] = initial("P")
    directions: Float[np.ndarray, "K P"] = kept("K P")
    work: LocalTraining = setting()

    up = Rows(
        cosine=floats("K", np.float32, low=-1 - 1e-3, high=1 + 1e-3, finite=False, counted=False)
    )

    def compute(self, client: Client) -> dict[str, Any]:
        local = client.train(self.start, self.work)
        return {"cosine": self._cosines(unit_rows(self.directions), local.update, local.loss)}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        directions = unit_rows(self.directions)
        call = rows.train_call(self.start[None], np.zeros(len(rows.clients), np.int64), self.work)
        for portion in rows.portions(len(self.start)):
            local = rows.trainer.train(call.select(portion))
            # One row at a time, as on a client, so that the bits do not depend on other rows.
            cosines = [
                self._cosines(directions, update, loss)
                for update, loss in zip(local.update, local.loss, strict=True)
            ]
            yield portion, {"cosine": np.array(cosines, np.float32).reshape(len(portion), -1)}

    def _cosines(
        self, directions: Float[np.ndarray, "K P"], update: Float[np.ndarray, "P"], loss: Any
    ) -> Float[np.ndarray, "K"]:
        """Cosines between a client's update and the clusters' directions (of length 1).

        The cosines are NaN, as for a client without a reply, if the update is zero or not finite.
        """
        if not (np.isfinite(update).all() and update.any() and np.isfinite(loss)):
            return np.full(len(directions), np.nan, np.float32)
        return np.clip(unit_rows(update[None]) @ directions.T, -1, 1)[0].astype(np.float32)
