"""Tasks about labels that are numbers: sums and counts from which a server computes statistics
of them before the first round.

Shapes: l = 2 columns of the labels (the label and the exposure), q quantiles, E edges of bins, s
samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from fedkin.core.client import Client
from fedkin.core.schema import Sums, floats, integers
from fedkin.core.task import Task, setting, shared
from fedkin.measures.quantile_search import bin_edges
from fedkin.tasks.columns import counts_in_bins, shifted_sums

LABEL_COLUMNS = 2


@dataclass(frozen=True)
class LabelSums(Task):
    """Sums over the labels of the training samples of all clients, as ``ColumnSums`` of features.

    Attributes:
        around: a value near the mean of each column of the labels.
    """

    around: Float64[np.ndarray, "l"] = shared("l")

    up = Sums(
        count=integers("l"), fractions=integers("l"), total=floats("l"), squares=floats("l", low=0)
    )
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        return shifted_sums(iter([_columns(client)]), self.around)


@dataclass(frozen=True)
class LabelBins(Task):
    """How many labels of the training samples of all clients do not exceed the edges of some bins,
    as ``ColumnCounts`` of features.

    Attributes:
        low: the first edge, for each quantile and column of the labels.
        high: the last edge, for each quantile and column.
        bins: number of equal bins between them.
    """

    low: Float64[np.ndarray, "q l"] = shared("q l")
    high: Float64[np.ndarray, "q l"] = shared("q l")
    bins: int = setting(default=64)

    up = Sums(count=integers("l"), not_above=integers("E q l"))
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        edges = bin_edges(self.low, self.high, self.bins)
        return counts_in_bins(iter([_columns(client)]), edges)

    def sizes(self) -> dict[str, int]:
        return {**super().sizes(), "E": self.bins + 1}


def _columns(client: Client) -> Float64[np.ndarray, "s l"]:
    """Columns of a client's training labels in their own unit. Weights do not enter."""
    return client.raw_labels()[:, :LABEL_COLUMNS]
