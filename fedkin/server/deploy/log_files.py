"""Logs of a deployment's programs: their format, and rotation so that no disk fills up.

The server's log of the run is rotated by renaming. The other logs are the output of programs, which
Flower writes to as well. Their files are open in the mode "append", so they are copied and emptied.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
import sys
import threading
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from fedkin.tracking.json_log import formatter

MOST_BYTES = 10_000_000  # size of a log at which it is rotated
KEPT = 5  # earlier logs that are kept: NAME.1 is the newest
_CHECK = 60.0  # seconds between checks of the size of an output
_FORMAT = logging.Formatter("%(asctime)s fedkin %(levelname)s: %(message)s", "%H:%M:%S")


def log_to(stream: Any = None, service: str = "fedkin") -> None:
    """Show fedkin's log from level INFO on. In Flower's processes only warnings are shown by
    default.

    Raises ConfigError if $FEDKIN_LOG_FORMAT is unknown.
    """
    log = logging.getLogger("fedkin")
    if not log.handlers:
        handler = logging.StreamHandler(stream or sys.stderr)
        handler.setFormatter(formatter(_FORMAT, service))
        log.addHandler(handler)
        log.propagate = False
    log.setLevel(logging.INFO)


def log_to_file(path: Path) -> None:
    """Append fedkin's log to a file too, which is rotated. If the file cannot be written, a warning
    is logged, and the run continues."""
    log = logging.getLogger("fedkin")
    try:
        handler = RotatingFileHandler(path, maxBytes=MOST_BYTES, backupCount=KEPT, encoding="utf-8")
    except OSError as error:
        reason = error.strerror
        log.warning(
            "%s cannot be written (%s), so fedkin deploy logs does not show this run", path, reason
        )
        return
    handler.setFormatter(formatter(_FORMAT, "fedkin-server"))
    log.addHandler(handler)


def earlier(path: Path, number: int) -> Path:
    """The path of an earlier log; 1 is the newest of them."""
    return path.with_name(f"{path.name}.{number}")


def rotate_output(path: Path, most: int = MOST_BYTES) -> bool:
    """Copy a log to ``NAME.1`` and empty it, if it is larger than ``most`` bytes.

    Programs that have it open in the mode "append" go on at its start. Lines that they write
    between the copy and the cut are lost.

    Returns:
        Whether the log was rotated.
    """
    if not path.is_file() or path.stat().st_size <= most:
        return False
    for number in range(KEPT - 1, 0, -1):
        if earlier(path, number).exists():
            os.replace(earlier(path, number), earlier(path, number + 1))
    shutil.copyfile(path, earlier(path, 1))
    os.truncate(path, 0)
    return True


def keep_output_small(path: Path, descriptor: int = 2, wait: float = _CHECK) -> None:
    """Rotate the log that this process writes to, from now on, in a thread.

    Nothing happens if the output of this process is another file, a terminal or a pipe.

    Args:
        path: the log.
        descriptor: the number of this process's output.
        wait: seconds between checks.
    """
    if not _is_output(path, descriptor):
        return
    never = threading.Event()

    def check() -> None:
        while not never.wait(wait):
            with suppress(OSError):
                rotate_output(path)

    threading.Thread(target=check, name="fedkin log rotation", daemon=True).start()


def _is_output(path: Path, descriptor: int) -> bool:
    """Whether an output of this process goes to a file."""
    try:
        output = os.fstat(descriptor)
        return stat.S_ISREG(output.st_mode) and os.path.samestat(output, path.stat())
    except OSError:
        return False
