"""The files from which arrays of packed data are mapped into memory, and checks that they have not
changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.core.errors import DataError


@dataclass(frozen=True)
class PackedFiles:
    """The files of packed data, and their state when they were opened.

    Attributes:
        folder: folder of the files.
        digest: digest of the data (``data.digest``).
        states: size in bytes and time of the last change of each file, by name.
    """

    folder: Path
    digest: str
    states: dict[str, tuple[int, int]]

    def check(self) -> None:
        """Raise DataError if files have been changed or removed, since samples may then differ."""
        check_files(
            {self.folder / name: state for name, state in self.states.items()},
            "pack them again, and start",
        )


def mapped_files(arrays: Iterable[np.ndarray | None]) -> dict[Path, tuple[int, int]]:
    """The files from which arrays are mapped, with their sizes and times of the last change.

    Args:
        arrays: any arrays. None, and arrays in memory, have no file.
    """
    files: dict[Path, tuple[int, int]] = {}
    for array in arrays:
        # The mapped array is the base of a view.
        base: Any = array
        while base is not None:
            if isinstance(base, np.memmap) and base.filename:
                path = Path(base.filename)
                state = file_state(path)
                if state is not None:
                    files[path] = state
            base = getattr(base, "base", None)
    return files


def check_files(states: dict[Path, tuple[int, int]], cure: str = "start") -> None:
    """Raise DataError if files have been changed or removed since they were opened.

    Args:
        states: size in bytes and time of the last change, by file.
        cure: beginning of the message's advice, which ends with "the run again": "start", or for
            example "pack them again, and start".
    """
    for path, state in states.items():
        if state != file_state(path):
            raise DataError(
                f"{path} has been changed or removed since the data were opened; {cure} the run "
                "again"
            )


def file_state(path: Path) -> tuple[int, int] | None:
    """Size in bytes and time of the last change (ns) of a file; None if it does not exist."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns
