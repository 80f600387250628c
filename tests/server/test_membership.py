"""Where nodes are met: ids by name at the start, newcomers a round after they came, and nobody who does not fit."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.server.membership import Membership
from fedkin.server.message import RpcMessage
from tests.server.memory_transport import MemoryPost
from tests.server.small_federations import ABOUT, fake_node, hall_of


def opened(*names: str, **terms: Any) -> tuple[MemoryPost, Membership]:
    """Nodes 100, 99, ... with these names and one client each, and a hall that has met them."""
    post = MemoryPost()
    for number, name in enumerate(names):
        post.join(100 - number, fake_node(name))
    membership = hall_of(post, **{"wait_for": len(names), **terms})
    membership.begin(0)
    return post, membership


def firsts(membership: Membership) -> dict[str, int]:
    return {name: member.first for name, member in membership.registry.members.items()}


def test_ids_follow_the_names_at_the_start() -> None:
    _, membership = opened("site-10", "site-9", "alpha", "site-1")
    assert firsts(membership) == {"alpha": 0, "site-1": 1, "site-9": 2, "site-10": 3}
    np.testing.assert_array_equal(membership.there(), [0, 1, 2, 3])


def test_names_decide_though_they_come_one_after_another() -> None:
    post = MemoryPost()
    membership = hall_of(post, wait_for=3)
    for when, name in ((5.0, "c"), (70.0, "a"), (130.0, "b")):
        post.clock.at(when, lambda name=name: post.join(ord(name), fake_node(name)))
    membership.begin(0)
    assert firsts(membership) == {"a": 0, "b": 1, "c": 2}
    assert 130 <= post.clock.now <= 131


def test_who_is_refused_does_not_open_the_hall() -> None:
    """Ids follow the names of those who are there at the start, and a second of a name is no client more."""
    post = MemoryPost()
    post.join(1, fake_node("z"))
    post.join(2, fake_node("z"))
    post.clock.at(20.0, lambda: post.join(3, fake_node("a")))
    membership = hall_of(post, wait_for=2)
    membership.begin(0)
    assert firsts(membership) == {"a": 0, "z": 1}


def test_fleets_count_with_all_their_clients() -> None:
    post = MemoryPost()
    post.join(1, fake_node("fleet-b", range(3)))
    post.join(2, fake_node("fleet-a", range(2)))
    membership = hall_of(post, wait_for=5)
    membership.begin(0)
    assert firsts(membership) == {"fleet-a": 0, "fleet-b": 2}
    np.testing.assert_array_equal(membership.registry.samples[:5], [10, 11, 10, 11, 12])


def test_the_wait_is_told_and_told_again(caplog: pytest.LogCaptureFixture) -> None:
    post = MemoryPost()
    post.join(1, fake_node("a"))
    post.clock.at(200.0, lambda: post.join(2, fake_node("b")))
    with caplog.at_level(logging.INFO, "fedkin"):
        hall_of(post, wait_for=2).begin(0)
    assert caplog.text.count("waiting for 2 clients") == 1
    assert caplog.text.count("for 2 clients: 0 are there, 1 nodes are online") == 3


def test_the_time_of_the_first_round_begins_when_all_are_there() -> None:
    post = MemoryPost()
    post.clock.at(500.0, lambda: post.join(1, fake_node("a")))
    membership = hall_of(post, wait_for=1, deadline=90.0)
    membership.begin(0)
    post.stations[1].delay = 59.0
    assert 1 in membership.mail.ask({1: RpcMessage({"verb": "hello", **ABOUT.header()})}, 0)


# --- newcomers


def test_a_newcomer_is_there_a_round_after_it_was_met_and_nobody_waits_for_it() -> None:
    post, membership = opened("a", "b")
    post.join(7, fake_node("new"), delay=8.0)
    before = post.clock.now
    membership.begin(1)
    np.testing.assert_array_equal(membership.there(), [0, 1])
    assert post.clock.now == before
    post.clock.sleep(10.0)
    membership.begin(2)
    np.testing.assert_array_equal(membership.there(), [0, 1, 2])


def test_newcomers_are_greeted_once() -> None:
    post, membership = opened("a")
    post.join(7, fake_node("new"), delay=25.0)
    for round in range(1, 5):
        membership.begin(round)
        post.clock.sleep(10.0)
    assert [node for _, node, verb, _ in post.pushed if verb == "hello"] == [100, 7]
    assert firsts(membership) == {"a": 0, "new": 1}


def test_a_greeting_that_was_lost_is_sent_again() -> None:
    post, membership = opened("a")
    post.join(7, fake_node("new"), loses=1)
    membership.begin(1)
    membership.begin(2)
    np.testing.assert_array_equal(membership.there(), [0, 1])


def test_a_greeting_that_the_engine_does_not_take_is_sent_again_and_not_counted() -> None:
    post, membership = opened("a")
    post.join(7, fake_node("new"), deaf=True)
    membership.begin(1)
    post.stations[7].deaf = False
    membership.begin(2)
    np.testing.assert_array_equal(membership.there(), [0, 1])
    down, up = membership.spent()
    assert down == sum(size for *_, verb, size in post.pushed if verb == "hello") > 0
    assert up == sum(size for verb, size in post.received if verb == "hello") > 0
    assert membership.spent() == (0, 0)


def test_who_goes_is_not_there_and_is_again_when_it_comes_back_with_another_number() -> None:
    post, membership = opened("a", "b", "c")
    node = post.leave(99)
    membership.begin(1)
    np.testing.assert_array_equal(membership.there(), [0, 2])
    post.join(500, node.answers)
    membership.begin(2)
    membership.begin(3)
    np.testing.assert_array_equal(membership.there(), [0, 1, 2])
    assert firsts(membership) == {"a": 0, "b": 1, "c": 2}


def test_who_comes_back_with_the_same_number_needs_no_greeting() -> None:
    post, membership = opened("a", "b")
    node = post.leave(99)
    membership.begin(1)
    post.join(99, node.answers)
    membership.begin(2)
    np.testing.assert_array_equal(membership.there(), [0, 1])


def test_when_all_have_gone_a_round_waits_for_one() -> None:
    post, membership = opened("a", "b")
    gone = [post.leave(node) for node in (100, 99)]
    post.clock.at(300.0, lambda: post.join(42, gone[1].answers))
    membership.begin(1)
    np.testing.assert_array_equal(membership.there(), [1])
    assert post.clock.now >= 300


def test_a_round_does_not_wait_for_the_dead() -> None:
    post, membership = opened("a", "b", "c")
    post.kill(99)
    letter = RpcMessage({"verb": "hello", **ABOUT.header()})
    membership.mail.ask({node: letter for node in (100, 99, 98)}, 1)
    np.testing.assert_array_equal(membership.there(), [0, 2])
    membership.begin(2)
    np.testing.assert_array_equal(membership.there(), [0, 2])


# --- those who may not take part


STRANGERS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"version": "0.0.1"}, ("version", "0.0.1", ABOUT.version)),
    ({"parameters": 7}, ("parameters", "7", "4")),
    ({"layout": "other"}, ("layers", "other", ABOUT.layout)),
    ({"samples": "[9] -> 2"}, ("[9] -> 2", "[4] -> 3")),
    ({"config": "c1"}, ("hash", "c1", "c0")),
    ({"federation": "night"}, ("night", "trial")),
]


@pytest.mark.parametrize(("changes", "words"), STRANGERS)
@pytest.mark.parametrize("honest", [True, False], ids=["node-refuses", "server-refuses"])
def test_who_means_something_else_is_refused_by_name_and_never_asked(
    changes: dict[str, Any], words: tuple[str, ...], honest: bool, caplog: pytest.LogCaptureFixture
) -> None:
    own = replace(ABOUT, config="c0")
    post, other = MemoryPost(), replace(own, **changes)
    post.join(1, fake_node("a", about=own))
    liar = RpcMessage({**other.header(), "name": "stranger"}, {"samples": np.array([5])})
    post.join(2, fake_node("stranger", about=other) if honest else lambda letter: liar)
    membership = hall_of(post, own, wait_for=1)
    with caplog.at_level(logging.WARNING, "fedkin"):
        for round in range(4):
            membership.begin(round)
    np.testing.assert_array_equal(membership.there(), [0])
    told = [r.getMessage() for r in caplog.records if "is refused" in r.getMessage()]
    assert len(told) == 1 and "'stranger' (node 2) is refused" in told[0]
    for word in words:
        assert word in told[0]
    assert len(post.stations[2].letters) == 1 and set(membership.registry.refused) == {2}


def test_there_is_no_room_above_the_capacity(caplog: pytest.LogCaptureFixture) -> None:
    post, membership = opened("a", "b", capacity=2)
    post.join(7, fake_node("c"))
    with caplog.at_level(logging.WARNING, "fedkin"):
        membership.begin(1)
        membership.begin(2)
    np.testing.assert_array_equal(membership.there(), [0, 1])
    assert "'c' (node 7) is refused" in caplog.text and "federation.capacity" in caplog.text


def test_the_newest_of_two_with_a_name_is_believed() -> None:
    post, membership = opened("a", "b")
    post.join(7, fake_node("b"))
    membership.begin(1)
    membership.begin(2)
    np.testing.assert_array_equal(membership.there(), [0, 1])
    assert membership.registry.deal(np.array([1]))[0][0] == 7 and set(membership.registry.refused) == {99}


def test_a_name_that_is_registered_is_not_another_s() -> None:
    post = MemoryPost()
    post.join(1, fake_node("berlin"), name="berlin", key="k1")
    membership = hall_of(post, wait_for=1)
    membership.begin(0)
    post.join(2, fake_node("berlin"), name="paris", key="k2")
    post.join(3, fake_node("berlin"))
    membership.begin(1)
    membership.begin(2)
    assert set(membership.registry.refused) == {2, 3}
    assert "registered as 'paris'" in membership.registry.refused[2] and "another key" in membership.registry.refused[3]
    assert membership.registry.deal(np.array([0]))[0][0] == 1


def broken_hellos() -> dict[str, RpcMessage]:
    fine = {**ABOUT.header(), "name": "odd"}
    return {
        "nothing": RpcMessage(),
        "no name": RpcMessage(ABOUT.header(), {"samples": np.array([5])}),
        "a long number for a name": RpcMessage({**fine, "name": "9" * 5000}, {"samples": np.array([5])}),
        "no samples": RpcMessage(fine),
        "no clients": RpcMessage(fine, {"samples": np.zeros(0, np.int64)}),
        "samples without an axis": RpcMessage(fine, {"samples": np.array(5)}),
        "samples of two axes": RpcMessage(fine, {"samples": np.ones((2, 2), np.int64)}),
        "samples that are not whole": RpcMessage(fine, {"samples": np.array([1.5])}),
        "fewer than no samples": RpcMessage(fine, {"samples": np.array([5, -5])}),
        "no training samples": RpcMessage(fine, {"samples": np.array([0])}),
        "more clients than can be": RpcMessage(fine, {"samples": np.ones(1000, np.int64)}),
        "failed": RpcMessage({"failed": "cannot read its data"}),
    }


@pytest.mark.parametrize("what", [*broken_hellos()])
def test_an_answer_that_is_no_introduction_is_refused(what: str, caplog: pytest.LogCaptureFixture) -> None:
    post, membership = opened("a")
    post.join(7, lambda letter: broken_hellos()[what])
    with caplog.at_level(logging.WARNING, "fedkin"):
        membership.begin(1)
        membership.begin(2)
    np.testing.assert_array_equal(membership.there(), [0])
    assert set(membership.registry.refused) == {7} and "(node 7) is refused" in caplog.text
    assert all(len(record.getMessage()) < 1000 for record in caplog.records)


def test_a_node_that_raises_is_refused_with_what_it_said(caplog: pytest.LogCaptureFixture) -> None:
    post, membership = opened("a")
    post.join(7, lambda letter: [][0])  # type: ignore[arg-type, return-value]
    with caplog.at_level(logging.WARNING, "fedkin"):
        membership.begin(1)
        membership.begin(2)
    assert set(membership.registry.refused) == {7} and "IndexError" in caplog.text


# --- the initial model


def test_a_node_that_makes_another_start_may_take_part_and_is_known() -> None:
    post, membership = opened("a", "b")
    assert membership.same_start
    post.join(7, fake_node("torch", about=replace(ABOUT, start="another")))
    membership.begin(1)
    membership.begin(2)
    np.testing.assert_array_equal(membership.there(), [0, 1, 2])
    assert not membership.same_start
