"""The measures of a comparison's table that are means over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.measures.measure import Measure
from fedkin.measures.run_scores import RunScores
from fedkin.measures.table import AGREEMENT


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
