"""A federation run in a separate folder, in memory where the system has that."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar


class Violation(AssertionError):
    """A schedule after which something that must hold does not."""


class Runnable(Protocol):
    """A federation, with or without a server."""

    def run(self) -> object:
        """Run its schedule. Raises Violation."""


F = TypeVar("F", bound=Runnable)


def checked_run(
    make: Callable[[Path], F], replaced: Callable[[F], AbstractContextManager[None]]
) -> F:
    """Run a federation, and check what must hold. Raises Violation; the federation is its
    ``federation``.

    Args:
        make: the federation, of its folder.
        replaced: what stands in place of the real disk and log meanwhile.
    """
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="federation-", dir=memory if memory.is_dir() else None))
    federation = make(folder)
    try:
        with replaced(federation):
            federation.run()
    except Violation as violation:
        violation.federation = federation  # type: ignore[attr-defined]
        raise
    finally:
        shutil.rmtree(folder)
    return federation
