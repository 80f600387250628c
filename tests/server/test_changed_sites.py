"""Sites that change while a run goes on, and refused sites that are corrected."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest

from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import ABOUT, fake_node, membership_of
from tests.server.test_invalid_replies import ODD, federation, train


@pytest.mark.parametrize(
    "changes", [{"layout": "another"}, {"version": "0.0.0"}, {"parameters": 5}, {"samples": "x"}]
)
def test_replies_of_a_site_with_another_handshake_are_excluded(
    changes: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    transport, world = federation()
    other = fake_node(f"site-{ODD}", [ODD], replace(ABOUT, **changes))
    transport.stations[ODD].handle = other.handle
    with caplog.at_level(logging.WARNING, "fedkin"):
        got = train(world)
    assert np.flatnonzero(~got.arrived).tolist() == [ODD]
    assert f"no reply from site-{ODD}" in caplog.text
    assert "at the site" in caplog.text and "at the server" in caplog.text


def test_replies_of_a_site_with_another_number_of_clients_are_excluded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    transport, world = federation()
    transport.stations[ODD].handle = fake_node(f"site-{ODD}", [ODD, ODD + 1]).handle
    with caplog.at_level(logging.WARNING, "fedkin"):
        got = train(world)
    assert np.flatnonzero(~got.arrived).tolist() == [ODD]
    assert "had 1 clients when it was accepted, but now has 2" in caplog.text


def test_a_refused_node_may_try_again_after_it_was_offline() -> None:
    transport = MemoryTransport()
    transport.join(1, fake_node("a"))
    transport.join(2, fake_node("b", about=replace(ABOUT, version="0.0.0")))
    membership = membership_of(transport, wait_for=1)
    membership.begin_round(0)
    membership.begin_round(1)
    assert 2 in membership.registry.refused
    membership.begin_round(2)
    assert len(transport.stations[2].requests) == 1  # not in every round
    transport.leave(2)
    membership.begin_round(3)
    transport.join(2, fake_node("b"))
    membership.begin_round(4)
    membership.begin_round(5)
    np.testing.assert_array_equal(membership.online_clients(), [0, 1])


def test_a_refused_node_may_try_again_after_two_minutes() -> None:
    transport = MemoryTransport()
    transport.join(1, fake_node("a"))
    transport.join(2, fake_node("b", about=replace(ABOUT, version="0.0.0")))
    membership = membership_of(transport, wait_for=1)
    for round in range(3):
        membership.begin_round(round)
    transport.stations[2].handle = fake_node("b").handle  # corrected, without going offline
    transport.clock.sleep(130.0)
    for round in range(3, 6):
        membership.begin_round(round)
    np.testing.assert_array_equal(membership.online_clients(), [0, 1])


def test_a_node_that_crashes_at_every_handshake_is_refused_in_the_end() -> None:
    transport = MemoryTransport()
    transport.join(1, fake_node("a"))
    transport.join(2, fake_node("b"), crashes=True)
    membership = membership_of(transport, wait_for=1)
    for round in range(8):
        membership.begin_round(round)
    assert 2 in membership.registry.refused
    assert sum(node == 2 for _, node, operation, _ in transport.pushed if operation == "hello") == 3
