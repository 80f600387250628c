"""What clients keep on their nodes' own disks: for the run, or until their cluster changes; and
arrays sent to keep."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.core.client import Client
from fedkin.core.errors import StorageError
from fedkin.core.randomness import Stream
from fedkin.core.schema import Memory, Rows, floats, integers
from fedkin.core.task import Task, kept
from fedkin.server.deploy.node_disk import NodeDisk
from fedkin.server.message import RpcMessage
from fedkin.server.node import Node
from fedkin.server.remote_world import RemoteWorld
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import fake_node, fake_remote, membership_of

GROUPS = [[0], [1, 2], [3]]
EVERYONE = np.arange(4)

MEMORY = {
    "calls_in_run": Memory("", np.int64),
    "calls_in_cluster": Memory("", np.int64, lifetime="assignment"),
}


@dataclass(frozen=True)
class CountCalls(Task):
    """How often a client has done this, in the run and since its cluster changed."""

    up = Rows(in_run=integers(counted=False), in_cluster=integers(counted=False))
    memory = MEMORY
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        for name in self.memory:
            client.memory[name] = client.memory.get(name, np.int64(0)) + 1
        return {
            "in_run": client.memory["calls_in_run"],
            "in_cluster": client.memory["calls_in_cluster"],
        }


@dataclass(frozen=True)
class SumKept(Task):
    """The sum of an array that a client was sent to keep."""

    table: np.ndarray = kept("K 3")

    up = Rows(total=floats(counted=False))
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        return {"total": np.float64(self.table.sum())}


class Federation:
    """Four clients on three nodes with disks; every request meets a new process."""

    def __init__(self, folder: Path) -> None:
        self.folders = [folder / f"site-{number}" for number in range(len(GROUPS))]
        self.serve()

    def serve(self, memory: Mapping[str, np.ndarray] | None = None, round: int = 0) -> RemoteWorld:
        """A server, perhaps one that resumes."""
        self.transport = MemoryTransport()
        for number, folder in enumerate(self.folders):
            self.transport.join(10 + number, self.process(number, folder))
        self.world = fake_remote(
            self.transport, membership_of(self.transport, capacity=4, wait_for=4)
        )
        if memory is not None:
            self.world.recall(dict(memory))
        self.world.begin(Stream(0, round))
        return self.world

    def process(self, number: int, folder: Path) -> Callable[[RpcMessage], RpcMessage]:
        def handle(request: RpcMessage) -> RpcMessage:
            made = fake_node(f"site-{number}", GROUPS[number])
            return Node(
                name=made.name,
                handshake=made.handshake,
                start=made.start,
                samples=made.samples,
                world=made.world,
                disk=NodeDisk(folder),
            ).handle(request)

        return handle

    def counts(self, clients: np.ndarray = EVERYONE) -> list[list[int]]:
        reply = self.world.run(CountCalls(), clients)
        assert reply.arrived.all()
        return [reply.in_run.tolist(), reply.in_cluster.tolist()]

    def last(self) -> list[RpcMessage]:
        return [station.requests[-1] for station in self.transport.stations.values()]


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


# --- memory


def test_clients_keep_their_memory_over_processes_of_their_node(federation: Federation) -> None:
    assert federation.counts() == [[1] * 4, [1] * 4]
    assert federation.counts(np.array([2, 0])) == [[2, 2], [2, 2]]
    assert federation.counts() == [[3, 2, 3, 2], [3, 2, 3, 2]]
    for folder, clients in zip(federation.folders, GROUPS, strict=True):
        stored = NodeDisk(folder).load_memory("trial-run")
        column = stored["clients/calls_in_run"]
        assert column.shape == (len(clients),) and stored["clients/calls_in_run.kept"].all()


def test_memory_for_a_cluster_is_gone_when_it_changes(federation: Federation) -> None:
    federation.counts()
    pushed = len(federation.transport.pushed)
    federation.world.reassigned(np.array([2, 3]))
    assert len(federation.transport.pushed) == pushed  # they learn of it in their next request
    assert federation.counts() == [[2] * 4, [2, 2, 1, 1]]
    assert [request.arrays.get("moved", np.zeros(0)).tolist() for request in federation.last()] == [
        [],
        [1],
        [0],
    ]
    assert federation.counts() == [[3] * 4, [3, 3, 2, 2]]
    assert all("moved" not in request.arrays for request in federation.last())


def test_a_simulation_counts_the_same(federation: Federation) -> None:
    near = fake_node("all", [0, 1, 2, 3]).world(EVERYONE)
    found = []
    for world in (federation.world, near):
        for moved in ([], [2, 3], [0], [], [1, 2]):
            world.reassigned(np.array(moved, np.int64))
            reply = world.run(CountCalls(), EVERYONE)
            found.append([reply.in_run.tolist(), reply.in_cluster.tolist()])
    assert found[:5] == found[5:]


def test_clients_that_keep_nothing_for_their_cluster_are_not_notified(
    federation: Federation,
) -> None:
    federation.counts(np.array([0]))
    federation.world.reassigned(EVERYONE)
    federation.counts()
    assert [request.arrays.get("moved", np.zeros(0)).tolist() for request in federation.last()] == [
        [0],
        [],
        [],
    ]


def test_a_change_of_clusters_outlives_the_server_and_lost_replies(federation: Federation) -> None:
    federation.counts()
    federation.world.reassigned(np.array([0, 3]))
    federation.transport.stations[12].delay = 1000.0  # of site-2, client 3
    assert federation.world.run(CountCalls(), EVERYONE).arrived.tolist() == [
        True,
        True,
        True,
        False,
    ]
    federation.serve(federation.world.memory(), round=1)
    # client 3 did its work, and its reply was late; it is notified again
    assert federation.counts() == [[3, 3, 3, 3], [2, 3, 3, 1]]
    assert ["moved" in request.arrays for request in federation.last()] == [False, False, True]
    federation.world.reassigned(
        np.array([1])
    )  # the server still knows which clients keep something
    assert federation.counts() == [[4, 4, 4, 4], [3, 1, 4, 2]]


def test_a_disk_that_cannot_be_written_costs_the_reply_and_nothing_is_counted_twice(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    federation.counts()
    write = NodeDisk.save_memory

    def full(disk: NodeDisk, run: str, memory: Mapping[str, np.ndarray]) -> None:
        if disk.folder == federation.folders[0]:
            raise StorageError(f"cannot write {disk.folder}: no space left on device")
        write(disk, run, memory)

    monkeypatch.setattr(NodeDisk, "save_memory", full)
    federation.world.reassigned(np.array([0]))
    with caplog.at_level(logging.WARNING, "fedkin"):
        reply = federation.world.run(CountCalls(), EVERYONE)
    assert reply.arrived.tolist() == [False, True, True, True]
    assert "no reply from site-0 (count_calls)" in caplog.text and "no space left" in caplog.text
    monkeypatch.undo()
    assert federation.counts() == [[2, 3, 3, 3], [1, 3, 3, 3]]  # and client 0 was told again


def test_a_file_in_place_of_the_folder_costs_the_reply(tmp_path: Path) -> None:
    (tmp_path / "site-0").write_text("in the way")
    federation = Federation(tmp_path)
    assert federation.world.run(CountCalls(), EVERYONE).arrived.tolist() == [
        False,
        True,
        True,
        True,
    ]


# --- arrays that are sent to keep

TABLE = np.arange(6, dtype=np.float32).reshape(2, 3)


def sent(federation: Federation) -> list[bool]:
    return ["table" in request.arrays for request in federation.last()]


def total(federation: Federation, table: np.ndarray) -> list[float]:
    return federation.world.run(SumKept(table), EVERYONE).total.tolist()


def test_an_array_to_keep_is_sent_once(federation: Federation) -> None:
    assert total(federation, TABLE) == [15.0] * 4 and sent(federation) == [True] * 3
    federation.world.begin(Stream(0, 1))
    assert total(federation, TABLE) == [15.0] * 4 and sent(federation) == [False] * 3
    assert total(federation, TABLE + 1) == [21.0] * 4 and sent(federation) == [True] * 3
    assert (
        total(federation, (TABLE + 1).reshape(2, 3)[:1]) == [6.0] * 4
        and sent(federation) == [True] * 3
    )
    # What clients keep has a separate place.
    assert federation.counts() == [[1] * 4, [1] * 4]
    assert total(federation, TABLE[:1] + 1) == [6.0] * 4 and sent(federation) == [False] * 3


@pytest.mark.parametrize("failure", ["lost", "wrong", "late"])
def test_it_is_sent_again_after_any_failure(failure: str, federation: Federation) -> None:
    total(federation, TABLE)
    station = federation.transport.stations[10]
    if failure == "late":
        station.delay = 1000.0
    elif failure == "lost":
        station.crashes = True
    else:
        station.tamper = lambda request, reply: RpcMessage({}, {"total": np.zeros(9)})
    assert np.isnan(total(federation, TABLE)[0])
    station.delay = 0.0
    station.crashes = False
    station.tamper = lambda request, reply: reply
    federation.transport.clock.sleep(60.0)
    federation.world.begin(Stream(0, 1))
    assert total(federation, TABLE) == [15.0] * 4 and sent(federation) == [True, False, False]
    assert total(federation, TABLE) == [15.0] * 4 and sent(federation) == [False] * 3


def test_a_node_whose_disk_was_wiped_is_sent_it_again(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    total(federation, TABLE)
    for path in federation.folders[1].iterdir():
        path.unlink()
    with caplog.at_level(logging.WARNING, "fedkin"):
        assert np.isnan(total(federation, TABLE)).tolist() == [False, True, True, False]
    assert "and this node has not stored it" in caplog.text
    assert total(federation, TABLE) == [15.0] * 4 and sent(federation) == [False, True, False]


def test_a_server_that_resumes_sends_it_again(federation: Federation) -> None:
    total(federation, TABLE)
    federation.serve(federation.world.memory(), round=1)
    assert total(federation, TABLE) == [15.0] * 4 and sent(federation) == [True] * 3
