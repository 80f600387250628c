"""Mean losses of clients whose samples have weights in the data (``data.weight``), for the scorers
of all libraries."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client_engine import sums_by_row
from fedkin.core.engine_protocols import Scorer
from fedkin.data.federated import FederatedData
from fedkin.task_types.loss import relative_weights, targets_of


def weighted_losses(
    scorer: Scorer,
    data: FederatedData,
    models: Float[np.ndarray, "K P"],
    clients: Int[np.ndarray, "n"],
) -> Float[np.ndarray, "n K"] | None:
    """Mean training loss of every model on every client, without regularisation: the weighted sum
    of the losses of its samples, divided by the sum of weights. None if all weights are 1.

    Args:
        scorer: scores models.
        data: samples of all clients.
        models: the models.
        clients: the clients.
    """
    if targets_of(data.y[:1]).weight is None:
        return None
    sizes = data.train.sizes[clients].astype(np.int64)
    weights = relative_weights(data.y[data.train.select(clients).rows], sizes)
    if weights is None:
        return None
    columns = []
    # One model at a time, so that only its losses are in memory.
    for k in range(len(models)):
        losses = scorer.sample_losses(models[k : k + 1], clients)[0]
        columns.append(sums_by_row(losses * weights, sizes) / np.maximum(sizes, 1))
    return np.stack(columns, axis=1)
