"""The same experiment from many seeds, in one process: everything is compiled once. What the seeds say together."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from fedkin.analysis import statistics
from fedkin.analysis.statistics import Comparison
from fedkin.analysis.tables import mean_and_interval, rows_of
from fedkin.config.run import Config
from fedkin.core.errors import CheckpointError, ConfigError, StorageError
from fedkin.core.randomness import Stream
from fedkin.core.storage import whole_lines, write_atomic
from fedkin.run import run_folder as folders
from fedkin.run.fingerprint import fingerprint
from fedkin.run.lifecycle import Experiment, Methods
from fedkin.run.loop import OnRound, whole_number
from fedkin.run.results import Run
from fedkin.run.run_folder import Folder, holds_run
from fedkin.run.simulate import from_config
from fedkin.tracking import tracker
from fedkin.tracking.tracker import Tracker

_log = logging.getLogger("fedkin")
SEEDS = "seeds"  # the folder of the single runs, in that of all
CURVES, COMPARISONS = "curves.csv", "comparisons.csv"
OnSeed = Callable[[int, int], Any]  # number of the seed (from 0), and the seed


@dataclass(frozen=True, eq=False, repr=False)
class RepeatedRuns:
    """Finished runs of one experiment from S seeds, in order; each may have other methods ``against`` it.

    Raises ConfigError where there is no run, a seed twice, or where not all have the same methods and rounds.
    """

    runs: tuple[Run, ...]

    def __post_init__(self) -> None:
        if not self.runs:
            raise ConfigError("expected at least one run")
        for run in self.runs:
            if not isinstance(run, Run):
                raise ConfigError(f"expected finished runs, such as simulate returns, got {type(run).__name__}")
        if len(set(self.seeds)) < len(self.seeds):  # a run that forgot its seed would count as evidence
            raise ConfigError(f"runs must come from different seeds, theirs are {self.seeds}; run with the seed given")
        for run in self.runs[1:]:
            if self._kind(run) != self._kind(self.runs[0]):
                raise ConfigError(
                    f"runs of one experiment have the same methods and rounds; seed {self.seeds[0]} has "
                    f"{self._kind(self.runs[0])}, seed {run.config['run']['seed']} {self._kind(run)}"
                )

    def __repr__(self) -> str:
        rounds = len(self.runs[0].records) - 1
        return f"Repeated({', '.join(self.methods)}: {len(self.runs)} seeds, {rounds} rounds)"

    @staticmethod
    def _kind(run: Run) -> tuple[str, ...]:
        return (run.config["method"]["name"], *sorted(run.against), f"{len(run.records) - 1} rounds")

    @property
    def seeds(self) -> list[int]:
        """S of them."""
        return [run.config["run"]["seed"] for run in self.runs]

    @property
    def methods(self) -> list[str]:
        """The main method, and those it is compared with."""
        return [self.runs[0].config["method"]["name"], *self.runs[0].against]

    def of(self, method: str) -> list[Run]:
        """The runs of one method, a seed each."""
        return [run if method == self.methods[0] else run.against[method] for run in self.runs]

    def curves(self, figure: str = "accuracy") -> dict[str, Float[np.ndarray, "S R"]]:
        """A column of the history by method, one row per seed, rounds 0 to T; NaN where it was not measured. Accuracies
        of rounds in which some client had no cluster are left out (NaN)."""
        return {method: np.stack([curve_of(run, figure) for run in self.of(method)]) for method in self.methods}

    def comparisons(self) -> list[Comparison]:
        """The main method against each of the others, over the seeds (``statistics.compare``); none where fewer than
        two rounds were measured, and complete, in every run."""
        curves = self.curves()
        shared = np.all([np.isfinite(curve).all(axis=0) for curve in curves.values()], axis=0)
        if shared.sum() < 2:
            return []
        rng = Stream(self.seeds[0], purpose="statistics/bootstrap").rng()
        return statistics.compare(curves, self.methods[0], rng)

    def table(self) -> pd.DataFrame:
        """One row per method: mean over the seeds and its 95% interval (Student's t; none with two seeds) of the last,
        the best and the mean accuracy of a run, of the worst-served tenth of clients, and bytes."""
        return pd.DataFrame([self._row(method) for method in self.methods])

    def _row(self, method: str) -> dict[str, Any]:
        summaries = [run.summary() for run in self.of(method)]
        columns = {name: [s[name] for s in summaries] for name in ("final_accuracy", "best_accuracy", "bottom_decile")}
        columns["mean_accuracy"] = [_mean(curve[1:]) for curve in self.curves()[method]]
        row: dict[str, Any] = {"method": method, "seeds": len(summaries)}
        for name, values in columns.items():
            row |= mean_and_interval(name, values)
        return row | {name: float(np.mean([s[name] for s in summaries])) for name in ("bytes_down", "bytes_up")}

    def summary(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        first = self.runs[0].summary()
        shown = {name: first[name] for name in ("method", "data", "model", "rounds")}
        return {
            **shown,
            "seeds": self.seeds,
            "methods": rows_of(self.table()),
            "comparisons": rows_of(statistics.table(self.comparisons())),
            "seconds": round(sum(run.seconds for method in self.methods for run in self.of(method)), 3),
        }

    def save(self, path: str | Path) -> Path:
        """Write what the seeds say together into a folder: curves.csv, comparisons.csv, figure and summary.json.

        Raises StorageError for a folder that holds runs or such files already, or that cannot be written.
        """
        target = Path(path)
        if holds_run(target) or (target / folders.SUMMARY).exists():
            raise StorageError(f"{target} already holds runs or what they say; choose another folder")
        return self.write(target)

    def write(self, target: Path) -> Path:
        """As ``save``, into the folder that holds the single runs."""
        from fedkin.reporting import seeds_figure

        folders.make(target)
        write_atomic(target / CURVES, self._long().to_csv(index=False))
        write_atomic(target / COMPARISONS, statistics.table(self.comparisons()).to_csv(index=False))
        seeds_figure.save(self, target)
        write_atomic(target / folders.SUMMARY, json.dumps(self.summary(), indent=2) + "\n")
        return target

    def _long(self) -> pd.DataFrame:
        """Every accuracy, one row each: method, seed, round."""
        parts = [
            pd.DataFrame({"method": method, "seed": seed, "round": np.arange(len(curve)), "accuracy": curve})
            for method, curves in self.curves().items()
            for seed, curve in zip(self.seeds, curves, strict=True)
        ]
        return pd.concat(parts, ignore_index=True)

    @classmethod
    def load(cls, path: str | Path) -> RepeatedRuns:
        """Read the finished runs of ``fedkin run run.seeds=...`` from their folder.

        Raises CheckpointError where there are none, or where one is not finished.
        """
        config = folders.read_config(Path(path))
        seeds = config["run"].get("seeds")
        if seeds is None:
            raise CheckpointError(f"{path} holds one run, not several seeds; Run.load reads it")
        return cls(tuple(Run.load(Path(path) / SEEDS / str(seed)) for seed in _numbers(config["run"]["seed"], seeds)))


def repeat(run: Callable[[int], Run], seeds: int | Sequence[int]) -> RepeatedRuns:
    """Run an experiment from several seeds, one after another.

    Args:
        run: seed -> finished run, such as ``lambda seed: fk.simulate(..., seed=seed)``. Whatever does not change
            from seed to seed (the data, the model) is best made outside of it.
        seeds: how many, from 0 on; or the seeds themselves.

    Raises:
        ConfigError: no seeds, a seed twice, something that is no seed, or runs that are not of one experiment.
    """
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        whole_number("seeds", seeds, 1)
    wanted = list(range(seeds) if isinstance(seeds, (int, np.integer)) else seeds)
    for seed in wanted:
        whole_number("a seed", seed, 0)
    if not wanted or len(set(wanted)) < len(wanted):
        raise ConfigError(f"seeds must be different ones, at least one, got {wanted}")
    return RepeatedRuns(tuple(run(int(seed)) for seed in wanted))


def execute_seeds(
    config: Config,
    *,
    out: Path | None,
    resume: bool = False,
    on_round: OnRound | None = None,
    on_seed: OnSeed | None = None,
    track: Sequence[str | Tracker] = (),
) -> RepeatedRuns:
    """Run what a configuration describes from ``run.seeds`` seeds, ``run.seed`` on; each keeps a folder of its own in
    ``seeds/``, which is what a run from that seed alone would have written, but for the figure.

    Raises as ``execute`` does.
    """
    tracked = tracker.make(track, out)
    experiment, methods = from_config(config, resume, on_round)
    experiment = dataclasses.replace(experiment, track=tracked)
    experiment.refuse(methods)
    digests = experiment.digests()
    known_by = fingerprint(experiment.description, *digests)
    assert config.run.seeds
    seeds, kept = _numbers(config.run.seed, config.run.seeds), None
    if out is not None:
        if resume and (out / folders.METRICS).exists():
            raise CheckpointError(f"{out} holds one run, not several seeds; start them in another folder")
        opened = Folder.reopen if resume else Folder.create
        kept = opened(out, experiment.description, known_by)
        _refuse_fewer_rounds(out, seeds, config.run.rounds)
        kept.describe()
    runs: list[Run] = []
    try:
        for number, seed in enumerate(seeds):
            if on_seed:
                on_seed(number, seed)
            runs.append(_one(experiment, methods, digests, seed, out, resume))
    except Exception:
        if kept and not resume and not (kept.path / SEEDS).exists():  # no seed has anything to go on from
            kept.abandon()
        raise
    whole = RepeatedRuns(tuple(runs))
    if out is not None:
        whole.write(out)
        _tell_others(out, seeds)
    return whole


def _one(
    experiment: Experiment, methods: Methods, digests: tuple[str, str], seed: int, out: Path | None, resume: bool
) -> Run:
    """One seed, in its own folder; begun anew where it had not been begun."""
    inner = out / SEEDS / str(seed) if out else None
    begun = resume and inner is not None and holds_run(inner)
    return experiment.of_seed(seed).side_by_side(methods, digests, inner, begun, picture=False)


def _refuse_fewer_rounds(out: Path, seeds: Iterable[int], wanted: int) -> None:
    """Seeds that are further already are noticed before anything is written."""
    for seed in seeds:
        for records in sorted((out / SEEDS / str(seed)).rglob(folders.METRICS)):
            last = len(whole_lines(records)) - 1
            if last > wanted:
                raise CheckpointError(
                    f"{records.parent} is at round {last} already; run.rounds must be at least that, not {wanted}"
                )


def _tell_others(out: Path, seeds: Iterable[int]) -> None:
    """Seeds of an earlier, longer run stay on disk, and are not counted."""
    kept = sorted(p.name for p in (out / SEEDS).iterdir() if p.name not in {str(seed) for seed in seeds})
    if kept:
        _log.warning("%s: seeds %s are kept there and not counted; run.seeds is smaller now", out, ", ".join(kept))


def _numbers(first: int, seeds: int) -> range:
    return range(first, first + seeds)


def curve_of(run: Run, figure: str) -> Float[np.ndarray, "R"]:
    history = run.history
    if figure not in history:
        raise ConfigError(f"a run's history has no {figure!r}; it has {', '.join(history.columns)}")
    curve = history[figure].to_numpy(float)
    partial = history["partial"].fillna(False).to_numpy(bool)
    return np.where(partial, np.nan, curve) if figure == "accuracy" else curve


def _mean(values: Float[np.ndarray, "R"]) -> float:
    """Of what is known; NaN where nothing is."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
