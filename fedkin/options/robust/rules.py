"""Rules that aggregate n vectors, up to f of them Byzantine.

The rows x_i [n P] are updates, one per client, in the order of client numbers, so that ties (equal
rows) do not depend on the order of replies. All rules are unweighted, since a client's number of
samples cannot be verified.

Sources: coordinate-wise median and trimmed mean (Yin et al., ICML 2018), Krum (Blanchard et al.,
NeurIPS 2017), geometric median and its smoothed steps RFA (Pillutla et al., 2022), mean around the
median (Xie et al., 2018), centred clipping (Karimireddy et al., ICML 2021), minimum-diameter
averaging MDA (El Mhamdi et al., 2018), MoNNA (Farhadkhani et al., ICML 2023).
Pre-aggregation steps are in ``preaggregation.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.core.errors import ConfigError, unknown
from fedkin.options.robust.preaggregation import BEFORE, BUCKET, Rows, clipped, squared_distances

# Weiszfeld steps end after this many, or when a step is shorter than _CLOSE times the point's norm.
_STEPS = 1000
_CLOSE = 1e-13
_SUBSETS = 20_000  # largest number of subsets that MDA tries


def mean(rows: Rows, f: int) -> Float64[np.ndarray, "P"]:
    """The mean of the rows (clients' updates), the baseline of all rules: one Byzantine row can
    change it to any vector."""
    return rows.mean(axis=0)


def median(rows: Rows, f: int) -> Float64[np.ndarray, "P"]:
    """The coordinate-wise median of the rows (clients' updates); for even n the midpoint of the two
    middle values."""
    return np.median(rows, axis=0)


def trimmed_mean(rows: Rows, f: int) -> Float64[np.ndarray, "P"]:
    """The coordinate-wise mean of the rows (clients' updates) without the f lowest and f highest
    values."""
    return np.sort(rows, axis=0)[f : len(rows) - f].mean(axis=0)


def mean_around_median(rows: Rows, f: int) -> Float64[np.ndarray, "P"]:
    """The coordinate-wise mean of the n - f values nearest to the median of the rows (clients'
    updates)."""
    order = np.argsort(np.abs(rows - np.median(rows, axis=0)), axis=0, kind="stable")
    return np.take_along_axis(rows, order[: len(rows) - f], axis=0).mean(axis=0)


def krum(rows: Rows, f: int, neighbours: int | None = None) -> Float64[np.ndarray, "P"]:
    """Krum: the row (a client's update) with the smallest sum of squared distances to its nearest
    other rows.

    Args:
        rows, f: clients' updates, one row each, and the assumed number of Byzantine rows.
        neighbours: number of nearest other rows; None: n - f - 2 (Blanchard et al.). Some libraries
            use n - f - 1.
    """
    if neighbours is None:
        neighbours = len(rows) - f - 2
    return rows[np.argmin(krum_scores(rows, neighbours))]


def multi_krum(rows: Rows, f: int) -> Float64[np.ndarray, "P"]:
    """Multi-Krum: the mean of the n - f rows (clients' updates) that are closest to their n - f - 1
    nearest other rows.

    Closeness is the sum of squared distances, as in Krum.
    """
    scores = krum_scores(rows, len(rows) - f - 1)
    return rows[np.argsort(scores, kind="stable")[: len(rows) - f]].mean(axis=0)


def geometric_median(rows: Rows, f: int) -> Float64[np.ndarray, "P"]:
    """The point with the smallest sum of distances to the rows (clients' updates).

    It is found by Weiszfeld steps from the mean until convergence.
    """
    point = rows.mean(axis=0)
    for _ in range(_STEPS):
        distances = np.linalg.norm(rows - point, axis=1)
        # The point may lie on a row, where the weight would be infinite.
        weights = 1 / np.maximum(distances, 1e-12 * max(1.0, float(distances.max())))
        moved = weights @ rows / weights.sum()
        step = float(np.linalg.norm(moved - point))
        point = moved
        if step <= _CLOSE * max(1.0, float(np.linalg.norm(point))):
            break
    return point


def smoothed_geometric_median(
    rows: Rows, f: int, steps: int = 3, floor: float = 0.1
) -> Float64[np.ndarray, "P"]:
    """RFA: a few Weiszfeld steps from zero, a cheap approximation of the geometric median.

    Args:
        rows, f: clients' updates, one row each, and the assumed number of Byzantine rows.
        steps: number of steps.
        floor: distances below this number are raised to it.
    """
    point = np.zeros(rows.shape[1])
    for _ in range(steps):
        weights = 1 / np.maximum(np.linalg.norm(rows - point, axis=1), floor)
        point = weights @ rows / weights.sum()
    return point


def centered_clipping(
    rows: Rows,
    f: int,
    radius: float | None = None,
    steps: int = 3,
    start: Float64[np.ndarray, "P"] | None = None,
) -> Float64[np.ndarray, "P"]:
    """Centred clipping: v <- v + mean of (x_i - v) clipped to length ``radius``, a few times, where
    x_i are the rows (clients' updates).

    Args:
        rows, f: clients' updates, one row each, and the assumed number of Byzantine rows.
        radius: tau; None: the median length of x_i - v in each step.
        steps: number of steps.
        start: initial v, such as the result of the last round; None: zero.
    """
    point = np.zeros(rows.shape[1]) if start is None else start
    for _ in range(steps):
        point = point + clipped(rows - point, radius).mean(axis=0)
    return point


def minimum_diameter(rows: Rows, f: int) -> Float64[np.ndarray, "P"]:
    """Minimum-diameter averaging (MDA): the mean of the n - f rows (clients' updates) with the
    smallest diameter (largest distance between two of them). All subsets of rows are tried."""
    return rows[smallest_subset(rows, f)].mean(axis=0)


def smallest_subset(rows: Rows, f: int) -> Int[np.ndarray, "m"]:
    """The indices of the n - f rows (clients' updates) with the smallest diameter (largest distance
    between two of them).

    Raises:
        ConfigError: there are too many subsets to try all of them.
    """
    n = len(rows)
    if math.comb(n, f) > _SUBSETS:
        raise ConfigError(
            f"mda: {f} of {n} updates can be left out in {math.comb(n, f):,} ways, more than "
            f"{_SUBSETS:,}; set robust.rule=multi_krum"
        )
    squared = squared_distances(rows)
    subsets = np.array(list(combinations(range(n), n - f)))
    diameters = [squared[np.ix_(subset, subset)].max() for subset in subsets]
    return subsets[int(np.argmin(diameters))]


def near_trusted(rows: Rows, f: int, trusted: int) -> Float64[np.ndarray, "P"]:
    """MoNNA: the mean of the n - f rows (clients' updates) nearest to a trusted row, including that
    row.

    Args:
        rows, f: clients' updates, one row each, and the assumed number of Byzantine rows.
        trusted: index of the trusted row. A peer, for example, trusts its own update.
    """
    squared = ((rows - rows[trusted]) ** 2).sum(axis=1)
    return rows[np.argsort(squared, kind="stable")[: len(rows) - f]].mean(axis=0)


def krum_scores(rows: Rows, neighbours: int) -> Float64[np.ndarray, "n"]:
    """For each row (a client's update), the sum of squared distances to its ``neighbours`` nearest
    other rows."""
    # Column 0 is each row's distance to itself.
    return np.sort(squared_distances(rows), axis=1)[:, 1 : neighbours + 1].sum(axis=1)


RULES: dict[str, Callable[[Rows, int], Float64[np.ndarray, "P"]]] = {
    "mean": mean,
    "median": median,
    "trimmed_mean": trimmed_mean,
    "mean_around_median": mean_around_median,
    "krum": krum,
    "multi_krum": multi_krum,
    "geometric_median": geometric_median,
    "rfa": smoothed_geometric_median,
    "centered_clipping": centered_clipping,
    "mda": minimum_diameter,
}


def parse(rule: str) -> tuple[list[str], str]:
    """Split the name of a rule such as ``nnm+trimmed_mean`` into the names of its pre-aggregation
    steps and of the rule itself.

    Raises:
        ConfigError: a name is unknown.
    """
    *before, last = rule.split("+")
    for name in before:
        if name not in BEFORE:
            raise ConfigError(unknown("step before a rule", name, BEFORE))
    if last not in RULES:
        raise ConfigError(unknown("rule", last, RULES))
    return before, last


def aggregate(rows: Float[np.ndarray, "n P"], rule: str, f: int) -> Float64[np.ndarray, "P"]:
    """The rule's aggregate of the rows (clients' updates), in float64.

    Args:
        rows: updates of n clients, one row each, at least one, finite, in the order of client
            numbers.
        rule: a name of ``RULES``, with names of ``BEFORE`` as prefixes: ``nnm+trimmed_mean``.
        f: assumed number of Byzantine clients.

    Raises:
        ConfigError: a name is unknown, or too many rows are Byzantine for any rule: at least half
            of the rows (with ``bucketing``, of the buckets), or more than n - 3 for Krum.
    """
    before, last = parse(rule)
    mixed = rows.astype(np.float64)
    check_byzantine(rule, len(mixed), f)
    for name in before:
        mixed, f = prepared(mixed, name, f)
        check_byzantine(rule, len(mixed), f)
    return RULES[last](mixed, f)


def prepared(rows: Rows, name: str, f: int) -> tuple[Float64[np.ndarray, "m P"], int]:
    """The rows (clients' updates) after a pre-aggregation step, and how many of them may still be
    Byzantine.

    Args:
        rows: rows before the step.
        name: a name of ``BEFORE``.
        f: assumed number of Byzantine rows before the step.
    """
    after = BEFORE[name](rows, f)
    # Rows that ``majority`` removes count as removed Byzantine rows.
    left_out = len(rows) - len(after) if name == "majority" else 0
    return after, f - left_out


def most_byzantine(rule: str, n: int) -> int:
    """The largest number of Byzantine rows among n rows (clients' updates) that a rule tolerates.

    Args:
        rule: the rule with its pre-aggregation steps.
        n: number of rows.
    """
    # Every Byzantine row may spoil one bucket.
    rows = math.ceil(n / BUCKET) if "bucketing" in rule else n
    # Krum sums the distances to n - f - 2 other rows, so there must be some.
    return max(0, (rows - 3) // 2 if "krum" in rule else (rows - 1) // 2)


def check_byzantine(rule: str, n: int, f: int) -> None:
    """Raise ConfigError if f Byzantine rows (clients' updates) among n are too many for a rule.

    Args:
        rule: the rule with its pre-aggregation steps.
        n: number of rows.
        f: assumed number of Byzantine rows among them.
    """
    if rule.endswith("+krum") or rule == "krum":
        if n < f + 3:
            raise ConfigError(
                f"{rule}: with {f} Byzantine clients it needs at least {f + 3} replies, got {n}"
            )
    if not 0 <= 2 * f < n:
        raise ConfigError(
            f"{rule}: {f} Byzantine clients among {n} cannot be told from the others: there must "
            "be fewer than half"
        )
