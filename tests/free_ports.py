"""Free ports, and Zenoh sessions that a test may open."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

from fedkin.config.peer_settings import NetworkSettings, TlsSettings
from fedkin.p2p.zenoh_transport import ZenohTransport

# A peer that hangs is dropped after 1.5 s.
QUICK = "{transport: {link: {tx: {lease: 1500, keep_alive: 4}}}}"


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that no process uses, as far as one can know."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def consecutive_ports(count: int) -> int:
    """The first of so many ports in a row that are free, as far as one can know."""
    while True:
        first = free_ports(1)[0]
        if first + count <= 65_536 and all(is_free(port) for port in range(first, first + count)):
            return first


def is_free(port: int) -> bool:
    """Whether a port of the loopback can be bound."""
    with socket.socket() as attempt:
        try:
            attempt.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def until(so: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Wait for something to become so."""
    end = time.monotonic() + seconds
    while not so() and time.monotonic() < end:
        time.sleep(0.02)
    return so()


def links(
    port: int, *known: int, tls: Path | None = None, zenoh: str | None = None
) -> NetworkSettings:
    """A peer that listens on ``port`` and knows some others;
    ``tls`` is its folder of certificates."""
    way = "tls" if tls else "tcp"
    certificates = (
        TlsSettings(str(tls / "ca.pem"), str(tls / "certificate.pem"), str(tls / "key.pem"))
        if tls
        else None
    )
    at = [f"{way}/127.0.0.1:{p}" for p in (port, *known)]
    return NetworkSettings(at[:1], at[1:], tls=certificates, zenoh=zenoh)


def network(
    name: str, how: NetworkSettings, parameters: int = 100, federation: str = "trial"
) -> ZenohTransport:
    return ZenohTransport(federation, name, how, parameters)
