"""FedLEASE's router: how much each of M adapters counts for a token.

L. Wang et al.: Adaptive LoRA Experts Allocation and Selection for Federated Fine-Tuning. NeurIPS
2025, arXiv 2509.15087. The method ``fk.FedLEASE`` does not use it: its clusters do not
depend on it, and each client would hold and receive M adapters, and train a router for each adapted
layer.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float64

from fedkin.core.errors import MethodError


def adapter_weights(
    logits: Float[np.ndarray, "t q"], adapters: int, own: int
) -> Float64[np.ndarray, "t M"]:
    """The weight of each adapter for each token; they sum to 1.

    The router has 2M - 1 outputs: one for each adapter, then M - 1 further ones for the client's
    own adapter. The softmax of the M largest outputs is taken, and outputs of the same adapter are
    added. Only M - 1 outputs belong to other adapters, so the own one always has a weight.

    Args:
        logits: outputs of the router for t tokens, with q = 2M - 1.
        adapters: number of adapters M.
        own: number of the client's own adapter.

    Raises:
        MethodError: the number of outputs is not 2M - 1, or there is no adapter ``own``.
    """
    if not 0 <= own < adapters:
        raise MethodError(f"own must be from 0 to {adapters - 1}, got {own}")
    if logits.shape[1] != 2 * adapters - 1:
        raise MethodError(
            f"a router of {adapters} adapters has {2 * adapters - 1} outputs, got {logits.shape[1]}"
        )
    adapter_of_output = np.concatenate([np.arange(adapters), np.full(adapters - 1, own)])
    # The outputs in descending order; of equal ones, the first comes first.
    top = np.argsort(-logits, axis=1, kind="stable")[:, :adapters]
    chosen = np.take_along_axis(logits.astype(np.float64), top, axis=1)
    shares = np.exp(chosen - chosen[:, :1])
    shares /= shares.sum(axis=1, keepdims=True)
    weights = np.zeros((len(logits), adapters))
    tokens = np.arange(len(logits))[:, None]
    np.add.at(weights, (tokens, adapter_of_output[top]), shares)
    return weights
