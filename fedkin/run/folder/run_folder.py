"""The run folder, which holds all stored files of a run. ``Folder`` writes it.

* config.toml: all settings of the run.
* environment.json: versions of libraries, platform and devices.
* transform.json: how the columns of a table were renamed and scaled, if they were.
* labels.json: the statistics of labels that are numbers, if a server has computed them with its
  sites.
* metrics.jsonl: a line for each round, its record. The file's bytes are the same for the same run,
  machine and versions.
* migrations.jsonl: a line for each round in which clients changed cluster, with their ids and new
  clusters.
* timings.jsonl: a line for each round, with seconds. It is a separate file, since seconds always
  differ.
* checkpoints/: the two newest checkpoints; all of them with ``run.keep_checkpoints``.
* privacy.*, release/: the privacy cost of a private run, in total and for each noisy sum; the
  values that may be released.
* secret.jsonl: a line for each round with secure aggregation: numbers of secret sums and clients,
  and the sums that were lost, with reasons.
* clients.parquet: a row for each client, after the last round.
* summary.json: the numbers of the final table.
* forgotten.json: the record of a removal of clients (``fk.forget``).
* SHA256SUMS: digests of the files of a finished run (``sha256sum --check SHA256SUMS``).
* figure.png, .svg: accuracy and cluster sizes over the rounds. ``fk.draw`` or ``fedkin run`` draws
  these figures.
* topology.*, membership.*: figures of the trust graph (for peers), and of clients' shares of
  clusters (for soft membership).
* against/NAME/: the same files for each compared method.
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
from typing import NamedTuple

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
from fedkin.data.table_transform import TableTransform
from fedkin.options import SECTIONS
from fedkin.run.folder import checkpoint, integrity
from fedkin.run.folder.checkpoint import NEWEST, Checkpoint
from fedkin.run.folder.data_path import moved_places
from fedkin.run.folder.environment_file import (
    ENVIRONMENT,
    environment_of,
    read_environment,
    write_environment,
)
from fedkin.run.folder.fingerprint import (
    determining_part,
    environment_changes,
    first_difference,
    refuse_other_backbone,
)
from fedkin.run.folder.kept_label_statistics import LABELS
from fedkin.run.folder.migrations import Migrations
from fedkin.run.folder.record_lines import line_of, lines_of, records_up_to
from fedkin.run.folder.transform_file import TRANSFORM, write_transform

CONFIG = "config.toml"
METRICS = "metrics.jsonl"
MIGRATIONS = "migrations.jsonl"
TIMINGS = "timings.jsonl"
CHECKPOINTS = "checkpoints"
CLIENTS = "clients.parquet"
SUMMARY = "summary.json"
AGAINST = "against"
FORGOTTEN = "forgotten.json"
# Characters that names of folders do not have.
_NO_FOLDER = re.compile(r"[^\w.+-]")
_AT_THE_END = (CLIENTS, SUMMARY, integrity.SUMS)
# Files with a line in SHA256SUMS.
SUMMED = (
    CONFIG,
    ENVIRONMENT,
    TRANSFORM,
    LABELS,
    METRICS,
    MIGRATIONS,
    TIMINGS,
    CLIENTS,
    SUMMARY,
    FORGOTTEN,
)
_DRAWN = tuple(
    f"{name}.{kind}" for name in ("figure", "topology", "membership") for kind in ("png", "svg")
)
_OF_OPTIONS = tuple(file for section in SECTIONS.values() for file in section.files)
# Entries of SUMMED that a new run's folder may have: the description of a run that did not begin,
# which is replaced, and the statistics of labels, which a server keeps before its run begins.
_ALLOWED = (CONFIG, ENVIRONMENT, LABELS)
# Files that a run may write. A new run's folder must have none of them.
_OWN = (
    *(name for name in SUMMED if name not in _ALLOWED),
    *_OF_OPTIONS,
    integrity.SUMS,
    *_DRAWN,
    AGAINST,
)
_log = logging.getLogger("fedkin")


class Restored(NamedTuple):
    """The stored data from which a run resumes: checkpoint, records and migrations."""

    checkpoint: Checkpoint
    records: list[Record]
    migrations: list[Migrations]


class Folder:
    """Writes the folder of one run.

    Args:
        path: the folder.
        description: the run's description.
        fingerprint: the run's fingerprint.
        created: folders that were created for this run, innermost first.
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
        # Files that did not exist before, which ``withdraw`` may therefore remove.
        self._removable = [path / name for name in _AT_THE_END if not (path / name).exists()]
        self._digests = integrity.GrowingDigests({METRICS: "", MIGRATIONS: ""})

    @classmethod
    def create(
        cls,
        path: Path,
        description: Description,
        fingerprint: str = "",
        transform: TableTransform | None = None,
    ) -> Folder:
        """Create the folder of a new run with this description and fingerprint. ``transform`` says
        how the columns of a table were renamed and scaled, if they were.

        Raises StorageError if the folder already holds a run or cannot be written. No files are
        left behind then.
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
            write_environment(path, environment_of(description, path))
            if transform is not None:
                write_transform(path, transform)
            # This file is written last, because a folder with this file counts as a run.
            write_atomic(path / CONFIG, tomli_w.dumps(description.sections))
        except StorageError:
            discard(path, created)
            raise
        return cls(path, description, fingerprint, created)

    @classmethod
    def reopen(
        cls, path: Path, description: Description, fingerprint: str = "", warns: bool = True
    ) -> Folder:
        """Open the folder of a run that is to be resumed, without changing it yet.

        Raises CheckpointError if the folder holds another run.
        """
        stored = read_config(path)
        refuse_other_backbone(path, stored, description)
        if determining_part(stored) != determining_part(description):
            raise CheckpointError(
                f"{path} holds a run with another configuration "
                f"({first_difference(stored, description)}); resume it with its own configuration, "
                "or start again in another folder"
            )
        return cls(path, description, fingerprint, warns=warns)

    def copy_origin(self, original: Path) -> None:
        """Copy the files that only the run itself could write: the environment in which it ran, how
        the columns of its table were scaled, and the statistics of its labels.

        Args:
            original: another folder with the same run.
        """
        stored = read_environment(original)
        places = moved_places(stored, original, self.path)
        write_environment(self.path, {**stored, **places})
        for name in (TRANSFORM, LABELS):
            if (original / name).exists():
                write_atomic(self.path / name, (original / name).read_bytes())
                self._removable.append(self.path / name)

    def restore(self, world: World) -> Restored | None:
        """Load the newest checkpoint, with the records and migrations up to its round. Lines of
        later rounds are removed from the files. None if the run has no checkpoint yet.

        Raises CheckpointError if the checkpoint or records are damaged, or if the run already has
        more rounds than configured.
        """
        newest = checkpoint.load(
            self.path / CHECKPOINTS, self.fingerprint, world.total_clients, world.spec.parameters
        )
        # The record of round 0 is written before any checkpoint, so one line is no sign of loss.
        if newest is None and len(complete_lines(self.path / METRICS)) > 1:
            raise CheckpointError(
                f"{self.path}: {METRICS} has rounds after round 0, but there are no {CHECKPOINTS} "
                "to resume from; start again in another folder"
            )
        last = newest.round if newest else -1
        rounds = self.description.rounds
        if rounds is not None and last > rounds:
            raise CheckpointError(
                f"{self.path} is already at round {last}, but run.rounds is {rounds}; increase "
                "run.rounds"
            )
        records = records_up_to(self.path / METRICS, last)
        if [record["round"] for record in records] != list(range(last + 1)):
            raise CheckpointError(
                f"{self.path / METRICS} does not hold all rounds from 0 to {last}; start the run "
                "again"
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
        # The resumed run continues to count from the bytes sent so far.
        world.ledger.down = dict(newest.down)
        world.ledger.up = dict(newest.up)
        world.ledger.measured_down = dict(newest.measured_down)
        world.ledger.measured_up = dict(newest.measured_up)
        return Restored(newest, records, migrations)

    def describe(self) -> None:
        """Rewrite config.toml, since rounds or seeds may have been added."""
        write_atomic(self.path / CONFIG, tomli_w.dumps(self.description.sections))

    def append(self, record: Record, timing: Record, migrations: Migrations | None = None) -> None:
        """Append a round's record and timing, and its migrations if there are any. If a finished
        run continues, its final results are removed, since they cover fewer rounds."""
        for name in _AT_THE_END:
            (self.path / name).unlink(missing_ok=True)
        self._add(METRICS, record)
        if migrations is not None:
            self._add(MIGRATIONS, migrations)
        append_line(self.path / TIMINGS, line_of(timing))

    def keep(self, state: Checkpoint) -> None:
        """Write a checkpoint. The record files are synced to the disk first, so that after a crash
        they have all rounds up to the checkpoint."""
        for path in (self.path / METRICS, self.path / MIGRATIONS):
            if path.exists():
                force_to_disk(path)
        checkpoint.save(
            self.path / CHECKPOINTS,
            replace(state, records=self._digests.values()),
            self.fingerprint,
            keep=None if self.description.run.get("keep_checkpoints") else NEWEST,
        )

    def _add(self, name: str, record: Record) -> None:
        """Append a record to the record file ``name`` of the run folder, and update the file's
        digest."""
        append_line(self.path / name, line_of(record))
        self._digests.add(name, line_of(record))

    def abandon(self) -> None:
        """Remove the folder if it has no checkpoint, since no run can resume from it."""
        if not checkpoint.any_in(self.path / CHECKPOINTS):
            discard(self.path, self._created)

    def withdraw(self) -> None:
        """Remove the files that this object has written, and the folders that it created."""
        # The second pattern: files whose atomic writing was interrupted.
        for pattern in ("round-*.safetensors", ".*.part"):
            for file in (self.path / CHECKPOINTS).glob(pattern):
                file.unlink()
        for file in self._removable:
            file.unlink(missing_ok=True)
        discard(self.path, self._created)

    def _renew_environment(self) -> None:
        """Store the environment (e.g. versions of libraries) in which a run resumes, and log a
        warning if it differs from the stored one."""
        stored = read_environment(self.path)
        now = environment_of(self.description, self.path)
        changes = environment_changes(stored, now)
        if changes and self._warns:
            _log.warning(
                "%s continues in another environment (%s), so results may differ in their last "
                "bits",
                self.path,
                changes,
            )
        if stored != now:
            write_environment(self.path, now)


def holds_run(path: Path) -> bool:
    """Whether a folder holds a run, finished or not."""
    return any((path / name).exists() for name in (CONFIG, METRICS, CHECKPOINTS))


def refuse_others(path: Path, names: Sequence[str]) -> None:
    """Check that files may be written to a new folder.

    Args:
        path: the folder, which may not exist.
        names: names of the files that would be written.

    Raises:
        StorageError: one of the files exists, or the path is the current folder and not empty.
    """
    if path == Path() and any(path.iterdir()):
        raise StorageError(
            "out is the current folder (an empty path also means it), and it has files in it; "
            "name a new folder"
        )
    with storage_errors(path):
        others = [name for name in names if (path / name).exists()]
    if others:
        raise StorageError(
            f"{path} has {' and '.join(others)}, which would be overwritten; choose another folder"
        )


def read_config(path: Path) -> Description:
    """Read the description of the run in a folder.

    Raises CheckpointError if there is no readable config.toml, or if it has no method or run.
    """
    try:
        sections = tomllib.loads(toml_text(path / CONFIG))
    except FileNotFoundError:
        hint = ""
        if (path / "card.json").exists():
            hint = "; it has exported models: give the folder of the run that they are from"
        raise CheckpointError(f"{path} holds no run: there is no {CONFIG} in it{hint}") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path / CONFIG} cannot be read: {error}") from error
    method = sections.get("method")
    has_method = isinstance(method, dict) and isinstance(method.get("name"), str)
    if not has_method or not isinstance(sections.get("run"), dict):
        raise CheckpointError(
            f"{path / CONFIG} is damaged: it has no [run], or no [method] with a name"
        )
    return Description(sections)


def main_folder(path: Path | None) -> Path | None:
    """The run's folder, from this folder or from the folder of a compared method in it."""
    if path is None or path.parent.name != AGAINST:
        return path
    return path.parent.parent


def read_records(path: Path, name: str = METRICS) -> list[Record]:
    """Read all records of a run folder, or the lines of its file ``name``.

    Raises CheckpointError for a damaged line.
    """
    try:
        return [json.loads(line) for line in complete_lines(path / name)]
    except ValueError as error:
        raise CheckpointError(f"{path / name} is damaged: {error}") from error


def discard(path: Path, created: Sequence[Path]) -> None:
    """Remove the files of a run that failed to start, and the folders in ``created`` if they are
    empty."""
    for name in (CONFIG, METRICS, MIGRATIONS, TIMINGS, ENVIRONMENT, TRANSFORM):
        (path / name).unlink(missing_ok=True)
    for folder in [path / CHECKPOINTS, *created]:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def against_folder(path: Path, method: str) -> Path:
    """The folder of a compared method inside a run's folder."""
    return path / AGAINST / folder_name(method)


def folder_name(text: str) -> str:
    """A text, such as a user's method ``module:Class``, as the name of a folder."""
    return _NO_FOLDER.sub("-", text)


def make_folder(path: Path) -> list[Path]:
    """Create a folder and its parents. Returns the folders that were created, innermost first."""
    with storage_errors(path):
        new = [folder for folder in (path, *path.parents) if not os.path.lexists(folder)]
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError:
            for folder in new:
                with suppress(OSError):  # a folder may not have been created, or may not be empty
                    folder.rmdir()
            raise
    return new
