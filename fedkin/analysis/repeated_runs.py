"""The class ``RepeatedRuns``: finished runs with several seeds, with curves, tables and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from fedkin.analysis.latex import escaped, latex_head, tabular
from fedkin.analysis.pairwise_tests import pairs
from fedkin.analysis.scores import is_partial, log_reasons, scores_by_method
from fedkin.analysis.tables import (
    CLUSTERS,
    TRAFFIC,
    clusters_and_configured,
    mean_and_interval,
    mean_column,
    rows_of,
    score_columns,
)
from fedkin.config.registry import method_title
from fedkin.core.errors import CheckpointError, ConfigError, StorageError
from fedkin.core.object_repr import count
from fedkin.core.storage import user_path, write_atomic
from fedkin.core.strict_json import json_text
from fedkin.measures.lookup import compared_by
from fedkin.measures.measure import Measure
from fedkin.measures.run_scores import RunScores, difference_word, scores_in
from fedkin.measures.scores import names_in
from fedkin.options.privacy.statement import privacy_notes
from fedkin.run.folder import run_folder
from fedkin.run.folder.run_folder import holds_run
from fedkin.run.run import Run

SEEDS = "seeds"  # folder of the single runs
CURVES = "curves.csv"
COMPARISONS = "comparisons.csv"


@dataclass(frozen=True, eq=False, repr=False)
class RepeatedRuns:
    """Finished runs of one experiment with S seeds. If the experiment compares methods, each run is
    of its main method and holds the runs of the other methods in ``against``.

    Raises ConfigError if there is no run, a seed is repeated, or methods, rounds or measures
    differ.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> model = fk.models.mclr(data)
        >>> def run(seed):
        ...     return fk.simulate(fk.FedAvg(), data, model, rounds=1, cohort=3, seed=seed)
        >>> fk.repeat(run, seeds=2)
        RepeatedRuns(fedavg: 2 seeds, 1 round)
    """

    runs: tuple[Run, ...]

    def __post_init__(self) -> None:
        if not self.runs:
            raise ConfigError("expected at least one run")
        for run in self.runs:
            if not isinstance(run, Run):
                raise ConfigError(
                    f"expected finished runs, as fk.simulate returns, got {type(run).__name__}"
                )
        # A repeated run would wrongly count as further evidence.
        if len(set(self.seeds)) < len(self.seeds):
            raise ConfigError(
                f"runs must have different seeds, got {self.seeds}; pass the given seed to each run"
            )
        for run in self.runs[1:]:
            if self._experiment(run) != self._experiment(self.runs[0]):
                raise ConfigError(
                    "runs of one experiment must have the same methods and rounds; seed "
                    f"{self.seeds[0]} has {self._experiment(self.runs[0])}, seed {run.config.seed} "
                    f"{self._experiment(run)}"
                )

        every = {scores_in(run.summary()) for method in self.methods for run in self.of(method)}
        if len(every) > 1:
            heads = ", ".join(sorted(scores.of_round.head for scores in every))
            raise ConfigError(
                f"runs of one experiment must have the same measures, got {heads}; run all seeds "
                "with the same task and loss"
            )

    def __repr__(self) -> str:
        rounds = max(len(run.records) - 1 for run in self.runs)
        size = f"{count(len(self.runs), 'seed')}, {count(rounds, 'round')}"
        return f"RepeatedRuns({', '.join(self.methods)}: {size})"

    @staticmethod
    def _experiment(run: Run) -> tuple[str, ...]:
        """The methods and the number of rounds of a run. Two runs count as runs of the same
        experiment if both are equal."""
        rounds = run.config.rounds or len(run.records) - 1  # a run may have stopped early
        return (run.config.method_name, *sorted(run.against), count(rounds, "round"))

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs, in the order of the runs."""
        return [run.config.seed for run in self.runs]

    @property
    def methods(self) -> list[str]:
        """Names of the main method and the methods it is compared with."""
        return [self.runs[0].config.method_name, *self.runs[0].against]

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The user's measures, which every table shows after the built-in ones."""
        return self.runs[0].measures

    @property
    def run_scores(self) -> RunScores:
        """The measures of the runs' score."""
        return scores_in(self.runs[0].summary())

    def of(self, method: str) -> list[Run]:
        """The runs of one method, one for each seed."""
        return [run if method == self.methods[0] else run.against[method] for run in self.runs]

    def curves(self, column: str | None = None) -> dict[str, Float[np.ndarray, "S R"]]:
        """A column of the runs' histories by method, with a row for each seed and a column for each
        round 0 to T.

        Values are NaN in rounds without evaluation, after an early stop, and for scores of rounds
        in which some client had no cluster.

        Args:
            column: the column; default: the score, such as the accuracy.
        """
        name = self.run_scores.names.score if column is None else column
        return curves_of({method: self.of(method) for method in self.methods}, name)

    def comparisons(self, measure: str = "final") -> pd.DataFrame:
        """Test the main method against each compared method (``pairwise_tests.pairs``).

        The table has a row for each compared method. The columns are the mean difference over the
        seeds and its 95% interval, p of the two-sided paired t-test (Holm-adjusted over the rows),
        the verdict, and the reason why seeds are left out.

        Args:
            measure: ``final`` or ``best`` score (such as the accuracy), score of the ``bottom``
                10% of clients, which are the worst, or the name of a user's measure.

        Raises ConfigError for an unknown measure.
        """
        compared = compared_by(measure, self.measures, self.run_scores)
        values, reasons = scores_by_method(
            {method: self.of(method) for method in self.methods}, compared
        )
        log_reasons(reasons.values())
        table = pairs(values, self.methods[0], reasons, compared.sign)
        return table.assign(measure=compared.by)

    def table(self) -> pd.DataFrame:
        """The table of results, with a row for each method.

        It has means over the seeds with 95% intervals (Student's t; no interval below three seeds):
        final, best and mean accuracy of a run, and accuracy of the bottom 10% of clients. Further
        columns are the final and the configured number of clusters, and bytes.
        """
        return pd.DataFrame([self._row(method) for method in self.methods])

    def _row(self, method: str) -> dict[str, Any]:
        """The row of a method in the table of results, with means over its runs."""
        summaries = [run.summary() for run in self.of(method)]
        scores = self.run_scores
        averaged = (*scores.means, *scores.further, *self.measures)
        columns = {one.name: [s.get(one.name) for s in summaries] for one in averaged}
        columns[scores.mean.name] = [_mean(curve[1:]) for curve in self.curves()[method]]
        row: dict[str, Any] = {"method": method, "seeds": len(summaries)}
        for name, values in columns.items():
            row |= mean_and_interval(name, values)
        row |= clusters_and_configured(summaries)
        return row | {
            name: float(np.mean([s[name] for s in summaries]))
            for name in ("bytes_down", "bytes_up")
        }

    def latex(self) -> str:
        """The table as LaTeX (booktabs), one row per method.

        The best final score (of all clients) is bold: the highest accuracy, or the lowest error.
        Comments below the table say how the main method differs from the others.
        """
        rows = rows_of(self.table())
        scores = self.run_scores
        further = map(mean_column, (*scores.further, *self.measures))
        columns = [*score_columns(scores), CLUSTERS, TRAFFIC, *further]
        over_all = scores.all_clients
        tested = [row[over_all.name] for row in rows if row[over_all.name] is not None]
        best = max(tested, key=lambda score: over_all.sign * score, default=None)
        lines = []
        for row in rows:
            cells = [escaped(column.cell(row)) for column in columns]
            if best is not None and row[over_all.name] == best:
                cells[0] = rf"\textbf{{{cells[0]}}}"
            lines.append([escaped(method_title(row["method"])), str(row["seeds"]), *cells])
        heads = [latex_head(column.head) for column in columns]
        return tabular(["Method", "Seeds", *heads], lines, self._latex_notes())

    def _latex_notes(self) -> list[str]:
        """Notes for the LaTeX table: how to read it, and the tests."""
        final = self.run_scores.final
        lines = ["Means over the seeds, with 95% intervals (Student's t) from three seeds on."]
        if any(is_partial(run) for method in self.methods for run in self.of(method)):
            lines.append(
                "All clients: includes clients without a cluster in the last round; tests and bold "
                f"type use this {self.run_scores.of_round.head}."
            )
        for row in rows_of(self.comparisons()):
            word = difference_word(final)
            pair = f"{method_title(row['method'])} {word} {method_title(row['against'])}"
            numbers = ("difference", "low", "high", "p")
            if any(row[name] is None for name in numbers):
                lines.append(f"{pair}: not tested ({row['why'] or row['verdict']})")
                continue
            interval = f"{final.end_text(row['low'])} to {final.end_text(row['high'])}"
            gain = f"{final.gain_text(row['difference'])}{final.points}"
            lines.append(f"{pair}: {gain} ({interval}), p = {row['p']:.2g}, {row['verdict']}")
        tests = f"two-sided paired t-test over seeds, {final.label}, Holm-adjusted"
        return [*lines, f"Tests: {tests}."] if len(lines) > 1 else lines

    def summary(self) -> dict[str, Any]:
        """Tables and comparisons as plain JSON values."""
        first = self.runs[0].summary()
        entries = ("method", "data", "model", "measure")
        shown = {name: first[name] for name in entries if name in first}
        if "unranked" in first:
            shown["unranked"] = max(run.summary()["unranked"] for run in self.runs)
        shown["rounds"] = max(len(run.records) - 1 for run in self.runs)
        runs = [run for method in self.methods for run in self.of(method)]
        notes = privacy_notes([run.final["privacy"] for run in runs if "privacy" in run.final])
        return {
            **shown,
            "seeds": self.seeds,
            "methods": rows_of(self.table()),
            "comparisons": rows_of(self.comparisons()),
            "seconds": round(sum(run.seconds for run in runs), 3),
            **({"privacy_notes": notes} if notes else {}),
        }

    def save(self, path: str | Path) -> Path:
        """Write curves.csv, comparisons.csv and summary.json into a new folder.

        ``fk.draw`` writes the figure.

        Raises StorageError if the folder has runs or one of these files already, or cannot be
        written.
        """
        target = user_path(path)
        if holds_run(target) or (target / run_folder.SUMMARY).exists():
            raise StorageError(
                f"{target} already holds runs or their summary; choose another folder"
            )
        return self.write(target)

    def write(self, target: Path) -> Path:
        """Write the files of ``save`` into the folder of the single runs."""
        run_folder.make_folder(target)
        write_atomic(target / CURVES, self._long_table().to_csv(index=False))
        write_atomic(target / COMPARISONS, self.comparisons().to_csv(index=False))
        write_atomic(target / run_folder.SUMMARY, json_text(self.summary(), indent=2) + "\n")
        return target

    def _long_table(self) -> pd.DataFrame:
        """All scores (such as accuracies) as a table with one row per method, seed and round, for
        curves.csv."""
        score = self.run_scores.names.score
        parts = [
            pd.DataFrame(
                {"method": method, "seed": seed, "round": np.arange(len(curve)), score: curve}
            )
            for method, curves in self.curves().items()
            for seed, curve in zip(self.seeds, curves, strict=True)
        ]
        return pd.concat(parts, ignore_index=True)

    @classmethod
    def load(cls, path: str | Path) -> RepeatedRuns:
        """Read the finished runs of ``fedkin run run.seeds=...`` from their folder.

        Raises CheckpointError if the folder has no such runs, or if a run is not finished.
        """
        folder = user_path(path)
        config = run_folder.read_config(folder)
        seeds = config.seeds
        if seeds is None:
            raise CheckpointError(f"{path} holds one run, not several seeds; use Run.load")
        return cls(
            tuple(Run.load(folder / SEEDS / str(seed)) for seed in seeds_of(config.seed, seeds))
        )


def seeds_of(first: int, number: int) -> range:
    """The range of ``number`` seeds that starts at ``first``."""
    return range(first, first + number)


def curves_of(
    runs: Mapping[str, Sequence[Run]], column: str, partial: bool = False
) -> dict[str, Float[np.ndarray, "S R"]]:
    """A column of the runs' histories by method, with a row for each run.

    Rounds after an early stop are NaN. Methods without runs are left out.

    Args:
        runs: runs by method.
        column: column of the histories.
        partial: whether to include rounds in which some clients have no cluster, as in
            ``curve_of``.
    """
    curves = {
        method: [curve_of(run, column, partial) for run in several]
        for method, several in runs.items()
        if several
    }
    length = max((len(curve) for several in curves.values() for curve in several), default=0)

    def padded(curve: np.ndarray) -> np.ndarray:
        """A run's curve, extended by NaN to the length of the longest run's curve."""
        return np.pad(curve, (0, length - len(curve)), constant_values=np.nan)

    return {
        method: np.stack([padded(curve) for curve in several]) for method, several in curves.items()
    }


def curve_of(run: Run, column: str, partial: bool = False) -> Float[np.ndarray, "R"]:
    """A column of a run's history.

    Args:
        run: the run.
        column: column of the history.
        partial: whether to include scores of partial rounds, in which some clients have no cluster.
            If False, they are NaN.

    Raises ConfigError if the history does not have the column.
    """
    # A table of all columns takes ten times as long, and a comparison asks for thousands of curves.
    if column == "round" or not any(column in record for record in run.records):
        columns = ", ".join(run.history.columns)
        raise ConfigError(f"a run's history has no {column!r}; it has {columns}")
    curve = np.array([record.get(column) for record in run.records], float)
    if column != names_in(run.records[-1]).score or partial:
        return curve
    is_partial = np.array([bool(record.get("partial")) for record in run.records])
    return np.where(is_partial, np.nan, curve)


def _mean(values: Float[np.ndarray, "R"]) -> float:
    """Mean of the values that are finite; NaN if none is."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")
