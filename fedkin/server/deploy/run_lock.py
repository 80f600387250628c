"""A lock for one server at a time in a run folder: that of a killed SuperLink may go on for a minute."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from fedkin.core.errors import StorageError
from fedkin.core.storage import storage_errors
from fedkin.run.folder.lock import lock_file

_TIMEOUT, _POLL = 180.0, 0.5  # seconds
_log = logging.getLogger("fedkin")


@contextmanager
def run_lock(folder: Path, timeout: float | int = _TIMEOUT, poll: float | int = _POLL) -> Iterator[None]:
    """Hold the lock of a run folder; another server that has it is waited for.

    Args:
        folder: the run folder; the lock is the hidden file ``.NAME.lock`` beside it.
        timeout: seconds to wait.
        poll: seconds between attempts.

    Raises:
        StorageError: the other server is still there after ``timeout`` seconds, or the lock cannot be written.
    """
    path = lock_file(folder)
    lock = FileLock(path, poll_interval=poll)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            _log.warning("another server uses %s; waiting until it ends", folder)
            try:
                lock.acquire(timeout=timeout)
            except Timeout:
                raise StorageError(f"another server uses {folder}; stop it first (flwr list, flwr stop)") from None
    try:
        yield
    finally:
        lock.release()
