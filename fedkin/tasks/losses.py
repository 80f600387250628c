"""Training losses of models on clients' samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.client import Client, ClientRows
from fedkin.core.schema import Rows, floats
from fedkin.core.task import Task, shared


@dataclass(frozen=True)
class Losses(Task):
    """Mean training loss of every model on every client, including the regularisation term; NaN if
    a client does not reply. If samples have weights, the mean is weighted, as in training."""

    models: Float[np.ndarray, "K P"] = shared("K P")

    # A model that has diverged may have an infinite loss.
    up = Rows(losses=floats("K", finite=False, counted=False))

    def compute(self, client: Client) -> dict[str, Any]:
        return {"losses": client.losses(self.models)}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        yield rows.every, {"losses": rows.scorer.losses(self.models, rows.clients)}
