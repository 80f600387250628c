"""The winner of a sweep: of each method, the values of tuned options that are best on validation
samples.

A candidate is a method with one choice of tuned options. Candidates are compared on the same
problem, which is everything that cannot be tuned (``comparison_axes.PROBLEM_SECTIONS``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from jaxtyping import Float

from fedkin.analysis.compare.harm import WORSE, harm, local_label
from fedkin.analysis.repeated_runs import curve_of
from fedkin.config.comparison_axes import is_tuned
from fedkin.config.comparison_grid import ComparisonGrid, Setting, Variant
from fedkin.measures.measure import Measure
from fedkin.measures.run_scores import RunScores
from fedkin.run.run import Run

WINNER = "winner"
BEST_OF_METHOD = "best of method"
CHOSEN = "chosen"  # the column that marks candidates with one of these words
METHOD_WITHOUT_VALUES = "base_method"  # column of labels without values of the grid
NEVER_TUNED = ("data", "scenario", "trial")  # columns that are no options


@runtime_checkable
class Results(Protocol):
    """The parts of a ``Comparison`` that the tables of a sweep need."""

    @property
    def grid(self) -> ComparisonGrid:
        """Settings, methods and seeds."""
        ...

    @property
    def finished(self) -> Mapping[tuple[str, str, int], Run]:
        """Finished runs by setting, method and seed."""
        ...

    @property
    def run_scores(self) -> RunScores:
        """The measures of the runs' score."""
        ...

    @property
    def settings(self) -> tuple[str, ...]:
        """Labels of the settings."""
        ...

    @property
    def methods(self) -> tuple[str, ...]:
        """Labels of the methods."""
        ...

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds."""
        ...

    def runs(self, setting: str, method: str) -> list[Run]:
        """The finished runs of a method in a setting."""
        ...

    def scores(self, setting: str, measure: str | None = None) -> dict[str, Float[np.ndarray, "S"]]:
        """The scores of a setting's methods, one for each seed."""
        ...

    def measure(self, by: str | None = None) -> Measure:
        """The measure by which methods are compared."""
        ...


@dataclass(frozen=True)
class SweepCandidate:
    """A method with one choice of tuned options, on one problem.

    Attributes:
        setting: label of the setting.
        variant: label of the method with its values.
        method: label of the method without values.
        values: the swept values that it has, by option.
        problem: those values that describe the problem, as text.
        validation: score on validation samples, mean over the seeds; None if a seed has no score.
    """

    setting: str
    variant: str
    method: str
    values: dict[str, Any]
    problem: str
    validation: float | None

    @property
    def tuned(self) -> dict[str, Any]:
        """The values of tuned options."""
        return {key: value for key, value in self.values.items() if is_tuned_key(key)}


def is_tuned_key(key: str) -> bool:
    """Whether a swept key is an option that can be tuned. Labels of data and scenarios and the
    number of a trial are none."""
    return key not in NEVER_TUNED and is_tuned(key)


def tuned_keys(comparison: Results) -> list[str]:
    """The tuned options of a comparison, ``section.key``."""
    return [key for key in comparison.grid.swept_keys if is_tuned_key(key)]


def candidates(comparison: Results) -> list[SweepCandidate]:
    """All candidates of a comparison, by setting and then by method."""
    found = []
    for setting in comparison.grid.settings:
        scores = comparison.scores(setting.label, "validation")
        for variant in comparison.grid.methods:
            values = setting.swept(variant)
            found.append(
                SweepCandidate(
                    setting=setting.label,
                    variant=variant.label,
                    method=variant.method,
                    values=values,
                    problem=_problem(setting),
                    validation=_mean(scores[variant.label]),
                )
            )
    return found


def _problem(setting: Setting) -> str:
    """The values of a setting that describe the problem, as text; empty if there is only one
    problem."""
    values = {
        key: value
        for key, value in setting.values.items()
        if key != "trial" and not is_tuned_key(key)
    }
    return ", ".join(
        str(value) if key in NEVER_TUNED else f"{key.partition('.')[2]} {value}"
        for key, value in values.items()
    )


def _mean(scores: np.ndarray) -> float | None:
    """The mean over the seeds; None if a seed has no score, because the mean of the others would
    be biased."""
    return float(scores.mean()) if len(scores) and np.isfinite(scores).all() else None


def chosen(found: Sequence[SweepCandidate], sign: int = 1) -> dict[tuple[str, str], str]:
    """The candidates that validation samples choose, by setting and variant: ``winner`` for the
    best of a problem, and ``best of method`` for the best of each other method.

    Of equal candidates, it is the first. Candidates without a score from every seed are left out.
    If nothing can be chosen, because each method has one candidate, the result is empty.

    Args:
        found: all candidates of a comparison.
        sign: 1 if higher scores are better, -1 if lower scores are better.
    """
    groups: dict[tuple[str, str], list[SweepCandidate]] = {}
    for one in found:
        groups.setdefault((one.problem, one.method), []).append(one)
    if all(len(group) < 2 for group in groups.values()):
        return {}
    best = {key: top for key, group in groups.items() if (top := _best(group, sign)) is not None}
    marks = {(one.setting, one.variant): BEST_OF_METHOD for one in best.values()}
    for problem in dict.fromkeys(one.problem for one in found):
        of_problem = [one for (place, _), one in best.items() if place == problem]
        winner = _best(of_problem, sign)
        if winner is not None:
            marks[winner.setting, winner.variant] = WINNER
    return marks


def _best(group: Sequence[SweepCandidate], sign: int) -> SweepCandidate | None:
    """The candidate with the best score on validation samples, the first of equals; None if no
    candidate has a score."""
    scored = [one for one in group if one.validation is not None]
    return max(scored, key=lambda one: sign * (one.validation or 0.0), default=None)


def marks_of(comparison: Results, found: Sequence[SweepCandidate]) -> dict[tuple[str, str], str]:
    """The candidates that validation samples choose, as ``chosen`` returns them.

    Args:
        comparison: the comparison.
        found: its candidates.
    """
    return chosen(found, comparison.measure("validation").sign)


def has_validation(comparison: Results) -> bool:
    """Whether some run of a comparison was scored on validation samples."""
    return any(run.scored_split == "validation" for run in comparison.finished.values())


def with_sweep(comparison: Results, table: pd.DataFrame) -> pd.DataFrame:
    """The table of results with a column for each swept option, and the column ``chosen``.

    Args:
        comparison: the comparison.
        table: its table, with a row for each setting and method.
    """
    if not comparison.grid.swept_keys:
        return table
    cells = comparison.grid.cells
    added = _swept_columns(comparison, cells)
    if tuned_keys(comparison):
        marks = marks_of(comparison, candidates(comparison))
        added[CHOSEN] = [marks.get((s.label, m.label)) for s, m in cells]
    first = ["setting", "method"]
    rest = [name for name in table.columns if name not in first]
    return pd.concat([table[first], pd.DataFrame(added), table[rest]], axis=1)


def runs_table(comparison: Results) -> pd.DataFrame:
    """All finished runs, one a row: setting, method and seed, a column for each swept option, the
    measures of the run's summary and, with the method ``local``, ``worse_than_alone``."""
    rows = []
    cells = []
    with_local = local_label(comparison.grid) is not None
    measures = [*_run_measures(comparison), *(one.name for one in comparison.grid.measures)]
    for setting in comparison.grid.settings:
        for method in comparison.grid.methods:
            served = harm(comparison, setting.label, method.label)
            for run, worse in zip(
                comparison.runs(setting.label, method.label), served, strict=True
            ):
                summary = run.summary()
                values = {name: summary[name] for name in measures if name in summary}
                if with_local:
                    values[WORSE] = None if worse is None else worse.share
                labels = {"setting": setting.label, "method": method.label}
                rows.append({**labels, "seed": run.config.seed, **values})
                cells.append((setting, method))
    table = pd.DataFrame(rows, columns=None if rows else ["setting", "method", "seed"])
    if not comparison.grid.swept_keys:
        return table
    added = pd.DataFrame(_swept_columns(comparison, cells))
    first = ["setting", "method"]
    rest = [name for name in table.columns if name not in first]
    return pd.concat([table[first], added, table[rest]], axis=1)


def _run_measures(comparison: Results) -> list[str]:
    """Names of the measures of each run, for runs.csv. Seconds are left out, so that the same runs
    give the same file."""
    scores = comparison.run_scores
    of_score = (scores.validation, scores.best, scores.final, scores.all_clients, scores.worst)
    names = [measure.name for measure in (*of_score, *scores.further)]
    return [*names, "bytes_down", "bytes_up"]


def long_table(comparison: Results) -> pd.DataFrame:
    """All scores (such as accuracies) as a table with one row per setting, method, seed and round,
    for curves.csv."""
    score = comparison.run_scores.names.score
    parts = [
        pd.DataFrame(
            {
                "setting": setting,
                "method": method,
                "seed": run.config.seed,
                "round": np.arange(len(run.records)),
                score: curve_of(run, score),
            }
        )
        for setting in comparison.settings
        for method in comparison.methods
        for run in comparison.runs(setting, method)
    ]
    if not parts:
        return pd.DataFrame(columns=["setting", "method", "seed", "round", score])
    return pd.concat(parts, ignore_index=True)


def _swept_columns(
    comparison: Results, cells: Sequence[tuple[Setting, Variant]]
) -> dict[str, list[Any]]:
    """The columns of a table that say which values a row has: the method without values, if values
    of methods differ, and each swept option."""
    columns: dict[str, list[Any]] = {}
    if any(method.values for _, method in cells):
        columns[METHOD_WITHOUT_VALUES] = [method.method for _, method in cells]
    swept = [setting.swept(method) for setting, method in cells]
    for key in comparison.grid.swept_keys:
        columns[key] = [_plain(values.get(key)) for values in swept]
    return columns


def _plain(value: Any) -> Any:
    """A value for a table: numbers and texts stay, lists and tables become JSON."""
    return json.dumps(value) if isinstance(value, (list, dict)) else value
