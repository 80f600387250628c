"""Shifts of clients' data by the losses of their cluster's model (``measures.number_shift``). The
test works with any labels, and sees a change of y given x. It is not from a paper.

Shapes: n rows (clients), K models, P parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.core.client import Client, ClientRows
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
        tested = _test(losses, client.memory.get(_REFERENCE, None))
        if tested.reference is not None:
            client.memory[_REFERENCE] = tested.reference
        return {"risen": np.bool_(tested.risen)}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        if not rows.samples.detects_shifts:
            yield rows.every, {"risen": np.zeros(len(rows.clients), bool)}
            return
        for index, members in rows.by_model(self.model_index):
            clients = rows.clients[members]
            losses = rows.scorer.sample_losses(self.models[index][None], clients)[0]
            ends = np.cumsum(rows.data.train.sizes[clients])[:-1]
            by_client = np.split(losses.astype(np.float64), ends)
            known = rows.memory.has(_REFERENCE, clients)
            stored = rows.memory.read(_REFERENCE, clients, np.zeros((len(clients), 3)))
            risen = np.zeros(len(members), bool)
            for number, of_client in enumerate(by_client):
                tested = _test(of_client, stored[number] if known[number] else None)
                risen[number] = tested.risen
                if tested.reference is not None:
                    rows.store(_REFERENCE, members[[number]], tested.reference[None])
            yield members, {"risen": risen}


class _Tested(NamedTuple):
    """The result of a client's test.

    Attributes:
        risen: whether its data must have shifted.
        reference: the reference to store; None to keep the present one.
    """

    risen: bool
    reference: Float64[np.ndarray, "3"] | None


def _test(losses: Float64[np.ndarray, "t"], reference: Float64[np.ndarray, "3"] | None) -> _Tested:
    """Test the present losses of a client's samples.

    Args:
        losses: loss of each sample.
        reference: what the client has stored; None without a reference.
    """
    if not np.isfinite(losses).all():
        return _Tested(False, None)  # the model has diverged, and says nothing about data
    variance = losses.var(ddof=1) if len(losses) > 1 else 0.0
    present = np.array([losses.mean(), variance, len(losses)])
    mean, variance, samples = present if reference is None else reference
    risen = losses_shifted(losses, float(mean), float(variance), int(samples))
    return _Tested(risen, present if risen or present[0] <= mean else None)
