"""The storage of clients: their data when they were placed, and their last models."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkin.core.randomness import Stream
from fedkin.server.message import RpcMessage
from fedkin.server.remote_world import RemoteWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.shift import Note, Shifted
from fedkin.tasks.train import train
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import C, P, fake_node, fake_remote, membership_of

EVERYONE = np.arange(4)
MODELS = np.zeros((1, P), np.float32)


class Sites:
    """Four clients on three nodes, whose labels a test may change."""

    def __init__(self, capacity: int = 4, wait_for: int = 4, **settings: Any) -> None:
        self.transport = MemoryTransport()
        self.counts = {}
        self.nodes = {}
        for node, clients in ((0, [0]), (1, [1, 2]), (2, [3])):
            self.counts[node] = np.full((len(clients), C), 12)
            self.nodes[node] = fake_node(f"site-{node}", clients, counts=self.counts[node])
            self.transport.join(node, self.nodes[node])
        self.world = fake_remote(self.transport, capacity=capacity, wait_for=wait_for, **settings)
        self.round = -1
        self.next()

    def next(self) -> None:
        self.round += 1
        self.world.begin(Stream(0, self.round))

    def move(self, node: int, row: int = 0) -> None:
        """All labels of a client become another."""
        self.counts[node][row] = np.roll([12 * C, *[0] * (C - 1)], C - 1)

    def train(self, clients: np.ndarray = EVERYONE) -> None:
        train(
            self.world,
            MODELS,
            clients,
            np.zeros(len(clients), np.int64),
            stream=Stream(0, self.round, "m"),
        )

    def shifted(self, clients: np.ndarray = EVERYONE) -> list[int]:
        return clients[self.world.run(Shifted(), clients).shifted].tolist()

    def last(self, node: int) -> RpcMessage:
        return self.transport.stations[node].requests[-1]


def test_a_placed_client_notes_its_data_at_its_next_request_and_only_once() -> None:
    sites = Sites()
    sites.world.run(Note(), np.array([0, 2]))
    before = len(sites.transport.pushed)
    sites.train()
    np.testing.assert_array_equal(sites.last(0).arrays["note"], [0])
    # The second client of its node.
    np.testing.assert_array_equal(sites.last(1).arrays["note"], [1])
    assert "note" not in sites.last(2).arrays
    sites.train()
    assert all("note" not in sites.last(node).arrays for node in range(3))
    assert len(sites.transport.pushed) == before + 6  # no separate requests


def test_a_client_whose_reply_was_lost_is_notified_again() -> None:
    sites = Sites(deadline=9.0)
    sites.world.run(Note(), EVERYONE)
    sites.transport.stations[2].delay = 100.0
    sites.train()
    sites.transport.stations[2].delay = 0.0
    sites.transport.clock.sleep(60.0)
    sites.next()
    sites.train()
    np.testing.assert_array_equal(sites.last(2).arrays["note"], [0])
    assert "note" not in sites.last(0).arrays


def test_a_shift_is_measured_from_the_last_note() -> None:
    sites = Sites()
    sites.world.run(Note(), EVERYONE)
    assert sites.shifted() == []
    sites.train()  # they are told to note, and do
    sites.move(1, 1)
    sites.next()
    sites.train()
    sites.next()
    assert sites.shifted() == [2]
    sites.world.run(Note(), np.array([2]))
    sites.train()
    sites.next()
    assert sites.shifted() == []


def test_every_reply_reports_shifts_once_a_method_has_asked() -> None:
    sites = Sites()
    sites.train()
    assert sites.last(0).header.get("shift") is None
    sites.shifted()
    assert sites.transport.operations().count("shifted") == 1
    for _ in range(4):
        sites.next()
        sites.shifted()
        sites.train()
    assert sites.transport.operations().count("shifted") == 1


def test_a_client_without_a_report_for_two_rounds_is_sent_a_request() -> None:
    sites = Sites()
    sites.world.run(Note(), EVERYONE)
    sites.shifted()
    sites.train()
    for _ in range(3):
        sites.next()
        sites.train(np.array([0, 1, 2]))
    sites.move(2)
    before = len(sites.transport.stations[0].requests)
    assert sites.shifted() == [3]
    assert (
        sites.last(2).header["operation"] == "shifted"
        and len(sites.transport.stations[0].requests) == before
    )


def test_another_test_of_the_shift_needs_new_reports() -> None:
    sites = Sites()
    sites.shifted()
    sites.world.run(Shifted("label_aware", 0.1), EVERYONE)
    assert sites.transport.operations().count("shifted") == 2
    assert sites.last(0).header["shift"] == {"test": "label_aware", "threshold": 0.1}


def test_a_new_process_of_a_node_has_its_notes() -> None:
    """Every request meets a new world; only the disk is the same."""
    sites = Sites()
    sites.move(0)
    sites.world.run(Note(), np.array([0]))
    sites.train()
    disk = sites.nodes[0].disk
    assert "clients/noted_labels" in disk.load_memory("trial-run")  # type: ignore[attr-defined]
    assert sites.shifted() == []


def test_pending_notes_outlive_the_server() -> None:
    sites = Sites()
    sites.world.initial(Stream(0, 0, "init"))
    sites.world.run(Note(), np.array([0, 3]))
    memory = sites.world.memory()
    again = fake_remote(sites.transport, membership_of(sites.transport, capacity=4, wait_for=4))
    again.recall(memory)
    again.begin(Stream(0, 1))
    train(again, MODELS, EVERYONE, np.zeros(4, np.int64), stream=Stream(0, 1, "m"))
    np.testing.assert_array_equal(sites.last(0).arrays["note"], [0])
    np.testing.assert_array_equal(sites.last(2).arrays["note"], [0])
    assert "note" not in sites.last(1).arrays


def test_ids_outlive_the_server_though_the_engines_ids_change() -> None:
    sites = Sites()
    memory = sites.world.memory()
    transport = MemoryTransport()
    for number, node in enumerate((2, 1, 0)):
        transport.join(50 + number, sites.nodes[node])
    again: RemoteWorld = fake_remote(transport, capacity=4, wait_for=4)
    again.recall(memory)
    again.begin(Stream(0, 5))
    assert {name: m.first for name, m in again.membership.registry.members.items()} == {
        "site-0": 0,
        "site-1": 1,
        "site-2": 3,
    }
    np.testing.assert_array_equal(again.clients(5), EVERYONE)


# --- models on a client's own disk


def test_a_single_client_stores_its_cluster_s_model_and_its_own() -> None:
    sites = Sites()
    held = np.stack([np.zeros(P), np.ones(P)]).astype(np.float32)
    for reduce in (False, True):
        got = train(
            sites.world,
            held,
            EVERYONE,
            np.array([1, 0, 1, 0]),
            reduce=reduce,
            stream=Stream(0, 0, "m"),
        )
        mine = sites.nodes[0].disk.models["trial-run"]  # type: ignore[attr-defined]
        np.testing.assert_array_equal(mine["cluster"], held[1])
        assert not np.array_equal(mine["personal"], held[1])
        if not reduce:
            np.testing.assert_array_equal(mine["personal"], held[1] + got.update[0])
    assert not sites.nodes[1].disk.models  # type: ignore[attr-defined]


def test_a_single_client_stores_the_model_that_it_chose() -> None:
    sites = Sites()
    held = np.stack([np.full(P, -3), np.full(P, 3)]).astype(np.float32)
    got = train(sites.world, held, EVERYONE, None, stream=Stream(0, 0, "m"))
    assert got.model_index.tolist() == [1, 0, 1, 0]
    for node, client in ((0, 0), (2, 3)):
        np.testing.assert_array_equal(
            sites.nodes[node].disk.models["trial-run"]["cluster"],  # type: ignore[attr-defined]
            held[got.model_index[client]],
        )


def test_evaluation_stores_the_cluster_s_model() -> None:
    sites = Sites()
    held = np.stack([np.zeros(P), np.ones(P)]).astype(np.float32)
    evaluate(sites.world, held, EVERYONE, np.array([1, 0, 1, 0]))
    models = sites.nodes[0].disk.models["trial-run"]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(models["cluster"], held[1])
