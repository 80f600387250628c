"""Checks that the server's port is free, or that a SuperLink of this federation listens on it."""

from __future__ import annotations

import http.client
import socket
import ssl
from pathlib import Path

from fedkin.server.deploy.check_result import CheckResult, doubtful, failed
from fedkin.server.deploy.deployment_folder import Address

_TIMEOUT = 3.0  # seconds


def check_port(address: Address, ca: Path) -> CheckResult:
    """Whether the SuperLink's port is free, or used by a SuperLink of this federation."""
    name = f"port {address.port}"
    with socket.socket() as attempt:
        # A port that was released a moment ago counts as free.
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((address.bind_host, address.port))
            return CheckResult(name, "free")
        except OSError as error:
            reason = error.strerror
    server = check_superlink(address, ca)
    if server.mark == "✓":
        return CheckResult(name, "a SuperLink runs there")
    return failed(
        name,
        f"not free ({reason}), and the program that uses it is not a SuperLink of this federation; "
        "choose another port with --port",
    )


def check_superlink(address: Address, ca: Path) -> CheckResult:
    """Whether a SuperLink replies at an address. With TLS the SuperLink's certificate must be
    issued by the authority ``ca``."""
    name = f"server {address}"
    try:
        trusted = ssl.create_default_context(cafile=str(ca)) if address.secure else None
    except OSError:
        return failed(name, f"not checked without the authority's certificate, {ca}")
    try:
        status = _health_status(address, trusted)
    except ssl.SSLCertVerificationError as error:
        return failed(
            name,
            f"the SuperLink's certificate was not issued by {ca} for {address.host}: "
            f"{error.verify_message}",
        )
    except (ssl.SSLError, http.client.HTTPException, ConnectionResetError) as error:
        how = "with TLS" if address.secure else "without TLS"
        return failed(
            name,
            f"something listens there, but it is not a SuperLink {how} ({type(error).__name__}): "
            "check SUPERLINK in flower.env",
        )
    except socket.gaierror:
        return failed(
            name,
            f"no machine has the name {address.host}: check SUPERLINK in flower.env, or the DNS",
        )
    except OSError as error:
        # No failure: the SuperLink may not have been started yet.
        reason = error.strerror or str(error) or type(error).__name__
        return doubtful(
            name,
            f"not reachable ({reason}): is the SuperLink running, and does the firewall allow the "
            "connection?",
        )
    if status != 200:
        return failed(
            name,
            f"the program there replies {status} to /health, which no SuperLink does: check "
            "SUPERLINK in flower.env",
        )
    detail = "a SuperLink replies"
    if address.secure:
        detail += ", with the right certificate"
    return CheckResult(name, detail)


def _health_status(address: Address, trusted: ssl.SSLContext | None) -> int:
    """The HTTP status of the SuperLink's /health page."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=_TIMEOUT)
    if trusted is not None:
        connection = http.client.HTTPSConnection(
            address.host, address.port, timeout=_TIMEOUT, context=trusted
        )
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status
    finally:
        connection.close()
