"""One process at a time in a run's folder."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from filelock import FileLock, Timeout

from fedkin.core.errors import StorageError
from fedkin.core.storage import storage_errors


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    lock, owner = _beside(folder, "lock"), _beside(folder, "owner")
    new = [parent for parent in folder.parents if not parent.exists()]
    with storage_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    file_lock = FileLock(lock)
    with storage_errors(folder):
        try:
            file_lock.acquire(blocking=False)
        except Timeout:  # an OSError, too
            raise StorageError(f"{folder} is in use by {_owner(owner)}; wait until it has ended, or stop it") from None
    try:
        with storage_errors(folder):
            owner.write_text(f"process {os.getpid()} on {socket.gethostname()}")
        yield
    finally:
        owner.unlink(missing_ok=True)
        if not folder.exists():  # nothing was begun: leave nothing
            lock.unlink(missing_ok=True)
            for parent in new:
                if parent.exists() and not any(parent.iterdir()):
                    parent.rmdir()
        file_lock.release()


def folder_lock(folder: Path | None) -> AbstractContextManager[None]:
    """Hold the lock of a run's folder: the system frees it when the process ends, however that comes about.

    Args:
        folder: of the run, which need not be there yet; the lock is the hidden file ``.NAME.lock`` beside it. None: of
            a run that keeps nothing.

    Raises:
        StorageError: another process has it, with its id and host; or the lock cannot be written.
    """
    return nullcontext() if folder is None else _held(Path(os.path.abspath(folder)))


def _beside(folder: Path, kind: str) -> Path:
    return folder.with_name(f".{folder.name}.{kind}")


def _owner(path: Path) -> str:
    """Who holds a lock, as far as that is known."""
    try:
        return path.read_text() or "another process"
    except OSError:
        return "another process"
