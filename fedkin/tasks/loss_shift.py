"""Shifts of clients' data by the losses of their cluster's model (``measures.number_shift``). The
test works with any labels, and sees a change of y given x. It is not from a paper.

Shapes: n rows (clients), K models, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client import Client
from fedkin.core.schema import Memory, Rows, booleans
from fedkin.core.task import Task, chosen, each
from fedkin.measures.number_shift import losses_shifted

_REFERENCE = "loss_reference"  # mean, variance and number of losses
_MEMORY = {_REFERENCE: Memory("3", np.float64, lifetime="assignment")}


@dataclass(frozen=True)
class LossShifted(Task):
    """Whether a client's losses have risen so much that its data must have shifted: Welch's t
    against its reference is above 3.

    The reference has the mean and the variance of the losses when they were lowest since the client
    was assigned to its cluster. So a model that improves does not hide a shift. A client without a
    reference, or one that reports a shift, stores its present losses.

    Attributes:
        models: models of the clusters.
        model_index: the model of each row (a client).
    """

    models: Float[np.ndarray, "K P"] = chosen("K P")
    model_index: Int[np.ndarray, "n"] = each()

    up = Rows(risen=booleans(counted=False))
    memory = _MEMORY

    def compute(self, client: Client) -> dict[str, Any]:
        if not client.detects_shifts:
            return {"risen": np.False_}
        own_model = self.models[int(self.model_index[0])]
        losses = client.sample_losses(own_model[None])[0].astype(np.float64)
        if not np.isfinite(losses).all():
            return {"risen": np.False_}  # the model has diverged, and says nothing about data
        variance = losses.var(ddof=1) if len(losses) > 1 else 0.0
        present = np.array([losses.mean(), variance, len(losses)])
        reference = client.memory.get(_REFERENCE, present)
        mean, variance, samples = reference
        shifted = losses_shifted(losses, float(mean), float(variance), int(samples))
        if shifted or present[0] <= mean:
            client.memory[_REFERENCE] = present
        return {"risen": np.bool_(shifted)}
