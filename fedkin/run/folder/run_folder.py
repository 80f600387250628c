"""A run folder holds everything of a run that outlives its process. ``Folder`` writes it.

config.toml           what was run, with every setting
environment.json      versions, platform and devices it ran on
metrics.jsonl         a line for each round: its record (the same bytes for the same run, machine
                      and versions)
migrations.jsonl      a line for each round in which clients got another cluster: their ids and
                      clusters
timings.jsonl         a line for each round: seconds (never the same twice, so in another file)
checkpoints/          the newest two states
privacy.*, release/   the cost of a private run, in all and for each noisy sum; everything of it
                      that may be released
secret.jsonl          a line for the secret sums of each round: how many, of how many clients, which
                      are lost and why
clients.parquet       a row for each client, after the last round
summary.json          the numbers of the closing table
SHA256SUMS            digests of the files of a finished run (``sha256sum --check SHA256SUMS``)
figure.png, .svg      accuracy and cluster sizes over the rounds (written by the command and by
                      ``fk.draw``)
topology, membership  figures of the trust graph, where clients are peers, and of the shares of
                      clusters, where membership is soft
against/NAME/         the same for every method that was compared with this one
"""

from __future__ import annotations

import json
import logging
import os
import re
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from fedkin.config.description import Description
from fedkin.core.errors import CheckpointError, StorageError
from fedkin.core.records import Record
from fedkin.core.storage import (
    append_line,
    complete_lines,
    force_to_disk,
    storage_errors,
    toml_text,
    write_atomic,
)
from fedkin.core.world import World
from fedkin.options import SECTIONS
from fedkin.run.folder import checkpoint, integrity
from fedkin.run.folder.checkpoint import Checkpoint
from fedkin.run.folder.data_path import place_of_data
from fedkin.run.folder.fingerprint import (
    determining_part,
    environment,
    environment_changes,
    first_difference,
)
from fedkin.run.folder.migrations import Migrations
from fedkin.run.folder.record_lines import line_of, lines_of, records_up_to

CONFIG = "config.toml"
METRICS = "metrics.jsonl"
MIGRATIONS = "migrations.jsonl"
TIMINGS = "timings.jsonl"
ENVIRONMENT = "environment.json"
CHECKPOINTS = "checkpoints"
CLIENTS = "clients.parquet"
SUMMARY = "summary.json"
AGAINST = "against"
# Characters of a user's method, module:Class, that folder names omit.
_NO_FOLDER = re.compile(r"[^\w.+-]")
_AT_THE_END = (CLIENTS, SUMMARY, integrity.SUMS)
SUMMED = (CONFIG, ENVIRONMENT, METRICS, MIGRATIONS, TIMINGS, CLIENTS, SUMMARY)
_DRAWN = tuple(
    f"{name}.{kind}" for name in ("figure", "topology", "membership") for kind in ("png", "svg")
)
_OF_OPTIONS = tuple(file for section in SECTIONS.values() for file in section.files)
_OWN = (
    METRICS,
    MIGRATIONS,
    TIMINGS,
    CLIENTS,
    SUMMARY,
    *_OF_OPTIONS,
    integrity.SUMS,
    *_DRAWN,
    AGAINST,
)
_log = logging.getLogger("fedkin")


class Restored(NamedTuple):
    """The contents of a folder that a resumed run needs."""

    checkpoint: Checkpoint
    records: list[Record]
    migrations: list[Migrations]


class Folder:
    """One run's folder, open for writing.

    Args:
        path: the folder.
        description: the run's description.
        fingerprint: the run's fingerprint.
        created: folders that were created for it, innermost first.
        warns: whether to warn if the run resumes in another environment.
    """

    def __init__(
        self,
        path: Path,
        description: Description,
        fingerprint: str,
        created: Sequence[Path] = (),
        warns: bool = True,
    ) -> None:
        self.path = path
        self.description = description
        self.fingerprint = fingerprint
        self._created = created
        self._warns = warns
        self._written_at_end = [path / name for name in _AT_THE_END if not (path / name).exists()]
        self._digests = integrity.GrowingDigests({METRICS: "", MIGRATIONS: ""})

    @classmethod
    def create(cls, path: Path, description: Description, fingerprint: str = "") -> Folder:
        """Create the folder of the run with this description and fingerprint.

        Raises StorageError for a folder that already holds a run, or that cannot be written; then
        nothing is left behind.
        """
        with storage_errors(path):
            taken = holds_run(path)
        if taken:
            raise StorageError(
                f"{path} already holds a run; resume it (--resume, resume=True) or name another "
                "folder"
            )
        refuse_others(path, _OWN)
        created = make_folder(path)
        try:
            write_atomic(
                path / ENVIRONMENT, json.dumps(_environment(description, path), indent=2) + "\n"
            )
            # Last: a folder that has it holds a run.
            write_atomic(path / CONFIG, tomli_w.dumps(description.sections))
        except StorageError:
            discard(path, created)
            raise
        return cls(path, description, fingerprint, created)

    @classmethod
    def reopen(
        cls, path: Path, description: Description, fingerprint: str = "", warns: bool = True
    ) -> Folder:
        """Open the folder of a run to resume; nothing in it is changed yet.

        Raises CheckpointError if it is another run.
        """
        stored = read_config(path)
        if determining_part(stored) != determining_part(description):
            raise CheckpointError(
                f"{path} holds a run with another configuration "
                f"({first_difference(stored, description)}); resume it with its own, or start anew "
                "in another folder"
            )
        return cls(path, description, fingerprint, warns=warns)

    def restore(self, world: World) -> Restored | None:
        """The newest checkpoint, and the records and migrations up to it; later ones are cut off.

        Raises CheckpointError if the checkpoint or records are damaged, or if the run is past its
        last round.
        """
        newest = checkpoint.load(
            self.path / CHECKPOINTS, self.fingerprint, world.total_clients, world.spec.parameters
        )
        # The first is written before any checkpoint.
        if newest is None and len(complete_lines(self.path / METRICS)) > 1:
            raise CheckpointError(
                f"{self.path} has lost its {CHECKPOINTS}: {METRICS} goes on past round 0; start "
                "anew in another folder"
            )
        last = newest.round if newest else -1
        rounds = self.description.rounds
        if rounds is not None and last > rounds:
            raise CheckpointError(
                f"{self.path} is at round {last} already, and run.rounds is {rounds}"
            )
        records = records_up_to(self.path / METRICS, last)
        if [record["round"] for record in records] != list(range(last + 1)):
            raise CheckpointError(
                f"{self.path / METRICS} should hold rounds 0 to {last} and does not; start the run "
                "anew"
            )
        migrations = records_up_to(self.path / MIGRATIONS, last)
        contents = {METRICS: lines_of(records), MIGRATIONS: lines_of(migrations)}
        if newest and (changed := integrity.changed_records(contents, newest.records)):
            raise integrity.refusal(self.path, changed)
        integrity.withdraw_sums(self.path, (CLIENTS, SUMMARY))
        self._renew_environment()
        self.describe()
        for name, content in {
            **contents,
            TIMINGS: lines_of(records_up_to(self.path / TIMINGS, last)),
        }.items():
            write_atomic(self.path / name, content)
        self._digests = integrity.GrowingDigests(contents)
        if newest is None:
            return None
        world.ledger.down = dict(newest.down)
        world.ledger.up = dict(newest.up)
        world.ledger.measured_down = dict(newest.measured_down)
        world.ledger.measured_up = dict(newest.measured_up)
        return Restored(newest, records, migrations)

    def describe(self) -> None:
        """Rewrite the description: rounds or seeds may have been added."""
        write_atomic(self.path / CONFIG, tomli_w.dumps(self.description.sections))

    def append(self, record: Record, timing: Record, migrations: Migrations | None = None) -> None:
        """Append a round's record and timing, and its migrations if there are any. If a finished
        run continues, its results are removed, since they are for fewer rounds."""
        for name in _AT_THE_END:
            (self.path / name).unlink(missing_ok=True)
        self._add(METRICS, record)
        if migrations is not None:
            self._add(MIGRATIONS, migrations)
        append_line(self.path / TIMINGS, line_of(timing))

    def keep(self, state: Checkpoint) -> None:
        """Write a checkpoint; the records that it depends on are synced first."""
        for path in (self.path / METRICS, self.path / MIGRATIONS):
            if path.exists():
                force_to_disk(path)
        checkpoint.save(
            self.path / CHECKPOINTS,
            replace(state, records=self._digests.values()),
            self.fingerprint,
        )

    def _add(self, name: str, record: Record) -> None:
        """Add a line to a record file."""
        append_line(self.path / name, line_of(record))
        self._digests.add(name, line_of(record))

    def abandon(self) -> None:
        """Remove the folder if no checkpoint was written, so that no run can resume from it."""
        if not checkpoint.any_in(self.path / CHECKPOINTS):
            discard(self.path, self._created)

    def withdraw(self) -> None:
        """Remove a folder that this object created, whatever has been written to it."""
        for pattern in ("round-*.safetensors", ".*.part"):
            for file in (self.path / CHECKPOINTS).glob(pattern):
                file.unlink()
        for file in self._written_at_end:
            file.unlink(missing_ok=True)
        discard(self.path, self._created)

    def _renew_environment(self) -> None:
        """Record the present environment, and warn if it differs from the original one."""
        try:
            stored = dict(json.loads((self.path / ENVIRONMENT).read_text()))
        except (OSError, ValueError, TypeError):
            stored = {}  # nothing is known of where it was
        now = _environment(self.description, self.path)
        changes = environment_changes(stored, now)
        if changes and self._warns:
            _log.warning(
                "%s goes on in another environment (%s): results may differ in their last bits",
                self.path,
                changes,
            )
        if stored != now:
            write_atomic(self.path / ENVIRONMENT, json.dumps(now, indent=2) + "\n")


def _environment(description: Description, path: Path) -> dict[str, Any]:
    """The environment of a run, and the location of its data from its folder."""
    return {**environment(description), **place_of_data(description, path)}


def holds_run(path: Path) -> bool:
    """Whether a folder has a run in it."""
    return any((path / name).exists() for name in (CONFIG, METRICS, CHECKPOINTS))


def refuse_others(path: Path, names: Sequence[str]) -> None:
    """Check that a new folder may be written to.

    Args:
        path: the folder, which may not exist.
        names: files that would be written.

    Raises:
        StorageError: one of them exists; or it is the present folder, and not empty.
    """
    if path == Path() and any(path.iterdir()):
        raise StorageError(
            "out is empty, or the present folder, and that is not empty; name a new folder"
        )
    with storage_errors(path):
        others = [name for name in names if (path / name).exists()]
    if others:
        raise StorageError(
            f"{path} has {' and '.join(others)}, which would be overwritten; choose another folder"
        )


def read_config(path: Path) -> Description:
    """The configuration of the run in a folder.

    Raises CheckpointError if there is none, or if it lacks a method or a run.
    """
    try:
        sections = tomllib.loads(toml_text(path / CONFIG))
    except FileNotFoundError:
        raise CheckpointError(f"{path} holds no run: there is no {CONFIG} in it") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path / CONFIG} cannot be read: {error}") from error
    method = sections.get("method")
    has_method = isinstance(method, dict) and isinstance(method.get("name"), str)
    if not has_method or not isinstance(sections.get("run"), dict):
        raise CheckpointError(
            f"{path / CONFIG} is damaged: it has no [run], or no [method] with a name"
        )
    return Description(sections)


def read_records(path: Path, name: str = METRICS) -> list[Record]:
    """All records of a run folder, or the lines of another of its files (``name``).

    Raises CheckpointError for a damaged line.
    """
    try:
        return [json.loads(line) for line in complete_lines(path / name)]
    except ValueError as error:
        raise CheckpointError(f"{path / name} is damaged: {error}") from error


def discard(path: Path, created: Sequence[Path]) -> None:
    """Remove a folder whose run failed to start: only files that this module wrote, and only
    folders in ``created``."""
    for name in (CONFIG, METRICS, MIGRATIONS, TIMINGS, ENVIRONMENT):
        (path / name).unlink(missing_ok=True)
    for folder in [path / CHECKPOINTS, *created]:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def against_folder(path: Path, method: str) -> Path:
    """The folder, inside a run's folder, of a method compared with it."""
    return path / AGAINST / _NO_FOLDER.sub("-", method)


def make_folder(path: Path) -> list[Path]:
    """Create a folder and its parents; returns the created ones, innermost first."""
    with storage_errors(path):
        new = [folder for folder in (path, *path.parents) if not os.path.lexists(folder)]
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError:
            for folder in new:
                with suppress(OSError):  # most were not made, or are not folders
                    folder.rmdir()
            raise
    return new
