"""Zenoh sessions that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fedkin.p2p.zenoh_transport import ZenohTransport
from tests.free_ports import network


@pytest.fixture
def opened() -> Iterator[Callable[..., ZenohTransport]]:
    """Opens networks, and closes them at the end."""
    networks: list[ZenohTransport] = []

    def open_one(*arguments: object, **options: object) -> ZenohTransport:
        networks.append(network(*arguments, **options))  # type: ignore[arg-type]
        return networks[-1]

    yield open_one
    for each in networks:
        each.close()
