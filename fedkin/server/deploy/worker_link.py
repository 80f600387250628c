"""The socket of a site's worker, in a folder that only the site's user can access.

site-0/client.worker/      mode 0700, next to client.toml
    socket                 mode 0600; both sides check that the other is the same user
    lock                   held by a process that starts a worker
    worker.log             output of the worker

Only the standard library is imported here, because a process that imports this module starts for
every message to a site.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOCKET = "socket"
LOCK = "lock"
LOG = "worker.log"
AVAILABLE = hasattr(socket, "AF_UNIX") and hasattr(os, "getuid")
_LONGEST = 100  # largest length of a socket's path in bytes; systems allow 104 or 108
_CREDENTIALS = struct.Struct("3i")  # process, user, group


class WorkerLinkError(Exception):
    """A worker cannot be used, for the reason in the text."""


def read_sections(config: Path) -> dict[str, Any] | None:
    """The sections of a site's client.toml, or of server.toml; None if the file cannot be read.

    A byte-order mark and bytes that are not UTF-8 are read as ``core.storage.toml_text`` reads
    them. Otherwise the site's node would accept a file whose limits its ledger cannot see.
    """
    try:
        return tomllib.loads(config.read_bytes().decode("utf-8-sig", "surrogateescape"))
    except (OSError, ValueError):
        return None


def site_name(config: Path) -> str:
    """The name in a site's client.toml; empty if the file cannot be read."""
    sections = read_sections(config) or {}
    client = sections.get("client")
    name = client.get("name") if isinstance(client, dict) else None
    return name if isinstance(name, str) else ""


def worker_folder(config: Path) -> Path:
    """The folder of the worker of a site, next to its client.toml."""
    return config.absolute().with_suffix(".worker")


def open_folder(folder: Path) -> None:
    """Make the worker's folder if it does not exist.

    Raises WorkerLinkError if that fails, or if other users can access the folder.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise WorkerLinkError(f"{folder} cannot be made: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise WorkerLinkError(f"{folder} is not a folder of this user; remove it")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise WorkerLinkError(f"other users can open {folder}: chmod 700 {folder}")


@contextmanager
def socket_address(folder: Path) -> Iterator[str]:
    """A context manager that gives a path to the socket in a folder.

    A path that is too long for a socket is replaced by a short one through ``/proc``, which is
    valid only within the ``with`` block. Raises WorkerLinkError for a path that is too long on a
    system without ``/proc`` (only Linux has it).
    """
    path = folder / SOCKET
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    if not Path("/proc/self/fd").exists():
        raise WorkerLinkError(
            f"{path} is too long for a socket ({_LONGEST} bytes); choose a folder with a shorter "
            "path"
        )
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{SOCKET}"
    finally:
        os.close(handle)


def check_peer(connection: socket.socket) -> None:
    """Raise WorkerLinkError if the process at the other end belongs to another user.

    Only Linux can check this. On other systems the folder's mode alone protects the socket.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(data)
    if user != os.getuid():
        raise WorkerLinkError(
            f"the process at the other end of the socket belongs to user {user}, not to user "
            f"{os.getuid()}; a site and its worker must run as the same user"
        )


def process_mark(process: int) -> str:
    """Start time of a process in the system's unit; empty if the process has ended or the time is
    unknown."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    # After the command's name come the state and the other fields, of which 18 is the start time.
    state, *fields = text.rpartition(")")[2].split()
    return "" if state == "Z" else fields[18]


def is_alive(process: int, mark: str) -> bool:
    """Whether a site's process, given by its id and start time, still runs. The site's worker ends
    soon after that process.

    Without a start time (``mark`` is empty), any process with this id counts.
    """
    if mark:
        return process_mark(process) == mark
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
