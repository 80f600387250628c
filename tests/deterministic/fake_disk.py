"""The disks of a federation's machines: full at times, and without unforced data when the
power fails.

Files are real ones, in a folder in memory. What a machine has done to them since the last ``sync``
is remembered, and ``cut_power`` takes a random part of it back: the ends of files, and names that
files were given.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO, Any

from fedkin.core import storage


class KilledError(BaseException):
    """The process ends at once: no code handles it."""


@dataclass
class Machine:
    """A machine's disk.

    Attributes:
        folder: all that is on it.
        full: whether it takes nothing more.
        killed_at: the number of the operation, counted from now, in which the process ends; 0: in
            none.
        power: whether the power fails then, too.
        fails_at: the number of the operation, counted from now, for which there is no space; 0:
            there is for all.
        operations: how many there were.
        unsynced: files of which a part may be lost, with the bytes that cannot.
        renames: names that files were given lately, with what had the name before.
    """

    folder: Path
    full: bool = False
    killed_at: int = 0
    power: bool = False
    fails_at: int = 0
    operations: int = 0
    unsynced: dict[Path, int] = field(default_factory=dict)
    renames: list[tuple[Path, bytes | None]] = field(default_factory=list)


class FakeDisk(storage.FileSystem):
    """The disks of several machines.

    Args:
        random: decides which writes are torn and lost.
        tell: is given a line for each fault that came about.
    """

    def __init__(self, random: Random, tell: Callable[[str], None] = lambda line: None) -> None:
        self._random = random
        self._tell = tell
        self.machines: dict[str, Machine] = {}

    def add(self, name: str, folder: Path) -> Machine:
        """A machine whose files are in a folder."""
        folder.mkdir(parents=True)
        self.machines[name] = Machine(folder)
        return self.machines[name]

    # --- the operations

    def open(self, path: Path, mode: str) -> IO[Any]:
        machine = self._step(path)
        file = super().open(path, mode)
        if mode == "wb":
            machine.unsynced[path] = 0
        else:
            machine.unsynced.setdefault(path, file.tell())
        return _File(file, self, path)  # type: ignore[return-value]

    def sync(self, path: Path) -> None:
        machine = self._step(path)
        machine.unsynced.pop(path, None)
        machine.renames = [one for one in machine.renames if one[0].parent != path]

    def replace(self, source: Path, target: Path) -> None:
        machine = self._step(target)
        machine.renames.append((target, target.read_bytes() if target.exists() else None))
        machine.unsynced.pop(target, None)
        if source in machine.unsynced:
            machine.unsynced[target] = machine.unsynced.pop(source)
        super().replace(source, target)

    def write(self, path: Path, file: IO[Any], data: bytes) -> int:
        """Write, or a part of it where the disk is full or the process ends."""
        machine = self._machine(path)
        part = data[: self._random.randrange(len(data) + 1)]
        if machine.full:
            file.write(part)
            raise no_space()
        if 1 in (machine.killed_at, machine.fails_at):
            file.write(part)
        self._step(path)
        return file.write(data)

    # --- faults

    def cut_power(self, name: str) -> None:
        """Take back everything that the disk was not told to keep: the last names, and the ends of
        files."""
        machine = self.machines[name]
        for _ in range(self._random.randrange(len(machine.renames) + 1)):
            target, before = machine.renames.pop()
            machine.unsynced.pop(target, None)
            if before is None:
                target.unlink(missing_ok=True)
            else:
                target.write_bytes(before)
        for path, kept in machine.unsynced.items():
            if path.exists():
                size = path.stat().st_size
                os.truncate(path, min(size, self._random.randint(kept, max(kept, size))))
        machine.unsynced = {}
        machine.renames = []

    def _machine(self, path: Path) -> Machine:
        text = str(path)
        return next(
            one
            for one in self.machines.values()
            if text.startswith(f"{one.folder}/") or path == one.folder
        )

    def _step(self, path: Path) -> Machine:
        """Count an operation; the process may end in it, or there may be no space for it."""
        machine = self._machine(path)
        machine.operations += 1
        if machine.killed_at:
            machine.killed_at -= 1
            if not machine.killed_at:
                raise KilledError(path.name)
        if machine.fails_at:
            machine.fails_at -= 1
            if not machine.fails_at:
                raise no_space()
        return machine


def no_space() -> OSError:
    """What the system raises on a full disk."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class _File:
    """A file of a ``FakeDisk``."""

    def __init__(self, file: IO[Any], disk: FakeDisk, path: Path) -> None:
        self._file = file
        self._disk = disk
        self._path = path

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> int:
        return self._disk.write(self._path, self._file, data)

    def tell(self) -> int:
        return self._file.tell()

    def truncate(self, size: int) -> None:
        self._file.truncate(size)
