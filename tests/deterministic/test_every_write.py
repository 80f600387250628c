"""Every operation on the disk of a server, of a node and of a peer: without space, killed, or
without power.

One of the three at each; all three at each, of all methods: ``python -m tests.deterministic
--every-write``.
"""

from __future__ import annotations

from collections.abc import Callable

import jaxtyping
import pytest

from tests.deterministic.every_write import (
    SERVER_FAULTS,
    SITE,
    SITE_FAULTS,
    of_peers,
    of_server,
    operations,
    violations,
)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Turns checks of types off. The first federation has them, and the others call the same
    functions."""
    return lambda: monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def test_every_operation_of_a_server(fast: Callable[[], None]) -> None:
    assert operations(of_server("fedavg"))["server"] > 60
    fast()
    assert violations(of_server("fedavg"), *SERVER_FAULTS) == []


def test_every_operation_of_a_node(fast: Callable[[], None]) -> None:
    """The method's clients keep personal models on the node's disk."""
    assert operations(of_server("ditto"))[SITE] > 20
    fast()
    assert violations(of_server("ditto"), *SITE_FAULTS) == []


def test_every_operation_of_a_peer(fast: Callable[[], None]) -> None:
    """Of its first three rounds."""
    assert operations(of_peers("gossip"))[SITE] > 30
    fast()
    assert violations(of_peers("gossip"), *SITE_FAULTS, most=30) == []
