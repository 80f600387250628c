"""What clients keep for themselves: what their data were when they were placed, and the models they had last."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkin.core.randomness import Stream
from fedkin.server.message import RpcMessage
from fedkin.server.node import CLUSTER, PERSONAL
from fedkin.server.remote_world import RemoteWorld
from tests.server.memory_transport import MemoryPost
from tests.server.small_federations import C, P, fake_node, fake_remote, hall_of

EVERYONE = np.arange(4)
MODELS = np.zeros((1, P), np.float32)


class Sites:
    """Four clients on three nodes, whose labels a test may change."""

    def __init__(self, **terms: Any) -> None:
        self.post, self.counts, self.nodes = MemoryPost(), {}, {}
        for node, clients in ((0, [0]), (1, [1, 2]), (2, [3])):
            self.counts[node] = np.full((len(clients), C), 12)
            self.nodes[node] = fake_node(f"site-{node}", clients, counts=self.counts[node])
            self.post.join(node, self.nodes[node])
        self.world = fake_remote(self.post, **{"capacity": 4, "wait_for": 4, **terms})
        self.round = -1
        self.next()

    def next(self) -> None:
        self.round += 1
        self.world.begin(Stream(0, self.round))

    def move(self, node: int, row: int = 0) -> None:
        """All labels of a client become another."""
        self.counts[node][row] = np.roll([12 * C, *[0] * (C - 1)], C - 1)

    def train(self, clients: np.ndarray = EVERYONE) -> None:
        self.world.train(MODELS, clients, np.zeros(len(clients), np.int64), stream=Stream(0, self.round, "m"))

    def shifted(self, clients: np.ndarray = EVERYONE) -> list[int]:
        return clients[self.world.shifted(clients)].tolist()

    def last(self, node: int) -> RpcMessage:
        return self.post.stations[node].letters[-1]


def test_who_was_placed_is_told_in_its_next_letter_and_only_once() -> None:
    sites = Sites()
    sites.world.note(np.array([0, 2]))
    before = len(sites.post.pushed)
    sites.train()
    np.testing.assert_array_equal(sites.last(0).arrays["noted"], [0])
    np.testing.assert_array_equal(sites.last(1).arrays["noted"], [1])  # the second client of its node
    assert "noted" not in sites.last(2).arrays
    sites.train()
    assert all("noted" not in sites.last(node).arrays for node in range(3))
    assert len(sites.post.pushed) == before + 6  # no letter of its own


def test_whose_answer_never_came_is_told_again() -> None:
    sites = Sites(deadline=9.0)
    sites.world.note(EVERYONE)
    sites.post.stations[2].delay = 100.0
    sites.train()
    sites.post.stations[2].delay = 0.0
    sites.post.clock.sleep(60.0)
    sites.next()
    sites.train()
    np.testing.assert_array_equal(sites.last(2).arrays["noted"], [0])
    assert "noted" not in sites.last(0).arrays


def test_a_shift_is_told_against_what_was_noted_and_forgotten_when_noted_anew() -> None:
    sites = Sites()
    sites.world.note(EVERYONE)
    assert sites.shifted() == []
    sites.train()  # they are told to note, and do
    sites.move(1, 1)
    sites.next()
    sites.train()
    sites.next()
    assert sites.shifted() == [2]
    sites.world.note(np.array([2]))
    sites.train()
    sites.next()
    assert sites.shifted() == []


def test_reports_of_a_shift_ride_along_once_somebody_has_asked() -> None:
    sites = Sites()
    sites.train()
    assert sites.last(0).header.get("shift") is None
    sites.shifted()
    assert sites.post.verbs().count("shifted") == 1
    for _ in range(4):
        sites.next()
        sites.shifted()
        sites.train()
    assert sites.post.verbs().count("shifted") == 1


def test_who_was_not_heard_of_for_two_rounds_is_asked() -> None:
    sites = Sites()
    sites.world.note(EVERYONE)
    sites.shifted()
    sites.train()
    for _ in range(3):
        sites.next()
        sites.train(np.array([0, 1, 2]))
    sites.move(2)
    before = len(sites.post.stations[0].letters)
    assert sites.shifted() == [3]
    assert sites.last(2).header["verb"] == "shifted" and len(sites.post.stations[0].letters) == before


def test_another_test_of_the_shift_is_asked_anew() -> None:
    sites = Sites()
    sites.shifted()
    sites.world.shifted(EVERYONE, test="label_aware", threshold=0.1)
    assert sites.post.verbs().count("shifted") == 2
    assert sites.last(0).header["shift"] == {"test": "label_aware", "threshold": 0.1}


def test_a_fresh_process_of_a_node_knows_what_it_noted() -> None:
    """Every letter meets a new world; only the disk is the same."""
    sites = Sites()
    sites.move(0)
    sites.world.note(np.array([0]))
    sites.train()
    assert "noted_labels" in sites.nodes[0].disk.memory("trial-run")  # type: ignore[attr-defined]
    assert sites.shifted() == []


def test_what_could_not_be_told_yet_outlives_the_server() -> None:
    sites = Sites()
    sites.world.initial(Stream(0, 0, "init"))
    sites.world.note(np.array([0, 3]))
    memory = sites.world.memory()
    again = fake_remote(sites.post, hall_of(sites.post, capacity=4, wait_for=4))
    again.recall(memory)
    again.begin(Stream(0, 1))
    again.train(MODELS, EVERYONE, np.zeros(4, np.int64), stream=Stream(0, 1, "m"))
    np.testing.assert_array_equal(sites.last(0).arrays["noted"], [0])
    np.testing.assert_array_equal(sites.last(2).arrays["noted"], [0])
    assert "noted" not in sites.last(1).arrays


def test_ids_outlive_the_server_whatever_numbers_the_nodes_have_then() -> None:
    sites = Sites()
    memory = sites.world.memory()
    post = MemoryPost()
    for number, node in enumerate((2, 1, 0)):
        post.join(50 + number, sites.nodes[node])
    again: RemoteWorld = fake_remote(post, capacity=4, wait_for=4)
    again.recall(memory)
    again.begin(Stream(0, 5))
    assert {name: m.first for name, m in again.membership.registry.members.items()} == {
        "site-0": 0,
        "site-1": 1,
        "site-2": 3,
    }
    np.testing.assert_array_equal(again.clients(5), EVERYONE)


# --- models on a client's own disk


def test_a_lone_client_keeps_its_cluster_s_model_and_its_own() -> None:
    sites = Sites()
    held = np.stack([np.zeros(P), np.ones(P)]).astype(np.float32)
    for reduce in (False, True):
        got = sites.world.train(held, EVERYONE, np.array([1, 0, 1, 0]), reduce=reduce, stream=Stream(0, 0, "m"))
        mine = sites.nodes[0].disk.models["trial-run"]  # type: ignore[attr-defined]
        np.testing.assert_array_equal(mine[CLUSTER], held[1])
        assert not np.array_equal(mine[PERSONAL], held[1])
        if not reduce:
            np.testing.assert_array_equal(mine[PERSONAL], held[1] + got.update[0])
    assert not sites.nodes[1].disk.models  # type: ignore[attr-defined]


def test_a_lone_client_keeps_the_model_that_it_chose() -> None:
    sites = Sites()
    held = np.stack([np.full(P, -3), np.full(P, 3)]).astype(np.float32)
    got = sites.world.train(held, EVERYONE, None, stream=Stream(0, 0, "m"))
    assert got.model_index.tolist() == [1, 0, 1, 0]
    for node, client in ((0, 0), (2, 3)):
        np.testing.assert_array_equal(
            sites.nodes[node].disk.models["trial-run"][CLUSTER],  # type: ignore[attr-defined]
            held[got.model_index[client]],
        )


def test_the_model_that_a_client_is_scored_on_is_its_cluster_s() -> None:
    sites = Sites()
    held = np.stack([np.zeros(P), np.ones(P)]).astype(np.float32)
    sites.world.evaluate(held, EVERYONE, np.array([1, 0, 1, 0]))
    np.testing.assert_array_equal(sites.nodes[0].disk.models["trial-run"][CLUSTER], held[1])  # type: ignore[attr-defined]
