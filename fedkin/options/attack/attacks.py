"""Vectors that Byzantine clients send instead of their updates. The attackers know the updates of
all honest clients of their model.

A row is the update of one client, with P parameters. The honest rows [h P] are the updates of the h
honest clients; mu is their mean, s their standard deviation. Sources: sign flip and inner-product
manipulation (IPM; Xie et al., UAI 2019), a little is enough (ALIE; Baruch et al., NeurIPS 2019),
mimic (Karimireddy et al., ICLR 2022), MinMax and MinSum (Shejwalkar and Houmansadr, NDSS 2021). An
optimal attack knows the server's rule, and searches for the most harmful factor (Shejwalkar and
Houmansadr).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float64

from fedkin.core.errors import ConfigError
from fedkin.options.robust.preaggregation import squared_distances
from fedkin.options.robust.rules import aggregate

Rows = Float64[np.ndarray, "h P"]
Row = Float64[np.ndarray, "P"]
_HALVINGS = 200  # bisection steps, enough for the last bit
# Settings of the search for the most harmful factor.
_TRIALS = 20
_STEP = 10.0
_SHRINKAGE = 0.8


def sign_flip(honest: Rows, factor: float = 1.0) -> Row:
    """The mean of the honest clients' updates, times a negative factor."""
    return -factor * honest.mean(axis=0)


def inner_product(honest: Rows, tau: float = 0.5) -> Row:
    """IPM: -tau mu, where mu is the mean of the honest clients' updates.

    With a small tau the attackers' vector is hard to tell from an honest update. A large tau
    reverses the direction of the mean over all clients.
    """
    return -tau * honest.mean(axis=0)


def little_is_enough(honest: Rows, z: float = 1.5) -> Row:
    """ALIE: mu - z s, a shift within the spread of the honest clients' updates.

    mu is their mean, s their standard deviation (with n - 1 in the denominator).
    """
    return honest.mean(axis=0) - z * honest.std(axis=0, ddof=1)


def largest_hidden_shift(n: int, f: int) -> float:
    """The largest z of ALIE with which the attackers stay hidden.

    The attackers need k honest clients to form a majority. With this z, about k honest clients are
    farther from the mean than the attackers, so the attackers look like a part of the majority.

    z_max = Phi^-1((n - f - k) / (n - f)), k = floor(n / 2 + 1) - f.

    Args:
        n: number of clients.
        f: number of Byzantine clients among them.
    """
    from scipy.special import ndtri

    needed = n // 2 + 1 - f
    return float(ndtri((n - f - needed) / (n - f)))


def mimic(honest: Rows, target: int = 0) -> Row:
    """A copy of one honest client's update, so that this update counts many times."""
    return honest[target].copy()


def min_max(honest: Rows, direction: str = "unit") -> Row:
    """MinMax: mu + g p, where mu is the mean of the honest clients' updates and p a direction.

    g is the largest factor with which the distance of mu + g p to every honest update is at most
    the largest distance between two honest updates.

    Args:
        honest: updates of the honest clients, one row each.
        direction: name of the direction p: ``unit`` is -mu / |mu|, ``std`` is minus the standard
            deviation of the honest updates, ``sign`` is -sign(mu).
    """
    limit = float(squared_distances(honest).max())

    def allowed(row: Row) -> bool:
        squared = ((honest - row) ** 2).sum(axis=1)
        return float(squared.max()) <= limit

    return _farthest(honest, direction, allowed)


def min_sum(honest: Rows, direction: str = "unit") -> Row:
    """MinSum: mu + g p, where mu is the mean of the honest clients' updates and p a direction.

    g is the largest factor with which the sum of squared distances of mu + g p to the honest
    updates is at most the largest sum of squared distances of one honest update to the others.

    Args:
        honest: updates of the honest clients, one row each.
        direction: name of the direction p, as in ``min_max``.
    """
    limit = float(squared_distances(honest).sum(axis=1).max())

    def allowed(row: Row) -> bool:
        return float(((honest - row) ** 2).sum()) <= limit

    return _farthest(honest, direction, allowed)


def _farthest(honest: Rows, direction: str, allowed: Callable[[Row], bool]) -> Row:
    """The vector farthest from the mean of the honest clients' updates, along a direction, that is
    still allowed. It is found by bisection.

    Args:
        honest: updates of the honest clients, one row each.
        direction: name of the direction, as in ``min_max``.
        allowed: whether a vector is near enough to the honest updates to stay hidden.
    """
    mean = honest.mean(axis=0)
    directions = {
        "unit": -mean / max(float(np.linalg.norm(mean)), 1e-300),
        "std": -honest.std(axis=0),
        "sign": -np.sign(mean),
    }
    if direction not in directions:
        raise ConfigError(f"direction must be one of {', '.join(directions)}, got {direction!r}")
    along = directions[direction]
    low = 0.0
    high = 1.0
    if not along.any():
        return mean
    while allowed(mean + high * along):
        low = high
        high = 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if allowed(mean + middle * along):
            low = middle
        else:
            high = middle
    return mean + low * along


def gaussian(honest: Rows, count: int, rng: np.random.Generator) -> Float64[np.ndarray, "count P"]:
    """Noise with the median length of the honest clients' updates, drawn separately for each
    attacker.

    Args:
        honest: updates of the honest clients, one row each.
        count: number of attackers.
        rng: generator of the noise.
    """
    noise = rng.normal(size=(count, honest.shape[1]))
    lengths = np.linalg.norm(noise, axis=1, keepdims=True)
    median_length = np.median(np.linalg.norm(honest, axis=1))
    return noise * (median_length / np.maximum(lengths, 1e-300))


def optimal(honest: Rows, attack: Callable[[Rows, float], Row], rule: str, f: int) -> Row:
    """The vector by which f attackers move the server's aggregate farthest from the mean of the
    honest clients' updates.

    Args:
        honest: updates of the honest clients, one row each.
        attack: function from honest updates and a factor to the vector that all attackers send.
        rule: the server's rule, as in ``rules.aggregate``.
        f: number of attackers, as many as the rule assumes.

    Raises:
        ConfigError: the rule cannot be used with so many attackers.
    """
    mean = honest.mean(axis=0)

    def harm(factor: float) -> float:
        attackers = np.repeat(attack(honest, factor)[None], f, axis=0)
        rows = np.concatenate([honest, attackers])
        return float(np.linalg.norm(aggregate(rows, rule, f) - mean))

    return attack(honest, best_factor(harm))


def best_factor(
    harm: Callable[[float], float],
    trials: int = _TRIALS,
    step: float = _STEP,
    shrinkage: float = _SHRINKAGE,
) -> float:
    """A factor of at least 0 at which a function is large, found by stepping forward.

    Each step starts from the best factor so far. Steps double until the first one that does not
    improve the result, and then shrink.

    Args:
        harm: the function that is to be large.
        trials: number of evaluations.
        step: the first step.
        shrinkage: ratio of each step to the one before it, once steps shrink.
    """
    best = 0.0
    most = harm(0.0)
    growing = True
    for _ in range(trials - 1):
        value = harm(best + step)
        better = value > most
        if better:
            best = best + step
            most = value
        growing = growing and better
        step *= 2 if growing else shrinkage
    return best


OPTIMAL: dict[str, Callable[[Rows, float], Row]] = {
    "optimal_alie": little_is_enough,
    "optimal_ipm": inner_product,
}
ATTACKS: dict[str, Callable[..., Row]] = {
    "sign_flip": sign_flip,
    "ipm": inner_product,
    "alie": little_is_enough,
    "mimic": mimic,
    "min_max": min_max,
    "min_sum": min_sum,
}
