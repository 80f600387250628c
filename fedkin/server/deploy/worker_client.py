"""Client of a site's worker: forwards messages to the worker, and starts it if it does not run.

Only the standard library is imported here, because a process that imports this module starts for
every message to a site.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedkin import __version__
from fedkin.server.deploy.worker_link import (
    AVAILABLE,
    LOCK,
    LOG,
    SOCKET,
    WorkerLinkError,
    check_peer,
    open_folder,
    process_mark,
    socket_address,
    worker_folder,
)
from fedkin.server.frames import Frames, read_frame, write_frame

_log = logging.getLogger("fedkin")
MODULE = "fedkin.server.deploy.worker"
_START_TIMEOUT = 60.0  # seconds
_PAUSE = 0.01  # seconds
_LONGEST_LINE = 500  # characters shown of a worker's last line
_ATTEMPTS = 2  # per message; the second attempt uses a new worker
# Workers that this process has started. It must wait for them when they exit, or they remain as
# zombie processes.
_started: list[subprocess.Popen[bytes]] = []


class WorkerFailure(RuntimeError):
    """The worker failed with an unexpected error, which goes to Flower as a client's error."""


class SiteWorker:
    """A site's worker, as seen by a process that sends it messages.

    Args:
        config: path of the site's client.toml.
        site: id of the site's process; the worker ends when this process ends.
        refused: called with the reason why the site refused a message, or with an empty text if it
            answered.
    """

    def __init__(
        self, config: Path, site: int, refused: Callable[[str], None] = lambda reason: None
    ) -> None:
        self.config = config.absolute()
        self.folder = worker_folder(config)
        self._site = [site, process_mark(site)]
        self._refused = refused

    def reply(self, message: Frames) -> Frames:
        """The worker's reply to a message.

        If the worker dies or is replaced, the message goes to a new worker, once.

        Raises:
            WorkerLinkError: no worker runs, and none can be started.
            WorkerFailure: the worker failed, or died twice.
        """
        for _ in range(_ATTEMPTS):
            with self._connection() as connection:
                try:
                    write_frame(connection, self._head(), message)
                    head, parts = read_frame(connection)
                except OSError as error:
                    _log.warning(
                        "the worker of %s died while it answered (%s); a new one is started",
                        self.config,
                        error,
                    )
                    continue
            if "replace" in head:
                _log.warning("the worker of %s is replaced: %s", self.config, head["replace"])
                continue
            if parts is None:
                failure = str(head.get("failure", "the worker gave no reply"))
                self._refused(failure)
                raise WorkerFailure(failure)
            self._refused(str(head.get("refused", "")))
            return parts
        failure = f"the worker died {_ATTEMPTS} times while it answered: {self._last_words()}"
        self._refused(failure)
        raise WorkerFailure(failure)

    def start(self) -> None:
        """Start the worker if it does not run. Raises WorkerLinkError."""
        self._connection_or_start().close()

    def _head(self) -> dict[str, Any]:
        """The entries that are sent before a message. A worker decides by them whether it can
        answer the message, or must be replaced."""
        return {"version": __version__, "site": self._site, "path": sys.path}

    @contextmanager
    def _connection(self) -> Iterator[socket.socket]:
        """A connection to the worker, which is closed afterwards."""
        connection = self._connection_or_start()
        try:
            yield connection
        finally:
            connection.close()

    def _connection_or_start(self) -> socket.socket:
        """A connection to the worker, which is started if none runs. Raises WorkerLinkError."""
        if not AVAILABLE:
            raise WorkerLinkError(
                "a site's worker needs Unix sockets, which this system does not have; run the site "
                "on Linux or macOS"
            )
        open_folder(self.folder)
        connection = self._connect()
        if connection is None:
            with self._lock():
                # Another process may have started a worker before this one got the lock.
                connection = self._connect() or self._start()
        try:
            check_peer(connection)
        except WorkerLinkError:
            connection.close()
            raise
        return connection

    def _connect(self) -> socket.socket | None:
        """A connection to a listening worker; None if no worker listens."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            with socket_address(self.folder) as address:
                connection.connect(address)
            return connection
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        except OSError as error:
            connection.close()
            raise WorkerLinkError(
                f"no connection to the worker's socket {self.folder / SOCKET}: {error.strerror}"
            ) from error

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Hold the lock without which no process may start a worker.

        Only one process has the lock at a time. The lock is also released if the process is killed.
        """
        import fcntl

        with (self.folder / LOCK).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _start(self) -> socket.socket:
        """Start a worker, and connect to it."""
        if (self.folder / SOCKET).exists():
            _log.warning("removing %s of a worker that has ended", self.folder / SOCKET)
            with suppress(FileNotFoundError):
                (self.folder / SOCKET).unlink()
        process = self._spawn()
        end = time.monotonic() + _START_TIMEOUT
        while time.monotonic() < end:
            connection = self._connect()
            if connection is not None:
                return connection
            if process.poll() is not None:
                break
            time.sleep(_PAUSE)
        process.kill()
        raise WorkerLinkError(f"a worker could not be started: {self._last_words()}")

    def _last_words(self) -> str:
        """The last line in the log of a worker, and the path of the log, for an error message."""
        log = self.folder / LOG
        try:
            lines = log.read_text(errors="replace").split("\n")
        except OSError:
            lines = []
        written = [line.strip() for line in lines if line.strip()]
        if not written:
            return f"see {log}"
        return f"{written[-1][:_LONGEST_LINE]} (see {log})"

    def _spawn(self) -> subprocess.Popen[bytes]:
        """Start the process of a worker, in a separate session so that it outlives this process."""
        path = os.pathsep.join(dict.fromkeys(entry for entry in sys.path if entry))
        command = [sys.executable, "-m", MODULE, str(self.config), *map(str, self._site)]
        _started[:] = [process for process in _started if process.poll() is None]
        with (self.folder / LOG).open("ab") as log:
            process = subprocess.Popen(
                command,
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        _started.append(process)
        return process
