"""A disk that is full, a kill and a power failure at every operation on files, one by one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from fedkin.core import storage
from fedkin.core.errors import StorageError
from tests.deterministic.fake_disk import FakeDisk, KilledError, Machine

FAULTS = ("full", "kill", "power")
Write = Callable[[Path], object]


class CountingDisk(FakeDisk):
    """From one of its operations on it is full."""

    full_from = 0

    def _step(self, path: Path) -> Machine:
        machine = self._machine(path)
        machine.full = 0 < self.full_from <= machine.operations + 1
        return super()._step(path)


def written(folder: Path, write: Write, disk: FakeDisk) -> None:
    """Write into a folder of this disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "file_system", disk)
        write(folder)


def operations(root: Path, write: Write, prepare: Write | None = None) -> int:
    """How many operations it takes to write. The written files are kept in ``root``."""
    disk = CountingDisk(Random(0))
    machine = disk.add("here", root)
    if prepare is not None:
        prepare(root)
    written(root, write, disk)
    return machine.operations


def after_each_fault(
    fault: str, root: Path, last: int, write: Write, prepare: Write | None = None
) -> Iterator[tuple[int, Path]]:
    """The number of each operation, and the folder after it was the faulty one; the folder is then
    removed.

    Args:
        fault: one of ``FAULTS``.
        root: where the folders are made.
        last: operations that writing takes.
        write: writes into a folder; it may raise StorageError where the disk is full.
        prepare: writes the folder's files from before, if it had any.
    """
    for number in range(1, last + 1):
        folder = root / f"{fault}-{number}"
        disk = CountingDisk(Random(number))
        machine = disk.add("here", folder)
        if prepare is not None:
            prepare(folder)
        disk.full_from, machine.killed_at = (number, 0) if fault == "full" else (0, number)
        try:
            written(folder, write, disk)
        except KilledError:
            assert fault != "full"
        except StorageError as error:
            assert fault == "full" and "No space left on device" in str(error)
        if fault == "power":
            disk.cut_power("here")
        yield number, folder
        shutil.rmtree(folder)
