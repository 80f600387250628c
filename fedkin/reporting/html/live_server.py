"""HTTP server of a live page. It is read-only, and only browsers that know the secret address see
the page."""

from __future__ import annotations

import errno
import json
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from fedkin.core.errors import ConfigError, FedkinError
from fedkin.reporting.html.live import LivePage

LOOPBACK = "127.0.0.1"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: "
        "blob:; connect-src 'self'; frame-src 'self'; frame-ancestors 'self'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class LiveServer(ThreadingHTTPServer):
    """HTTP server of one live page. Its address contains a random word, so that other users of the
    machine cannot guess it.

    Args:
        page: the page to serve.
        host: address on which the server listens.
        port: port on which the server listens; 0 for any free port.

    Raises:
        ConfigError: the port is in use, or the host is not an address of this machine.
    """

    daemon_threads = True

    def __init__(self, page: LivePage, host: str = LOOPBACK, port: int = 0) -> None:
        self.page = page
        # The secret word with which addresses of this page begin.
        self.word = secrets.token_urlsafe(16)
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            cure = "check --host and --port"
            if error.errno == errno.EADDRINUSE:
                cure = "choose another port with --port"
            raise ConfigError(f"{host}:{port}: {error.strerror or error}; {cure}") from error

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        host, port = self.server_address[:2]
        return f"http://{host}:{port}/{self.word}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of a request, such as a browser that disconnects."""


class _Handler(BaseHTTPRequestHandler):
    """Answers requests of browsers. Addresses without the secret word get status 404."""

    server: LiveServer

    def do_GET(self) -> None:
        """Answer a request for the page, its status or its report; status 404 for other paths."""
        path = self.path.partition("?")[0]
        root = f"/{self.server.word}/"
        # The time of this comparison does not tell how many characters of the word are right.
        if not secrets.compare_digest(path[: len(root)].encode(), root.encode()):
            return self._send(
                HTTPStatus.NOT_FOUND,
                "text/plain",
                b"no page at this address; the command prints the correct one",
            )
        try:
            kind, content = self._content(path[len(root) :])
        except FedkinError as error:
            return self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", str(error).encode())
        except KeyError:
            return self._send(HTTPStatus.NOT_FOUND, "text/plain", b"no such page")
        return self._send(HTTPStatus.OK, kind, content)

    def _content(self, name: str) -> tuple[str, bytes]:
        """Content type and content of a page. Raises KeyError for an unknown name."""
        match name:
            case "":
                file = resources.files("fedkin.reporting.html") / "live.html"
                return "text/html", file.read_bytes()
            case "status.json":
                return "application/json", json.dumps(self.server.page.status()).encode()
            case "report.html":
                return "text/html", self.server.page.report()
        raise KeyError(name)

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        """Send a response with its headers."""
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Disable the log of requests, because the address is secret."""
