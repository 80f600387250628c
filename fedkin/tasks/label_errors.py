"""Errors of predicted class numbers (FedSim, eq. 16)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.client import Client, ClientRows
from fedkin.core.client_engine import sums_by_row
from fedkin.core.schema import Rows, floats
from fedkin.core.task import Task, shared
from fedkin.task_types.loss import targets_of


@dataclass(frozen=True)
class LabelErrors(Task):
    """Root mean square error of the class *numbers* that each model predicts, on training samples.

    NaN if a client does not reply. A client sends only one error per model.
    """

    models: Float[np.ndarray, "K P"] = shared("K P")

    up = Rows(error=floats("K", low=0, counted=False))

    def compute(self, client: Client) -> dict[str, Any]:
        labels = _labels(client.samples()[1])
        squares = [(client.predict(model) - labels) ** 2 for model in self.models]
        return {"error": np.array([np.sqrt(np.mean(square)) for square in squares])}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        owned = rows.data.part("train").select(rows.clients)
        labels = _labels(rows.data.y[owned.rows])
        predicted = rows.scorer.predict(self.models, rows.clients, "train")
        errors = [
            np.sqrt(sums_by_row((of_model - labels) ** 2, owned.sizes) / owned.sizes)
            for of_model in predicted
        ]
        yield rows.every, {"error": np.stack(errors, axis=1)}


def _labels(y: np.ndarray) -> Float[np.ndarray, "s"]:
    """The labels of samples, without offsets and weights of counts and numbers."""
    return targets_of(y).label.astype(np.float64)
