"""One server at a time in a run folder: that of a SuperLink which was killed may work on for a minute."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fedkin.core.errors import StorageError
from fedkin.core.storage import storing

try:
    import fcntl
except ImportError:  # not on Windows, where Flower has no SuperLink either
    fcntl = None

_PATIENCE, _LOOK = 180.0, 0.5  # seconds
_log = logging.getLogger("fedkin")


@contextmanager
def alone(folder: Path, patience: float = _PATIENCE, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Nobody else serves from this folder meanwhile. One that does is waited for: without its SuperLink it ends soon.

    Raises StorageError if it is there still after ``patience`` seconds.
    """
    lock = folder.with_name(f".{folder.name}.lock")
    with storing(lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("w")
    with file:
        waited = 0.0
        while fcntl is not None and not _taken(file.fileno()):
            if waited >= patience:
                raise StorageError(f"another server is at work in {folder}; stop it first (flwr list, flwr stop)")
            if not waited:
                _log.warning("another server is at work in %s; waiting for its end", folder)
            sleep(_LOOK)
            waited += _LOOK
        yield


def _taken(number: int) -> bool:
    """Take the lock, which the system takes back when its process ends, however that ends."""
    assert fcntl is not None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
