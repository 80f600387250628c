"""The Gaussian mechanism on the sums of clipped updates of each model. The clip can follow a
quantile of the updates' norms.

    u_i <- u_i min(1, C / |u_i|);   S_k = sum of w_i u_i over the clients of model k + N(0, (z C)^2)

A client adds one vector of norm at most C to one of the K sums, so all K sums together cost as much
privacy as a single sum. Shapes: n rows (clients' updates), K models, P parameters.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int

from fedkin.options.privacy.randomness import Randomness


def clipped(rows: Float[np.ndarray, "n P"], clip: float) -> Float[np.ndarray, "n P"]:
    """Rows (clients' updates) clipped to norm ``clip``, in float64. A row that is not finite counts
    as zero."""
    rows = rows.astype(np.float64)
    norms = np.linalg.norm(rows, axis=1)
    sound = np.isfinite(norms)
    scale = np.where(sound, np.minimum(1, clip / np.maximum(norms, np.finfo(np.float64).tiny)), 0)
    return np.where(sound[:, None], rows, 0) * scale[:, None]


def noisy_sums(
    rows: Float[np.ndarray, "n P"],
    model_index: Int[np.ndarray, "n"],
    models: int,
    noise_multiplier: float,
    clip: float,
    randomness: Randomness,
) -> Float[np.ndarray, "K P"]:
    """Sums of clipped rows (clients' updates) for each model. Every sum gets noise, also sums
    without rows.

    Args:
        rows: one row per client, of norm at most ``clip``.
        model_index: the model of each row.
        models: number of models K.
        noise_multiplier: z.
        clip: clipping norm C.
        randomness: source of the noise.
    """
    sums = np.zeros((models, rows.shape[1]))
    np.add.at(sums, model_index, rows)
    return sums + noise_multiplier * clip * randomness.normal(*sums.shape)


def noisy_mean(
    shares: Float[np.ndarray, "n"], clients: int, noise_multiplier: float, randomness: Randomness
) -> float:
    """The mean of one number per client (e.g. its accuracy), with noise on the sum, clipped to
    [0, 1].

    Args:
        shares: a number between 0 and 1 for each client. Values that are not finite count as 0, and
            so do missing clients.
        clients: number of clients N, which does not depend on data.
        noise_multiplier: standard deviation of the noise on the sum. A client changes the sum by at
            most 1.
        randomness: source of the noise.
    """
    total = np.clip(np.where(np.isfinite(shares), shares, 0), 0, 1).sum(dtype=np.float64)
    noise = noise_multiplier * float(randomness.normal(1)[0])
    return float(np.clip((total + noise) / clients, 0, 1))


def noise_of_updates(noise_multiplier: float, count_deviation: float) -> float:
    """The noise multiplier of updates that are released together with a noisy count.

    It is larger than z, so that updates and count together cost as much as one release with
    ``noise_multiplier``. The count is a sum of +1/2 or -1/2 for each client (Andrew et al. 2021,
    arXiv 1905.03871, theorem 1).

    Args:
        noise_multiplier: z of both together.
        count_deviation: standard deviation of the noise on the count; above z / 2.
    """
    return (noise_multiplier**-2 - (2 * count_deviation) ** -2) ** -0.5


def next_clip(
    norms: Float[np.ndarray, "n"],
    clip: float,
    cohort: int,
    count_deviation: float,
    randomness: Randomness,
    quantile: float = 0.5,
    rate: float = 0.2,
) -> float:
    """The clip of the next round, which moves towards a quantile of the updates' norms.

    C <- C exp(-rate (b - quantile)), where b is the noisy share of updates with a norm of at most
    C. To get this share, a noisy count is divided by the expected number of clients, which does not
    depend on data.

    Args:
        norms: norms of the updates before clipping.
        clip: clipping norm C of this round.
        cohort: expected number of clients.
        count_deviation: standard deviation of the noise on the count.
        randomness: source of the noise.
        quantile: quantile of the norms that C follows.
        rate: rate of adaptation.
    """
    noise = count_deviation * float(randomness.normal(1)[0])
    bits = np.where(norms <= clip, 0.5, -0.5).sum() + noise
    share = bits / cohort + 0.5
    return clip * math.exp(-rate * (share - quantile))
