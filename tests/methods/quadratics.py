"""A simulated world of clients with a quadratic loss each, (w - b)^T A (w - b) / 2, as the oracle
vectors have them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models.model import as_model
from fedkin.simulation.engine import SimulatedWorld


def quadratic_world(a: Any, b: Any, start: Any, work: LocalTraining) -> SimulatedWorld:
    """A world of such clients, whose initial model is ``start``. The one sample of a client is its
    A and b, and the cross entropy of a sample is its quadratic loss plus 1, so that everything
    compiled is as in any run.

    Args:
        a: symmetric, of each client.
        b: of each client.
        start: w.
        work: the local training.
    """
    x = np.concatenate([np.reshape(a, (len(a), -1)), b], axis=1).astype(np.float32)
    own = Ragged.of([np.array([client]) for client in range(len(x))])
    data = FederatedData(
        name="quadratics", x=x, y=np.zeros(len(x), np.int64), classes=2, train=own, test=own
    )
    d = len(start)

    def apply(w: Any, x: Any, key: Any) -> Any:
        way = w - x[:, -d:]
        loss = 1 + jnp.einsum("bi,bij,bj->b", way, x[:, :-d].reshape(-1, d, d), way) / 2
        # log(1 + exp(s)) = loss, of a sample of class 0 that has the scores 0 and s
        return jnp.stack([jnp.zeros_like(loss), loss + jnp.log1p(-jnp.exp(-loss))], axis=1)

    return SimulatedWorld(data, as_model((lambda key: jnp.array(start, jnp.float32), apply)), work)
