"""Columns and cells of tables over seeds, and tables as JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedkin.analysis.statistics import LEAST_SEEDS, interval
from fedkin.core.strict_json import json_value
from fedkin.measures.measure import Measure
from fedkin.measures.number_texts import both_ways
from fedkin.measures.run_scores import RunScores
from fedkin.measures.table import MEASURES


def mean_and_interval(name: str, values: Iterable[float | None]) -> dict[str, float | None]:
    """The entries ``name``, ``name_low`` and ``name_high`` of a table row: mean over the seeds and
    its 95% interval (Student's t).

    They are None if a seed has no value, because a mean over the remaining seeds would be biased.
    There is no interval below three seeds, since with two it would be too wide to be useful.
    """
    known = np.array([np.nan if value is None else value for value in values], np.float64)[:, None]
    if not len(known) or not np.isfinite(known).all():
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    band = interval(known)
    ends = (float(band.low[0]), float(band.high[0])) if len(known) >= LEAST_SEEDS else (None, None)
    return {name: float(band.mean[0]), f"{name}_low": ends[0], f"{name}_high": ends[1]}


def clusters_and_configured(summaries: Iterable[Mapping[str, Any]]) -> dict[str, float | None]:
    """The entries ``clusters`` (nonempty clusters at the end, mean over seeds) and
    ``configured_clusters`` of a method's table row.

    The configured number is None if the method has no such option.
    """
    several = list(summaries)
    at_end = [_used(summary) for summary in several]
    configured = {summary["configured_clusters"] for summary in several}
    return {
        "clusters": float(np.mean(at_end)) if at_end else None,
        "configured_clusters": configured.pop() if len(configured) == 1 else None,
    }


def _used(summary: Mapping[str, Any]) -> int:
    """The number of nonempty clusters from the summary of a run; the number of all clusters if
    their sizes are unknown."""
    sizes = summary["cluster_sizes"]
    return sum(size > 0 for size in sizes) if sizes else summary["clusters"]


def clusters_text(row: Mapping[str, Any]) -> str:
    """The number of clusters in a table row as text: ``5``, or ``3 of 5`` if only 3 of 5 configured
    clusters are nonempty."""
    at_end = row["clusters"]
    configured = row["configured_clusters"]
    if at_end is None:
        return "-"
    number = f"{round(at_end, 1):g}"
    return number if configured in (None, at_end) else f"{number} of {configured:g}"


def mean_text(row: Mapping[str, Any], measure: Measure) -> str:
    """The mean of a measure over the seeds as text, with the half-width of its interval (``± 0.6``)
    if there is one. The unit is in the column heading."""
    return measure.text_with_half(row[measure.name], row[f"{measure.name}_high"])


def final_text(row: Mapping[str, Any], scores: RunScores) -> str:
    """The final score (such as the accuracy) in a table row as text. It leaves out clients without
    a cluster. If the score over all clients differs, it is appended, because the significance tests
    use it."""
    text = mean_text(row, scores.final)
    if row[scores.final.name] == row[scores.all_clients.name]:
        return text
    return f"{text} (all clients {mean_text(row, scores.all_clients)})"


class Column(NamedTuple):
    """A column of a table: its heading, and a function that makes its cells.

    Attributes:
        head: the heading, one line of plain text.
        cell: function from a row to the cell's text.
        measure: name of the shown measure; empty for other columns.
        text: whether the cells are words, which are aligned left.
    """

    head: str
    cell: Callable[[Mapping[str, Any]], str]
    measure: str = ""
    text: bool = False


def mean_column(measure: Measure) -> Column:
    """A table column of means over the seeds, each with the half-width of its interval."""
    return Column(measure.head_with_unit, lambda row: mean_text(row, measure), measure.name)


def value_column(measure: Measure) -> Column:
    """A table column of means over the seeds without intervals."""
    return Column(measure.head_with_unit, lambda row: measure.text(row[measure.name]), measure.name)


def score_columns(scores: RunScores) -> tuple[Column, ...]:
    """The table columns of the final score, the best score, and the score of the worst 10% of
    clients."""
    final = Column(
        scores.final.head_with_unit, lambda row: final_text(row, scores), scores.final.name
    )
    return final, mean_column(scores.best), mean_column(scores.worst)


CLUSTERS = Column(MEASURES["clusters"].head, clusters_text, "clusters")
TRAFFIC = Column(
    f"{MEASURES['bytes_down'].head} / {MEASURES['bytes_up'].head} (MB)",
    lambda row: both_ways(row["bytes_down"], row["bytes_up"]),
)


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A table as JSON values, one dictionary per row; None for NaN."""
    return [
        {str(name): json_value(value) for name, value in row.items()}
        for row in table.to_dict(orient="records")
    ]
