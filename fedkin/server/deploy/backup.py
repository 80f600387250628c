"""``fedkin deploy backup``: all that a deployment needs to go on, in one archive that only its
owner can read."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from fedkin import __version__
from fedkin.config.server import load_client, load_server
from fedkin.core.errors import ConfigError, StorageError
from fedkin.core.storage import check_output, file_system, storage_errors
from fedkin.run.folder import checkpoint
from fedkin.run.folder.run_folder import CHECKPOINTS
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.backup_archive import MANIFEST, Manifest, add_file, federation_of
from fedkin.server.deploy.selection import select
from fedkin.server.deploy.start_parts import Say
from fedkin.server.deploy.worker_link import worker_folder

_ATTEMPTS = 5  # how often a folder that changes meanwhile is read
_PAUSE = 1.0  # seconds between attempts
# Files that a start writes again, or that only belong to a running process.
_LEFT_OUT = (".lock", ".log", ".owner", ".part", "-shm", "-wal")
_LEFT_OUT_FOLDERS = (worker_folder(Path(files.CLIENT)).name, "__pycache__")


def backup(folder: Path, file: Path, *, data: bool = True, say: Say = print) -> Manifest:
    """Write all that a deployment needs to go on into one archive: configuration, keys,
    certificates, the SuperLink's database, and the run at a checkpoint.

    The deployment may run meanwhile. Logs are left out.

    Args:
        folder: folder of the deployment, or of one site.
        file: path of the archive. A former backup is replaced.
        data: whether to include the sites' files of data that are in the folder.
        say: called with a line about each step.

    Raises:
        ConfigError: the folder holds no deployment, or its run is in another folder.
        StorageError: a file cannot be read or written, or the folder never stopped changing.
    """
    federation = federation_of(folder)
    _check_target(folder, file)
    left_out = set() if data else _data_files(folder)
    part = file.with_name(f".{file.name}.part")
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE)
        with _part_of(file, part), _database_copy(folder) as database:
            paths = _files(folder, left_out) | database
            manifest = Manifest(
                federation=federation,
                version=__version__,
                date=time.strftime("%Y-%m-%d %H:%M:%S"),
                round=_last_round(folder),
                digests=file_digests(paths),
            )
            # A file may change, or a checkpoint may be added, while the others are copied.
            is_whole = _write_archive(part, manifest, paths)
            if is_whole and _files(folder, left_out).keys() <= manifest.digests.keys():
                part.replace(file)
                _say_written(file, manifest, say)
                return manifest
    raise StorageError(
        f"{folder} changed each time while it was copied, so no backup was written; stop the run "
        f"first: {files.deploy_command('down', folder)}"
    )


def _check_target(folder: Path, file: Path) -> None:
    """Check that a backup of a deployment can be written to a file."""
    if folder.resolve() in file.resolve().parents:
        raise ConfigError(
            f"{file} is in the folder that it is a backup of; name a file elsewhere, such as "
            f"{folder.absolute().parent / f'{folder.absolute().name}.tar'}"
        )
    check_output(file, begins=MANIFEST)
    if not (folder / files.SERVER).exists():
        return
    run = Path(load_server(folder / files.SERVER).federation.folder)
    if folder.resolve() not in run.resolve().parents:
        raise ConfigError(
            f"{folder / files.SERVER}: federation.folder is {run}, outside {folder}, so a backup "
            'would not hold the run; move it into the deployment, and set folder = "run"'
        )


def _data_files(folder: Path) -> set[Path]:
    """The files of data that the sites of a deployment have in their folders."""
    found = set()
    for site in select(folder).sites.values():
        path = load_client(site / files.CLIENT).data_values.get("path")
        if path is not None:
            found.add(Path(str(path)).resolve())
    return found


def _files(folder: Path, left_out: set[Path]) -> dict[str, Path]:
    """The files of a deployment that a backup holds, by their paths in the folder.

    Args:
        folder: folder of the deployment.
        left_out: further files that the backup does not hold.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if set(_LEFT_OUT_FOLDERS) & set(relative.parts) or not path.is_file():
            continue
        if path.resolve() in left_out:
            continue
        if not path.name.endswith(_LEFT_OUT) and str(relative) != files.DATABASE:
            found[relative.as_posix()] = path
    return found


@contextmanager
def _database_copy(folder: Path) -> Iterator[dict[str, Path]]:
    """A consistent copy of the SuperLink's database, which may be in use: its name in the backup,
    and the copy's path. Empty if there is no database."""
    source = folder / files.DATABASE
    with tempfile.TemporaryDirectory() as place:
        if not source.exists():
            yield {}
            return
        copy = Path(place) / files.DATABASE
        with storage_errors(source, "read"):
            try:
                with (
                    closing(sqlite3.connect(source)) as read,
                    closing(sqlite3.connect(copy)) as own,
                ):
                    read.backup(own)
            except sqlite3.Error as error:
                raise StorageError(f"cannot read {source}: {error}") from error
        yield {files.DATABASE: copy}


def file_digests(paths: dict[str, Path]) -> dict[str, str]:
    """The SHA-256 of each file. Files that are gone by now are left out."""
    digests = {}
    for name, path in paths.items():
        try:
            with path.open("rb") as file:
                digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}") from error
    return digests


def _last_round(folder: Path) -> int | None:
    """The last round of the newest checkpoint of a deployment's run; None if there is none."""
    if not (folder / files.SERVER).exists():
        return None
    run = Path(load_server(folder / files.SERVER).federation.folder)
    return checkpoint.last_round(run / CHECKPOINTS)


@contextmanager
def _part_of(file: Path, part: Path) -> Iterator[None]:
    """Remove the unfinished archive ``part`` at the end, and turn an OSError into a StorageError
    that names the archive ``file``."""
    with storage_errors(file):
        try:
            yield
        finally:
            part.unlink(missing_ok=True)


def _write_archive(part: Path, manifest: Manifest, paths: dict[str, Path]) -> bool:
    """Write an archive that only its owner can read. Returns False if a file has changed since its
    digest was computed."""
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as out, tarfile.open(fileobj=out, mode="w") as archive:
        add_file(archive, MANIFEST, manifest.text(), 0o600)
        for name, expected in manifest.digests.items():
            path = paths[name]
            content = path.read_bytes() if path.exists() else b""
            if hashlib.sha256(content).hexdigest() != expected:
                return False
            add_file(archive, name, content, path.stat().st_mode & 0o777)
    file_system.sync(part)
    return True


def _say_written(file: Path, manifest: Manifest, say: Say) -> None:
    """Say what a backup holds."""
    size = file.stat().st_size / 1e6
    say(
        f"{file}: {len(manifest.digests)} files of federation {manifest.federation}, "
        f"{size:.1f} MB; {manifest.run_words()}"
    )
    if manifest.federation.authority:
        say("it holds private keys, so keep it where only you can read it")
    else:
        say("keep it where only you can read it")
