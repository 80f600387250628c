"""HTTP page with ``/metrics`` for Prometheus and the health checks ``/livez`` and ``/readyz``.

It is read-only, and listens on this machine only unless told otherwise.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fedkin.core.errors import ConfigError
from fedkin.tracking.health import Checks, health_of
from fedkin.tracking.optional_import import import_library

LOOPBACK = "127.0.0.1"
_TIMEOUT = 10.0  # seconds that a connection may be silent
_NO_PAGE = b"no such page; there are /metrics, /livez and /readyz\n"
_TEXT = "text/plain; charset=utf-8"


class MetricsPage(ThreadingHTTPServer):
    """The server of the page.

    Args:
        registry: the metrics.
        checks: the health checks, by name.
        address: address on which the page listens.
        port: its port; 0 for any free port.

    Raises:
        ConfigError: the port is in use, or the address is not of this machine.
        MissingExtra: prometheus-client is not installed.
    """

    daemon_threads = True

    def __init__(
        self, registry: Any, checks: Checks, address: str = LOOPBACK, port: int = 0
    ) -> None:
        self.registry = registry
        self.checks = checks
        self.exposition = import_library("prometheus_client.exposition", "metrics")
        try:
            super().__init__((address, port), _Handler)
        except OSError as error:
            raise ConfigError(
                f"metrics.port: the page cannot listen on {address}:{port} "
                f"({error.strerror or error}); choose another port or address"
            ) from error

    @property
    def url(self) -> str:
        """The address of the page."""
        host, port = self.server_address[:2]
        return f"http://{host}:{port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of a request, such as a reader that disconnects."""


class _Handler(BaseHTTPRequestHandler):
    """Answers GET requests."""

    server: MetricsPage
    timeout = _TIMEOUT

    def do_GET(self) -> None:
        """Answer a request for the metrics or a health check; status 404 for other paths."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, kind = self.server.exposition.choose_encoder(self.headers.get("Accept", ""))
            return self._send(HTTPStatus.OK, kind, encode(self.server.registry))
        if path == "/livez":
            return self._send(HTTPStatus.OK, _TEXT, b"ok\n")
        if path == "/readyz":
            health = health_of(self.server.checks)
            status = HTTPStatus.OK if health.ready else HTTPStatus.SERVICE_UNAVAILABLE
            content = json.dumps(health.values(), indent=1).encode()
            return self._send(status, "application/health+json", content + b"\n")
        return self._send(HTTPStatus.NOT_FOUND, _TEXT, _NO_PAGE)

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        """Send a response."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Write no line for a request: there is one every few seconds."""


@contextmanager
def serving(page: MetricsPage) -> Iterator[MetricsPage]:
    """Context manager that answers requests in a thread until it ends."""
    thread = threading.Thread(target=page.serve_forever, name="fedkin metrics", daemon=True)
    thread.start()
    try:
        yield page
    finally:
        page.shutdown()
        page.server_close()
        thread.join()
