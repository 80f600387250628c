"""The class ``Comparison``: finished runs of a comparison, with tables and significance tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from fedkin.analysis.compare.averaged_measures import averages
from fedkin.analysis.compare.comparison_folder import (
    cells_of,
    finished_run,
    missing_line,
    read_failed,
    reopen,
)
from fedkin.analysis.compare.harm import harm_row
from fedkin.analysis.compare.importance import importance
from fedkin.analysis.compare.same_scores import check_same_scores
from fedkin.analysis.compare.sweep import long_table, runs_table, with_sweep
from fedkin.analysis.compare.target import first_round, last_score
from fedkin.analysis.pairwise_tests import pairs
from fedkin.analysis.ranks import Ranks, rank, why_missing
from fedkin.analysis.repeated_runs import CURVES, curves_of
from fedkin.analysis.scores import log_reasons, scores_by_method
from fedkin.analysis.tables import clusters_and_configured, rows_of
from fedkin.config.comparison_grid import ComparisonGrid
from fedkin.core.storage import user_path, write_atomic
from fedkin.core.strict_json import json_text
from fedkin.measures.lookup import compared_by
from fedkin.measures.measure import Measure
from fedkin.measures.run_scores import ACCURACIES, RunScores, scores_in
from fedkin.run.folder import run_folder
from fedkin.run.run import Run

TABLE = "comparison.csv"
DIFFERENCES = "differences.csv"
RUNS = "runs.csv"
IMPORTANCE = "importance.csv"
# These two files need at least three methods and five settings.
RANKS = "ranks.csv"
RANK_TESTS = "rank_tests.csv"
Key = tuple[str, str, int]  # setting, method, seed


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The finished runs of a comparison with S seeds.

    The grid has a run for each method, setting and seed. A setting is everything in which runs can
    differ except method and seed: data, model, local training and scenario. Runs of a setting can
    be compared.

    Attributes:
        grid: settings, methods and seeds.
        finished: finished runs by setting, method and seed.
        failed: reasons of failed runs by setting, method and seed.
        folder: the comparison's folder.

    Raises ConfigError if runs have different measures, such as accuracies and errors.

    Examples:
        >>> import fedkin as fk
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     methods = ["fedavg", fk.IFCA(clusters=2)]
        ...     few = ["data.clients=6", "run.rounds=1", "run.cohort=3"]
        ...     fk.compare(None, *few, methods=methods, seeds=1, out=f"{folder}/compared")
        Comparison(1 settings x 2 methods x 1 seeds: 2 finished, 0 missing)
    """

    grid: ComparisonGrid
    finished: Mapping[Key, Run]
    failed: Mapping[Key, str] = field(default_factory=dict)
    folder: Path | None = None

    def __post_init__(self) -> None:
        check_same_scores((setting, run) for (setting, *_), run in self.finished.items())

    def __repr__(self) -> str:
        shape = (
            f"{len(self.settings)} settings x {len(self.methods)} methods x {len(self.seeds)} seeds"
        )
        return f"Comparison({shape}: {len(self.finished)} finished, {len(self.missing)} missing)"

    @property
    def settings(self) -> tuple[str, ...]:
        """Labels of the settings; an empty label if there is only one."""
        return tuple(setting.label for setting in self.grid.settings)

    @property
    def methods(self) -> tuple[str, ...]:
        """Labels of the methods."""
        return tuple(variant.label for variant in self.grid.methods)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, used for every method in every setting."""
        return self.grid.seeds

    @property
    def missing(self) -> list[Key]:
        """The runs that are not finished: setting, method and seed of each."""
        return [
            key
            for s in self.settings
            for m in self.methods
            for i in self.seeds
            if (key := (s, m, i)) not in self.finished
        ]

    @property
    def not_run(self) -> list[str]:
        """Lines of text about failed runs. Runs of a method in a setting that failed for the same
        reason share a line."""
        return self._not_run_lines([(s, m) for s in self.settings for m in self.methods])

    @property
    def partly_not_run(self) -> list[str]:
        """The lines of ``not_run`` about a method in a setting that has finished runs with other
        seeds. Its row in the table shows their results, and therefore no reason."""
        return self._not_run_lines(
            [(s, m) for s in self.settings for m in self.methods if self.runs(s, m)]
        )

    def _not_run_lines(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        """Lines of text about failed runs. ``pairs`` are the settings and methods of these runs. If
        all seeds of a pair failed for the same reason, the line names no seeds."""
        lines: list[str] = []
        for setting, method in pairs:
            for reason, seeds in self._reasons(setting, method).items():
                named_seeds = [] if len(seeds) == len(self.seeds) else seeds
                lines.append(missing_line(setting, method, reason, named_seeds))
        return lines

    def _reasons(self, setting: str, method: str) -> dict[str, list[int]]:
        """The reasons why a method's runs in a setting failed, each with the seeds of the runs."""
        reasons: dict[str, list[int]] = {}
        for seed in self.seeds:
            reason = self.failed.get((setting, method, seed))
            if reason is not None:
                reasons.setdefault(reason, []).append(seed)
        return reasons

    def refused(self, setting: str, method: str) -> bool:
        """Whether a method failed in a setting with all seeds."""
        return not self.runs(setting, method) and all(
            (setting, method, seed) in self.failed for seed in self.seeds
        )

    @property
    def by(self) -> str:
        """The default measure by which methods are compared."""
        return self.grid.by

    @property
    def run_scores(self) -> RunScores:
        """The measures of the runs' score; accuracies if no run is finished."""
        runs = list(self.finished.values())
        return scores_in(runs[0].summary()) if runs else ACCURACIES

    def measure(self, by: str | None = None) -> Measure:
        """The measure by which methods are compared.

        Args:
            by: the measure's word, as in ``differences``; None: the comparison's ``by``.

        Raises ConfigError for an unknown word.
        """
        return compared_by(self.by if by is None else by, self.grid.measures, self.run_scores)

    def runs(self, setting: str, method: str) -> list[Run]:
        """The finished runs of a method in a setting, in the order of the seeds."""
        return [
            self.finished[setting, method, seed]
            for seed in self.seeds
            if (setting, method, seed) in self.finished
        ]

    def values(self, setting: str, name: str) -> dict[str, Float[np.ndarray, "S"]]:
        """For each method, the value ``name`` of the run's summary, one for each seed; NaN if
        missing."""
        return {
            method: np.array([self._value((setting, method, seed), name) for seed in self.seeds])
            for method in self.methods
        }

    def _value(self, key: Key, name: str) -> float:
        """The value ``name`` of a run's summary; NaN if the run is not finished or its summary has
        no such value."""
        value = self.finished[key].summary().get(name) if key in self.finished else None
        return float("nan") if value is None else float(value)

    def curves(
        self, setting: str, column: str | None = None, partial: bool = False
    ) -> dict[str, Float[np.ndarray, "S R"]]:
        """A column of the runs' histories by method, with a row for each finished seed.

        Rounds after an early stop are NaN. Methods without a finished seed are left out.

        Args:
            setting: the setting's label.
            column: the column of the histories; default: the score, such as the accuracy.
            partial: whether to include scores of rounds in which some clients have no cluster yet.
                If False, they are NaN.
        """
        name = column or self.run_scores.names.score
        runs = {method: self.runs(setting, method) for method in self.methods}
        return curves_of(runs, name, partial)

    def target(self, setting: str) -> float | None:
        """The target score (such as the accuracy) of ``rounds_to_target``.

        It is ``run.target`` if set; otherwise the score of the comparison's first method in its
        last round (mean over the seeds), on the samples used to score rounds.
        """
        targets = [run.config.target for m in self.methods for run in self.runs(setting, m)]
        if targets and targets[0] is not None:
            return float(targets[0])
        scores = [last_score(run) for run in self.runs(setting, self.methods[0])]
        measured = [score for score in scores if score is not None]
        return float(np.mean(measured)) if measured else None

    def table(self) -> pd.DataFrame:
        """The table of results, with a row for each method in each setting.

        Some columns have a mean over the finished seeds and a 95% interval (Student's t; no
        interval below three seeds):

        * final accuracy, final accuracy over all clients, best accuracy, and accuracy of the bottom
          10% of clients; of numbers, the same values of their score, such as
          ``final_root_mean_squared_error``, and their further measures;
        * ``worse_than_alone``: share of clients that lose more than 2% against a model that they
          train alone (``harm``); None without the method ``local``;
        * with a validation split, the best validation accuracy, which is used to choose options;
        * with known true clusters, the final agreement with them (``ari``, ``nmi``);
        * with attacks, accuracy and agreement of honest clients, and the share of attackers in
          clusters without honest clients.

        Further columns are the number of finished seeds, the nonempty clusters at the end (mean),
        the configured clusters, the rounds until the target accuracy (``target``), bytes and
        seconds per run, and the ``reason`` if runs failed. Rounds to the target are a mean over the
        seeds that reached it; ``reached`` is the number of these seeds. Round 0 is not counted,
        since methods do different things in it: some train models and form clusters, others do
        nothing.

        If options were swept, each has a column, ``section.key``. The column ``chosen`` says which
        row of a method is best on validation samples (``best of method``), and which of all methods
        (``winner``). The column is empty without validation samples.
        """
        return self._table.copy()

    @cached_property
    def _table(self) -> pd.DataFrame:
        """The table of results. Reports ask for it dozens of times."""
        rows = [self._row(setting, method) for setting in self.settings for method in self.methods]
        return with_sweep(self, pd.DataFrame(rows))

    def runs_table(self) -> pd.DataFrame:
        """The table of all finished runs, one a row, with a column for each swept option."""
        return runs_table(self)

    def importance(self, measure: str | None = None) -> pd.DataFrame:
        """How much each swept option mattered, by method (``importance.importance``). The score is
        the best accuracy on validation samples if there are some.

        Args:
            measure: the measure without validation samples, as in ``differences``.

        Raises ConfigError for an unknown measure.
        """
        return importance(self, measure)

    def _row(self, setting: str, method: str) -> dict[str, Any]:
        """The row of the table of results for a method in a setting."""
        runs = self.runs(setting, method)
        summaries = [run.summary() for run in runs]
        row: dict[str, Any] = {"setting": setting, "method": method, "seeds": len(runs)}
        row |= averages(summaries, self.run_scores, self.grid.measures)
        row |= harm_row(self, setting, method)
        row |= clusters_and_configured(summaries)
        target = self.target(setting)
        rounds = [r for run in runs if (r := first_round(run, target)) is not None]
        row |= {
            "target": target,
            "reached": len(rounds),
            "rounds_to_target": float(np.mean(rounds)) if rounds else None,
        }
        for name in ("bytes_down", "bytes_up", "seconds"):
            row[name] = float(np.mean([summary[name] for summary in summaries])) if runs else None
        if self.failed:
            row["reason"] = "; ".join(self._reasons(setting, method)) or None
        return row

    def differences(self, measure: str | None = None) -> pd.DataFrame:
        """Test every pair of methods in every setting (``pairwise_tests.pairs``).

        Args:
            measure: ``final`` or ``best`` score (such as the accuracy), score of the ``bottom``
                10% of clients, which are the worst, best score on ``validation`` samples, or the
                name of a user's measure. None: the comparison's ``by``.

        Raises ConfigError for an unknown measure.
        """
        compared = self.measure(measure)
        tables = [
            self._pairs(setting, compared).assign(setting=setting) for setting in self.settings
        ]
        whole = pd.concat(tables, ignore_index=True).assign(measure=compared.by)
        first = ["setting", "measure"]
        return whole.reindex(
            columns=[*first, *(name for name in whole.columns if name not in first)]
        )

    def scores(self, setting: str, measure: str | None = None) -> dict[str, Float[np.ndarray, "S"]]:
        """The scores by which a setting's methods are compared (``scores.score``): for each method,
        one per seed, NaN if missing."""
        return self._scores_and_reasons(setting, self.measure(measure))[0]

    def _scores_and_reasons(
        self, setting: str, measure: Measure
    ) -> tuple[dict[str, Float[np.ndarray, "S"]], dict[str, str]]:
        """Scores by method, one for each seed, and by method the reason why scores are missing."""
        runs = {
            m: [self.finished.get((setting, m, seed)) for seed in self.seeds] for m in self.methods
        }
        return scores_by_method(runs, measure)

    def _pairs(self, setting: str, measure: Measure) -> pd.DataFrame:
        """The tests of all pairs of methods in one setting, without methods that failed with all
        seeds."""
        values, reasons = self._scores_and_reasons(setting, measure)
        values = {
            method: scores for method, scores in values.items() if not self.refused(setting, method)
        }
        log_reasons(f"{setting}: {reason}" if setting else reason for reason in reasons.values())
        return pairs(values, None, reasons, measure.sign)

    def ranks(self, measure: str | None = None) -> Ranks:
        """Average ranks of the methods over settings, with Friedman, Nemenyi and Wilcoxon tests.

        Only settings without missing scores are used.

        Args:
            measure: as in ``differences``.

        Raises ConfigError for an unknown measure.
        """
        compared = self.measure(measure)
        means = {}
        for setting in self.settings:
            scores = self.scores(setting, measure)
            means[setting] = {method: np.mean(values) for method, values in scores.items()}
        table = pd.DataFrame.from_dict(means, orient="index", columns=self._ranked_methods())
        return rank(table, compared.sign)

    def _ranked_methods(self) -> list[str]:
        """The methods, except those that failed in every setting."""
        return [
            method
            for method in self.methods
            if not all(self.refused(s, method) for s in self.settings)
        ]

    def why_ranks_are_missing(self, measure: str | None = None) -> str | None:
        """The reason why methods or settings have no ranks. None if all have ranks, or if there is
        only one setting.

        Args:
            measure: as in ``differences``.

        Raises ConfigError for an unknown measure.
        """
        scores = {setting: self.scores(setting, measure) for setting in self.settings}
        return why_missing(scores, self._ranked_methods())

    def summary(self, measure: str | None = None) -> dict[str, Any]:
        """Tables, differences and ranks as plain JSON values."""
        ranks = self.ranks(measure)
        failed = [{"cell": list(key), "reason": reason} for key, reason in self.failed.items()]
        return {
            "settings": list(self.settings),
            "methods": list(self.methods),
            "seeds": list(self.seeds),
            "by": self.by if measure is None else measure,
            "table": rows_of(self.table()),
            "differences": rows_of(self.differences(measure)),
            "importance": rows_of(self.importance(measure)),
            "ranks": ranks.average,
            "rank_tests": ranks.summary(),
            "ranks_missing": self.why_ranks_are_missing(measure),
            "missing": [list(key) for key in self.missing],
            "failed": failed,
        }

    def write(self, folder: Path, measure: str | None = None) -> Path:
        """Write comparison.csv, runs.csv, differences.csv, curves.csv and summary.json into a
        folder; ranks.csv and rank_tests.csv if methods were ranked, and importance.csv if options
        were tuned.

        ``fk.draw`` writes the formatted tables and the figure.

        Raises StorageError if the files cannot be written.
        """
        run_folder.make_folder(folder)
        write_atomic(folder / TABLE, self.table().to_csv(index=False))
        write_atomic(folder / DIFFERENCES, self.differences(measure).to_csv(index=False))
        if (ranks := self.ranks(measure)).tested:
            write_atomic(folder / RANKS, ranks.table().to_csv(index=False))
            write_atomic(folder / RANK_TESTS, ranks.pairs.to_csv(index=False))
        write_atomic(folder / CURVES, long_table(self).to_csv(index=False))
        write_atomic(folder / RUNS, self.runs_table().to_csv(index=False))
        if len(important := self.importance(measure)):
            write_atomic(folder / IMPORTANCE, important.to_csv(index=False))
        summary = json_text(self.summary(measure), indent=2)
        write_atomic(folder / run_folder.SUMMARY, f"{summary}\n")
        return folder

    @classmethod
    def load(cls, path: str | Path) -> Comparison:
        """Read the finished runs of the comparison in a folder.

        Raises CheckpointError if the folder holds no comparison, or a finished run is damaged.
        """
        folder = user_path(path)
        grid = reopen(folder)
        cells = list(cells_of(grid, folder))
        runs = {cell.key: run for cell in cells if (run := finished_run(cell)) is not None}
        kept = read_failed(folder)
        failed = {
            cell.key: reason
            for cell in cells
            # A run that failed once may have been finished later.
            if (reason := kept.get(cell.key)) and cell.key not in runs
        }
        return cls(grid, runs, failed, folder)
