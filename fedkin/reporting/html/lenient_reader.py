"""Reads as much as possible of unfinished or damaged run folders.

Remarks are sentences for the report about parts that cannot be read. A function with an argument
``remarks`` appends its remarks to this list.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.config import registry
from fedkin.config.description import Description
from fedkin.core.errors import CheckpointError, FedkinError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.records import Record
from fedkin.core.storage import complete_lines
from fedkin.measures.run_scores import scores_in
from fedkin.run.folder import checkpoint, integrity, run_folder
from fedkin.run.folder.client_table import from_parquet
from fedkin.run.folder.migrations import Migrations, migrants, replay
from fedkin.run.metrics.final import final_entries
from fedkin.run.run import Run

_DRAWN = ("bytes_down", "bytes_up")  # and the scores
_UNKNOWN: dict[str, dict[str, Any]] = {
    "method": {"name": "?"},
    "data": {"name": "?"},
    "model": {"name": "?"},
    "run": {"seed": 0},
}


def read_run(path: Path) -> tuple[Run | None, list[str]]:
    """Read a run folder as far as possible. Returns the run (None if no round can be shown) and
    remarks about missing parts."""
    remarks: list[str] = []
    config = read_config(path, remarks)
    records = _intact_records(path, remarks)
    if not records:
        return None, [f"{path} has no round that can be shown.", *remarks]
    registry.define_states(config.method_name)
    last = records[-1]["round"]
    migrations = [
        migration for migration in _read_migrations(path, remarks) if migration["round"] <= last
    ]
    newest = _checkpoint(path)
    remarks += _changed(path, newest[0]) if newest else ()
    clusters = newest[0].state.clusters if newest else 0
    if migrations and not replayed(migrations, _count(migrations, newest), records, clusters):
        remarks.append(
            f"{path / run_folder.MIGRATIONS} does not match the run, and is left out; it may name "
            "a cluster that the run does not have."
        )
        migrations = []
    summary = _summary(path, remarks) if newest and newest[0].round == last else {}
    finished = summary.get("rounds") == last
    if not finished:
        remarks.append(_unfinished(path, last, config.rounds))
    if newest and finished:
        state = newest[0].state
    else:
        state = _last_known_state(migrations, newest, records)
    against = _runs_against(path, remarks)
    run = Run(
        config=config,
        records=records,
        state=state,
        client_columns=_client_columns(path, remarks if finished else []),
        seconds=_seconds(path),
        against=against,
        folder=path,
        fingerprint=newest[1] if newest else "",
        migrations=migrations,
    )
    if newest and finished:
        run = dataclasses.replace(
            run, best=newest[0].best, final=final_entries(summary, config.measures)
        )
    return run, remarks


def _unfinished(path: Path, last: int, rounds: int | None) -> str:
    """A remark about a run without results: how far it is shown."""
    if last == rounds:
        return (
            f"{path} has all {rounds} rounds, but its final results are missing; resume the run to "
            "complete it."
        )
    of = f" of {rounds}" if rounds else ""
    return f"{path} is incomplete; it is shown up to round {last}{of}."


def _runs_against(path: Path, remarks: list[str]) -> dict[str, Run]:
    """The runs of the other methods with which a run is compared, by method. They are read from
    subfolders of the run's folder."""
    against = {}
    for inner in sorted((path / run_folder.AGAINST).glob("*")):
        if not run_folder.holds_run(inner):
            continue
        run, notes = read_run(inner)
        remarks += notes
        if run:
            against[run.config.method_name] = run
    return against


def is_finished(run: Run) -> bool:
    """Whether a run has all its rounds or stopped early.

    If rounds were evaluated on validation samples, the run must also have test results.
    """
    rounds = run.config.rounds
    final = run.final
    ended = rounds in (None, run.records[-1]["round"]) or bool(final.get("stopped"))
    named = scores_in(run.records[-1]).final.name
    return ended and (run.scored_split == "test" or named in final)


def has_summary(run: Run) -> bool:
    """Whether a run is finished and intact, so that its summary is valid."""
    return is_finished(run) and is_intact(run)


def is_intact(run: Run) -> bool:
    """Whether a run has the records of all rounds, with plausible values."""
    for round, record in enumerate(run.records):
        if not isinstance(record, dict) or record.get("round") != round or not plausible(record):
            return False
    try:
        run.summary()
    except (KeyError, TypeError, ValueError, IndexError):
        return False
    return True


def replayed(
    migrations: Sequence[Migrations], clients: int, records: Sequence[Record], clusters: int
) -> list[Int[np.ndarray, "N"]]:
    """The assignment (cluster of each client) after each round, from the recorded changes. Empty if
    these do not match the run.

    Args:
        migrations: the recorded changes of clusters, round by round.
        clients: number of clients.
        records: the records of the run's rounds.
        clusters: final number of clusters; 0 if unknown.
    """
    try:
        rows = list(replay(migrations, clients, records[-1]["round"]))
    except (KeyError, TypeError, ValueError, IndexError):
        return []
    # The largest number of clusters that is known; 0 if none is.
    most = max([clusters, *(len(one.get("cluster_sizes") or []) for one in records)])
    fits = all(
        row.min(initial=0) >= UNASSIGNED and (not most or row.max(initial=UNASSIGNED) < most)
        for row in rows
    )
    return rows if fits else []


def read_config(path: Path, remarks: list[str]) -> Description:
    """Read the description of a run, with placeholders for missing entries."""
    config = Description({})
    try:
        config = run_folder.read_config(path)
    except CheckpointError as error:
        remarks.append(f"{error}.")
    filled: dict[str, dict[str, Any]] = {}
    for name, blank in _UNKNOWN.items():
        section = config.section(name)
        filled[name] = {**blank, **(section if isinstance(section, dict) else {})}
    for name in ("method", "data", "model"):
        filled[name]["name"] = str(filled[name]["name"])
    if not isinstance(filled["run"]["seed"], int):
        filled["run"]["seed"] = 0
    return config.with_sections(filled)


def _intact_records(path: Path, remarks: list[str]) -> list[Record]:
    """The records of rounds 0, 1, ... up to the first damaged or missing record."""
    records: list[Record] = []
    for line in complete_lines(path / run_folder.METRICS):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if (
            not isinstance(record, dict)
            or record.get("round") != len(records)
            or not plausible(record)
        ):
            remarks.append(
                f"{path / run_folder.METRICS} is damaged in line {len(records) + 1}; the following "
                "rounds are left out."
            )
            break
        records.append(record)
    return records


def plausible(record: Record) -> bool:
    """Whether the values of a record that the report shows have the right types."""
    try:
        names = scores_in(record).of_round and scores_in(record).names
    except KeyError:
        return False
    numbers = all(_number(record.get(name)) for name in (names.score, names.worst, *_DRAWN))
    lists: list[Any] = [record.get(name) or [] for name in (names.by_cluster, "cluster_sizes")]
    inner = all(isinstance(each, list) and all(map(_number, each)) for each in lists)
    operations = record.get("bytes_by_operation", {})
    if not (numbers and inner and isinstance(operations, dict)):
        return False
    return all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(n, int) for n in pair)
        for pair in operations.values()
    )


def _number(value: object) -> bool:
    """Whether a value is either a finite number or None, which means that the value is missing."""
    return value is None or (isinstance(value, (int, float)) and math.isfinite(value))


def _summary(path: Path, remarks: list[str]) -> dict[str, Any]:
    """Read the summary of a finished run. Empty if it is missing or unreadable."""
    file = path / run_folder.SUMMARY
    try:
        summary = json.loads(file.read_text())
        if (
            isinstance(summary, dict)
            and "rounds" in summary
            and all(_number(summary.get(one.name)) for one in scores_in(summary).means)
        ):
            return summary
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError):
        pass
    remarks.append(f"{file} is damaged; the run counts as unfinished.")
    return {}


def _read_migrations(path: Path, remarks: list[str]) -> list[Migrations]:
    """The recorded changes of clusters, up to the first damaged line."""
    migrations: list[Migrations] = []
    for number, line in enumerate(complete_lines(path / run_folder.MIGRATIONS), 1):
        try:
            migration = json.loads(line)
            if migrants(migration)[0].min(initial=0) < 0 or int(migration["round"]) < 0:
                raise ValueError
        except (ValueError, KeyError, TypeError, OverflowError):
            remarks.append(
                f"{path / run_folder.MIGRATIONS} is damaged in line {number}; later migrations are "
                "not shown."
            )
            break
        migrations.append(migration)
    return migrations


def _checkpoint(path: Path) -> tuple[checkpoint.Checkpoint, str] | None:
    """The newest checkpoint, as ``checkpoint.newest`` returns it; None if it cannot be read."""
    try:
        return checkpoint.newest(path / run_folder.CHECKPOINTS)
    except FedkinError:
        return None


def _changed(path: Path, newest: checkpoint.Checkpoint) -> list[str]:
    """A remark for each file that has changed since the run wrote it."""
    try:
        changed = integrity.changed_files(path, newest)
    except FedkinError as error:
        return [f"{error}."]
    return [
        f"{path / name} has changed since the run wrote it, so the report may be wrong."
        for name in changed
    ]


def _last_known_state(
    migrations: Sequence[Migrations],
    newest: tuple[checkpoint.Checkpoint, str] | None,
    records: list[Record],
) -> State:
    """A method's state for a run whose state cannot be read: it has the last known assignment, and
    models without parameters."""
    clients = _count(migrations, newest)
    last = newest[0].state.assignment if newest else np.full(clients, -1)
    if migrations:
        *_, last = replay(migrations, clients, records[-1]["round"])
    return State(np.zeros((int(last.max(initial=-1)) + 1, 0), np.float32), last)


def _count(
    migrations: Sequence[Migrations], newest: tuple[checkpoint.Checkpoint, str] | None
) -> int:
    """The smallest number of clients that fits the files of an unfinished or damaged run."""
    highest = max((int(migrants(one)[0].max(initial=-1)) + 1 for one in migrations), default=0)
    return max(highest, len(newest[0].state.assignment) if newest else 0)


def _client_columns(path: Path, remarks: list[str]) -> dict[str, np.ndarray]:
    """The run's table of clients (results of each client); empty if it cannot be read."""
    try:
        return from_parquet((path / run_folder.CLIENTS).read_bytes())
    except Exception as error:  # readers of damaged files may raise any exception
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        remarks.append(f"{path / run_folder.CLIENTS} cannot be read ({reason}).")
        return {}


def _seconds(path: Path) -> float:
    """The seconds that the run has taken so far, from the last valid line of its times; 0 if there
    is no such line."""
    for line in reversed(complete_lines(path / run_folder.TIMINGS)):
        try:
            return float(json.loads(line)["total"])
        except (ValueError, KeyError, TypeError):
            continue
    return 0.0
