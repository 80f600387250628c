"""The findings of a comparison as sentences: differences between methods, attacks, agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.compare.sweep import is_tuned_key
from fedkin.analysis.pairwise_tests import NO_SCORE, SIGNIFICANT, TOO_FEW
from fedkin.analysis.statistics import LEAST_SEEDS
from fedkin.analysis.tables import (
    rows_of,
)
from fedkin.measures.measure import Measure
from fedkin.measures.run_scores import difference_word
from fedkin.reporting.sweep_tables import winner_lines

_NOT_TESTED = "are not tested"
Row = dict[str, Any]


def findings(comparison: Comparison, measure: str | None = None) -> list[str]:
    """Findings of a comparison as lines of text: the winner of a sweep, significant differences in
    each setting, the number of other differences, and ranks over settings."""
    rows = rows_of(comparison.differences(measure))
    ranks = comparison.ranks(measure)
    compared = comparison.measure(measure)
    by_setting: dict[str, list[str]] = {}
    for setting in comparison.settings:
        pairs = [row for row in rows if row["setting"] == setting]
        by_setting[setting] = [
            *_findings_of_pairs(pairs, compared),
            *_agreement(comparison, setting),
        ]
    lines = [*winner_lines(comparison), *_grouped(by_setting)]
    if missing := comparison.why_ranks_are_missing(measure):
        lines.append(missing)
    if len(comparison.settings) > 1 and len(ranks.average) > 1:
        ordered = sorted(ranks.average.items(), key=lambda item: item[1])
        shown = "; ".join(f"{name}: {rank:.2g}" for name, rank in ordered)
        tested = ""
        if ranks.tested:
            tested = (
                f" (Friedman p = {ranks.p:.2g}, critical difference "
                f"{ranks.critical_difference:.2f})"
            )
        lines.append(f"mean rank over the settings{tested}: {shown}")
        if tested and any(is_tuned_key(key) for s in comparison.grid.settings for key in s.values):
            lines.append(
                "some settings differ only in tuned options, so the test of ranks says little "
                "about other data"
            )
    return lines + _over_attacks(comparison)


def _grouped(by_setting: Mapping[str, Sequence[str]]) -> list[str]:
    """Lines about settings, each with its setting. If no setting is tested, one line says so."""
    first, *others = by_setting.values()
    untested = bool(first) and all(line.endswith(_NOT_TESTED) for line in first)
    if others and untested and all(other == first for other in others):
        return [f"in each of {len(by_setting)} settings: {line}" for line in first]
    return [
        f"{setting}: {line}" if setting else line
        for setting, lines in by_setting.items()
        for line in lines
    ]


def _findings_of_pairs(pairs: Sequence[Row], measure: Measure) -> list[str]:
    """Lines about one setting: each significant difference of two methods, then the number of the
    other pairs."""
    significant = [row for row in pairs if row["verdict"] == SIGNIFICANT]
    few = sum(row["verdict"] == TOO_FEW for row in pairs)
    without_score = [row for row in pairs if row["verdict"] == NO_SCORE]
    not_significant = len(pairs) - len(significant) - few - len(without_score)
    lines = [_difference(row, measure) for row in significant]
    if few:
        lines.append(
            f"{few} of {len(pairs)} pairs share fewer than {LEAST_SEEDS} seeds and {_NOT_TESTED}"
        )
    for row in without_score:
        lines.append(f"{row['method']} and {row['against']} are not compared: {row['why']}")
    if not_significant:
        lines.append(f"{not_significant} of {len(pairs)} differences are not significant")
    return lines


def _over_attacks(comparison: Comparison) -> list[str]:
    """If several settings have attacks: lines with each method's worst and mean result over these
    settings. Methods without a value in one of these settings are left out."""
    honest = comparison.run_scores.honest[0]
    head = comparison.run_scores.of_round.head
    rows = [row for row in rows_of(comparison.table()) if row.get(honest.name) is not None]
    attacked = [s for s in comparison.settings if any(row["setting"] == s for row in rows)]
    lines = []
    for method in comparison.methods if len(attacked) > 1 else ():
        reached = {row["setting"]: row[honest.name] for row in rows if row["method"] == method}
        # A mean over other attacks than those of the other methods would be unfair.
        if len(reached) == len(attacked):
            worst = min(reached, key=lambda setting: honest.sign * reached[setting])
            mean = sum(reached.values()) / len(reached)
            lines.append(
                f"{method} under {len(reached)} attacks, {head} of honest clients: worst "
                f"{honest.text_with_unit(reached[worst])} ({worst}), mean "
                f"{honest.text_with_unit(mean)}"
            )
    return lines


def _agreement(comparison: Comparison, setting: str) -> list[str]:
    """A line with the agreement of each method's clusters with the true clusters, if known."""
    rows = [row for row in rows_of(comparison.table()) if row["setting"] == setting]
    by_method = {row["method"]: row.get("ari") for row in rows}
    shown = [f"{name} {ari:.2f}" for name, ari in by_method.items() if ari is not None]
    if not shown:
        return []
    return [f"agreement with the true clusters (ARI, mean over seeds): {', '.join(shown)}"]


def _difference(row: Row, measure: Measure) -> str:
    """A difference of two methods as text, with its 95% interval and the test's p."""
    gain = f"{measure.gain_text(row['difference'])}{measure.points}"
    interval = f"{measure.end_text(row['low'])} to {measure.end_text(row['high'])}"
    pair = f"{row['method']} {difference_word(measure)} {row['against']}"
    return f"{pair}: {gain} ({interval}), p = {row['p']:.2g}"


def variation(comparison: Comparison) -> str:
    """A sentence about what differs between seeds: also the data, if each seed draws them."""
    drawn = comparison.grid.drawn_settings
    varied = "so intervals and tests cover the variation of"
    if not drawn:
        return (
            "All seeds share the data of their setting, "
            f"{varied} initial models, cohorts and batches."
        )
    if len(drawn) == len(comparison.settings):
        return f"Each seed draws the data, {varied} data, initial models, cohorts and batches."
    return (
        f"Each seed draws the data in these settings: {'; '.join(drawn)}. In the others, all seeds "
        "share the data."
    )
