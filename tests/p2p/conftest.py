"""Zenoh sessions that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fedkin.p2p.zenoh_transport import ZenohNetwork
from tests.free_ports import network


@pytest.fixture
def opened() -> Iterator[Callable[..., ZenohNetwork]]:
    """Opens networks, and closes them at the end."""
    networks: list[ZenohNetwork] = []

    def open_one(*arguments: object, **options: object) -> ZenohNetwork:
        networks.append(network(*arguments, **options))  # type: ignore[arg-type]
        return networks[-1]

    yield open_one
    for each in networks:
        each.close()
