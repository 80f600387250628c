"""What can be saved of a run folder that is unfinished or damaged, and what is to be said of the rest."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int

from fedkin.config import registry
from fedkin.core.errors import CheckpointError, FedkinError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.records import Record
from fedkin.core.storage import whole_lines
from fedkin.run import checkpoint, run_folder
from fedkin.run.migrations import Migrations, replay
from fedkin.run.results import Run

_SHARES = ("accuracy", "bottom_decile", "bytes_down", "bytes_up")
_UNKNOWN: dict[str, dict[str, Any]] = {
    "method": {"name": "?"},
    "data": {"name": "?"},
    "model": {"name": "?"},
    "run": {"seed": 0},
}


def read_run(path: Path) -> tuple[Run | None, list[str]]:
    """The run in a folder as far as it can be read, and what is to be said of it; None where no round can be shown."""
    remarks: list[str] = []
    config = read_config(path, remarks)
    records = _believed(path, remarks)
    if not records:
        return None, [f"{path} has no round that can be shown.", *remarks]
    registry.methods()  # the kinds of state they keep are known from here on
    moves = [one for one in _moves(path, remarks) if one["round"] <= records[-1]["round"]]
    kept = _checkpoint(path)
    if moves and not walk(moves, _count(moves, kept), records, kept[0].state.clusters if kept else 0):
        remarks.append(f"{path / run_folder.MOVES} does not fit the run (a cluster it does not have?); it is left out.")
        moves = []
    finished = (path / run_folder.SUMMARY).exists() and kept is not None and kept[0].round == records[-1]["round"]
    if not finished:
        wanted = config["run"].get("rounds")
        of = f" of {wanted}" if wanted else ""
        remarks.append(f"{path} is not finished or not whole: shown up to round {records[-1]['round']}{of}.")
    state = kept[0].state if kept and finished else _stand_in(moves, kept, records)
    others = {}
    for inner in sorted((path / run_folder.AGAINST).glob("*")):
        if run_folder.holds_run(inner):
            other, told = read_run(inner)
            remarks += told
            others |= {inner.name: other} if other else {}
    found = (state, _clients(path, remarks if finished else []), _seconds(path), others, path, kept[1] if kept else "")
    return Run(config, records, *found, migrations=moves), remarks


def sound(run: Run) -> bool:
    """Whether a run's records are all there, and all of them are what they ought to be."""
    told = list(enumerate(run.records))
    if not all(isinstance(one, dict) and one.get("round") == round and plausible(one) for round, one in told):
        return False
    try:
        run.summary()
    except (KeyError, TypeError, ValueError, IndexError):
        return False
    return True


def walk(
    moves: Sequence[Migrations], clients: int, records: Sequence[Record], clusters: int
) -> list[Int[np.ndarray, "N"]]:
    """The assignment after each round; empty where the moves are not those of such a run: of other clients, or into
    clusters that it never had (``clusters`` at its end; 0 where that is not known)."""
    try:
        walked = list(replay(moves, clients, records[-1]["round"]))
    except (KeyError, TypeError, ValueError, IndexError):
        return []
    most = max([clusters, *(len(one.get("cluster_sizes") or []) for one in records)])
    believable = all(
        row.min(initial=0) >= UNASSIGNED and (not most or row.max(initial=UNASSIGNED) < most) for row in walked
    )
    return walked if believable else []


def read_config(path: Path, remarks: list[str]) -> dict[str, Any]:
    """The configuration, with blanks for what every run has and this one does not say."""
    config: dict[str, Any] = {}
    try:
        config = run_folder.read_config(path)
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
    for line in whole_lines(path / run_folder.METRICS):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict) or record.get("round") != len(records) or not plausible(record):
            remarks.append(
                f"{path / run_folder.METRICS} is damaged in line {len(records) + 1}; what follows is left out."
            )
            break
        records.append(record)
    return records


def plausible(record: Record) -> bool:
    """Whether what is drawn has the type it ought to have."""
    numbers = all(_number(record.get(name)) for name in _SHARES)
    lists: list[Any] = [record.get(name) or [] for name in ("accuracy_by_cluster", "cluster_sizes")]
    inner = all(isinstance(each, list) and all(map(_number, each)) for each in lists)
    verbs = record.get("bytes_by_operation", {})
    pairs = isinstance(verbs, dict) and all(isinstance(p, list) and len(p) == 2 for p in verbs.values())
    return numbers and inner and pairs and all(isinstance(n, int) for p in verbs.values() for n in p)


def _number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and math.isfinite(value))


def _moves(path: Path, remarks: list[str]) -> list[Migrations]:
    moves: list[Migrations] = []
    for number, line in enumerate(whole_lines(path / run_folder.MOVES), 1):
        try:
            one = json.loads(line)
            who, where = (np.asarray(one[name], np.int64) for name in ("clients", "clusters"))
            if who.shape != where.shape or who.ndim != 1 or who.min(initial=0) < 0 or int(one["round"]) < 0:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            remarks.append(f"{path / run_folder.MOVES} is damaged in line {number}; who moved after that is not shown.")
            break
        moves.append(one)
    return moves


def _checkpoint(path: Path) -> tuple[checkpoint.Checkpoint, str] | None:
    try:
        return checkpoint.newest(path / run_folder.CHECKPOINTS)
    except FedkinError:
        return None


def _stand_in(
    moves: Sequence[Migrations], kept: tuple[checkpoint.Checkpoint, str] | None, records: list[Record]
) -> State:
    """The last assignment that is known, with models of no parameters."""
    clients = _count(moves, kept)
    last = kept[0].state.assignment if kept else np.full(clients, -1)
    if moves:
        *_, last = replay(moves, clients, records[-1]["round"])
    return State(np.zeros((int(last.max(initial=-1)) + 1, 0), np.float32), last)


def _count(moves: Sequence[Migrations], kept: tuple[checkpoint.Checkpoint, str] | None) -> int:
    """How many clients there are, as far as that is known."""
    named = max((max(one["clients"], default=-1) + 1 for one in moves), default=0)
    return max(named, len(kept[0].state.assignment) if kept else 0)


def _clients(path: Path, remarks: list[str]) -> pd.DataFrame:
    try:
        return pd.read_parquet(path / run_folder.CLIENTS)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        remarks.append(f"{path / run_folder.CLIENTS} cannot be read ({reason}).")
        return pd.DataFrame()


def _seconds(path: Path) -> float:
    for line in reversed(whole_lines(path / run_folder.TIMINGS)):
        try:
            return float(json.loads(line)["total"])
        except (ValueError, KeyError, TypeError):
            continue
    return 0.0
