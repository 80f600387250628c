"""Tables of a sweep: the candidates with the winner on validation samples, and how much each option
mattered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.compare.harm import harm_row, local_label
from fedkin.analysis.compare.importance import is_number, score_word
from fedkin.analysis.compare.sweep import (
    BEST_OF_METHOD,
    WINNER,
    SweepCandidate,
    candidates,
    has_validation,
    marks_of,
    tuned_keys,
)
from fedkin.analysis.tables import rows_of
from fedkin.core.object_repr import count
from fedkin.measures.measure import Measure
from fedkin.measures.number_texts import NO_NUMBER, number_text
from fedkin.measures.worse_than_alone import WORSE_THAN_ALONE
from fedkin.reporting.means_table import mean_and_sd
from fedkin.reporting.text_table import TextTable

MOST_ROWS = 30  # of the candidates on a terminal
TOP = 5  # candidates of each method that a terminal shows if there are more
NO_WINNER = (
    "no winner is chosen, because without validation samples only test samples could choose, and "
    "the winner's test score would be too good; keep validation samples: data.validation=0.2"
)


def candidate_table(comparison: Comparison, shortened: bool = False) -> TextTable | None:
    """The candidates of a sweep, one a row, with the winner on validation samples in bold; None if
    no option was tuned.

    Args:
        comparison: the comparison.
        shortened: whether to show only the best of each method if there are many.
    """
    if not tuned_keys(comparison):
        return None
    found = candidates(comparison)
    marks = marks_of(comparison, found)
    sign = comparison.measure("validation").sign
    ordered = _ordered(found, sign if comparison.grid.trials is not None else 0)
    left_out = ""
    if shortened and len(ordered) > MOST_ROWS:
        ordered = _top(ordered, sign)
        left_out = f" The best {TOP} of each method are shown; comparison.md has all."
    measures = _measures(comparison)
    keys = comparison.grid.swept_keys
    validated = has_validation(comparison)
    worse = [WORSE_THAN_ALONE] if local_label(comparison.grid) else []
    heads = ["method", *keys, *(_head(comparison, measure, validated) for measure in measures)]
    heads += [measure.head_with_unit for measure in worse] + (["chosen"] if validated else [])
    rows = []
    bold = set()
    for one in ordered:
        mark = marks.get((one.setting, one.variant), "")
        if mark == WINNER:
            bold |= {(len(rows), column) for column in range(len(heads))}
        rows.append(
            [
                one.method,
                *(_value_text(one.values.get(key)) for key in keys),
                *(_scores_text(comparison, one, measure) for measure in measures),
                *(_harm_text(comparison, one, measure) for measure in worse),
                *([mark] if validated else []),
            ]
        )
    return TextTable(
        title="Sweep: the candidates",
        heads=heads,
        rows=rows,
        bold=frozenset(bold),
        note=_candidate_note(comparison) + left_out,
    )


def _ordered(found: Sequence[SweepCandidate], sign: int) -> list[SweepCandidate]:
    """Candidates by problem and method. Those of a method have the best score on validation samples
    first, or stay in the order of the grid.

    Args:
        found: the candidates.
        sign: 1 if higher scores are better, -1 if lower scores are better, 0 for the order of the
            grid.
    """
    problems = list(dict.fromkeys(one.problem for one in found))
    methods = list(dict.fromkeys(one.method for one in found))

    def place(one: SweepCandidate) -> tuple[int, int, float]:
        """The sorting key of a candidate."""
        score = 0.0
        if sign:
            score = np.inf if one.validation is None else -sign * one.validation
        return problems.index(one.problem), methods.index(one.method), score

    return sorted(found, key=place)


def _top(ordered: Sequence[SweepCandidate], sign: int) -> list[SweepCandidate]:
    """The best candidates of each method and problem on validation samples."""
    by_score = _ordered(ordered, sign)
    counts: dict[tuple[str, str], int] = {}
    shown = []
    for one in by_score:
        key = (one.problem, one.method)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= TOP:
            shown.append(one)
    return shown


def _measures(comparison: Comparison) -> list[Measure]:
    """The measures of the table of candidates."""
    scores = comparison.run_scores
    measures = [scores.best, scores.final]
    return [scores.validation, *measures] if has_validation(comparison) else measures


def _head(comparison: Comparison, measure: Measure, validated: bool) -> str:
    """The heading of a measure. With validation samples, the best score is the test score of the
    round that they choose."""
    if validated and measure == comparison.run_scores.best:
        return replace(measure, head="test in that round").head_with_unit
    return measure.head_with_unit


def _value_text(value: Any) -> str:
    """A swept value as text; a dash if the method does not have the option."""
    return NO_NUMBER if value is None else str(value)


def _scores_text(comparison: Comparison, one: SweepCandidate, measure: Measure) -> str:
    """A measure of a candidate as text: mean ± SD over the seeds. The accuracy in the last round is
    over all clients, as in the table methods x settings."""
    return mean_and_sd(comparison.scores(one.setting, measure.by)[one.variant], measure)


def _harm_text(comparison: Comparison, one: SweepCandidate, measure: Measure) -> str:
    """The share of clients that a candidate serves worse than their own models, mean over the
    seeds."""
    return measure.text(harm_row(comparison, one.setting, one.variant)[measure.name])


def _candidate_note(comparison: Comparison) -> str:
    """How to read the table of candidates."""
    spread = "Mean ± SD over the seeds. " if len(comparison.seeds) > 1 else ""
    if not has_validation(comparison):
        return f"{spread}N{NO_WINNER[1:]}."
    head = comparison.run_scores.of_round.head
    return (
        f"{spread}Bold: the winner, which has the best {head} on validation samples. It was not "
        f"chosen by its test {head}."
    )


def winner_lines(comparison: Comparison) -> list[str]:
    """Sentences about the winner of a sweep on validation samples, and the best candidate of each
    method. Without validation samples, a sentence says why there is none. Empty if no option was
    tuned."""
    if not tuned_keys(comparison) or not comparison.finished:
        return []
    if not has_validation(comparison):
        return [NO_WINNER]
    found = candidates(comparison)
    marks = marks_of(comparison, found)
    lines = []
    for mark in (WINNER, BEST_OF_METHOD):
        for one in found:
            if marks.get((one.setting, one.variant)) == mark:
                lines.append(_winner_line(comparison, one, mark, found))
    without = [one for one in found if one.validation is None]
    if without:
        lines.append(
            f"{len(without)} of {len(found)} candidates cannot win, because a seed has no score on "
            "validation samples"
        )
    return lines


def _winner_line(
    comparison: Comparison, one: SweepCandidate, mark: str, found: Sequence[SweepCandidate]
) -> str:
    """The sentence about a chosen candidate."""
    options = ", ".join(f"{key}={_value_text(value)}" for key, value in one.tuned.items())
    rivals = [
        other for other in found if (other.problem, other.method) == (one.problem, one.method)
    ]
    best = comparison.run_scores.best
    test = comparison.values(one.setting, best.name)[one.variant]
    problem = f"{one.problem}: " if one.problem else ""
    head = "winner on validation samples" if mark == WINNER else "best of its method"
    scores = (
        f"{best.text_with_unit(one.validation)} on validation samples, "
        f"{best.text_with_unit(float(np.mean(test)))} on test samples"
    )
    edges = _edges(one, rivals) if comparison.grid.trials is None else ""
    return (
        f"{problem}{head}: {one.method}{' with ' if options else ''}{options} "
        f"({scores}; {count(len(rivals), 'candidate')} of this method){edges}"
    )


def _edges(one: SweepCandidate, rivals: Sequence[SweepCandidate]) -> str:
    """A remark about numbers of a chosen candidate that are the smallest or largest of at least
    three that were tried, because better ones may lie beyond; empty if there are none."""
    parts = []
    for key, value in one.tuned.items():
        tried = {other.values[key] for other in rivals if is_number(other.values.get(key))}
        if len(tried) > 2 and is_number(value) and value in (min(tried), max(tried)):
            parts.append(f"{key} is the {'smallest' if value == min(tried) else 'largest'} tried")
    return f"; {', '.join(parts)}: try values beyond it" if parts else ""


def importance_table(comparison: Comparison, measure: str | None = None) -> TextTable | None:
    """How much each swept option mattered, by method. None if no option was tuned, or no run has a
    score.

    Args:
        comparison: the comparison.
        measure: the measure without validation samples; None: the comparison's measure.
    """
    found = rows_of(comparison.importance(measure))
    if not found:
        return None
    searched = comparison.grid.trials is not None
    rows = []
    for row in found:
        cells = [row["method"], row["key"], *_share_texts(row)]
        rows.append([*cells, _rho_text(row)] if searched else cells)
    heads = ["method", "option", "share of variance (%)", "by chance (%)"]
    word = score_word(comparison, measure)
    return TextTable(
        title=f"How much each option mattered: {comparison.measure(word).title}",
        heads=[*heads, "Spearman's rho (95% interval)"] if searched else heads,
        rows=rows,
        bold=frozenset(),
        note=_importance_note(found, searched),
        text_columns=2,
    )


def _share_texts(row: dict[str, Any]) -> list[str]:
    """The share of variance of an option and its mean without an effect as texts. With too few
    scores they are the reason and an empty text."""
    if row["note"]:
        return [row["note"].partition(":")[0], ""]
    return [number_text(row[name], "share") for name in ("share", "by_chance")]


def _rho_text(row: dict[str, Any]) -> str:
    """The rank correlation of an option with its interval as text; a dash if it has none."""
    if row["rho"] is None:
        return NO_NUMBER
    return f"{row['rho']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})"


def _importance_note(found: Sequence[dict[str, Any]], searched: bool) -> str:
    """How to read the table of importance."""
    parts = [
        "Share of variance: eta squared of a one-way analysis of variance within a method (Fisher, "
        "1925). By chance: its mean for an option without an effect."
    ]
    if searched:
        parts.append(
            "Numbers are divided into their lowest, middle and highest third. Spearman's rho shows "
            "the direction: positive if larger values have better scores (1904; interval by "
            "bootstrap over trials, Efron, 1979)."
        )
    # A reason follows the table once.
    reasons = dict.fromkeys(row["note"] for row in found if row["note"])
    parts += [f"{reason[:1].upper()}{reason[1:]}." for reason in reasons]
    return " ".join(parts)
