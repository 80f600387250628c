"""The ledger of a site: a file with one line for each message that leaves the site.

A line is written and synced to the disk before its message is sent. The lines form a chain
(``security.line_chain``), and hold no values: only names, shapes, sizes and digests. When the file
is large, it gets another name, and a new file goes on with the digest of its last line.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from fedkin.core import storage
from fedkin.core.errors import StorageError
from fedkin.core.object_repr import shell_command
from fedkin.core.storage import append_line, drop_torn_line, force_to_disk, storage_errors
from fedkin.security.line_chain import START, line_digest, line_text, parse_line

LEDGER = "egress.jsonl"
_FULL_FILES = "egress-*.jsonl"  # files that are full, by the number of their first line
_LOCK = ".egress.lock"
LARGEST = 2**24  # bytes of a file, after which the next line begins a new one
_VERIFY = ("fedkin", "egress", "verify")  # the command that names a ledger's faults
_LONGEST_LINE = 2**16  # bytes
_TIMEOUT = 60.0  # seconds to wait until another process has written its line


class Tail(NamedTuple):
    """The end of a ledger, after which a line is to be written.

    Attributes:
        seq: number of the next line.
        prev: digest of the last line.
        torn: bytes of a last line that was not complete and has been removed. The process that
            wrote it was killed, so its message was never sent.
    """

    seq: int
    prev: str
    torn: int


class SiteLedger:
    """The ledger in a folder. Several processes of a site may write to it.

    Args:
        folder: folder of the site.
        largest: bytes of a file, after which the next line begins a new one.
    """

    def __init__(self, folder: Path, largest: int = LARGEST) -> None:
        self.folder = folder
        self.path = folder / LEDGER
        self._largest = largest

    def files(self) -> list[Path]:
        """The files of the ledger, from the oldest to the present one."""
        present = [self.path] if self.path.exists() else []
        return [*sorted(self.folder.glob(_FULL_FILES)), *present]

    def lines(self) -> list[bytes]:
        """The complete lines of all files, as written. Raises StorageError for a file that cannot
        be read."""
        found = []
        for path in self.files():
            # The part after the last end of line is empty, or a line that is not complete.
            found += _content(path).split(b"\n")[:-1]
        return found

    def torn(self) -> int:
        """Bytes of a last line that is not complete; 0 if there is none."""
        return len(_end(self.path).rpartition(b"\n")[2]) if self.path.exists() else 0

    @contextmanager
    def writing(self) -> Iterator[Tail]:
        """A context manager in which this process alone may write: ``append`` is called in it, each
        time with the end that the call before has returned.

        Raises:
            StorageError: the files cannot be read or written, the last line is damaged, or another
                process has held the lock for a minute.
        """
        lock = FileLock(self.folder / _LOCK)
        with storage_errors(self.path):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(timeout=_TIMEOUT)
            except Timeout as error:
                raise StorageError(
                    f"another process has held {self.folder / _LOCK} for {_TIMEOUT:.0f} s, so no "
                    "message can be sent; restart the site"
                ) from error
        try:
            torn = self.torn()
            if torn:
                drop_torn_line(self.path)
            yield self._tail(torn)
        finally:
            lock.release()

    def append(self, tail: Tail, entries: Mapping[str, Any]) -> Tail:
        """Write a line after the end of the ledger and sync it to the disk.

        Args:
            tail: the end of the ledger, from ``writing`` or from the call before.
            entries: the line's entries, without ``seq`` and ``prev``.

        Returns:
            The new end; its ``prev`` is the digest of the new line (the head).

        Raises:
            StorageError: the files cannot be written, or the first line of a full file is damaged.
        """
        text = line_text({**entries, "seq": tail.seq, "prev": tail.prev})
        self._begin_file_if_full()
        is_new = not self.path.exists()
        append_line(self.path, text)
        force_to_disk(self.path)
        if is_new:
            with suppress(OSError):  # not every file system can sync a folder
                storage.file_system.sync(self.folder)
        return Tail(tail.seq + 1, line_digest(text.encode()), 0)

    def bytes_of_round(self, run: str, round: int) -> int:
        """Bytes of the messages of one round of a run so far. All files are read, so the time grows
        with the ledger.

        Raises StorageError if a line of the round has no number of bytes.
        """
        total = 0
        for line in self.lines():
            parsed = parse_line(line)
            if parsed is None:
                continue
            entries = parsed.entries
            if entries.get("run") == run and entries.get("round") == round:
                size = entries.get("bytes")
                if type(size) is not int:
                    raise StorageError(
                        f"line {entries['seq']} of the ledger in {self.folder} has no number of "
                        "bytes, so the bytes of the round are unknown and no message can be sent; "
                        f"find out who changed it: {shell_command(*_VERIFY, self.folder)}"
                    )
                total += size
        return total

    def _tail(self, torn: int) -> Tail:
        """The end of the ledger."""
        for path in reversed(self.files()):
            end = _end(path)
            if not end:
                continue
            parsed = parse_line(end[:-1].rpartition(b"\n")[2])
            if parsed is None:
                raise _damaged(path, "last")
            return Tail(parsed.entries["seq"] + 1, parsed.digest, torn)
        return Tail(0, START, torn)

    def _begin_file_if_full(self) -> None:
        """Give the present file another name if it is full."""
        if not self.path.exists() or self.path.stat().st_size < self._largest:
            return
        with storage_errors(self.path):
            with self.path.open("rb") as file:
                first = parse_line(file.readline(_LONGEST_LINE).rstrip(b"\n"))
            if first is None:
                raise _damaged(self.path, "first")
            full = self.folder / f"egress-{first.entries['seq']:012d}.jsonl"
            if full.exists():
                raise StorageError(
                    f"{self.path} is full, but {full} exists, and a file of the ledger is never "
                    "replaced, so no message can be sent; find out who changed the files: "
                    f"{shell_command(*_VERIFY, self.folder)}. To go on, move the older file: "
                    f"{shell_command('mv', full, _aside(full))}"
                )
            storage.file_system.replace(self.path, full)


def _damaged(path: Path, which: str) -> StorageError:
    """The error for a file whose ``first`` or ``last`` line is damaged, with the way on."""
    return StorageError(
        f"the {which} line of {path} is damaged, so no message can be sent after it; find out who "
        "changed the file. To begin a new ledger, move the file: "
        f"{shell_command('mv', path, _aside(path))}"
    )


def _aside(path: Path) -> Path:
    """The name for a damaged file, under which it is no part of the ledger."""
    return path.with_name(f"damaged-{path.name}")


def _content(path: Path) -> bytes:
    """The content of a file. Raises StorageError."""
    with storage_errors(path, "read"):
        return path.read_bytes()


def _end(path: Path) -> bytes:
    """The last bytes of a file, more than a line has. Raises StorageError."""
    with storage_errors(path, "read"), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LONGEST_LINE))
        return file.read()


def time_text(seconds: float | None = None) -> str:
    """A time as the lines of a ledger have it, such as ``2026-11-27T21:00:00Z``.

    Args:
        seconds: the time in seconds since the epoch; None: now.
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
