"""``fedkin deploy restore``: a deployment from a backup, all of it or nothing."""

from __future__ import annotations

import platform
import shutil
import tarfile
import time
from pathlib import Path

from fedkin import __version__
from fedkin.core.errors import ConfigError, StorageError
from fedkin.core.storage import storage_errors
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.backup import file_digests
from fedkin.server.deploy.backup_archive import MANIFEST, Manifest, federation_of, read_backup
from fedkin.server.deploy.place import moved_from, original_of, settle
from fedkin.server.deploy.processes import find, require_proc
from fedkin.server.deploy.selection import select
from fedkin.server.deploy.start_parts import Say, parts_of
from fedkin.server.deploy.up import one_at_a_time


def restore(file: Path, folder: Path, *, say: Say = print) -> Manifest:
    """Write a backup's files into a folder. All digests are verified first.

    A deployment of the same federation in the folder is kept under another name.

    Args:
        file: path of the archive.
        folder: folder for the deployment; new, empty, or with the same federation.
        say: called with a line about each step.

    Raises:
        ConfigError: the file is no complete backup, the folder holds something else, or Python is
            older than 3.11.4. The folder is not changed.
        StorageError: a file cannot be written. The folder is not changed.
    """
    if not hasattr(tarfile, "data_filter"):
        raise ConfigError(
            "fedkin deploy restore needs Python 3.11.4 or newer, whose tarfile refuses unsafe "
            f"archives; this is Python {platform.python_version()}"
        )
    manifest = read_backup(file)
    target = folder.absolute()
    _check_place(target, folder, manifest, file)
    staging = target.with_name(f".{target.name}.restore")
    with storage_errors(folder):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(mode=0o700)
        try:
            _extract(file, manifest, staging)
            former = _swap(staging, target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    say(
        f"restored {len(manifest.digests)} files of federation {manifest.federation} to {folder}; "
        f"{manifest.run_words()}"
    )
    if former is not None:
        say(f"the former folder is kept as {former}")
        _say_former_keys(folder, former, say)
    if manifest.version != __version__:
        say(f"the backup is of fedkin {manifest.version}; this is {__version__}")
    _say_next(folder, say)
    return manifest


def _check_place(target: Path, folder: Path, manifest: Manifest, file: Path) -> None:
    """Check that a backup may be restored to a folder."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    elsewhere = files.deploy_command("restore", file, f"{folder}-restored")
    is_deployment = (target / files.SERVER).exists() or (target / files.CLIENT).exists()
    if not is_deployment:
        raise ConfigError(
            f"{folder} exists and holds no deployment; name another folder: {elsewhere}"
        )
    present = federation_of(target)
    if present != manifest.federation:
        raise ConfigError(
            f"{file} is a backup of federation {manifest.federation}, but {folder} holds "
            f"federation {present}; name another folder: {elsewhere}"
        )
    require_proc()
    running = [part.name for part, processes in find(parts_of(select(target))).items() if processes]
    if running:
        raise ConfigError(
            f"{', '.join(running)} of {folder} still run; stop them first: "
            f"{files.deploy_command('down', folder)}"
        )


def _extract(file: Path, manifest: Manifest, staging: Path) -> None:
    """Write the files of a verified archive into a new folder.

    The digests are compared once more, because the archive may have changed meanwhile.
    """
    with tarfile.open(file) as archive:
        members = [member for member in archive.getmembers() if member.name != MANIFEST]
        archive.extractall(staging, members, filter="data")
    paths = {name: staging / name for name in manifest.digests}
    if file_digests(paths) != manifest.digests:
        raise StorageError(f"{file} changed while it was read; nothing was restored")


def _swap(staging: Path, target: Path) -> Path | None:
    """Put a complete folder in its place. Returns the new path of a former deployment."""
    if not (target / files.SERVER).exists() and not (target / files.CLIENT).exists():
        if target.exists():
            target.rmdir()
        staging.rename(target)
        return None
    former = target.with_name(f"{target.name}-before-{time.strftime('%Y%m%d-%H%M%S')}")
    with one_at_a_time(target):
        target.rename(former)
        try:
            staging.rename(target)
        except OSError:
            former.rename(target)
            raise
    return former


def _say_former_keys(folder: Path, former: Path, say: Say) -> None:
    """Name the sites whose keys were revoked since the backup, because the restored server accepts
    them again.

    Args:
        folder: the restored deployment.
        former: the deployment that was in the folder before.
        say: called with a line about each site.
    """
    for site, restored in select(folder).sites.items():
        key = former / site / files.NODE_PUBLIC
        command = "rotate" if key.exists() else "remove"
        old = restored / files.NODE_PUBLIC
        if old.exists() and (not key.exists() or key.read_bytes() != old.read_bytes()):
            again = files.deploy_command(command, folder, site)
            say(
                f"the key of {site} at the time of the backup is valid again; to revoke it: {again}"
            )


def _say_next(folder: Path, say: Say) -> None:
    """Give a restored deployment its new path if it was moved, and say how to start it."""
    original = original_of(folder)
    if original is not None:
        say(
            f"{original} still holds this federation; before you start {folder}, stop it and move "
            "it away"
        )
    elif (folder / files.SERVER).exists() and moved_from(folder) is not None:
        settle(folder)
    say(f"start it: {files.deploy_command('up', folder)}")
