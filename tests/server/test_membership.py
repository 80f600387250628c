"""Membership: ids by name at the start, new nodes a round after they came online, and no node that
does not fit."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import ConfigError
from fedkin.server.membership import Membership
from fedkin.server.message import RpcMessage
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import ABOUT, fake_node, membership_of


def started(*names: str, **settings: Any) -> tuple[MemoryTransport, Membership]:
    """Nodes 100, 99, ... with these names and one client each, and the server's membership after
    its first round."""
    transport = MemoryTransport()
    for number, name in enumerate(names):
        transport.join(100 - number, fake_node(name))
    settings.setdefault("wait_for", len(names))
    membership = membership_of(transport, **settings)
    membership.begin_round(0)
    return transport, membership


def first_ids(membership: Membership) -> dict[str, int]:
    return {name: member.first for name, member in membership.registry.members.items()}


def test_ids_follow_the_names_at_the_start() -> None:
    _, membership = started("site-10", "site-9", "alpha", "site-1")
    assert first_ids(membership) == {"alpha": 0, "site-1": 1, "site-9": 2, "site-10": 3}
    np.testing.assert_array_equal(membership.online_clients(), [0, 1, 2, 3])


def test_ids_follow_names_also_where_nodes_come_one_after_another() -> None:
    transport = MemoryTransport()
    membership = membership_of(transport, wait_for=3, start_deadline=1000.0)
    for when, name in ((5.0, "c"), (70.0, "a"), (130.0, "b")):
        transport.clock.at(when, lambda name=name: transport.join(ord(name), fake_node(name)))
    membership.begin_round(0)
    assert first_ids(membership) == {"a": 0, "b": 1, "c": 2}
    assert 130 <= transport.clock.now <= 131


def test_refused_nodes_do_not_count_at_the_start() -> None:
    """Ids follow the names of those online at the start, and a second node of a name adds no
    client."""
    transport = MemoryTransport()
    transport.join(1, fake_node("z"))
    transport.join(2, fake_node("z"))
    transport.clock.at(20.0, lambda: transport.join(3, fake_node("a")))
    membership = membership_of(transport, wait_for=2)
    membership.begin_round(0)
    assert first_ids(membership) == {"a": 0, "z": 1}


def test_fleets_count_with_all_their_clients() -> None:
    transport = MemoryTransport()
    transport.join(1, fake_node("fleet-b", range(3)))
    transport.join(2, fake_node("fleet-a", range(2)))
    membership = membership_of(transport, wait_for=5)
    membership.begin_round(0)
    assert first_ids(membership) == {"fleet-a": 0, "fleet-b": 2}
    np.testing.assert_array_equal(membership.registry.samples[:5], [10, 11, 10, 11, 12])


def test_waiting_is_logged_every_minute(caplog: pytest.LogCaptureFixture) -> None:
    transport = MemoryTransport()
    transport.join(1, fake_node("a"))
    transport.clock.at(200.0, lambda: transport.join(2, fake_node("b")))
    with caplog.at_level(logging.INFO, "fedkin"):
        membership_of(transport, wait_for=2, start_deadline=1000.0).begin_round(0)
    assert caplog.messages.count("waiting for 2 clients") == 1
    assert caplog.text.count("s still waiting for 2 clients: 1 ready, 0 refused") == 3


def refusing(reason: str) -> Callable[[RpcMessage], RpcMessage]:
    """A node that cannot be made, as ``respond`` replies for it."""
    return lambda request: RpcMessage({"failed": reason, "name": "berlin"})


def test_a_run_for_which_too_few_come_ends_after_its_deadline() -> None:
    transport = MemoryTransport()
    transport.join(1, fake_node("a"))
    transport.join(2, refusing("no column age"))
    membership = membership_of(transport, wait_for=3, start_deadline=50.0)
    with pytest.raises(ConfigError) as ended:
        membership.begin_round(0)
    assert 50 <= transport.clock.now <= 51
    for words in (
        "1 of 3 clients are ready after 50 s",
        "berlin is refused: no column age",
        "set federation.wait_for=1",
        "federation.start_deadline",
        "fedkin deploy up",
    ):
        assert words in str(ended.value)


def test_without_a_start_deadline_it_is_the_deadline_of_a_round() -> None:
    transport = MemoryTransport()
    transport.join(1, refusing("no column age"))
    with pytest.raises(ConfigError, match="0 of 1 clients are ready after 70 s"):
        membership_of(transport, wait_for=1, deadline=70.0).begin_round(0)
    assert 70 <= transport.clock.now <= 71


def test_the_start_deadline_begins_with_the_first_node_that_is_online() -> None:
    """Keys are registered while the server waits: for half an hour no node is online."""
    transport = MemoryTransport()
    transport.clock.at(1800.0, lambda: transport.join(1, fake_node("a")))
    transport.clock.at(1840.0, lambda: transport.join(2, fake_node("b")))
    membership = membership_of(transport, wait_for=2, start_deadline=50.0)
    membership.begin_round(0)
    assert first_ids(membership) == {"a": 0, "b": 1}

    late = MemoryTransport()
    late.clock.at(1800.0, lambda: late.join(1, fake_node("a")))
    with pytest.raises(ConfigError, match="1 of 2 clients are ready after 50 s"):
        membership_of(late, wait_for=2, start_deadline=50.0).begin_round(0)
    assert 1850 <= late.clock.now <= 1851


def test_a_run_that_no_site_joins_ends_after_an_hour_and_its_deadline() -> None:
    empty = MemoryTransport()
    with pytest.raises(ConfigError, match="0 of 2 clients are ready"):
        membership_of(empty, wait_for=2, start_deadline=50.0).begin_round(0)
    assert 3649 <= empty.clock.now <= 3652


def test_a_later_round_ends_where_all_are_refused_and_waits_for_absent_nodes() -> None:
    transport = MemoryTransport()
    transport.join(1, fake_node("a"))
    membership = membership_of(transport, wait_for=1, start_deadline=50.0)
    membership.begin_round(0)
    transport.leave(1)
    transport.clock.at(300.0, lambda: transport.join(2, fake_node("a")))
    membership.begin_round(1)
    assert transport.clock.now >= 300
    transport.leave(2)
    transport.join(3, refusing("no column age"))
    with pytest.raises(
        ConfigError, match=r"0 of 1 clients are ready.*berlin is refused: no column age"
    ):
        membership.begin_round(2)


def test_changes_are_reported_with_names_and_reasons() -> None:
    transport = MemoryTransport()
    transport.join(1, fake_node("a"))
    transport.join(2, refusing("no column age"))
    transport.clock.at(20.0, lambda: transport.join(3, fake_node("b")))
    membership = membership_of(transport, wait_for=2)
    seen: list[tuple[list[str], list[str], dict[str, str], str]] = []

    def note() -> None:
        members = membership.registry
        seen.append(
            (membership.candidates(), members.met(), dict(members.refusals), membership.waiting)
        )

    membership.on_change = note
    membership.begin_round(0)
    refused = {"berlin": "no column age"}
    assert (["a"], [], refused, "waiting for 2 clients: 1 ready, 1 refused") in seen
    assert seen[-1] == ([], ["a", "b"], refused, "")
    transport.leave(2)
    membership.begin_round(1)
    transport.join(4, fake_node("berlin"))
    membership.begin_round(2)
    membership.begin_round(3)
    assert seen[-1] == ([], ["a", "b", "berlin"], {}, "")


def test_a_site_that_was_mended_is_ready_and_no_longer_refused_while_others_are_waited_for() -> (
    None
):
    """b is refused at first, mended after 10 s, and asked again after two minutes; c comes after
    200 s."""
    transport = MemoryTransport()
    transport.join(1, fake_node("a"))
    transport.join(2, refusing("no column age"))
    transport.clock.at(
        10.0, lambda: setattr(transport.stations[2], "handle", fake_node("berlin").handle)
    )
    transport.clock.at(200.0, lambda: transport.join(3, fake_node("c")))
    membership = membership_of(transport, wait_for=3, start_deadline=1000.0)
    seen: list[str] = []
    membership.on_change = lambda: seen.append(
        f"{membership.waiting} {dict(membership.registry.refusals)}"
    )
    membership.begin_round(0)
    assert "waiting for 3 clients: 1 ready, 1 refused {'berlin': 'no column age'}" in seen
    assert seen[-2:] == ["waiting for 3 clients: 2 ready, 0 refused {}", " {}"]
    assert first_ids(membership) == {"a": 0, "berlin": 1, "c": 2}


def test_a_site_that_is_started_again_while_others_are_waited_for_is_not_refused() -> None:
    transport = MemoryTransport()
    transport.join(1, fake_node("a"))
    transport.clock.at(10.0, lambda: transport.leave(1))
    transport.clock.at(20.0, lambda: transport.join(2, fake_node("a")))
    transport.clock.at(50.0, lambda: transport.join(3, fake_node("b")))
    membership = membership_of(transport, wait_for=2, start_deadline=1000.0)
    seen: list[dict[str, str]] = []
    membership.on_change = lambda: seen.append(dict(membership.registry.refusals))
    membership.begin_round(0)
    assert seen and not any(seen)
    np.testing.assert_array_equal(membership.online_clients(), [0, 1])
    assert membership.registry.rows_by_node(np.array([0]))[0].node_id == 2


def test_the_refusal_of_a_node_without_a_name_ends_with_the_node() -> None:
    """The handshakes of node 9 are lost, so that its name is not known. It is started again under
    another id."""
    transport, membership = started("a")
    transport.join(9, fake_node("b"), crashes=True)
    for round in range(1, 5):
        membership.begin_round(round)
    assert membership.registry.refusals == {"node 9": "the message was lost"}
    transport.leave(9)
    transport.join(10, fake_node("b"))
    for round in range(5, 7):
        membership.begin_round(round)
    assert membership.registry.refusals == {} and first_ids(membership) == {"a": 0, "b": 1}


def test_a_node_with_the_name_of_a_member_does_not_take_its_place_among_the_refused() -> None:
    transport = MemoryTransport()
    transport.join(1, fake_node("berlin"))
    membership = membership_of(transport, wait_for=1)
    membership.begin_round(0)
    transport.join(2, refusing("no column age"))
    membership.begin_round(1)
    membership.begin_round(2)
    assert membership.registry.refusals == {"berlin (node 2)": "no column age"}


def test_the_time_of_the_first_round_begins_when_all_are_online() -> None:
    transport = MemoryTransport()
    transport.clock.at(500.0, lambda: transport.join(1, fake_node("a")))
    membership = membership_of(transport, wait_for=1, deadline=90.0, start_deadline=1000.0)
    membership.begin_round(0)
    transport.stations[1].delay = 59.0
    assert 1 in membership.request_round.send(
        {1: RpcMessage({"operation": "hello", **ABOUT.header()})}, 0
    )


def test_a_run_that_goes_on_waits_no_longer_than_a_deadline_for_clients_that_may_have_left() -> (
    None
):
    transport, membership = started("a", "b", "c")
    again = membership_of(transport, wait_for=3, deadline=90.0)
    again.registry.recall(membership.registry.memory())
    transport.leave(99)
    start = transport.clock.now
    again.begin_round(4)
    np.testing.assert_array_equal(again.online_clients(), [0, 2])
    assert 90 <= transport.clock.now - start <= 91


def test_a_handshake_that_is_answered_twice_counts_once() -> None:
    transport = MemoryTransport()
    pull = transport.pull

    def pull_twice(ids: Any) -> list[Any]:
        return [reply for reply in pull(ids) for _ in range(2)]

    transport.pull = pull_twice  # type: ignore[method-assign]
    transport.join(1, fake_node("a"))
    membership = membership_of(transport, wait_for=1)
    membership.begin_round(0)
    assert first_ids(membership) == {"a": 0}


# --- new nodes


def test_a_new_node_takes_part_a_round_after_its_handshake_and_is_not_waited_for() -> None:
    transport, membership = started("a", "b")
    transport.join(7, fake_node("new"), delay=8.0)
    before = transport.clock.now
    membership.begin_round(1)
    np.testing.assert_array_equal(membership.online_clients(), [0, 1])
    assert transport.clock.now == before
    transport.clock.sleep(10.0)
    membership.begin_round(2)
    np.testing.assert_array_equal(membership.online_clients(), [0, 1, 2])


def test_rounds_begin_at_least_an_interval_apart() -> None:
    transport, membership = started("a", "b", round_interval=60.0)
    starts = [transport.clock.now]
    for round, seconds in ((1, 7.0), (2, 100.0), (3, 0.0)):
        transport.clock.sleep(seconds)
        membership.begin_round(round)
        starts.append(transport.clock.now)
    assert starts == pytest.approx([0, 60, 160, 220])


def test_a_node_that_comes_between_two_rounds_takes_part_in_the_next_one() -> None:
    transport, membership = started("a", "b", round_interval=60.0)
    transport.clock.at(10.0, lambda: transport.join(7, fake_node("new"), delay=8.0))
    membership.begin_round(1)
    np.testing.assert_array_equal(membership.online_clients(), [0, 1, 2])


def test_a_run_that_is_interrupted_between_two_rounds_waits_no_longer() -> None:
    transport, membership = started("a", "b", round_interval=3600.0)
    membership.interrupted = lambda: transport.clock.now >= 20.0
    membership.begin_round(1)
    assert 20 <= transport.clock.now <= 21


def test_a_new_node_is_sent_one_handshake() -> None:
    transport, membership = started("a")
    transport.join(7, fake_node("new"), delay=25.0)
    for round in range(1, 5):
        membership.begin_round(round)
        transport.clock.sleep(10.0)
    assert [node for _, node, operation, _ in transport.pushed if operation == "hello"] == [100, 7]
    assert first_ids(membership) == {"a": 0, "new": 1}


def test_a_lost_handshake_is_retried() -> None:
    transport, membership = started("a")
    transport.join(7, fake_node("new"), loses=1)
    membership.begin_round(1)
    membership.begin_round(2)
    np.testing.assert_array_equal(membership.online_clients(), [0, 1])


def test_a_handshake_that_the_engine_does_not_take_is_retried_and_not_counted() -> None:
    transport, membership = started("a")
    transport.join(7, fake_node("new"), rejected=True)
    membership.begin_round(1)
    transport.stations[7].rejected = False
    membership.begin_round(2)
    np.testing.assert_array_equal(membership.online_clients(), [0, 1])
    down, up = membership.handshake_bytes()
    assert down == sum(size for *_, operation, size in transport.pushed if operation == "hello") > 0
    assert up == sum(size for operation, size in transport.pulled if operation == "hello") > 0
    assert membership.handshake_bytes() == (0, 0)


def test_a_node_that_comes_back_with_another_id_has_its_clients_again() -> None:
    transport, membership = started("a", "b", "c")
    node = transport.leave(99)
    membership.begin_round(1)
    np.testing.assert_array_equal(membership.online_clients(), [0, 2])
    transport.join(500, node.handle)
    membership.begin_round(2)
    membership.begin_round(3)
    np.testing.assert_array_equal(membership.online_clients(), [0, 1, 2])
    assert first_ids(membership) == {"a": 0, "b": 1, "c": 2}


def test_a_node_that_comes_back_with_the_same_id_needs_no_handshake() -> None:
    transport, membership = started("a", "b")
    node = transport.leave(99)
    membership.begin_round(1)
    transport.join(99, node.handle)
    membership.begin_round(2)
    np.testing.assert_array_equal(membership.online_clients(), [0, 1])


def test_when_all_are_offline_a_round_waits_for_one() -> None:
    transport, membership = started("a", "b")
    gone = [transport.leave(node) for node in (100, 99)]
    transport.clock.at(300.0, lambda: transport.join(42, gone[1].handle))
    membership.begin_round(1)
    np.testing.assert_array_equal(membership.online_clients(), [1])
    assert transport.clock.now >= 300


def test_a_round_does_not_wait_for_suspects() -> None:
    transport, membership = started("a", "b", "c")
    transport.kill(99)
    request = RpcMessage({"operation": "hello", **ABOUT.header()})
    membership.request_round.send({node: request for node in (100, 99, 98)}, 1)
    np.testing.assert_array_equal(membership.online_clients(), [0, 2])
    membership.begin_round(2)
    np.testing.assert_array_equal(membership.online_clients(), [0, 2])


# --- refusals


DIFFERENCES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"version": "0.0.1"}, ("version", "0.0.1", ABOUT.version)),
    ({"parameters": 7}, ("parameters", "7", "4")),
    ({"layout": "other"}, ("layers", "other", ABOUT.layout)),
    ({"samples": "[9] -> 2"}, ("[9] -> 2", "[4] -> 3")),
    ({"config": "c1"}, ("hash", "c1", "c0")),
    ({"federation": "night"}, ("night", "trial")),
]


@pytest.mark.parametrize(("changes", "words"), DIFFERENCES)
@pytest.mark.parametrize("honest", [True, False], ids=["node-refuses", "server-refuses"])
def test_a_node_with_another_handshake_is_refused_and_sent_nothing_more(
    changes: dict[str, Any], words: tuple[str, ...], honest: bool, caplog: pytest.LogCaptureFixture
) -> None:
    own = replace(ABOUT, config="c0")
    transport = MemoryTransport()
    other = replace(own, **changes)
    transport.join(1, fake_node("a", about=own))
    forged = RpcMessage({**other.header(), "name": "stranger"}, {"samples": np.array([5])})
    transport.join(2, fake_node("stranger", about=other) if honest else lambda request: forged)
    membership = membership_of(transport, own, wait_for=1)
    with caplog.at_level(logging.WARNING, "fedkin"):
        for round in range(4):
            membership.begin_round(round)
    np.testing.assert_array_equal(membership.online_clients(), [0])
    logged = [r.getMessage() for r in caplog.records if "is refused" in r.getMessage()]
    assert len(logged) == 1 and "'stranger' (node 2) is refused" in logged[0]
    for word in words:
        assert word in logged[0]
    assert len(transport.stations[2].requests) == 1 and set(membership.registry.refused) == {2}


def test_nodes_above_the_capacity_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    transport, membership = started("a", "b", capacity=2)
    transport.join(7, fake_node("c"))
    with caplog.at_level(logging.WARNING, "fedkin"):
        membership.begin_round(1)
        membership.begin_round(2)
    np.testing.assert_array_equal(membership.online_clients(), [0, 1])
    assert "'c' (node 7) is refused" in caplog.text and "federation.capacity" in caplog.text


def test_of_nodes_that_come_together_those_that_do_not_fit_are_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each would fit by itself. The one that takes no id does not keep the others, or a smaller
    one, from theirs."""
    transport = MemoryTransport()
    for node, (name, clients) in enumerate({"fleet-a": 2, "fleet-b": 2, "lone": 1}.items()):
        transport.join(node, fake_node(name, range(clients)))
    membership = membership_of(transport, wait_for=3, capacity=3)
    with caplog.at_level(logging.WARNING, "fedkin"):
        membership.begin_round(0)
    assert first_ids(membership) == {"fleet-a": 0, "lone": 2}
    np.testing.assert_array_equal(membership.online_clients(), [0, 1, 2])
    assert membership.registry.refused == {
        1: "there is no room for 2 more clients: 2 of 3 ids are taken; "
        "raise federation.capacity for a new run"
    }
    assert caplog.text.count("'fleet-b' (node 1) is refused") == 1


@pytest.mark.parametrize("signed", [True, False])
def test_where_sums_are_signed_a_node_of_several_clients_is_refused_at_the_start(
    signed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its name would stand twice in a sum, which all others refuse round by round."""
    transport = MemoryTransport()
    transport.join(0, fake_node("fleet", range(3)))
    transport.join(1, fake_node("lone"))
    membership = membership_of(transport, signed=signed, wait_for=1)
    with caplog.at_level(logging.WARNING, "fedkin"):
        membership.begin_round(1)
    assert first_ids(membership) == ({"lone": 0} if signed else {"fleet": 0, "lone": 3})
    refusal = (
        "'fleet' (node 0) is refused: it has 3 clients, but signed sums (secret.signed) need "
        "sites with one client"
    )
    assert (refusal in caplog.text) == signed == ("or leave out secret.signed" in caplog.text)


def test_the_newest_of_two_nodes_with_a_name_counts() -> None:
    transport, membership = started("a", "b")
    transport.join(7, fake_node("b"))
    membership.begin_round(1)
    membership.begin_round(2)
    np.testing.assert_array_equal(membership.online_clients(), [0, 1])
    assert membership.registry.rows_by_node(np.array([1]))[0][0] == 7 and set(
        membership.registry.refused
    ) == {99}


def test_a_registered_name_is_refused_to_other_nodes() -> None:
    transport = MemoryTransport()
    transport.join(1, fake_node("berlin"), name="berlin", key="k1")
    membership = membership_of(transport, wait_for=1)
    membership.begin_round(0)
    transport.join(2, fake_node("berlin"), name="paris", key="k2")
    transport.join(3, fake_node("berlin"))
    membership.begin_round(1)
    membership.begin_round(2)
    assert set(membership.registry.refused) == {2, 3}
    assert (
        "registered as 'paris'" in membership.registry.refused[2]
        and "the calling node has no registered key" in membership.registry.refused[3]
    )
    assert membership.registry.rows_by_node(np.array([0]))[0][0] == 1


def invalid_handshakes() -> dict[str, RpcMessage]:
    fine = {**ABOUT.header(), "name": "odd"}
    return {
        "nothing": RpcMessage(),
        "no name": RpcMessage(ABOUT.header(), {"samples": np.array([5])}),
        "a long number for a name": RpcMessage(
            {**fine, "name": "9" * 5000}, {"samples": np.array([5])}
        ),
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


@pytest.mark.parametrize("what", [*invalid_handshakes()])
def test_an_invalid_handshake_is_refused(what: str, caplog: pytest.LogCaptureFixture) -> None:
    transport, membership = started("a")
    transport.join(7, lambda request: invalid_handshakes()[what])
    with caplog.at_level(logging.WARNING, "fedkin"):
        membership.begin_round(1)
        membership.begin_round(2)
    np.testing.assert_array_equal(membership.online_clients(), [0])
    assert set(membership.registry.refused) == {7} and "(node 7) is refused" in caplog.text
    assert all(len(record.getMessage()) < 1000 for record in caplog.records)


def test_a_node_that_raises_is_refused_with_its_error(caplog: pytest.LogCaptureFixture) -> None:
    transport, membership = started("a")
    transport.join(7, lambda request: [][0])  # type: ignore[arg-type, return-value]
    with caplog.at_level(logging.WARNING, "fedkin"):
        membership.begin_round(1)
        membership.begin_round(2)
    assert set(membership.registry.refused) == {7} and "IndexError" in caplog.text


# --- the initial model


def test_a_node_with_another_initial_model_may_take_part() -> None:
    transport, membership = started("a", "b")
    assert membership.same_start
    transport.join(7, fake_node("torch", about=replace(ABOUT, start="another")))
    membership.begin_round(1)
    membership.begin_round(2)
    np.testing.assert_array_equal(membership.online_clients(), [0, 1, 2])
    assert not membership.same_start


# --- states of sites


def test_each_site_is_online_absent_or_refused() -> None:
    transport, membership = started("a", "b", "c")
    transport.leave(99)
    transport.join(1, refusing("no column age"), name="berlin")
    transport.clock.sleep(1.0)
    membership.begin_round(1)
    membership.begin_round(2)
    states = {"a": "online", "b": "absent", "c": "online", "berlin": "refused"}
    assert membership.site_states() == states
    membership.removed = lambda: ["b"]
    assert "b" not in membership.site_states()
