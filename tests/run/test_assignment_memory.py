"""What clients keep for their cluster lasts as long as they are in it: not a round less, and no
work more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from jaxtyping import Int

from fedkin.config.plan import Plan
from fedkin.core.client import Client
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.randomness import Stream
from fedkin.core.schema import Memory, Rows, integers
from fedkin.core.task import Task, each
from fedkin.core.world import World
from fedkin.methods.cluster_steps import assign, update_assignment
from fedkin.run.loop import run
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import clustered_data, join_nodes, model_of, remote, simulated

NO_CLUSTER = -1
GROUPS = {"single clients": [[client] for client in range(6)], "fleets": [[0, 1, 2], [3, 4, 5]]}
CLUSTERS = {
    1: [0] * 6,
    2: [0] * 6,
    3: [0, 1] * 3,
    4: [0, 1] * 3,
    5: [0, 1] * 3,
    6: [1, 0, 0, 1, 0, 1],
}
# each client's memory of an earlier round: its cluster, or nothing, as it has just come
# there
FOUND = {
    1: [NO_CLUSTER] * 6,
    2: [0] * 6,
    3: [0, NO_CLUSTER] * 3,
    4: [0, 1] * 3,
    5: [0, 1] * 3,
    6: [NO_CLUSTER, NO_CLUSTER, 0, 1, 0, 1],
}


@dataclass(frozen=True)
class KeepCluster(Task):
    """Clients keep the cluster that they work for, and tell which they kept before."""

    cluster: Any = each()

    up = Rows(test_before=integers(low=NO_CLUSTER))
    memory: ClassVar = {
        "kept_cluster": Memory("", np.int64, "assignment"),
        "kept_rounds": Memory("", np.int64),
    }
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        before = client.memory.get("kept_cluster", NO_CLUSTER)
        client.memory["kept_cluster"] = self.cluster[0]
        client.memory["kept_rounds"] = client.memory.get("kept_rounds", 0) + 1
        return {"test_before": before}


@dataclass(frozen=True)
class Given:
    """A method with the clusters of the table; a client works for its new one in the round in which
    it changes."""

    policy: Any
    found: dict[int, list[int]]

    def init(self, world: World, stream: Stream) -> State:
        model = world.initial(stream.child("model"))
        return State(np.stack([model, model]), np.full(world.total_clients, UNASSIGNED))

    def round(
        self, world: World, state: State, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> State:
        clusters = np.array(CLUSTERS[stream.round])[cohort]
        state = self.policy(world, state, cohort, clusters)
        self.found[stream.round] = world.run(KeepCluster(clusters), cohort).test_before.tolist()
        return state

    def place(
        self, world: World, state: State, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> State:
        return state


def opened(groups: str | None) -> Any:
    if groups is None:
        return simulated(clustered_data(), model_of(), range(6))
    transport = MemoryTransport()
    join_nodes(transport, GROUPS[groups], clustered_data(), model_of())
    return remote(transport, clustered_data(), model_of())


@pytest.mark.parametrize("groups", [None, *GROUPS])
@pytest.mark.parametrize("policy", [assign, update_assignment])
def test_memory_for_a_cluster_begins_with_the_first_work_for_it(
    policy: Any, groups: str | None
) -> None:
    found: dict[int, list[int]] = {}
    run(opened(groups), Given(policy, found), Plan(rounds=6, cohort=6))
    assert found == FOUND


def test_a_method_that_says_nothing_of_a_change_is_helped_at_the_end_of_the_round() -> None:
    """Then the work in the round of the change sees the old memory, and work of later rounds
    does
        not."""

    def silently(world: World, state: State, clients: Any, clusters: Any) -> State:
        return State(state.models, clusters)

    found: dict[int, list[int]] = {}
    run(opened(None), Given(silently, found), Plan(rounds=6, cohort=6))
    assert found[3] == [0] * 6 and found[4] == [0, NO_CLUSTER] * 3 and found[5] == FOUND[5]


def test_memory_for_the_run_outlasts_a_change_of_cluster() -> None:
    world = opened(None)
    run(world, Given(update_assignment, {}), Plan(rounds=6, cohort=6))
    assert world.memory()["clients/kept_rounds"].tolist() == [6] * 6
