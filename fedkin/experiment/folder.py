"""A run folder: everything of a run that outlives its process.

config.toml           what was run, every value spelled out
environment.json      versions, platform and devices it ran on
metrics.jsonl         one line per round: what was measured (the same bytes for the same run, anywhere)
timings.jsonl         one line per round: seconds (never the same twice, hence apart)
checkpoints/          the newest two states
clients.parquet       one row per client, after the last round
summary.json          the figures of the closing table
figure.png, .svg
against/NAME/         the same for every method that was run beside this one
"""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from fedkin.errors import CheckpointError, StorageError
from fedkin.experiment import checkpoint
from fedkin.experiment.checkpoint import Checkpoint
from fedkin.experiment.identity import difference, environment, essence, fingerprint
from fedkin.experiment.metrics import Record
from fedkin.experiment.storage import append_line, storing, whole_lines, write_atomic
from fedkin.world import World

CONFIG, METRICS, TIMINGS = "config.toml", "metrics.jsonl", "timings.jsonl"
ENVIRONMENT, CHECKPOINTS = "environment.json", "checkpoints"


class Folder:
    """One run's folder, open for writing."""

    def __init__(self, path: Path, description: dict[str, Any], data: str, made: list[Path] | None = None) -> None:
        self.path = path
        self.description = description
        self.fingerprint = fingerprint(description, data)
        self._made = made or []

    @classmethod
    def create(cls, path: Path, description: dict[str, Any], data: str = "") -> Folder:
        """Start a folder for a run described by ``description`` on data with the digest ``data``.

        Raises StorageError for a folder that holds a run already, or that cannot be written; then nothing is left.
        """
        if holds_run(path):
            raise StorageError(f"{path} already holds a run; go on with it (--resume {path}) or choose another folder")
        made = _make(path)
        try:
            write_atomic(path / ENVIRONMENT, json.dumps(environment(), indent=2) + "\n")
            write_atomic(path / CONFIG, tomli_w.dumps(description))  # last: what has it is a run
        except StorageError:
            discard(path, made)
            raise
        return cls(path, description, data, made)

    @classmethod
    def reopen(cls, path: Path, description: dict[str, Any], data: str = "") -> Folder:
        """Go on with a run that is in the folder; nothing is changed in it yet.

        Raises CheckpointError where it is another run.
        """
        stored = read_config(path)
        if essence(stored) != essence(description):
            raise CheckpointError(
                f"{path} holds a run with another configuration ({difference(stored, description)}); resume it with "
                "its own, or start anew in another folder"
            )
        return cls(path, description, data)

    def restore(self, world: World) -> tuple[Checkpoint, list[Record]] | None:
        """The newest checkpoint and the records up to it; what was written after it is cut off.

        Raises CheckpointError where checkpoint or records are damaged, or where the run is past its last round.
        """
        found = checkpoint.load(self.path / CHECKPOINTS, self.fingerprint, world.total_clients, world.spec.parameters)
        last, wanted = found.round if found else -1, self.description["run"]["rounds"]
        if last > wanted:
            raise CheckpointError(f"{self.path} is at round {last} already, and run.rounds asks for {wanted}")
        records = _up_to(self.path / METRICS, last)
        if [record["round"] for record in records] != list(range(last + 1)):
            raise CheckpointError(
                f"{self.path / METRICS} should hold rounds 0 to {last} and does not; start the run anew"
            )
        write_atomic(self.path / CONFIG, tomli_w.dumps(self.description))  # rounds may have been added
        for name, kept in ((METRICS, records), (TIMINGS, _up_to(self.path / TIMINGS, last))):
            write_atomic(self.path / name, "".join(f"{_line(record)}\n" for record in kept))
        if found is None:
            return None
        world.ledger.down, world.ledger.up = dict(found.down), dict(found.up)
        return found, records

    def append(self, record: Record, timing: Record) -> None:
        """Add a round's record and timing."""
        append_line(self.path / METRICS, _line(record))
        append_line(self.path / TIMINGS, _line(timing))

    def keep(self, state: Checkpoint) -> None:
        """Write a checkpoint; the records it stands on reach the disk first."""
        with storing(self.path / METRICS), (self.path / METRICS).open("rb") as file:
            os.fsync(file.fileno())
        checkpoint.save(self.path / CHECKPOINTS, state, self.fingerprint)

    def abandon(self) -> None:
        """Take the folder back if no checkpoint was written: there is nothing in it to go on from."""
        if not checkpoint.any_in(self.path / CHECKPOINTS):
            discard(self.path, self._made)


def holds_run(path: Path) -> bool:
    """Whether a folder has a run in it."""
    return any((path / name).exists() for name in (CONFIG, METRICS, CHECKPOINTS))


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of the run in a folder.

    Raises CheckpointError where there is none.
    """
    try:
        return tomllib.loads((path / CONFIG).read_text())
    except FileNotFoundError:
        raise CheckpointError(f"{path} holds no run: there is no {CONFIG} in it") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path / CONFIG} cannot be read: {error}") from error


def read_records(path: Path) -> list[Record]:
    """All records of a run folder.

    Raises CheckpointError for a damaged line.
    """
    try:
        return [json.loads(line) for line in whole_lines(path / METRICS)]
    except ValueError as error:
        raise CheckpointError(f"{path / METRICS} is damaged: {error}") from error


def discard(path: Path, made: list[Path]) -> None:
    """Take back a folder that was begun in vain: only files this module wrote, only folders it made."""
    for name in (CONFIG, METRICS, TIMINGS, ENVIRONMENT):
        (path / name).unlink(missing_ok=True)
    for folder in [path / CHECKPOINTS, *made]:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _make(path: Path) -> list[Path]:
    """Make a folder and its parents; returns those that were not there, innermost first."""
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    with storing(path):
        path.mkdir(parents=True, exist_ok=True)
    return new


def _up_to(path: Path, last: int) -> list[Record]:
    """The records of the rounds up to ``last``; from a damaged line on, nothing is believed."""
    records = []
    for line in whole_lines(path):
        try:
            record = json.loads(line)
            if record["round"] > last:
                break
        except (ValueError, KeyError, TypeError):
            break
        records.append(record)
    return records


def _line(record: Record) -> str:
    return json.dumps(record, separators=(",", ":"), allow_nan=False)
