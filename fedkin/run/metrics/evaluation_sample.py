"""Evaluation on a sample of the clients, stratified by cluster, and the resulting estimates for all
clients.

Source: W. G. Cochran, Sampling Techniques, 3rd ed. (1977): stratified sampling (ch. 5), the
combined ratio estimate and its variance (sec. 6.11). Letters: N_k clients of cluster k, n_k of them
in the sample; correct c_i and test samples e_i of client i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

_Z = 1.959963984540054  # of a 95% interval


class EvaluationSample(NamedTuple):
    """Which of the clients are evaluated.

    Attributes:
        places: positions of the n sampled clients among all, ascending.
        sizes: N_k, for all clusters.
    """

    places: Int[np.ndarray, "n"]
    sizes: Int[np.ndarray, "K"]


class Estimate(NamedTuple):
    """Estimated accuracy over all clients, and the ends of its 95% interval."""

    accuracy: float
    low: float
    high: float


def draw_sample(
    cluster: Int[np.ndarray, "c"], size: int, rng: np.random.Generator
) -> EvaluationSample:
    """Draw about ``size`` clients, from every cluster in proportion to its size, but at least two
    (one has no variance).

    Args:
        cluster: cluster of each client, 0 .. K-1.
        size: n.
        rng: generator of the draw.
    """
    sizes = np.bincount(cluster)
    own = np.minimum(sizes, np.maximum(2, np.rint(size * sizes / len(cluster)).astype(np.int64)))
    order = np.argsort(cluster, kind="stable")
    members = np.split(order, np.cumsum(sizes)[:-1])
    drawn = [rng.choice(one, n, replace=False) for one, n in zip(members, own, strict=True)]
    return EvaluationSample(np.sort(np.concatenate(drawn)), sizes)


def estimate(
    correct: Int[np.ndarray, "n"] | Float[np.ndarray, "n"],
    examples: Int[np.ndarray, "n"],
    cluster: Int[np.ndarray, "n"],
    sizes: Int[np.ndarray, "K"],
) -> Estimate | None:
    """Accuracy of all clients together: p = sum_k N_k c_k / sum_k N_k e_k with the sample's means
    c_k, e_k of the clusters, and variance sum_k N_k^2 (1 - n_k / N_k) s_k^2 / n_k / (sum_k N_k
    e_k)^2, where s_k^2 is the variance of c_i - p e_i within the cluster. None without a test
    sample.

    Args:
        correct: c_i of the clients in the sample.
        examples: e_i.
        cluster: of each of these clients.
        sizes: N_k, of all clients.
    """
    n = np.bincount(cluster, minlength=len(sizes))
    known = n > 0
    # Number of clients that a sampled client represents.
    weight = np.divide(sizes, n, out=np.zeros(len(sizes)), where=known)
    total = float((weight[cluster] * examples).sum())
    if not total:
        return None
    p = float((weight[cluster] * correct).sum()) / total
    residual = correct - p * examples
    mean = np.divide(
        np.bincount(cluster, residual, len(sizes)), n, out=np.zeros(len(sizes)), where=known
    )
    squares = np.bincount(cluster, (residual - mean[cluster]) ** 2, len(sizes))
    spread = np.divide(squares, n - 1, out=np.zeros(len(sizes)), where=n > 1)
    left = 1 - np.divide(n, sizes, out=np.ones(len(sizes)), where=sizes > 0)
    variance = np.divide(
        sizes.astype(float) ** 2 * left * spread, n, out=np.zeros(len(sizes)), where=known
    )
    margin = _Z * float(np.sqrt(variance.sum())) / total
    return Estimate(p, max(0.0, p - margin), min(1.0, p + margin))
