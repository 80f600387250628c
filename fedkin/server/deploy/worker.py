"""A site's worker: a process that keeps data and compiled programs loaded, and answers messages.

It answers one message after another, as a node does. Between messages it keeps only the data and
compiled programs in memory; everything else is on the site's disk. It reloads client.toml or the
data file when they have changed. It ends with the site's process, or when its socket is removed.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkin import __version__
from fedkin.server.deploy.log_files import keep_output_small
from fedkin.server.deploy.worker_link import (
    LOG,
    SOCKET,
    WorkerLinkError,
    check_peer,
    is_alive,
    open_folder,
    socket_address,
    worker_folder,
)
from fedkin.server.frames import Frames, read_frame, write_frame
from fedkin.tracking.json_log import formatter

if TYPE_CHECKING:
    from fedkin.server.node import Node

_log = logging.getLogger("fedkin")
_FORMAT = logging.Formatter("%(asctime)s %(name)s %(levelname)s: %(message)s", "%H:%M:%S")
_CHECK = 0.5  # seconds between checks that the site runs
_READ_TIMEOUT = 60.0  # seconds within which a message must arrive on a new connection


class LoadedNode:
    """A site's node. It is loaded on first use, and again when its files have changed."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self._node: Node | None = None
        self._state: tuple[Any, ...] = ()
        self._data: Path | None = None

    def node(self) -> Node:
        """The node for the current files. Raises the errors of loading them."""
        from fedkin.config.server import load_client
        from fedkin.server.deploy.build_node import node_from_config

        if self._node is None or self._state != self._present():
            # Forget the old node first: its data leave the memory, and if loading fails, it does
            # not answer.
            self._node = None
            config = load_client(self.config)
            path = config.data_values.get("path")
            self._data = Path(path) if isinstance(path, str) else None
            # Before loading, so that a change while the files are read is noticed later.
            self._state = self._present()
            self._node = node_from_config(config)
        return self._node

    def _present(self) -> tuple[Any, ...]:
        """Times and sizes of client.toml and the data file, which differ if a file has changed."""
        return _stamp(self.config), self._data and _stamp(self._data)


class Worker:
    """Answers messages at a site's socket until the site ends.

    Args:
        config: path of the site's client.toml.
        site: id of the site's process, with which the worker ends.
        mark: start time of that process (``worker_link.process_mark``).
    """

    def __init__(self, config: Path, site: int, mark: str) -> None:
        self.loaded = LoadedNode(config)
        self.folder = worker_folder(config)
        self._site = (site, mark)
        self._path: list[str] | None = None  # folders from which the site's programs are imported
        self._ended = False
        self._listener = socket.socket(socket.AF_UNIX)

    def serve(self) -> None:
        """Answer messages until the site has ended.

        Raises WorkerLinkError if the socket cannot be made.
        """
        path = self.folder / SOCKET
        own_socket = self._listen()
        self._load()
        # If the socket is another file than the worker's, another worker has taken its place.
        while not self._ended and is_alive(*self._site) and _file(path) == own_socket:
            with suppress(TimeoutError):
                connection, _ = self._listener.accept()
                with connection:
                    self._answer(connection)
        self._listener.close()
        if not self._ended and _file(path) == own_socket:
            path.unlink(missing_ok=True)

    def _listen(self) -> tuple[int, int] | None:
        """Make the socket, for this user only, and listen. Returns the identity of its file."""
        open_folder(self.folder)
        # The socket gets its mode when it is made, so no other user can open it in between.
        before = os.umask(0o177)
        try:
            with socket_address(self.folder) as address:
                self._listener.bind(address)
        except OSError as error:
            raise WorkerLinkError(
                f"the worker's socket {self.folder / SOCKET} cannot be made: {error.strerror}"
            ) from error
        finally:
            os.umask(before)
        self._listener.listen()
        self._listener.settimeout(_CHECK)
        return _file(self.folder / SOCKET)

    def _load(self) -> None:
        """Load the node before the first message. If this fails, the first reply reports it."""
        with suppress(Exception):
            self.loaded.node()

    def _answer(self, connection: socket.socket) -> None:
        """Read one message from a connection and send the reply. A lost connection is logged."""
        connection.settimeout(_READ_TIMEOUT)
        try:
            check_peer(connection)
            # A process that only checks for a worker sends nothing.
            if not connection.recv(1, socket.MSG_PEEK):
                return
            head, message = read_frame(connection)
            if message is None:
                return
            reason = self._reason_to_end(head)
            if reason:
                self._ended = True
                self._leave()
                return write_frame(connection, {"replace": reason})
            connection.settimeout(None)
            write_frame(connection, *self._reply(message))
        except WorkerLinkError as error:
            _log.warning("this worker has refused a message: %s", error)
        except OSError as error:
            _log.warning("a message was not answered: %s", error)

    def _reason_to_end(self, head: dict[str, Any]) -> str:
        """Why this worker must end and another must answer the message; empty if this one can
        answer.

        Then the function also notes which process of the site sent the message, because the worker
        ends when that process ends.

        Args:
            head: the entries in front of the message, as ``worker_client`` sends them.
        """
        if head.get("version") != __version__:
            return f"the worker runs fedkin {__version__}, but the site runs {head.get('version')}"
        if self._path is None:
            self._path = head.get("path")
        if head.get("path") != self._path:
            return "the site's programs are now imported from other folders"
        site, mark = head.get("site", self._site)
        self._site = (int(site), str(mark))
        return ""

    def _leave(self) -> None:
        """Remove the socket, because the sender will start another worker at the same path.

        The worker's reply asks the sender to do so. The socket must be gone before this reply is
        sent.
        """
        (self.folder / SOCKET).unlink(missing_ok=True)
        self._listener.close()

    def _reply(self, message: Frames) -> tuple[dict[str, Any], Frames | None]:
        """The reply to a message; if an unexpected error happens meanwhile, the text of this error
        and no reply."""
        from fedkin.server.deploy.site_outbox import site_outbox
        from fedkin.server.message import IN_REPLY, from_parts
        from fedkin.server.node import respond_recorded

        try:
            outbox = site_outbox(self.loaded.config)
            reply, parts = respond_recorded(
                self.loaded.node, lambda: from_parts(message), outbox, IN_REPLY
            )
            return {"refused": reply.refusal}, parts
        except Exception as error:
            # The same as when a client's process fails: the message is lost, the site continues.
            traceback.print_exc()
            return {"failure": f"{type(error).__name__}: {error}"}, None


def _stamp(path: Path) -> tuple[int, int] | None:
    """Modification time and size of a file, to detect changes; None if the file does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _file(path: Path) -> tuple[int, int] | None:
    """The identity of the file at a path; None if there is no file.

    Inode numbers are used again for new files, so the identity includes a time.
    """
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def main(arguments: list[str]) -> None:
    """Serve a site until its process has ended.

    The arguments are the path of client.toml, the id of the site's process, and that process's
    mark.
    """
    logging.basicConfig()
    (handler,) = logging.getLogger().handlers
    handler.setFormatter(formatter(_FORMAT, "fedkin-site"))
    _log.setLevel(logging.INFO)
    config = Path(arguments[0])
    site = int(arguments[1])
    mark = arguments[2]
    keep_output_small(worker_folder(config) / LOG)
    try:
        Worker(config, site, mark).serve()
    except WorkerLinkError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
