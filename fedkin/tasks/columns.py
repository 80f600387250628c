"""Tasks about the columns of all clients' tables: sums and counts from which a server computes
statistics, and the scaling that it sends back. Shapes: d columns, q quantiles, E edges of bins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from fedkin.core.client import Client, ClientRows
from fedkin.core.schema import Sums, floats, integers
from fedkin.core.task import Task, kept, setting, shared
from fedkin.measures.quantile_search import bin_edges, values_not_above

_BLOCK_NUMBERS = 2**22  # numbers in a block of samples


@dataclass(frozen=True)
class ColumnSums(Task):
    """Sums over the raw training samples of all clients, for each column.

    Values are shifted before they are added, so that the variance of a column with a large mean is
    exact (the shifted-data algorithm; Chan, Golub and LeVeque 1983).

    Attributes:
        around: a value near the mean of each column.
    """

    around: Float64[np.ndarray, "d"] = shared("d")

    up = Sums(
        count=integers("d"), fractions=integers("d"), total=floats("d"), squares=floats("d", low=0)
    )
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        return shifted_sums(_raw_blocks(client), self.around)


@dataclass(frozen=True)
class ColumnCounts(Task):
    """How many raw training samples of all clients do not exceed the edges of some bins, from which
    a server locates quantiles.

    Attributes:
        low: the first edge, for each quantile and column.
        high: the last edge, for each quantile and column.
        bins: number of equal bins between them.
    """

    low: Float64[np.ndarray, "q d"] = shared("q d")
    high: Float64[np.ndarray, "q d"] = shared("q d")
    bins: int = setting(default=64)

    up = Sums(count=integers("d"), not_above=integers("E q d"))
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        return counts_in_bins(_raw_blocks(client), bin_edges(self.low, self.high, self.bins))

    def sizes(self) -> dict[str, int]:
        return {**super().sizes(), "E": self.bins + 1}


@dataclass(frozen=True)
class ScaledColumns(Task):
    """The scaling of all clients' columns and labels.

    A real site gets it with every request, so that a site that joins or starts again has it, too.
    It is counted once for each client. Simulated clients have scaled data from the start.

    Attributes:
        mean: the value of each column that becomes 0; None if columns are not scaled.
        scale: the difference in each column that becomes 1; None with ``mean``.
        labels: statistics of labels that are numbers (``TaskType.statistics``); None for classes.
    """

    mean: Float64[np.ndarray, "d"] | None = kept("d", default=None)
    scale: Float64[np.ndarray, "d"] | None = kept("d", default=None)
    labels: Float64[np.ndarray, "L"] | None = kept("L", default=None)

    delivery = "announced"
    detectors = None
    can_be_lost = False

    def compute(self, client: Client) -> dict[str, Any]:
        return {}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        yield rows.every, {}


def shifted_sums(
    blocks: Iterator[Float64[np.ndarray, "b d"]], around: Float64[np.ndarray, "d"]
) -> dict[str, Any]:
    """The reply to ``ColumnSums`` for blocks of samples."""
    columns = len(around)
    count = np.zeros(columns, np.int64)
    fractions = np.zeros(columns, np.int64)
    total = np.zeros(columns)
    squares = np.zeros(columns)
    for block in blocks:
        differences = block - around
        count += len(block)
        fractions += (block != np.floor(block)).sum(axis=0)
        total += differences.sum(axis=0)
        squares += (differences**2).sum(axis=0)
    return {"count": count, "fractions": fractions, "total": total, "squares": squares}


def counts_in_bins(
    blocks: Iterator[Float64[np.ndarray, "b d"]], edges: Float64[np.ndarray, "E q d"]
) -> dict[str, Any]:
    """The reply to ``ColumnCounts`` for blocks of samples."""
    count = np.zeros(edges.shape[2], np.int64)
    not_above = np.zeros(edges.shape, np.int64)
    for block in blocks:
        count += len(block)
        not_above += values_not_above(block, edges)
    return {"count": count, "not_above": not_above}


def _raw_blocks(client: Client) -> Iterator[Float64[np.ndarray, "b d"]]:
    """The client's training samples before scaling, a block at a time: the columns of a table, and
    the numbers of a sample for other data."""
    x = client.raw_columns()
    raw = x.reshape(len(x), -1)
    rows = max(1, _BLOCK_NUMBERS // max(1, raw.shape[1]))
    for start in range(0, len(raw), rows):
        yield raw[start : start + rows]
