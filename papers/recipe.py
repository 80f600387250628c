"""Recipes: a cell of a published table, the settings behind it, and the figures of its runs."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedkin.config.plan import Cohort, Scoring, Selection
from fedkin.core.errors import CheckpointError
from fedkin.core.method import Method
from fedkin.core.training import SGD, LocalTraining
from fedkin.data import DATASETS
from fedkin.data import load as own_file
from fedkin.data.download import Source, fetch
from fedkin.data.federated import FederatedData
from fedkin.models import MODELS
from fedkin.run.run import Run
from fedkin.run.simulate import simulate
from fedkin.scenarios.shift import Shift
from papers.fedsim import authors_draw
from papers.femnist_candidates import CANDIDATES
from papers.setting_digest import digest

LONG = 120  # seconds from which on a run keeps checkpoints, so that it can be resumed
CHECKPOINTS = 30  # of a long run
# The folder of the long runs that have not ended yet; None: they cannot be resumed.
_unfinished: ContextVar[Path | None] = ContextVar("unfinished", default=None)

# Data sets of recipes, by name. Fed-MEx is its test part, unless a recipe names another.
PAPER_DATA = {
    **DATASETS,
    **CANDIDATES,
    "fedsim_quarter": authors_draw.quarter,
    "mex": partial(DATASETS["mex"], part="test"),
}

Options = tuple[tuple[str, Any], ...]  # name = value pairs, hashable


@dataclass(frozen=True)
class Setting:
    """A row of a table: one federated data set, one model, one way to train."""

    row: str
    data: str
    data_options: Options
    model: str
    model_options: Options
    lr: float
    clusters: int
    epochs: int = 20
    rounds: int = 200
    cohort: int = 20
    seeds: tuple[int, ...] = (0, 1, 2)
    shift: Shift | None = None
    # Seeds of the data, in turn: seed s has draws[s mod D]; empty: its own.
    draws: tuple[int, ...] = (0,)
    work: LocalTraining | None = None  # None: plain SGD, batches of 10, with lr and epochs above
    seconds: float | int = 15  # of a run on two cores, an estimate, used until one is stored
    deviation: str = ""  # why a run of this setting is not the paper's: fewer rounds, other data
    needs: str = ""  # files without which the row cannot be run; they may not be redistributed

    def draw(self, seed: int) -> int:
        """The seed of the data of a run."""
        return self.draws[seed % len(self.draws)] if self.draws else seed

    @property
    def training(self) -> LocalTraining:
        """The local training of a client."""
        return self.work or SGD(epochs=self.epochs, batch_size=10, lr=self.lr)


@dataclass(frozen=True)
class Cell:
    """One cell: a method at a setting, and the number in the paper (percent; None where it prints
    none)."""

    table: str
    setting: Setting
    column: str
    method: Callable[[int], Method]  # number of clusters -> method
    published: float | None
    selection: Selection = "uniform"
    # The column that this one is a variant of: the authors' code, or a guess at it.
    variant_of: str = ""
    # Raised where the code behind the cell was corrected, so that older runs are not shown.
    revision: int = 0

    def description(self, seed: int) -> dict[str, Any]:
        """The settings that determine a run from a seed."""
        s = self.setting
        return {
            "data": s.data,
            "data_options": dict(s.data_options),
            "draw": s.draw(seed),
            "model": s.model,
            "model_options": dict(s.model_options),
            "method": self.method(s.clusters),
            "clusters": s.clusters,
            "training": s.training,
            "rounds": s.rounds,
            "cohort": s.cohort,
            "shift": s.shift,
            "selection": self.selection,
            "revision": self.revision,
        }


@lru_cache(maxsize=2)
def load(name: str, options: Options, seed: int = 0) -> FederatedData:
    """A data set, drawn from one seed as the papers drew one file for all runs.

    Args:
        name: a name in ``PAPER_DATA``, or ``published``: a file of the paper's authors.
        options: of the data set.
        seed: from which it is drawn.
    """
    if name == "published":
        return published(**dict(options))
    return PAPER_DATA[name](seed=seed, **dict(options))


def published(folder: str, file: str) -> FederatedData:
    """A federation as its authors published it, from a folder of FEDKIN_DATA."""
    help = (
        "The authors' file as npz: see help(fedkin.data.load); set FEDKIN_DATA to the folder that "
        f"has {folder}/ in it"
    )
    return own_file(fetch(Source(file, {file: None}, folders=(folder,), help=help)) / file)


def measure(cell: Cell, seed: int) -> dict[str, Any]:
    """Run a cell from one seed, and return the figures that the pages show."""
    return {
        "table": cell.table,
        "row": cell.setting.row,
        "column": cell.column,
        "seed": seed,
        **figures(run(cell, seed)),
    }


@contextmanager
def resumable_in(folder: Path | None) -> Iterator[None]:
    """Long runs made in this context keep checkpoints in a folder, and continue from them.

    Args:
        folder: of all unfinished runs; None: a run that is interrupted is lost.
    """
    before = _unfinished.set(folder)
    try:
        yield
    finally:
        _unfinished.reset(before)


def run(cell: Cell, seed: int, global_model: bool = False) -> Run:
    """Run a cell from one seed, or continue its unfinished run (see ``resumable_in``).

    Args:
        cell: the cell to run.
        seed: of the run.
        global_model: whether to score the mean of the cluster models, too.
    """
    parent = _unfinished.get()
    if parent is None or cell.setting.seconds < LONG:
        return _simulate(cell, seed, global_model, folder=None)
    folder = parent / folder_name(cell, seed, global_model)
    try:
        completed = _simulate(cell, seed, global_model, folder)
    except CheckpointError as error:
        print(f"{folder}: cannot be continued, starts again: {error}", file=sys.stderr, flush=True)
        shutil.rmtree(folder)
        completed = _simulate(cell, seed, global_model, folder)
    shutil.rmtree(folder)
    return completed


def folder_name(cell: Cell, seed: int, global_model: bool = False) -> str:
    """The name of the folder of an unfinished run: row, column and seed in plain letters, and the
    digest of its setting, so that no run continues one of another setting."""
    name = re.sub(r"[^a-z0-9]+", "-", f"{cell.setting.row} {cell.column}".lower()).strip("-")
    setting = digest({**cell.description(seed), "global_model": global_model})
    return f"{cell.table.lower().replace(' ', '')}-{name}-seed{seed}-{setting}"


def _simulate(cell: Cell, seed: int, global_model: bool, folder: Path | None) -> Run:
    s = cell.setting
    data = load(s.data, s.data_options, s.draw(seed))
    every = s.rounds if folder is None else max(1, s.rounds // CHECKPOINTS)
    return simulate(
        cell.method(s.clusters),
        data,
        MODELS[s.model](data, **dict(s.model_options)),
        rounds=s.rounds,
        cohort=Cohort(s.cohort, selection=cell.selection),
        local=s.training,
        seed=seed,
        shift=s.shift,
        scoring=Scoring(checkpoint_every=every, global_model=global_model),
        out=folder,
        resume=folder is not None and folder.is_dir(),
    )


def figures(run: Run) -> dict[str, Any]:
    """Best, final and median accuracy over the complete rounds of 1..T, and the accuracy at a
    hundred of them; the discrepancy over rounds, rounds to 85%, migrations, and the cost."""
    history = run.history.loc[1:]
    summary = run.summary()
    accuracy = history["accuracy"][~history["partial"].astype(bool)]
    discrepancy = history["discrepancy_sum"]
    reached = accuracy.index[accuracy >= 0.85]
    clustering = {name: _short(summary[name]) for name in CLUSTERING} | {
        "moves_noticed": _detected_share(history)
    }
    every = max(1, len(history) // 100)
    return {
        "best": _short(accuracy.max()) if len(accuracy) else None,
        "best_round": int(accuracy.idxmax()) if len(accuracy) else None,
        "final": _short(history["accuracy"].iloc[-1]),
        "median": _short(accuracy.median()) if len(accuracy) else None,
        "bottom_decile": _short(history["bottom_decile"].iloc[-1]),
        "discrepancy_mean": _short(discrepancy.mean()),
        "discrepancy_variance": _short(discrepancy.var(ddof=0)),
        "distance_mean": _short(history["discrepancy_mean"].mean()),
        "distance_variance": _short(history["discrepancy_mean"].var(ddof=0)),
        "rounds_to_85": int(reached[0]) if len(reached) else None,
        "sizes": np.bincount(run.assignment[run.assignment >= 0]).tolist(),
        **{name: value for name, value in clustering.items() if value is not None},
        "bytes_down": summary["bytes_down"],
        "bytes_up": summary["bytes_up"],
        "bytes_servers": history["bytes_by_operation"].iloc[-1].get("servers.sharing", [0, 0])[1],
        "seconds": round(run.seconds, 1),
        "curve": [
            _short(a, 4)
            for a in history["accuracy"].where(~history["partial"].astype(bool))[::every]
        ],
    }


CLUSTERING = (
    "ari",
    "migrations",
    "shift_precision",
    "shift_recall",
    "migration_precision",
    "migration_recall",
)


def _detected_share(history: pd.DataFrame) -> float | None:
    """Detected shifts of assigned clients, divided by all their shifts, over the rounds in which
    the test ran."""
    tests, shifts, detected = (
        np.nan_to_num(history[name].to_numpy(float), nan=-1.0)
        for name in ("shifts_detected", "data_shifts_assigned", "shifts_detected_true")
    )
    total = shifts[tests >= 0].clip(0).sum()
    return _short(detected[tests >= 0].clip(0).sum() / total) if total else None


def _short(value: Any, digits: int = 5) -> float | None:
    """A number rounded for the store."""
    return None if value is None or not np.isfinite(value) else round(float(value), digits)
