"""Atomic writing of files: a reader never sees a partly written file."""

from __future__ import annotations

import codecs
import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedkin.core.errors import ConfigError, StorageError
from fedkin.core.object_repr import shell_command

WRITTEN_BY = "written by fedkin"  # marks figures and pages made by fedkin
_END_BYTES = 2**16  # bytes at each end of a file that are searched for the mark
# An address such as https://... One slash suffices, because pathlib merges two.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)


class FileSystem:
    """The operations that change files. Tests replace this object to simulate a full disk, or a
    power failure that loses unsynced data."""

    def open(self, path: Path, mode: str) -> Any:
        """Open a file for unbuffered writing."""
        return path.open(mode, buffering=0)

    def sync(self, path: Path) -> None:
        """Write a file's content, or a folder's list of names, from the system's cache to the
        disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file over another one atomically."""
        os.replace(source, target)


file_system = FileSystem()  # of this process


@contextmanager
def storage_errors(path: Path, task: str = "write") -> Iterator[None]:
    """Context manager that turns an OSError into a StorageError that names the path.

    Args:
        path: the file or folder.
        task: the failed operation: ``write`` or ``read``.
    """
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, None)
        cure = "; choose another folder"
        if full:
            cure = "; free some space or choose another folder"
        if task != "write":
            cure = ""
        raise StorageError(f"cannot {task} {path}: {reason}{cure}") from error


def user_path(path: str | Path) -> Path:
    """Convert a path from a user, with ``~`` as the home folder.

    Raises ConfigError for a URL, such as https://example.org/t.csv.
    """
    text = os.fspath(path)
    address = _ADDRESS.match(text)
    if address is None:
        return Path(os.path.expanduser(text))
    scheme, rest = address.groups()
    cure = (
        f"name the path alone: /{rest}"
        if scheme == "file"
        else "download it first, and name the file"
    )
    raise ConfigError(f"{scheme}://{rest}: expected a path on this machine, got an address; {cure}")


def check_output(path: Path, inputs: Iterable[Path] = (), begins: str | None = None) -> None:
    """Check that a command may write to a path. Raises StorageError rather than overwrite a file
    that fedkin did not write.

    A file may be replaced if it is empty, is a figure or page with fedkin's mark (the words
    "written by fedkin"), or begins like the new file.

    Args:
        path: the new file.
        inputs: files that are read to make it.
        begins: the text with which every file of this kind begins; None for a kind with fedkin's
            mark.

    Raises:
        StorageError: the path is one of the inputs, a folder, or a file not written by fedkin.
    """
    with storage_errors(path):
        if not path.exists():
            return
        if path.is_dir():
            raise StorageError(f"{path} is a folder; name a file in it, such as {path / 'out'}")
        if any(source.exists() and path.samefile(source) for source in inputs):
            raise StorageError(
                f"{path} is read by this command and would be overwritten; name another file"
            )
        content = _both_ends(path) if path.is_file() else b""
    if begins is None:
        is_ours = WRITTEN_BY.encode() in content
    else:
        is_ours = content.startswith(begins.encode())
    if content and not is_ours:
        raise StorageError(
            f"{path} exists and was not written by this command, so it is not overwritten; name "
            f"another file, or remove it first ({shell_command('rm', path)})"
        )


def _both_ends(path: Path) -> bytes:
    """The first and last bytes of a file, where fedkin's mark (the words "written by fedkin") would
    be. A small file is returned whole."""
    with path.open("rb") as file:
        first = file.read(_END_BYTES)
        file.seek(max(len(first), path.stat().st_size - _END_BYTES))
        return first + file.read()


def toml_text(path: Path) -> str:
    """The text of a TOML file in UTF-8, with or without a byte-order mark. Bytes that are not
    UTF-8, such as in file names, become surrogate escapes. Raises ValueError for UTF-16."""
    content = path.read_bytes()
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError("the file is text in UTF-16, but TOML must be UTF-8; save it as UTF-8")
    return content.decode("utf-8-sig", "surrogateescape")


def write_atomic(path: Path, content: bytes | str, mode: int | None = None) -> None:
    """Write a whole file atomically: a reader sees the old or the new content.

    The content is written to a hidden temporary file next to the target and synced. Then the
    temporary file is renamed over the target, and the folder is synced. A process killed in between
    leaves at most the temporary file, which the next write of the same name replaces.

    Args:
        path: the file.
        content: its new content.
        mode: the file's permissions, such as 0o600 for a secret; None for those of any new file.

    Raises:
        StorageError: the disk is full, or the folder cannot be written.
    """
    part = path.with_name(f".{path.name}.part")
    with storage_errors(path):
        try:
            if mode is not None:
                _create(part, mode)
            with file_system.open(part, "wb") as file:
                _write(
                    file,
                    content.encode("utf-8", "surrogateescape")
                    if isinstance(content, str)
                    else content,
                )
            file_system.sync(part)
            file_system.replace(part, path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        with suppress(OSError):  # not every file system supports this, and the file is in place
            file_system.sync(path.parent)


def _create(path: Path, mode: int) -> None:
    """Create an empty file with these permissions, in place of any file. So its content is never
    readable by others, not even while it is written."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))


def append_line(path: Path, line: str) -> None:
    """Append one line to a file and flush it.

    If the disk is full, the partial line is removed, so that the file still ends with a complete
    line.

    Raises StorageError as ``write_atomic`` does.
    """
    with storage_errors(path), file_system.open(path, "ab") as file:
        end = file.tell()
        try:
            _write(file, f"{line}\n".encode("utf-8", "surrogateescape"))
        except OSError:
            file.truncate(end)
            raise


def force_to_disk(path: Path) -> None:
    """Sync a file's appended content to the disk. Raises StorageError."""
    with storage_errors(path):
        file_system.sync(path)


def _write(file: Any, data: bytes) -> None:
    """Write all bytes to an open file, in a loop, since an unbuffered file may write only a part at
    a time."""
    while data:
        data = data[file.write(data) or 0 :]


def drop_torn_line(path: Path) -> None:
    """Remove an incomplete last line that a killed process left in a file. Raises StorageError."""
    if not path.exists():
        return
    with storage_errors(path, "read"):
        text = path.read_bytes()
    if text and not text.endswith(b"\n"):
        write_atomic(path, text[: text.rfind(b"\n") + 1])


def complete_lines(path: Path) -> list[str]:
    """The complete lines of a file, without the incomplete last line that a killed process
    left."""
    if not path.exists():
        return []
    with storage_errors(path, "read"):
        text = path.read_bytes()
    return text[: text.rfind(b"\n") + 1].decode(errors="replace").splitlines()
