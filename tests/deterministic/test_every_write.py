"""Every operation on the disk of a server, of a node and of a peer: without space, killed, or
without power.

One of the three at each; all three at each, of all methods: ``python -m tests.deterministic
--every-write``.
"""

from __future__ import annotations

from tests.deterministic.every_write import (
    SERVER_FAULTS,
    SITE,
    SITE_FAULTS,
    of_peers,
    of_server,
    operations,
    violations,
)


def test_every_operation_of_a_server() -> None:
    assert operations(of_server("fedavg"))["server"] > 60
    assert violations(of_server("fedavg"), *SERVER_FAULTS) == []


def test_every_operation_of_a_node() -> None:
    """The method's clients keep personal models on the node's disk."""
    assert operations(of_server("ditto"))[SITE] > 20
    assert violations(of_server("ditto"), *SITE_FAULTS) == []


def test_every_operation_of_a_peer() -> None:
    """Of its first three rounds."""
    assert operations(of_peers("gossip"))[SITE] > 30
    assert violations(of_peers("gossip"), *SITE_FAULTS, most=30) == []
