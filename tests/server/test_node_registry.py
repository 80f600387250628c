"""The registry of nodes: names, stable ids, capacity, and its memory."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest

from fedkin.core.errors import CheckpointError
from fedkin.server.message import InvalidMessageError
from fedkin.server.node_registry import NodeRegistry, natural_order
from fedkin.server.transport import OnlineNode


def samples(count: int = 1) -> np.ndarray:
    return np.arange(10, 10 + count)


def registry(capacity: int = 10, **members: int) -> NodeRegistry:
    """Members with so many clients each, on nodes 1, 2, ..."""
    made = NodeRegistry(capacity)
    for node, (name, count) in enumerate(members.items(), 1):
        made.accept(OnlineNode(node), name, samples(count))
    return made


def test_ids_are_consecutive_over_members() -> None:
    known = registry(a=1, b=3, c=2)
    assert [member.ids.tolist() for member in known.members.values()] == [[0], [1, 2, 3], [4, 5]]
    assert known.client_names() == ["a", "b/0", "b/1", "b/2", "c/0", "c/1"]
    assert len(known) == 6
    np.testing.assert_array_equal(known.samples, [10, 10, 11, 12, 10, 11, 0, 0, 0, 0])


def test_a_node_that_comes_back_with_another_id_has_its_clients() -> None:
    known = registry(a=1, b=2)
    assert known.accept(OnlineNode(77), "a", samples()).ids.tolist() == [0]
    np.testing.assert_array_equal(known.online_clients([OnlineNode(77)]), [0])
    assert len(known) == 3


def test_a_node_whose_name_another_took_is_refused() -> None:
    known = registry(a=1, b=2)
    known.accept(OnlineNode(77), "a", samples())
    assert "a" in known.refused[1]
    np.testing.assert_array_equal(known.online_clients([OnlineNode(1), OnlineNode(2)]), [1, 2])
    assert known.unknown([OnlineNode(1), OnlineNode(2), OnlineNode(77), OnlineNode(5)]) == [
        OnlineNode(5)
    ]


def test_clients_are_online_while_their_node_is() -> None:
    known = registry(a=1, b=2, c=1)
    np.testing.assert_array_equal(known.online_clients([OnlineNode(3), OnlineNode(2)]), [1, 2, 3])
    np.testing.assert_array_equal(known.online_clients([]), [])
    np.testing.assert_array_equal(known.online_clients([OnlineNode(9)]), [])


def test_rows_belong_to_the_nodes_of_their_clients() -> None:
    known = registry(a=1, b=2, c=1)
    join_nodes = known.rows_by_node(np.array([3, 1, 0, 2, 1]))
    assert [(node, member.name, rows.tolist()) for node, member, rows in join_nodes] == [
        (1, "a", [2]),
        (2, "b", [1, 3, 4]),
        (3, "c", [0]),
    ]


def test_clients_without_a_node_belong_to_none() -> None:
    assert registry(a=1).rows_by_node(np.array([5, 0, 9]))[0][2].tolist() == [1]


# --- refusals


def test_the_capacity_can_be_used_to_the_last_id() -> None:
    known = registry(4, a=1, b=3)
    assert len(known) == 4
    with pytest.raises(
        InvalidMessageError, match=r"no room for 2 more clients: 4 of 4 .*federation\.capacity"
    ):
        known.accept(OnlineNode(9), "c", samples(2))
    assert "c" not in known.members


def test_a_fleet_that_does_not_fit_takes_no_ids() -> None:
    known = registry(4, a=2)
    with pytest.raises(InvalidMessageError, match="no room for 3"):
        known.accept(OnlineNode(8), "fleet", samples(3))
    assert known.accept(OnlineNode(9), "b", samples(2)).ids.tolist() == [2, 3]


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", "-a", "x" * 65, "é", "a\n"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidMessageError, match="cannot be a name"):
        NodeRegistry(4).accept(OnlineNode(1), name, samples())


def test_a_registered_node_must_use_its_registered_name() -> None:
    with pytest.raises(
        InvalidMessageError, match="registered as 'berlin' but calls itself 'paris'"
    ):
        NodeRegistry(4).accept(OnlineNode(1, "berlin", "k1"), "paris", samples())


def test_a_registered_name_is_refused_to_an_unregistered_node() -> None:
    known = NodeRegistry(4)
    known.accept(OnlineNode(1, "berlin", "k1"), "berlin", samples())
    with pytest.raises(
        InvalidMessageError,
        match="'berlin' belongs to a registered node, but the calling node has no registered",
    ):
        known.accept(OnlineNode(3), "berlin", samples())
    # The first node is still accepted.
    np.testing.assert_array_equal(known.online_clients([OnlineNode(1), OnlineNode(3)]), [0])


def test_a_new_key_under_the_same_name_is_the_same_member(caplog: pytest.LogCaptureFixture) -> None:
    known = NodeRegistry(4)
    known.accept(OnlineNode(1, "berlin", "k1"), "berlin", samples())
    with caplog.at_level(logging.WARNING, "fedkin"):
        assert known.accept(OnlineNode(2, "berlin", "k2"), "berlin", samples()).ids.tolist() == [0]
    assert "berlin has another key than before" in caplog.text
    assert known.members["berlin"].key == "k2"


def test_an_unregistered_node_is_refused_where_all_must_be_registered() -> None:
    known = NodeRegistry(4, registered=True)
    with pytest.raises(InvalidMessageError, match="not registered under a name"):
        known.accept(OnlineNode(1), "berlin", samples())
    assert known.accept(OnlineNode(2, "berlin", "k1"), "berlin", samples()).ids.tolist() == [0]


def test_a_refused_node_may_try_again_and_each_reason_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known = NodeRegistry(4)
    with caplog.at_level(logging.WARNING, "fedkin"):
        known.refuse(OnlineNode(7), "berlin", "its data are gone")
        assert known.unknown([OnlineNode(7)]) == []
        known.allow_retry([7])
        assert known.unknown([OnlineNode(7)]) == [OnlineNode(7)]
        known.refuse(OnlineNode(7), "berlin", "its data are gone")
        known.refuse(OnlineNode(7), "berlin", "its\ndata\x1b[2J are back")
    assert caplog.text.count("its data are gone") == 1
    assert "its data?[2J are back" in caplog.text


def test_a_node_that_comes_back_with_another_number_of_clients_is_refused() -> None:
    known = registry(a=2)
    with pytest.raises(InvalidMessageError, match="it had 2 clients and now has 3"):
        known.accept(OnlineNode(9), "a", samples(3))
    np.testing.assert_array_equal(known.online_clients([OnlineNode(1)]), [0, 1])


# --- memory


def test_memory_restores_members_without_their_present_nodes() -> None:
    known = registry(a=1, b=3)
    again = NodeRegistry(10)
    again.recall(known.memory())
    assert again.members == known.members and again.client_names() == known.client_names()
    np.testing.assert_array_equal(again.samples, known.samples)
    np.testing.assert_array_equal(again.online_clients([OnlineNode(1), OnlineNode(2)]), [])
    assert again.accept(OnlineNode(50), "b", samples(3)).ids.tolist() == [1, 2, 3]
    assert again.accept(OnlineNode(51), "new", samples()).ids.tolist() == [4]


def test_members_that_came_since_stay() -> None:
    early = registry(a=1, b=3)
    known = registry(a=1, b=3, c=2)
    known.recall(early.memory())
    assert [*known.members] == ["a", "b", "c"]
    np.testing.assert_array_equal(known.online_clients([OnlineNode(3)]), [4, 5])
    np.testing.assert_array_equal(known.samples[4:6], [10, 11])


def test_memory_holds_the_key() -> None:
    known = NodeRegistry(4)
    again = NodeRegistry(4)
    known.accept(OnlineNode(1, "berlin", "k1"), "berlin", samples())
    again.recall(known.memory())
    with pytest.raises(InvalidMessageError, match="the calling node has no registered key"):
        again.accept(OnlineNode(1), "berlin", samples())


def test_a_key_that_changed_since_a_checkpoint_is_the_same_client() -> None:
    """A site got a new key after the checkpoint that a run resumes from."""
    known = NodeRegistry(4)
    known.accept(OnlineNode(1, "berlin", "k1"), "berlin", samples())
    checkpoint = known.memory()
    known.accept(OnlineNode(2, "berlin", "k2"), "berlin", samples())
    again = NodeRegistry(4)
    again.recall(known.memory())
    again.recall(checkpoint)
    assert again.members["berlin"].key == "k2"
    assert again.accept(OnlineNode(3, "berlin", "k2"), "berlin", samples()).ids.tolist() == [0]


@pytest.mark.parametrize("others", [{"a": 2}, {"b": 1, "a": 1}, {"c": 1}])
def test_memory_of_other_clients_is_refused(others: dict[str, int]) -> None:
    known = registry(a=1, b=3)
    with pytest.raises(CheckpointError, match="other clients"):
        registry(**others).recall(known.memory())


def test_memory_of_another_capacity_is_refused() -> None:
    with pytest.raises(
        CheckpointError, match=r"federation\.capacity was 10 when the run began, but is now 9"
    ):
        registry(capacity=9).recall(registry(a=1).memory())


def test_memory_is_a_copy() -> None:
    known = registry(a=1)
    memory = known.memory()
    known.samples[0] = 99
    assert memory["samples"][0] == 10


def test_a_later_heartbeat_is_of_the_same_node() -> None:
    known = registry(a=1)
    assert known.unknown([replace(OnlineNode(1), alive_until=90.0)]) == []


# --- names in order


def test_numbers_in_names_are_sorted_as_numbers() -> None:
    names = ["site-10", "site-9", "a", "site-9b", "7", "site", "10", "B"]
    assert sorted(names, key=natural_order) == [
        "7",
        "10",
        "B",
        "a",
        "site",
        "site-9",
        "site-9b",
        "site-10",
    ]


def test_any_text_can_be_sorted() -> None:
    """A stranger may call itself anything, and is sorted before it is refused."""
    assert len(sorted(["9" * 5000, "٣", "²", "x" * 5000, ""], key=natural_order)) == 5
