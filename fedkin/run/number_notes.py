"""Notes on scores of numbers, below every table: the score per sample and per client, clients that
are not ranked, and the coverage of quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.core.object_repr import count
from fedkin.measures.number_texts import LABEL
from fedkin.measures.run_scores import ACCURACIES, scores_in
from fedkin.measures.scores import ScoreNames
from fedkin.measures.table import MEASURES
from fedkin.task_types.task_type import TaskType

GAP = "coverage_gap"
_LEAST = TaskType.least_ranked


def number_notes(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """How to read scores of numbers; empty for accuracies.

    Args:
        summaries: summaries of runs with the same measures.
    """
    if not summaries or (scores := scores_in(summaries[0])).names == ACCURACIES.names:
        return []
    score = scores.of_round
    unit = ", in units of the label" if score.unit == LABEL else ""
    return [
        f"{score.heading}: per sample, over all test samples together{unit}; {score.direction} is "
        "better. Per client: every client has the same weight.",
        f"{ranking_note(summaries)}.",
    ]


def ranking_note(summaries: Sequence[Mapping[str, Any]]) -> str:
    """Which clients are the worst 10%, and how many clients are not ranked; empty for accuracies.

    Args:
        summaries: summaries of runs, or records of rounds, with the same measures.
    """
    if not summaries or (scores := scores_in(summaries[0])).names == ACCURACIES.names:
        return ""
    score = scores.of_round
    note = f"Worst 10%: the clients with the {score.worst_word} {score.head}"
    unranked = max(one.get("unranked") or 0 for one in summaries)
    if not unranked:
        return note
    verb = "is" if unranked == 1 else "are"
    few = f"fewer than {_LEAST} test samples"
    return f"{note}; {count(unranked, 'client')} with {few} {verb} not ranked"


def number_line(summary: Mapping[str, Any]) -> str:
    """The score per sample and per client, and the further measures of a run, as one line; empty
    for accuracies.

    Args:
        summary: summary of the run.
    """
    scores = scores_in(summary)
    if scores.names == ACCURACIES.names or summary.get(scores.final.name) is None:
        return ""
    score = scores.of_round
    per_client = summary.get(scores.names.per_client)
    parts = [
        f"{score.head} per sample {score.text_with_unit(summary[scores.final.name])}",
        f"per client {score.text_with_unit(per_client)}",
    ]
    for name in scores.others:
        if name == GAP:
            parts.append(coverage_text(summary))
        else:
            measure = MEASURES[name]
            final = summary.get(ScoreNames(name).final)
            parts.append(f"{measure.head} {measure.text_with_unit(final)}")
    return ", ".join(parts)


def coverage_text(summary: Mapping[str, Any]) -> str:
    """The coverage of quantiles minus its level, with Wilson's interval.

    Args:
        summary: summary of a run on quantiles.
    """
    measure = MEASURES[GAP]
    final = ScoreNames(GAP).final
    gap = summary.get(final)
    if gap is None:
        return f"{measure.head} {measure.text(None)}"
    text = f"{measure.head} {measure.gain_text(gap)}{measure.points}"
    ends = summary.get(f"{final}_interval")
    if ends is None:
        return text
    low, high = (measure.gain_text(end) for end in ends)
    return f"{text} (Wilson's 95% interval {low} to {high})"
