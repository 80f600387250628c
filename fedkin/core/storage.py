"""Writing files so that a reader never meets half of one."""

from __future__ import annotations

import codecs
import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedkin.core.display import shell_command
from fedkin.core.errors import ConfigError, StorageError

WRITTEN_BY = "written by fedkin"  # in figures and pages, which are known by it
_END_BYTES = 2**16
# One slash is enough, as pathlib makes one of two.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)


class FileSystem:
    """The operations by which files change. Tests put a disk in its place that is full, or that
    loses what it was given and not told to keep."""

    def open(self, path: Path, mode: str) -> Any:
        """The file, open for unbuffered writing."""
        return path.open(mode, buffering=0)

    def sync(self, path: Path) -> None:
        """Force a file's content, or the names in a folder, to the disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        """Give a file the name of another, in one step."""
        os.replace(source, target)


file_system = FileSystem()  # of this process


@contextmanager
def storage_errors(path: Path, task: str = "write") -> Iterator[None]:
    """Context in which an OSError becomes a StorageError that names the path.

    Args:
        path: of the file or folder.
        task: what cannot be done: ``write`` or ``read``.
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
    """A path that a user has given, with ``~`` as the home folder.

    Raises ConfigError for an address, such as https://example.org/t.csv.
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
    """Refuse to write over a file that fedkin did not write. Commands that write a single file call
    this first.

    A file may be replaced if it is empty, is a figure or a page with fedkin's mark, or begins as
    the new one does.

    Args:
        path: of the new file.
        inputs: files that are read for it.
        begins: how a file of this kind begins; None for one that is known by its mark.

    Raises:
        StorageError: one of the inputs, a folder, or a file from elsewhere.
    """
    with storage_errors(path):
        if not path.exists():
            return
        if path.is_dir():
            raise StorageError(f"{path} is a folder; name a file in it, such as {path / 'out'}")
        if any(source.exists() and path.samefile(source) for source in inputs):
            raise StorageError(
                f"{path} is read by this command, and would be overwritten; name another file"
            )
        content = _both_ends(path) if path.is_file() else b""
    if begins is None:
        is_ours = WRITTEN_BY.encode() in content
    else:
        is_ours = content.startswith(begins.encode())
    if content and not is_ours:
        raise StorageError(
            f"{path} exists, and this command has not written it; nothing is overwritten: name "
            f"another file, or remove it first ({shell_command('rm', path)})"
        )


def _both_ends(path: Path) -> bytes:
    """The first and the last part of a file, in one of which its mark is; all of a small one."""
    with path.open("rb") as file:
        first = file.read(_END_BYTES)
        file.seek(max(len(first), path.stat().st_size - _END_BYTES))
        return first + file.read()


def toml_text(path: Path) -> str:
    """The text of a TOML file: UTF-8, perhaps after a byte-order mark. Bytes of a file name that
    are not UTF-8 are read back as ``write_atomic`` writes them. Raises ValueError for UTF-16."""
    content = path.read_bytes()
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError("it is text in UTF-16, and TOML is UTF-8; save it as UTF-8")
    return content.decode("utf-8-sig", "surrogateescape")


def write_atomic(path: Path, content: bytes | str) -> None:
    """Put a whole file in place, or leave what was there.

    The content goes to a hidden neighbour first, is forced to disk, and takes the name in one step,
    which is forced to disk too. A process killed in between leaves at most the neighbour, which the
    next write of the same name replaces.

    Raises StorageError on a full disk or a folder that cannot be written.
    """
    part = path.with_name(f".{path.name}.part")
    with storage_errors(path):
        try:
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
        with suppress(OSError):  # not every file system has this, and the file is in place
            file_system.sync(path.parent)


def append_line(path: Path, line: str) -> None:
    """Add one line at the end of a file, and hand it to the system at once.

    A line that does not fit (full disk) is taken back, so that the file still ends with a whole
    one.

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
    """Force what was added to a file to the disk. Raises StorageError."""
    with storage_errors(path):
        file_system.sync(path)


def _write(file: Any, data: bytes) -> None:
    """Write all of it: an unbuffered file may take a part at a time."""
    while data:
        data = data[file.write(data) or 0 :]


def drop_torn_line(path: Path) -> None:
    """Cut off the torn last line of a killed process, from which the next would go on. Raises
    StorageError."""
    if not path.exists():
        return
    with storage_errors(path, "read"):
        text = path.read_bytes()
    if text and not text.endswith(b"\n"):
        write_atomic(path, text[: text.rfind(b"\n") + 1])


def complete_lines(path: Path) -> list[str]:
    """The lines of a file that were written to their end; the torn last line of a killed process is
    left out."""
    if not path.exists():
        return []
    with storage_errors(path, "read"):
        text = path.read_bytes()
    return text[: text.rfind(b"\n") + 1].decode(errors="replace").splitlines()
