"""What Byzantine clients send in place of their updates, where they know those of all honest clients of their model.

Rows h_i [h P] are the honest ones, mu their mean, s their standard deviation. Sources: sign flip and inner-product
manipulation (IPM; Xie et al., UAI 2019), a little is enough (ALIE; Baruch et al., NeurIPS 2019), mimic (Karimireddy et
al., ICLR 2022), MinMax and MinSum (Shejwalkar and Houmansadr, NDSS 2021).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float64
from scipy.special import ndtri

from fedkin.core.errors import ConfigError
from fedkin.robust.rules import squared_distances

Rows = Float64[np.ndarray, "h P"]
Row = Float64[np.ndarray, "P"]
_HALVINGS = 200  # of an interval: to the last bit


def sign_flip(honest: Rows, factor: float = 1.0) -> Row:
    """The mean of the honest rows, turned round and stretched."""
    return -factor * honest.mean(axis=0)


def inner_product(honest: Rows, tau: float = 0.5) -> Row:
    """IPM: - tau mu. A small tau hides among the honest rows, a tau above 1 turns their mean."""
    return -tau * honest.mean(axis=0)


def little_is_enough(honest: Rows, z: float = 1.5) -> Row:
    """ALIE: mu - z s, a shift within the spread of the honest rows (s with n - 1)."""
    return honest.mean(axis=0) - z * honest.std(axis=0, ddof=1)


def largest_hidden_shift(n: int, f: int) -> float:
    """ALIE's z_max = Phi^-1((n - f - k) / (n - f)), k = floor(n / 2 + 1) - f: a majority is beyond that shift.

    Args:
        n: clients.
        f: Byzantine ones among them.
    """
    needed = n // 2 + 1 - f
    return float(ndtri((n - f - needed) / (n - f)))


def mimic(honest: Rows, target: int = 0) -> Row:
    """A copy of one honest row, which so counts many times."""
    return honest[target].copy()


def min_max(honest: Rows, direction: str = "unit") -> Row:
    """mu + g p with the largest g at which no honest row is farther away than the honest rows from each other.

    Args:
        honest: their rows.
        direction: p: ``unit`` -mu / |mu|, ``std`` -s, ``sign`` -sign(mu).
    """
    limit = float(squared_distances(honest).max())
    return _farthest(honest, direction, lambda row: float(((honest - row) ** 2).sum(axis=1).max()) <= limit)


def min_sum(honest: Rows, direction: str = "unit") -> Row:
    """mu + g p with the largest g at which the sum of squared distances to the honest rows is that of an honest row.

    Args:
        honest: their rows.
        direction: as of ``min_max``.
    """
    limit = float(squared_distances(honest).sum(axis=1).max())
    return _farthest(honest, direction, lambda row: float(((honest - row) ** 2).sum()) <= limit)


def _farthest(honest: Rows, direction: str, allowed: Callable[[Row], bool]) -> Row:
    """The farthest allowed row along a direction, by halving."""
    mean = honest.mean(axis=0)
    directions = {
        "unit": -mean / max(float(np.linalg.norm(mean)), 1e-300),
        "std": -honest.std(axis=0),
        "sign": -np.sign(mean),
    }
    if direction not in directions:
        raise ConfigError(f"direction must be one of {', '.join(directions)}, got {direction!r}")
    along, low, high = directions[direction], 0.0, 1.0
    if not along.any():
        return mean
    while allowed(mean + high * along):
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(mean + middle * along) else (low, middle)
    return mean + low * along


ATTACKS: dict[str, Callable[..., Row]] = {
    "sign_flip": sign_flip,
    "ipm": inner_product,
    "alie": little_is_enough,
    "mimic": mimic,
    "min_max": min_max,
    "min_sum": min_sum,
}
