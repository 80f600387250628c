"""The files of data that are read where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedkin.core.errors import DataError


@dataclass(frozen=True)
class PackedFiles:
    """The files of data that are read where they lie: their folder, and what was known of them when they were opened.

    Attributes:
        folder: of the files.
        digest: of the data (``data.digest``).
        states: bytes and time of the last change of each file, by name.
    """

    folder: Path
    digest: str
    states: dict[str, tuple[int, int]]

    def check(self) -> None:
        """Refuse (DataError) files that have changed or are gone: a run would go on with other samples."""
        for name, state in self.states.items():
            if state != file_state(self.folder / name):
                raise DataError(
                    f"{self.folder / name} has changed, or is gone, since these data were opened: pack them anew, and "
                    "start the run again"
                )


def file_state(path: Path) -> tuple[int, int] | None:
    """Bytes and time of the last change (ns) of a file; None where there is none."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns
