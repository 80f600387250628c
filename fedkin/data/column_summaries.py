"""The scaling of columns, from the summaries of columns that a server has computed with its
sites."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from fedkin.core.columns import ColumnSummary, CommonScaling
from fedkin.core.object_repr import listed
from fedkin.data.column_statistics import column_statistics
from fedkin.data.table_scaling import scales_of
from fedkin.data.table_transform import ROBUST, STANDARD, TableTransform, scaling_transform

# An interquartile range that is a smaller share of the standard deviation counts as 0.
_SMALLEST_SPREAD = 1e-9
_log = logging.getLogger("fedkin")


def summarised_transform(kind: str, summaries: Sequence[ColumnSummary]) -> TableTransform:
    """The transform that all sites use, as if its numbers had been given.

    A column without interquartile range is scaled by its standard deviation, and a constant column
    is only centred.

    Args:
        kind: ``standard`` or ``robust``.
        summaries: the summary of each column; with quartiles if ``kind`` is ``robust``.
    """
    middle = np.array([column.mean for column in summaries])
    deviation = np.array([column.deviation for column in summaries])
    scale = deviation
    if kind == ROBUST:
        quartiles = np.array([column.quartiles for column in summaries])
        middle = quartiles[:, 1]
        spread = quartiles[:, 2] - quartiles[:, 0]
        scale = np.where(spread <= _SMALLEST_SPREAD * deviation, deviation, spread)
    _warn_of_constants(summaries)
    names = [column.name for column in summaries]
    return scaling_transform(CommonScaling(middle, scales_of(scale)), names)


def _warn_of_constants(summaries: Sequence[ColumnSummary]) -> None:
    """Warn of columns that have one value at all sites."""
    constant = [column.name for column in summaries if not column.deviation]
    if constant and summaries[0].count > 1:
        _log.warning(
            "the same value in all training samples of all sites: %s; nothing can be learned from "
            "it, so leave it out at each site (data.drop) and in samples.features",
            listed(constant),
        )


def scaling_of(x: Float[np.ndarray, "M d"]) -> TableTransform:
    """The transform that gives the columns of an array mean 0 and standard deviation 1.

    Args:
        x: numbers, without NaN.
    """
    facts = column_statistics(x, np.ones(len(x), bool))
    return TableTransform(
        columns=tuple(map(str, range(x.shape[1]))),
        kind=STANDARD,
        mean=tuple(facts.mean.tolist()),
        scale=tuple(scales_of(facts.deviation).tolist()),
    )
