"""What a report is about: runs, seeds or a comparison, finished or not, as far as they can be read."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int

from fedkin.errors import CheckpointError, ConfigError, FedkinError
from fedkin.experiment import checkpoint, choices, folder
from fedkin.experiment.figure import title
from fedkin.experiment.metrics import Record
from fedkin.experiment.moves import Moves, replay
from fedkin.experiment.repeat import SEEDS, Repeated
from fedkin.experiment.results import Run
from fedkin.experiment.storage import whole_lines
from fedkin.method import State

COMPARISON = "comparison.toml"
_SHARES = ("accuracy", "worst_decile", "bytes_down", "bytes_up")
_UNKNOWN: dict[str, dict[str, Any]] = {
    "method": {"name": "?"},
    "data": {"name": "?"},
    "model": {"name": "?"},
    "run": {"seed": 0},
}


@dataclass(frozen=True, eq=False)
class Cell:
    """One run of a report: a method from one seed, in one setting of a comparison (else "")."""

    setting: str
    method: str
    run: Run

    @property
    def seed(self) -> int:
        return int(self.run.config["run"].get("seed", 0))

    @property
    def label(self) -> str:
        """What a reader chooses it by."""
        return ", ".join(part for part in (self.setting, self.method, f"seed {self.seed}") if part)


@dataclass(frozen=True, eq=False)
class Subject:
    """All that a report shows. ``notes`` say what is missing and why; ``comparison`` is there if it is one."""

    kind: str  # run, seeds or comparison
    cells: tuple[Cell, ...]
    notes: list[str] = field(default_factory=list)
    folder: Path | None = None
    comparison: Any = None

    @property
    def settings(self) -> list[str]:
        return list(dict.fromkeys(cell.setting for cell in self.cells))

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(cell.method for cell in self.cells))

    def of(self, setting: str, method: str) -> list[Run]:
        """The runs of one method in one setting, a seed each."""
        return [cell.run for cell in self.cells if (cell.setting, cell.method) == (setting, method)]


def subject_of(what: Any) -> Subject:
    """A report's subject from a run, several seeds or a comparison, or from the folder of one.

    Raises CheckpointError for a folder in which nothing can be shown, ConfigError for something else.
    """
    if isinstance(what, Run):
        return Subject("run", _with_others(what), folder=what.folder)
    if isinstance(what, Repeated):
        return Subject("seeds", tuple(cell for run in what.runs for cell in _with_others(run)))
    if isinstance(what, (str, Path)):
        return _read(Path(what))
    if hasattr(what, "runs") and hasattr(what, "settings"):
        return _of_comparison(what, what.folder)
    raise ConfigError(f"expected a run, several seeds, a comparison or the folder of one, got {type(what).__name__}")


def read_run(path: Path) -> tuple[Run | None, list[str]]:
    """The run in a folder as far as it can be read, and what is to be said of it; None where no round can be shown."""
    remarks: list[str] = []
    config = _config(path, remarks)
    records = _believed(path, remarks)
    if not records:
        return None, [f"{path} has no round that can be shown.", *remarks]
    choices.methods()  # the kinds of state they keep are known from here on
    moves = [one for one in _moves(path, remarks) if one["round"] <= records[-1]["round"]]
    kept = _checkpoint(path)
    finished = (path / folder.SUMMARY).exists() and kept is not None and kept[0].round == records[-1]["round"]
    if not finished:
        wanted = config["run"].get("rounds")
        of = f" of {wanted}" if wanted else ""
        remarks.append(f"{path} is not finished or not whole: shown up to round {records[-1]['round']}{of}.")
    state = kept[0].state if kept and finished else _stand_in(moves, kept, records)
    others = {}
    for inner in sorted((path / folder.AGAINST).glob("*")):
        if folder.holds_run(inner):
            other, told = read_run(inner)
            remarks += told
            others |= {inner.name: other} if other else {}
    found = (state, _clients(path, remarks if finished else []), _seconds(path), others, path, kept[1] if kept else "")
    return Run(config, records, *found, moves=moves), remarks


def assignments(run: Run) -> list[Int[np.ndarray, "N"]]:
    """The assignment after each round; empty where it is not known."""
    if not run.moves:
        return []
    try:
        return list(replay(run.moves, len(run.assignment), run.records[-1]["round"]))
    except (KeyError, TypeError, ValueError, IndexError):
        return []


def _read(path: Path) -> Subject:
    if (path / COMPARISON).exists():
        return _read_comparison(path)
    if not path.is_dir() or not folder.holds_run(path):
        raise CheckpointError(f"{path} holds no run, no seeds and no comparison; expected the folder of one")
    config = _config(path, [])
    if "seeds" in config["run"] or (path / SEEDS).is_dir():
        return _read_seeds(path, config)
    run, notes = read_run(path)
    if run is None:
        raise CheckpointError(" ".join(notes))
    return Subject("run", _with_others(run), notes, path)


def _read_seeds(path: Path, config: dict[str, Any]) -> Subject:
    cells: list[Cell] = []
    notes: list[str] = []
    first, seeds = config["run"].get("seed", 0), config["run"].get("seeds")
    if isinstance(seeds, int) and isinstance(first, int):
        names = [str(seed) for seed in range(first, first + seeds)]
    else:
        names = sorted((p.name for p in (path / SEEDS).glob("*") if p.name.isdigit()), key=int)
    for name in names:
        inner = path / SEEDS / name
        if not folder.holds_run(inner):
            notes.append(f"Seed {name} has not begun.")
            continue
        run, remarks = read_run(inner)
        notes += remarks
        cells += _with_others(run) if run else ()
    if not cells:
        raise CheckpointError(f"{path} has no seed of which anything can be shown; {' '.join(notes)}")
    return Subject("seeds", tuple(cells), notes, path)


def _read_comparison(path: Path) -> Subject:
    from fedkin.experiment.compare.comparison import Comparison

    return _of_comparison(Comparison.load(path), path)


def _of_comparison(comparison: Any, path: Path | None) -> Subject:
    cells = [
        Cell(setting, method, run)
        for setting in comparison.settings
        for method in comparison.methods
        for run in comparison.runs(setting, method)
    ]
    missing = list(comparison.missing)
    told = [", ".join(str(part) for part in (*cell[:2], f"seed {cell[2]}") if part) for cell in missing]
    more = f" and {len(told) - 5} more" if len(told) > 5 else ""
    notes = [f"{len(told)} runs are not finished and are left out: {'; '.join(told[:5])}{more}."] if told else []
    if not cells:
        raise CheckpointError(f"{path or 'the comparison'} has no finished run yet; go on with it, then report")
    return Subject("comparison", tuple(cells), notes, path, comparison)


def _with_others(run: Run) -> tuple[Cell, ...]:
    named = {run.config["method"]["name"]: run, **run.against}
    return tuple(Cell("", title(name), one) for name, one in named.items())


def _config(path: Path, remarks: list[str]) -> dict[str, Any]:
    """The configuration, with blanks for what every run has and this one does not say."""
    config: dict[str, Any] = {}
    try:
        config = folder.read_config(path)
    except CheckpointError as error:
        remarks.append(f"{error}.")
    filled: dict[str, dict[str, Any]] = {}
    for name, blank in _UNKNOWN.items():
        told = config.get(name)
        filled[name] = {**blank, **(told if isinstance(told, dict) else {})}
    for name in ("method", "data", "model"):
        filled[name]["name"] = str(filled[name]["name"])
    if not isinstance(filled["run"]["seed"], int):
        filled["run"]["seed"] = 0
    return {**config, **filled}


def _believed(path: Path, remarks: list[str]) -> list[Record]:
    """The records of the rounds 0, 1, ... up to the first that is damaged or missing."""
    records: list[Record] = []
    for line in whole_lines(path / folder.METRICS):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict) or record.get("round") != len(records) or not _plausible(record):
            remarks.append(f"{path / folder.METRICS} is damaged in line {len(records) + 1}; what follows is left out.")
            break
        records.append(record)
    return records


def _plausible(record: Record) -> bool:
    """Whether what is drawn has the type it ought to have."""
    numbers = all(_number(record.get(name)) for name in _SHARES)
    lists: list[Any] = [record.get(name) or [] for name in ("accuracy_by_cluster", "cluster_sizes")]
    inner = all(isinstance(each, list) and all(map(_number, each)) for each in lists)
    verbs = record.get("bytes_by_verb", {})
    pairs = isinstance(verbs, dict) and all(isinstance(p, list) and len(p) == 2 for p in verbs.values())
    return numbers and inner and pairs and all(isinstance(n, int) for p in verbs.values() for n in p)


def _number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and math.isfinite(value))


def _moves(path: Path, remarks: list[str]) -> list[Moves]:
    moves: list[Moves] = []
    for number, line in enumerate(whole_lines(path / folder.MOVES), 1):
        try:
            one = json.loads(line)
            who, where = (np.asarray(one[name], np.int64) for name in ("clients", "clusters"))
            if who.shape != where.shape or who.ndim != 1 or who.min(initial=0) < 0 or int(one["round"]) < 0:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            remarks.append(f"{path / folder.MOVES} is damaged in line {number}; who moved after that is not shown.")
            break
        moves.append(one)
    return moves


def _checkpoint(path: Path) -> tuple[checkpoint.Checkpoint, str] | None:
    try:
        return checkpoint.newest(path / folder.CHECKPOINTS)
    except FedkinError:
        return None


def _stand_in(moves: Sequence[Moves], kept: tuple[checkpoint.Checkpoint, str] | None, records: list[Record]) -> State:
    """The last assignment that is known, with models of no parameters."""
    clients = max((max(one["clients"], default=-1) + 1 for one in moves), default=0)
    clients = max(clients, len(kept[0].state.assignment) if kept else 0)
    last = kept[0].state.assignment if kept else np.full(clients, -1)
    if moves:
        *_, last = replay(moves, clients, records[-1]["round"])
    return State(np.zeros((int(last.max(initial=-1)) + 1, 0), np.float32), last)


def _clients(path: Path, remarks: list[str]) -> pd.DataFrame:
    try:
        return pd.read_parquet(path / folder.CLIENTS)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        remarks.append(f"{path / folder.CLIENTS} cannot be read ({reason}).")
        return pd.DataFrame()


def _seconds(path: Path) -> float:
    for line in reversed(whole_lines(path / folder.TIMINGS)):
        try:
            return float(json.loads(line)["total"])
        except (ValueError, KeyError, TypeError):
            continue
    return 0.0
