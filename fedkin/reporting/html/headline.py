"""The report's headline: the better method, its gain, the significance, and the cost.

Shapes: S seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from fedkin.analysis.pairwise_tests import NOT_SIGNIFICANT, pairs
from fedkin.analysis.scores import Score, score
from fedkin.analysis.tables import mean_and_interval, rows_of
from fedkin.config.registry import method_title
from fedkin.measures.measure import Measure
from fedkin.measures.run_scores import ACCURACIES, scores_in
from fedkin.reporting.html.headline_words import (
    ends_text,
    evidence_text,
    gain_words,
    less_or_more,
    over_word,
    same_in_all,
)
from fedkin.reporting.html.json_values import Json
from fedkin.reporting.html.lenient_reader import has_summary, is_finished
from fedkin.reporting.html.methods_table import report_scores
from fedkin.reporting.html.read_runs import ReportInput
from fedkin.run.metrics.partial_rounds import scored_text
from fedkin.run.run import Run

BASELINE = "fedavg"
SETTINGS = 8  # largest number of settings with a sentence
_POINTS = "Differences are in percentage points. "
_TESTS = "Tests: paired t-test over the seeds, two-sided, p Holm-adjusted; intervals: Student's t."
_SIGN_TEST = (
    " If the difference is the same in all seeds, p is from the sign test, and there is no "
    "interval."
)


class Verdict(NamedTuple):
    """The headline: a sentence for each setting, and a note that explains the numbers (empty if no
    difference was tested). A setting is a data set with a configuration."""

    sentences: list[str]
    note: str

    def to_json(self) -> Json:
        """The headline as JSON for the page's contents."""
        return self._asdict()


def verdict(report: ReportInput) -> Verdict:
    """The headline of a report: what its runs show, also of runs that have not finished."""
    results = [_Setting.of(report, setting) for setting in report.settings]
    sentences = []
    for result in results[:SETTINGS]:
        prefix = f"{result.label}: " if result.label else ""
        sentences.append(f"{prefix}{result.sentence()}")
    if len(results) > SETTINGS:
        sentences.append(f"{len(results) - SETTINGS} more settings are in the table.")
    tested = [row for result in results for row in result.tests if row["p"] is not None]
    if not tested:
        return Verdict(sentences, "")
    note = _TESTS
    if results[0].measure.points:
        note = _POINTS + note
    if any(map(same_in_all, tested)):
        note += _SIGN_TEST
    return Verdict(sentences, note)


def main_method(
    runs: Mapping[str, Sequence[Run]],
    means: Mapping[str, float | None],
    first: str | None,
    sign: int = 1,
) -> str:
    """The main method of a report: ``first`` if given, otherwise the method with the best score.

    FedAvg is the baseline, and is chosen only if there is no other method.

    Args:
        runs: runs of each method.
        means: mean score of each method; None if missing.
        first: the main method of a run or of several seeds; None for a comparison.
        sign: 1 if higher scores are better, -1 if lower scores are better.
    """
    others = [name for name in runs if not _is_baseline(runs[name])]
    if first is not None and (first in others or not others):
        return first
    scores = {name: mean for name, mean in means.items() if mean is not None}
    return max(
        others or runs, key=lambda name: sign * scores[name] if name in scores else -math.inf
    )


class _Setting(NamedTuple):
    """The runs of all methods on one data set with one configuration (a setting), their scores, and
    the sentence about them.

    Finished runs are compared by their final results, as in the tables, and ``last`` is None. If a
    run is unfinished, all runs are compared in round ``last``, the last round that all have
    reached.
    """

    label: str
    measure: Measure
    runs: dict[str, list[Run]]
    last: int | None
    main: str
    means: dict[str, float | None]
    reasons: dict[str, str]  # by method: the reason for a missing score
    tests: list[dict[str, Any]]
    finished: bool
    waiting: list[str]  # methods that are compared with a single run and have no round yet

    @classmethod
    def of(cls, report: ReportInput, setting: str) -> _Setting:
        """Collect the report's runs with one data set and configuration (the label ``setting``),
        and test the differences of their methods."""
        measure = report.comparison.measure() if report.comparison else report_scores(report).final
        runs = {
            name: several for name in report.methods if (several := report.runs_of(setting, name))
        }
        every = [run for several in runs.values() for run in several]
        # None compares final results, which only finished runs have.
        last = (
            None if all(map(has_summary, every)) else min(run.records[-1]["round"] for run in every)
        )
        scores = {
            name: {_seed(run): _score(run, measure, last) for run in several}
            for name, several in runs.items()
        }
        values = _by_seed(scores)
        means = {
            name: mean_and_interval("mean", row)["mean"] for name, row in _shared(values).items()
        }
        reasons = {name: why for name, own in scores.items() if (why := _reason(own.values()))}
        # A comparison has no main method: the best one is chosen, and all pairs are tested.
        first = None if report.kind == "comparison" else report.runs[0].method
        main = main_method(runs, means, first, measure.sign)
        tests = pairs(values, None if report.kind == "comparison" else main, reasons, measure.sign)
        complete = all(one.complete for one in report.runs if one.setting == setting)
        waiting = _waiting(report)
        finished = complete and not waiting and all(map(is_finished, every))
        return cls(
            label=setting,
            measure=measure,
            runs=runs,
            last=last,
            main=main,
            means=means,
            reasons=reasons,
            tests=rows_of(tests),
            finished=finished,
            waiting=waiting,
        )

    def sentence(self) -> str:
        """The headline sentence of this setting."""
        if self.means[self.main] is None:
            return self._so_far + self._without_score()
        others = sorted((name for name in self.runs if name != self.main), key=self._rank)
        scored = [name for name in others if self._test(name)["difference"] is not None]
        if not scored:
            return self._single(others) + self._unassigned()
        text = self._compared(scored[0], scored[1] if len(scored) > 1 else None)
        if self.waiting:
            text += f" {self._waits}."
        return text + self._unassigned()

    @property
    def _so_far(self) -> str:
        """The beginning of the headline sentence if runs are unfinished; empty if all are
        finished."""
        return "" if self.finished else "So far: "

    @property
    def _waits(self) -> str:
        """Text that names the methods that have not begun."""
        verb = "has" if len(self.waiting) == 1 else "have"
        return f"{' and '.join(self.waiting)} {verb} not begun yet"

    @property
    def _when(self) -> str:
        """Text such as "after 50 rounds"; empty if runs stopped after different numbers of
        rounds."""
        lengths = {
            _records(run, self.last)[-1]["round"]
            for several in self.runs.values()
            for run in several
        }
        # The best value of a run is from any of its rounds, so no number of rounds belongs to it.
        if self.measure.moment == "best" or len(lengths) > 1:
            return ""
        (rounds,) = lengths
        return f" after {rounds:,} round{'s' if rounds != 1 else ''}"

    @property
    def _words(self) -> str:
        """The measure by which methods are compared, and the split on which it is measured, as
        text."""
        split = "test" if self.last is None else next(iter(self.runs.values()))[0].scored_split
        return self.measure.phrase.format(split=split)

    @property
    def _of_errors(self) -> bool:
        """Whether methods are compared by an error of numbers, of which less is better."""
        first = next(iter(self.runs.values()))[0]
        scores = scores_in(first.records[-1])
        return scores.names != ACCURACIES.names and self.measure in scores.errors

    def _rank(self, name: str) -> tuple[bool, bool, float]:
        """Sort key of methods: FedAvg first, then methods with one model, then the others, each
        group with the best first."""
        clustered = any(run.state.clusters > 1 for run in self.runs[name])
        return (
            not _is_baseline(self.runs[name]),
            clustered,
            -self.measure.sign * (self.means[name] or 0.0),
        )

    def _without_score(self) -> str:
        """The sentence about a main method without a score: its value, and the reason why it is not
        compared."""
        reason = self.reasons.get(self.main, "no client was tested")
        reached = [_reading(run, self.measure, self.last) for run in self.runs[self.main]]
        known = [value for value in reached if value is not None]
        if not known:
            return f"{self.main} has no {self._words} to compare: {reason}."
        mean = self.measure.text_with_unit(float(np.mean(known)))
        return (
            f"{self.main} reaches {mean} {self._words}{self._when}; this is not compared: {reason}."
        )

    def _single(self, others: Sequence[str]) -> str:
        """The sentence about a main method that has no other method to compare with."""
        scores = [_score(run, self.measure, self.last).value for run in self.runs[self.main]]
        values = [value for value in scores if math.isfinite(value)]
        interval = mean_and_interval("mean", values)
        seeds = len(values)
        mean = f" (mean of {seeds} seeds)" if seeds > 1 else ""
        if interval["mean_high"] is not None:
            mean = f" (mean of {seeds} seeds, 95% interval {ends_text(interval, self.measure)})"
        why = "no other method was run, so there is no comparison"
        if others:
            why = f"{' and '.join(others)} have no scored seed in common, so there is no comparison"
        elif self.waiting:
            why = f"{self._waits}, so there is no comparison yet"
        value = self.measure.text_with_unit(interval["mean"])
        reached = f"{self.main} reaches {value} {self._words}{self._when}{mean}"
        return f"{self._so_far}{reached}; {why}."

    def _compared(self, baseline: str, rival: str | None) -> str:
        """The sentence that compares the main method with the baseline, then with the best other
        method."""
        measure = self.measure
        row = self._test(baseline)
        doubt = "no significant difference: " if row["verdict"] == NOT_SIGNIFICANT else ""
        gain = f"{gain_words(row, measure)} of {self._words} {over_word(row, measure)} {baseline}"
        if self._of_errors:
            gain = f"has {less_or_more(row, measure)} {self._words} than {baseline}"
        evidence = evidence_text(row, measure)
        text = f"{doubt}{self.main} {gain}{self._when} ({evidence}){self._cost(baseline)}"
        if rival is not None:
            row = self._test(rival)
            gain = f"{gain_words(row, measure)} {over_word(row, measure)} {rival}"
            if self._of_errors:
                gain = f"{less_or_more(row, measure)} than {rival}"
            text += f"; {gain} ({evidence_text(row, measure, brief=True)})"
        text = self._so_far + text
        return f"{text[0].upper()}{text[1:]}." if doubt else f"{text}."

    def _test(self, other: str) -> dict[str, Any]:
        """The row about the main method and another method from the table of tests. The difference
        is positive if the main method has the higher score."""
        pair = {self.main, other}
        row = next(row for row in self.tests if {row["method"], row["against"]} == pair)
        if row["method"] == self.main or row["difference"] is None:
            return row
        low = None if row["high"] is None else -row["high"]
        high = None if row["low"] is None else -row["low"]
        return row | {"low": low, "high": high, "difference": -row["difference"]}

    def _cost(self, baseline: str) -> str:
        """Text that gives the traffic of the main method as a multiple of the baseline's
        traffic."""
        ours = _traffic(self.runs[self.main], self.last)
        theirs = _traffic(self.runs[baseline], self.last)
        if not ours or not theirs:
            return ""
        ratio = f"{ours / theirs:.2f}"
        return ", at as many bytes" if ratio == "1.00" else f", at {ratio} times the bytes"

    def _unassigned(self) -> str:
        """Sentences about methods with unassigned or unevaluated clients in the last round, and
        methods without a score."""
        last = {
            name: [_scored_record(run, self.last) for run in several]
            for name, several in self.runs.items()
            if name not in self.reasons and self.measure.moment != "best"
        }
        away = {name: text for name, records in last.items() if (text := _away(records))}
        partial = [
            name
            for name, records in last.items()
            if name not in away and any(r.get("partial") for r in records)
        ]
        left_out = [
            f" {name} is left out: {why}."
            for name, why in self.reasons.items()
            if name != self.main
        ]
        clusters = (
            f" Some clients had no cluster yet in the last round of {' and '.join(partial)}."
            if partial
            else ""
        )
        scored = "".join(f" In its last round {name} {text}." for name, text in away.items())
        return clusters + scored + "".join(left_out)


def _waiting(report: ReportInput) -> list[str]:
    """The methods with which a single run is compared and that have no round yet."""
    if report.kind != "run":
        return []
    compared = report.runs[0].run.config.against
    titles = [method_title(one.method_with_options) for one in compared]
    return [title for title in titles if title not in report.methods]


def _away(records: Sequence[Mapping[str, Any]]) -> str:
    """Text with the number of evaluated clients, if some clients were absent in the last round of a
    seed. Otherwise the text is empty."""
    return next((text for record in records if (text := scored_text(record))), "")


def _is_baseline(runs: Sequence[Run]) -> bool:
    """Whether the runs are of FedAvg, which is the baseline of the headline."""
    return runs[0].config.method_name == BASELINE


def _by_seed(scores: Mapping[str, Mapping[int, Score]]) -> dict[str, Float[np.ndarray, "S"]]:
    """The scores of each method's runs, one for each seed; NaN if a score is missing."""
    seeds = sorted({seed for by_seed in scores.values() for seed in by_seed})
    nothing = Score(float("nan"))
    return {
        name: np.array([by_seed.get(seed, nothing).value for seed in seeds])
        for name, by_seed in scores.items()
    }


def _reason(scores: Iterable[Score]) -> str:
    """The reason why a method has no score for any seed; empty if it has one."""
    several = list(scores)
    return "" if any(np.isfinite(one.value) for one in several) else several[0].reason


def _shared(values: Mapping[str, Float[np.ndarray, "S"]]) -> dict[str, list[float]]:
    """The scores of each method in the seeds that all methods with scores share, so that means are
    over the same seeds. If they share none: all scores that each method has."""
    scored = [row for row in values.values() if np.isfinite(row).any()]
    is_shared = np.isfinite(scored).all(axis=0) if scored else np.zeros(0, bool)
    if not is_shared.any():
        return {name: row[np.isfinite(row)].tolist() for name, row in values.items()}
    return {name: row[is_shared & np.isfinite(row)].tolist() for name, row in values.items()}


def _seed(run: Run) -> int:
    """The seed with which a run was started."""
    return int(run.config.seed)


def _records(run: Run, last: int | None) -> list[dict[str, Any]]:
    """The records (the metrics of one round each) up to round ``last``; None: all records."""
    return run.records if last is None else run.records[: last + 1]


def _scored_record(run: Run, last: int | None) -> dict[str, Any]:
    """The last record with a score, up to round ``last``. Without such a record, the last
    record."""
    records = _records(run, last)
    name = scores_in(run.records[-1]).names.score
    return next((one for one in reversed(records) if one.get(name) is not None), records[-1])


def _score(run: Run, measure: Measure, last: int | None) -> Score:
    """The score of a run: its final result, or its value in round ``last`` if that is given."""
    if last is None:
        return score(run, measure)
    value = _reading(run, measure, last)
    return Score(float("nan"), "no client was tested") if value is None else Score(float(value))


def _reading(run: Run, measure: Measure, last: int | None) -> float | None:
    """The value of a measure from a run's summary, or from its records up to round ``last``.

    In partial rounds the value covers only the clients with a cluster.
    """
    if last is None:
        return run.summary().get(measure.name)
    if measure.moment == "best":
        name = scores_in(run.records[-1]).names.score
        complete = [r[name] for r in _records(run, last) if not r.get("partial")]
        known = [value for value in complete if value is not None]
        return max(known, key=lambda value: measure.sign * value, default=None)
    return _scored_record(run, last).get(measure.column)


def _traffic(runs: Sequence[Run], last: int | None) -> float:
    """Downloaded plus uploaded bytes until a round, as a mean over seeds."""
    records = [_records(run, last)[-1] for run in runs]
    return float(np.mean([(r.get("bytes_down") or 0) + (r.get("bytes_up") or 0) for r in records]))
