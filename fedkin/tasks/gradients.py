"""Gradients of clients' full training losses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.schema import Rows, floats
from fedkin.core.task import Task, chosen, each


@dataclass(frozen=True)
class Gradients(Task):
    """Gradient of each client's full training loss at its model; NaN without a reply."""

    models: Float[np.ndarray, "K P"] = chosen("K P")
    model_index: Int[np.ndarray, "n"] = each()

    up = Rows(gradients=floats("P", np.float32))
    can_be_lost = False  # the server asks only clients that have replied in this round

    def compute(self, client: Client) -> dict[str, Any]:
        return {"gradients": client.gradient(self.models[self.model_index[0]])}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        for portion in rows.portions(self.models.shape[1]):
            gradients = rows.trainer.gradients(
                self.models, rows.clients[portion], self.model_index[portion]
            )
            yield portion, {"gradients": gradients}


@dataclass(frozen=True)
class CriterionGradients(Gradients):
    """Gradients by which clients are clustered. Unlike in ``Gradients``, a simulation may drop a
    client's reply."""

    can_be_lost = True
