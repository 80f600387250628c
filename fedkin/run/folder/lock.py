"""File lock that allows only one process at a time in a run's folder."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from fedkin.core.errors import StorageError
from fedkin.core.storage import storage_errors
from fedkin.tracking.health import Check, disk_check


def folder_lock(folder: Path | None) -> AbstractContextManager[None]:
    """Context manager that holds the lock of a run's folder. The lock is also released when the
    process exits.

    Args:
        folder: the run's folder, which may not exist yet. None: the run has no folder, so there is
            no lock.

    Raises:
        StorageError: another process holds the lock (the message has its id and host), or the lock
            file cannot be written.
    """
    return nullcontext() if folder is None else _held(folder)


def lock_file(folder: Path) -> Path:
    """The lock file of a folder: the hidden file ``.NAME.lock`` next to the folder. It is inside
    the folder if the parent is not writable, as for a container's volume.

    Args:
        folder: the path of the folder, absolute or relative. Symbolic links are resolved, so that
            all paths of the same folder give the same lock file.

    Raises:
        StorageError: the path is relative, and the current folder no longer exists.
    """
    try:
        real = Path(os.path.realpath(folder))
    except FileNotFoundError:
        raise StorageError("the current folder was deleted; change into another one") from None
    with storage_errors(folder):
        inside = real.is_dir() and not os.access(real.parent, os.W_OK)
    return (real if inside else real.parent) / f".{real.name}.lock"


@contextmanager
def owner_noted(lock: Path, folder: Path) -> Iterator[None]:
    """Context manager that names this process in the file next to a lock that it holds.

    Args:
        lock: the lock file.
        folder: the folder that the lock is for.

    Raises:
        StorageError: the file cannot be written.
    """
    owner = lock.with_suffix(".owner")
    try:
        with storage_errors(folder):
            owner.write_text(_own_name())
        yield
    finally:
        owner.unlink(missing_ok=True)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Context manager that holds the lock of a run's folder. At the end, it removes the lock's
    files, and also the folders that were created for these files, unless other files are in the
    folders now."""
    path = lock_file(folder)
    lock = FileLock(path)
    with storage_errors(folder):
        # The lock file may need new folders. Those that are empty at the end are removed.
        new = [parent for parent in path.parents if not parent.exists()]
    try:
        with storage_errors(folder):
            path.parent.mkdir(parents=True, exist_ok=True)
        _acquire(lock, folder, path.with_suffix(".owner"))
        try:
            with owner_noted(path, folder):
                yield
        finally:
            path.unlink(
                missing_ok=True
            )  # a process that has just opened this file notices that it is gone, and tries again
            lock.release()
    finally:
        for parent in new:
            with suppress(OSError):  # the folder is not empty
                parent.rmdir()


def _acquire(lock: FileLock, folder: Path, owner: Path) -> None:
    """Acquire the lock of a run's folder without waiting. If another process holds it, raise a
    StorageError that names this process, from the file ``owner``."""
    with storage_errors(folder):
        try:
            lock.acquire(blocking=False)
        except Timeout:  # a subclass of OSError
            raise StorageError(
                f"{folder} is in use by {_owner(owner)}; wait until it has ended, or stop it"
            ) from None


def folder_checks(folder: Path | None) -> dict[str, Callable[[], Check | None]]:
    """The health checks of a process that writes into a run's folder: that it holds the lock, and
    that the disk has room. Empty for a run without a folder."""
    if folder is None:
        return {}
    return {"lock": partial(_lock_check, folder), "disk": partial(disk_check, folder)}


def _lock_check(folder: Path) -> Check:
    """Whether this process holds the lock of a run's folder."""
    owner = _owner(lock_file(folder).with_suffix(".owner"))
    return Check("pass" if owner == _own_name() else "fail", f"the lock is held by {owner}")


def _own_name() -> str:
    """The name of this process in the file next to a lock."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _owner(path: Path) -> str:
    """Text that names the process that holds a run folder's lock, from the file in which it has
    written its id and host."""
    try:
        return path.read_text() or "another process"
    except OSError:
        return "another process"
