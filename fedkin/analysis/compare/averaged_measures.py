"""The measures of a comparison's table that are means over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.analysis.tables import mean_and_interval
from fedkin.measures.measure import Measure
from fedkin.measures.run_scores import RunScores
from fedkin.measures.table import AGREEMENT


def averages(
    summaries: Sequence[Mapping[str, Any]], scores: RunScores, own: Sequence[Measure]
) -> dict[str, float | None]:
    """The entries of a table row for these measures: means over the seeds, and their intervals.

    Args:
        summaries: summaries of the row's runs.
        scores: the measures of the runs' score.
        own: the user's measures.
    """
    row: dict[str, float | None] = {}
    for name in averaged_names(summaries, scores, own):
        row |= mean_and_interval(name, [summary.get(name) for summary in summaries])
    return row


def averaged_names(
    summaries: Sequence[Mapping[str, Any]], scores: RunScores, own: Sequence[Measure]
) -> list[str]:
    """The names of the measures that a table row averages over seeds: some that every table has,
    and others that occur in some run (e.g. agreement with true clusters).

    Args:
        summaries: summaries of the row's runs.
        scores: the measures of the runs' score.
        own: the user's measures.
    """
    names = [measure.name for measure in (*scores.means, *scores.further)]
    if any(scores.names.validation in summary for summary in summaries):
        names.append(scores.names.validation)
    for name in AGREEMENT:
        if any(summary.get(name) is not None for summary in summaries):
            names.append(name)
    if any("attackers" in summary for summary in summaries):
        names += [measure.name for measure in scores.honest]
    return names + [measure.name for measure in own]
