"""Flower's SuperLink with a log that has no colour codes.

Flower (1.41) colours its log lines even in a file, and so do the processes that its SuperLink
starts. ``fedkin deploy up`` runs this module in place of ``flower-superlink``. It has the same
options.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
from io import BufferedIOBase
from pathlib import Path

from fedkin.server.deploy.log_files import keep_output_small

_COLOUR = re.compile(rb"\x1b\[[\d;]*m")
_OUTPUTS = (1, 2)  # the numbers of standard output and standard error
_WAIT = 1.0  # seconds for the last lines at the end


def without_colours(lines: BufferedIOBase, target: BufferedIOBase) -> None:
    """Copy lines until their end, without colour codes.

    Args:
        lines: the lines.
        target: where they are written, each at once.
    """
    for line in lines:
        target.write(_COLOUR.sub(b"", line))
        target.flush()


def plain_output() -> None:
    """From now on, all output of this process and of the processes that it starts has no colour
    codes."""
    target = os.fdopen(os.dup(_OUTPUTS[0]), "wb")
    reading, writing = os.pipe()
    for output in _OUTPUTS:
        os.dup2(writing, output)
    os.close(writing)
    copier = threading.Thread(
        target=without_colours,
        args=(os.fdopen(reading, "rb"), target),
        daemon=True,
    )
    copier.start()
    atexit.register(_finish, target, copier)


def _finish(target: BufferedIOBase, copier: threading.Thread) -> None:
    """Write the last lines. Processes that still run may hold the pipe open, so the wait is
    short."""
    for output in _OUTPUTS:
        os.dup2(target.fileno(), output)
    copier.join(_WAIT)


def main() -> None:
    """Run the SuperLink with the options of the command line."""
    keep_output_small(Path("superlink.log"), _OUTPUTS[0])
    plain_output()
    from flwr.superlink.cli import flower_superlink

    flower_superlink()


if __name__ == "__main__":
    main()
