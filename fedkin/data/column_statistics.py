"""Statistics of a table's columns over the training samples, from sums over all clients.

Every quantity is a count, a sum, a smallest or a largest value that each client can compute from
its samples. So no client needs the samples of another one. Shapes: M samples, d columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from fedkin.data.array_checks import row_blocks
from fedkin.data.features import Features
from fedkin.measures.quantile_search import (
    RankCounts,
    bin_edges,
    search_quantiles,
    values_not_above,
)

# A quantile is located by this number of histograms, each within a bin of the histogram before.
_HISTOGRAMS = 4
_BINS = 1024


class ColumnStatistics(NamedTuple):
    """Statistics of each column over the training samples.

    Attributes:
        count: number of training samples.
        mean: mean of each column.
        deviation: standard deviation of each column (divided by the count); 0 for a constant one.
        low: smallest value of each column.
        high: largest value of each column.
        whole: whether all values of a column are whole numbers.
    """

    count: int
    mean: Float64[np.ndarray, "d"]
    deviation: Float64[np.ndarray, "d"]
    low: Float64[np.ndarray, "d"]
    high: Float64[np.ndarray, "d"]
    whole: Bool[np.ndarray, "d"]

    @property
    def constant(self) -> Bool[np.ndarray, "d"]:
        """Whether all values of a column are equal."""
        return self.low == self.high


def column_statistics(x: Features, taken: Bool[np.ndarray, "M"]) -> ColumnStatistics:
    """Statistics of the columns over some samples.

    The first pass sums counts and values, the second squared differences from the mean. This is the
    two-pass algorithm (Chan, Golub and LeVeque 1983), which is stable for columns whose mean is
    large. The sums of clients add up to these sums.

    Args:
        x: all samples [M, d], without NaN.
        taken: which samples count.
    """
    columns = x.shape[1]
    count = int(taken.sum())
    total = np.zeros(columns)
    low = np.full(columns, np.inf)
    high = np.full(columns, -np.inf)
    whole = np.ones(columns, bool)
    for block in taken_blocks(x, taken):
        total += block.sum(axis=0)
        low = np.minimum(low, block.min(axis=0))
        high = np.maximum(high, block.max(axis=0))
        whole &= (block == np.floor(block)).all(axis=0)
    mean = total / count
    squares = np.zeros(columns)
    for block in taken_blocks(x, taken):
        # The difference between two infinite numbers is not a number.
        with np.errstate(invalid="ignore"):
            squares += ((block - mean) ** 2).sum(axis=0)
    constant = low == high
    deviation = np.where(constant, 0, np.sqrt(squares / count))
    # The mean of a constant column may differ from its value in the last bit.
    mean = np.where(constant, low, mean)
    return ColumnStatistics(count, mean, deviation, low=low, high=high, whole=whole)


def combined(parts: Sequence[ColumnStatistics]) -> ColumnStatistics:
    """The statistics of several sites together, from the statistics of each.

    The squared differences from the common mean are those from the site's mean, and the site's
    count times its squared distance from the common mean (Chan, Golub and LeVeque 1983).

    Args:
        parts: statistics of the same columns at one or more sites.
    """
    count = sum(part.count for part in parts)
    mean = sum(part.count * part.mean for part in parts) / count
    squares = sum(part.count * (part.deviation**2 + (part.mean - mean) ** 2) for part in parts)
    low = np.min([part.low for part in parts], axis=0)
    high = np.max([part.high for part in parts], axis=0)
    constant = low == high
    return ColumnStatistics(
        count=count,
        mean=np.where(constant, low, mean),
        deviation=np.where(constant, 0, np.sqrt(squares / count)),
        low=low,
        high=high,
        whole=np.all([part.whole for part in parts], axis=0),
    )


def quantiles(
    x: Features, taken: Bool[np.ndarray, "M"], shares: tuple[float, ...], facts: ColumnStatistics
) -> Float64[np.ndarray, "q d"]:
    """Quantiles of each column over some samples, from sums of histograms.

    Each histogram refines one bin of the histogram before (``search_quantiles``). The clients'
    histograms add up. The result is exact for whole numbers, otherwise to the range / 1024^4.

    Args:
        x: all samples [M, d], without NaN.
        taken: which samples count.
        shares: share of each quantile, above 0 and at most 1.
        facts: statistics of the columns over the same samples.
    """

    def counter(low: Float64[np.ndarray, "q d"], high: Float64[np.ndarray, "q d"]) -> RankCounts:
        edges = bin_edges(low, high, _BINS)
        not_above = np.zeros(edges.shape, np.int64)
        for block in taken_blocks(x, taken):
            not_above += values_not_above(block, edges)
        return RankCounts(not_above, facts.count)

    high = search_quantiles(
        counter,
        shares,
        low=facts.low,
        high=facts.high,
        histograms=_HISTOGRAMS,
        bins=_BINS,
    )
    # Whole numbers are located exactly.
    return np.where(facts.whole, np.floor(high), high)


def taken_blocks(x: Features, taken: Bool[np.ndarray, "M"]) -> Iterator[Float64[np.ndarray, "b d"]]:
    """The taken samples, a block at a time, without empty blocks.

    Args:
        x: all samples [M, d].
        taken: which samples are taken.
    """
    for rows in row_blocks(x.shape[0], x.shape[1] * 8):
        block = np.asarray(x[rows], np.float64)[taken[rows]]
        if len(block):
            yield block


class Converted:
    """Samples whose rows are converted when they are read, such as features that become raw values
    again.

    Args:
        x: the samples [M, d].
        convert: the conversion of a block of samples.
    """

    dtype = np.dtype(np.float64)

    def __init__(
        self, x: Features, convert: Callable[[np.ndarray], Float64[np.ndarray, "b d"]]
    ) -> None:
        self._x = x
        self._convert = convert
        self.shape = x.shape

    def __getitem__(self, rows: slice) -> Float64[np.ndarray, "b d"]:
        return self._convert(np.asarray(self._x[rows]))
