"""Work that clients keep something of is done once, also where its reply was lost, or its server
resumes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedkin.core.client import Client
from fedkin.core.codec import decode, encode
from fedkin.core.randomness import Stream
from fedkin.core.schema import Memory, Rows, booleans, integers
from fedkin.core.task import Task, each, kept
from fedkin.models import mlp
from fedkin.models.model import Model
from fedkin.server.remote_world import RemoteWorld
from fedkin.server.transport import NodeReply
from fedkin.tasks.classes import Classes
from fedkin.tasks.fedper import Personal, body_of
from fedkin.tasks.shift import Shifted
from fedkin.tasks.train import Train
from tests.server.memory_transport import MemoryTransport
from tests.server.memory_transport import Station as Site
from tests.server.small_federations import WORK, clustered_data, node_of, remote, simulated

EVERYONE = np.arange(6)
LAYOUTS = {"lone": [[0], [1], [2], [3], [4], [5]], "fleets": [[0, 1, 2], [3, 4, 5]]}
each_layout = pytest.mark.parametrize("layout", LAYOUTS)
MODEL = mlp(clustered_data(), hidden=4)


class Engine(MemoryTransport):
    """An engine that loses replies: those to so many of a node's next requests, by operation."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: dict[str, int] = {}

    def _reply(self, station: Site, request_id: str, request: Any) -> NodeReply:
        reply = super()._reply(station, request_id, request)
        operation = str(request.header["operation"])
        if station is self.stations[100] and self.lost.get(operation):
            self.lost[operation] -= 1
            return NodeReply(request_id, None, error="the reply was lost", lost=True)
        return reply


RANKS = {
    "former_rank": Memory("", np.int64),
    "times_told": Memory("", np.int64),
    "times_told_in_cluster": Memory("", np.int64, lifetime="assignment"),
}
COUNT = {"count_in_cluster": Memory("", np.int64, lifetime="assignment")}


@dataclass(frozen=True)
class RankDiffers(Task):
    """Whether a number is another than a client was told the last time; how often it was told one,
    in all and since its cluster changed."""

    rank: np.ndarray = each()

    up = Rows(changed=booleans(), told=integers(), told_in_cluster=integers())
    memory = RANKS
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        before = client.memory.get("former_rank", self.rank[0])
        client.memory["former_rank"] = self.rank[0]
        for name in ("times_told", "times_told_in_cluster"):
            client.memory[name] = client.memory.get(name, np.int64(0)) + 1
        told = {
            name.removeprefix("times_"): client.memory[name]
            for name in ("times_told", "times_told_in_cluster")
        }
        return {"changed": before != self.rank[0], **told}


@dataclass(frozen=True)
class CountInCluster(Task):
    """How often a client has done this since its cluster changed."""

    up = Rows(count=integers())
    memory = COUNT
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        client.memory["count_in_cluster"] = client.memory.get("count_in_cluster", np.int64(0)) + 1
        return {"count": client.memory["count_in_cluster"]}


class Federation:
    """Six clients behind an engine that loses replies, and the same in the simulator."""

    def __init__(self, layout: str, model: Model = MODEL) -> None:
        self.data = clustered_data()
        self.model = model
        self.engine = Engine()
        self.near = simulated(self.data, model, range(6))
        self.nodes = [
            node_of(f"site-{k}", own, self.data, model) for k, own in enumerate(LAYOUTS[layout])
        ]
        for k, node in enumerate(self.nodes):
            self.engine.join(100 - k, node)
        self.far = remote(self.engine, self.data, model, retries=2)
        self.begin(1)

    def begin(self, round: int) -> None:
        for world in (self.far, self.near):
            world.begin(Stream(3, round, "scenario"))

    def resume(self, memory: dict[str, np.ndarray], round: int) -> RemoteWorld:
        """Another server goes on from a checkpoint, with the same nodes."""
        self.far = remote(self.engine, self.data, self.model, run="another", retries=2)
        self.far.recall(decode(encode({}, memory)).arrays)
        self.far.begin(Stream(3, round, "scenario"))
        return self.far

    def both(self, task: Task, clients: np.ndarray = EVERYONE, stream: Stream | None = None) -> Any:
        """The reply, which is the simulator's."""
        one, two = (world.run(task, clients, stream) for world in (self.far, self.near))
        assert one.arrived.all()
        for name, values in two.arrays.items():
            np.testing.assert_allclose(one.arrays[name], values, rtol=1e-4, atol=1e-6, err_msg=name)
        return one

    def memory(self) -> dict[str, np.ndarray]:
        """What the nodes' disks keep of the clients, in the order of the clients."""
        stored = [node.disk.load_memory("trial-run") for node in self.nodes]
        names = [name for name in stored[0] if name.startswith("clients/")]
        return {name: np.concatenate([one[name] for one in stored]) for name in names}

    def assert_same_memory(self) -> None:
        near = self.near.memory()
        far = self.memory()
        assert far.keys() == near.keys()
        for name, column in near.items():
            np.testing.assert_allclose(far[name], column, rtol=1e-4, atol=1e-6, err_msg=name)


def ranks(numbers: list[int]) -> RankDiffers:
    return RankDiffers(np.array(numbers))


def personal(federation: Federation, round: int) -> tuple[Task, np.ndarray, Stream]:
    start = federation.model.initial(Stream(1, 0, "init").words())
    head = federation.model.spec.head
    task = Personal(
        models=body_of(start[None], head),
        work=WORK,
        model_index=np.zeros(6, np.int64),
        start=start,
        head=head,
    )
    return task, EVERYONE, Stream(3, round, "train")


@each_layout
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_clients_whose_reply_was_lost_answer_the_same(lost: int, layout: str) -> None:
    federation = Federation(layout)
    assert not federation.both(ranks([0, 1, 2, 3, 4, 5])).changed.any()
    federation.begin(2)
    federation.engine.lost = {"rank_differs": lost}
    reply = federation.both(ranks([1, 1, 0, 3, 5, 4]))
    assert (
        reply.changed.tolist() == [True, False, True, False, True, True]
        and reply.told.tolist() == [2] * 6
    )
    # Asked again, by a separate request.
    assert federation.both(ranks([1, 1, 0, 3, 5, 4])).told.tolist() == [3] * 6
    federation.assert_same_memory()


@each_layout
def test_a_client_whose_reply_was_lost_trains_once(layout: str) -> None:
    federation = Federation(layout)
    for round in (1, 2, 3):
        federation.begin(round)
        federation.engine.lost = {"personal": round - 1}
        federation.both(*personal(federation, round))
        federation.assert_same_memory()


@each_layout
def test_a_server_that_resumes_in_the_same_round_is_given_the_same(layout: str) -> None:
    """Also where it has to ask for earlier reports of clients."""
    federation = Federation(layout)
    federation.both(*personal(federation, 1))
    federation.both(Shifted())
    checkpoint = federation.far.memory()
    federation.begin(2)
    federation.both(Shifted())
    federation.both(*personal(federation, 2))
    expected = federation.near.memory()
    federation.resume(checkpoint, 2)
    federation.far.run(Shifted(), EVERYONE)
    task, clients, stream = personal(federation, 2)
    again = federation.far.run(task, clients, stream)
    assert again.arrived.all()
    federation.near.recall(expected)
    federation.assert_same_memory()
    federation.begin(3)
    federation.both(*personal(federation, 3))
    federation.assert_same_memory()


def test_other_clients_of_the_same_fleet_do_the_work_themselves() -> None:
    """A server that resumes may select another cohort, as other nodes are online: replies are not
    mixed up."""
    federation = Federation("fleets")
    checkpoint = federation.far.memory()
    federation.far.run(ranks([7, 8]), np.array([0, 1]))
    federation.resume(checkpoint, 1)
    reply = federation.far.run(ranks([9, 8]), np.array([2, 1]))
    # Client 2 never was told another.
    assert reply.told.tolist() == [1, 2] and not reply.changed.any()
    federation.resume(checkpoint, 1)
    # Other fields, too.
    assert federation.far.run(ranks([8, 8]), np.array([2, 1])).changed.tolist() == [True, False]


@each_layout
def test_news_that_come_twice_do_not_cost_the_memory_kept_since(layout: str) -> None:
    """The first server's clients heard that their clusters had changed, and then did the work; so
    do the second's."""
    federation = Federation(layout)
    federation.both(CountInCluster())
    for world in (federation.far, federation.near):
        world.reassigned(EVERYONE[:4])
    checkpoint = federation.far.memory()
    federation.begin(2)
    for first in (True, False):
        if not first:
            federation.resume(checkpoint, 2)
        federation.far.run(Classes(), EVERYONE)
        reply = federation.far.run(CountInCluster(), EVERYONE)
        assert reply.count.tolist()[:4] == [1] * 4
    federation.near.run(CountInCluster(), EVERYONE)
    np.testing.assert_array_equal(federation.memory()["clients/count_in_cluster"][:4], 1)


@each_layout
def test_a_reply_that_was_lost_with_news_of_clusters(layout: str) -> None:
    federation = Federation(layout)
    federation.both(ranks([0, 1, 2, 3, 4, 5]))
    for world in (federation.far, federation.near):
        world.reassigned(EVERYONE[::2])
    federation.begin(2)
    federation.engine.lost = {"rank_differs": 1}
    reply = federation.both(ranks([1, 1, 1, 1, 1, 1]))
    assert reply.told_in_cluster.tolist() == [1, 2] * 3 and reply.told.tolist() == [2] * 6
    federation.both(Classes())
    federation.assert_same_memory()


def test_only_tasks_that_clients_keep_something_of_are_numbered() -> None:
    """What messages of other tasks weigh does not change."""
    federation = Federation("lone")
    start = federation.model.initial(Stream(1, 0, "init").words())
    federation.both(Train(start[None], WORK, np.zeros(6, np.int64)), stream=Stream(3, 1, "train"))
    station = federation.engine.stations[100]
    assert "call" not in station.requests[-1].header
    federation.both(ranks([0, 1, 2, 3, 4, 5]))
    assert station.requests[-1].header["call"] == [1, 1]
    federation.both(ranks([0, 1, 2, 3, 4, 5]))
    federation.both(CountInCluster())
    assert [request.header["call"] for request in station.requests[-2:]] == [[1, 2], [1, 1]]


# --- arrays to keep


@dataclass(frozen=True)
class FirstKept(Task):
    """The first number of an array that a client was sent to keep."""

    numbers: np.ndarray = kept("T")

    up = Rows(first=integers(high=100))
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        return {"first": np.int64(self.numbers[0])}


@each_layout
def test_a_disk_restored_from_a_backup_is_sent_its_kept_arrays_again(layout: str) -> None:
    """A node must not answer with the array that it kept before."""
    federation = Federation(layout)
    one = np.full(3, 1, np.float32)
    two = np.full(3, 2, np.float32)
    federation.both(FirstKept(one))
    disk: Any = federation.nodes[0].disk
    backup = dict(disk.kept["trial-run"])
    federation.both(FirstKept(two))
    disk.kept["trial-run"] = backup
    reply = federation.far.run(FirstKept(two), EVERYONE)
    own = np.isin(EVERYONE, LAYOUTS[layout][0])
    np.testing.assert_array_equal(reply.arrived, ~own)
    assert (federation.both(FirstKept(two)).first == 2).all()
    sent = [
        [
            "numbers" in station.requests[-1].arrays
            for station in federation.engine.stations.values()
        ]
    ]
    assert sent == [[True] + [False] * (len(federation.nodes) - 1)]
