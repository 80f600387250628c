"""Writing files so that a reader never meets half of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedkin.core.errors import StorageError


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Context in which an OSError becomes a StorageError that names the path."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"cannot write {path}: {reason}; free some space or choose another folder") from error


def write_atomic(path: Path, content: bytes | str) -> None:
    """Put a whole file in place, or leave what was there.

    The content goes to a hidden neighbour first, is forced to disk, and takes the name in one step. A process
    killed in between leaves at most the neighbour, which the next write of the same name replaces.

    Raises StorageError on a full disk or a folder that cannot be written.
    """
    part = path.with_name(f".{path.name}.part")
    with storage_errors(path):
        try:
            with part.open("wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except OSError:
            part.unlink(missing_ok=True)
            raise


def append_line(path: Path, line: str) -> None:
    """Add one line at the end of a file, and hand it to the system at once.

    A line that does not fit (full disk) is taken back, so that the file still ends with a whole one.

    Raises StorageError as ``write_atomic`` does.
    """
    with storage_errors(path), path.open("ab", buffering=0) as file:
        end, data = file.tell(), f"{line}\n".encode()
        try:
            while data:
                data = data[file.write(data) or 0 :]
        except OSError:
            file.truncate(end)
            raise


def complete_lines(path: Path) -> list[str]:
    """The lines of a file that were written to their end; the torn last line of a killed process is left out."""
    if not path.exists():
        return []
    with storage_errors(path):
        text = path.read_bytes()
    return text[: text.rfind(b"\n") + 1].decode(errors="replace").splitlines()
