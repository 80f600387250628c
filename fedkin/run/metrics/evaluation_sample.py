"""Evaluation on a sample of clients, stratified by cluster, and estimates for all clients.

Source: W. G. Cochran, Sampling Techniques, 3rd ed. (1977): stratified sampling (ch. 5), the
combined ratio estimate and its variance (sec. 6.11). Notation: cluster k has N_k clients, with n_k
in the sample; client i has c_i correct predictions and e_i test samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

_Z = 1.959963984540054  # normal quantile of a 95% interval


class EvaluationSample(NamedTuple):
    """The clients that are evaluated, and the sizes of all clusters.

    Attributes:
        places: positions of the n sampled clients in the given array of clients, ascending.
        sizes: N_k, the number of clients of each cluster.
    """

    places: Int[np.ndarray, "n"]
    sizes: Int[np.ndarray, "K"]


class Estimate(NamedTuple):
    """Estimated mean per sample over all clients, such as the accuracy, and the bounds of its 95%
    interval."""

    mean: float
    low: float
    high: float


def draw_sample(
    cluster: Int[np.ndarray, "c"], size: int, rng: np.random.Generator
) -> EvaluationSample:
    """Draw about ``size`` clients, from each cluster in proportion to its size. At least two
    clients of each cluster are drawn, since the variance needs two.

    Args:
        cluster: cluster of each client, 0 .. K-1.
        size: n, the size of the sample.
        rng: random generator of the draw.
    """
    sizes = np.bincount(cluster)
    # Number of clients to draw from each cluster.
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
    """Estimate the accuracy of all clients together from a sample; None without test samples.

    The estimate is p = sum_k N_k c_k / sum_k N_k e_k, where c_k and e_k are the sample's means in
    cluster k. Its variance is sum_k N_k^2 (1 - n_k / N_k) s_k^2 / n_k / (sum_k N_k e_k)^2, where
    s_k^2 is the variance of c_i - p e_i within cluster k.

    Args:
        correct: c_i of the clients in the sample.
        examples: e_i of the clients in the sample.
        cluster: cluster of each client in the sample.
        sizes: N_k, the number of all clients in each cluster.
    """
    n = np.bincount(cluster, minlength=len(sizes))
    known = n > 0
    # Number of clients that each sampled client represents.
    weight = np.divide(sizes, n, out=np.zeros(len(sizes)), where=known)
    total = float((weight[cluster] * examples).sum())
    if not total:
        return None
    p = float((weight[cluster] * correct).sum()) / total
    residual = correct - p * examples
    # s_k^2, the variance of the residuals within each cluster.
    mean = np.divide(
        np.bincount(cluster, residual, len(sizes)), n, out=np.zeros(len(sizes)), where=known
    )
    squares = np.bincount(cluster, (residual - mean[cluster]) ** 2, len(sizes))
    spread = np.divide(squares, n - 1, out=np.zeros(len(sizes)), where=n > 1)
    # Finite-population correction 1 - n_k / N_k: no error is left if all clients are in the sample.
    left = 1 - np.divide(n, sizes, out=np.ones(len(sizes)), where=sizes > 0)
    variance = np.divide(
        sizes.astype(float) ** 2 * left * spread, n, out=np.zeros(len(sizes)), where=known
    )
    margin = _Z * float(np.sqrt(variance.sum())) / total
    return Estimate(p, max(0.0, p - margin), p + margin)
