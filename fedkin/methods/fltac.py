"""FL-TAC: in every round the server clusters the low-rank adapters of all clients by K-means, and
averages them in each cluster.

S. Ping et al.: FL-TAC: Enhanced Fine-Tuning in Federated Learning via Low-Rank, Task-Specific
Adapter Clustering. ICLR 2024 Workshop on LLM Agents, arXiv 2404.15384. v_i is what client i has
after training: its factors and its last layer.

    each selected client trains from the model of its cluster, in the first round from w_0
    clusters of all v_i by K-means
    w_k = mean of the v_i in cluster k, weighted by numbers of samples

In the paper a client has several tasks, and one adapter for each. Here a client has one data set,
so each pair of client and task is a client.

Differs from the authors' code:
* The last layer is a part of v_i. In the code one last layer goes from client to client and from
  task to task, trained by all in turn, which no federation can do.
* Fewer clients than clusters leave some models as they are. The code then averages nothing.
* A client that was not selected is served by the new model that is nearest to its former one; in
  the code all clients are selected in every round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int

from fedkin.aggregation import mean_by_model
from fedkin.clustering.kmeans import kmeans
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import AtLeast, ClientReads, MemoryNeeds, ModelParts, Requirements
from fedkin.core.validation import check_choice, check_positive_integer
from fedkin.core.world import World
from fedkin.measures.distances import pairwise
from fedkin.methods import cluster_steps
from fedkin.methods.about import NUMBER_OF_MODELS, About
from fedkin.tasks.train import train


@dataclass(frozen=True)
class FLTACState(State):
    """Arrays that FL-TAC keeps from round to round."""

    start: Float[np.ndarray, "P"]  # w_0


@plain_options
@dataclass(frozen=True)
class FLTAC:
    """K-means of all clients' adapters in every round, and a mean in each cluster.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.FLTAC(clusters=2)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (2, 650)
    """

    about: ClassVar[About] = About(
        name="fltac",
        paper="Ping et al., ICLR 2024 workshop",
        compares="whole models after training",
        when="in every round",
        membership="hard",
        decides="server",
        count="given",
        leaves="a single update",
        meanings={"clusters": NUMBER_OF_MODELS},
    )

    clusters: int = 3  # number of clusters: the number of tasks in the paper
    newcomers: Literal["loss", "random"] = "loss"  # how clients are placed later

    def __post_init__(self) -> None:
        check_positive_integer("clusters", self.clusters)
        check_choice("newcomers", self.newcomers, ("loss", "random"))

    def requirements(self) -> Requirements:
        return Requirements(
            clients=AtLeast(self.clusters, because="clusters"),
            reads=ClientReads(updates="single"),
            parts=ModelParts(shared_head="whole solutions"),
            memory=MemoryNeeds(compares_all=True),
        )

    def init(self, world: World, stream: Stream) -> FLTACState:
        """The initial state: K equal models, and all clients in the first cluster."""
        start = world.initial(stream.child("model"))
        state = FLTACState(
            models=np.repeat(start[None], self.clusters, axis=0),
            assignment=np.full(world.total_clients, UNASSIGNED, np.int64),
            start=start,
        )
        known = world.clients(stream.round)
        return cluster_steps.assign(world, state, known, np.zeros(len(known), np.int64))

    def round(
        self, world: World, state: FLTACState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FLTACState:
        members = np.sort(cohort[state.assignment[cohort] != UNASSIGNED])
        reply = train(
            world,
            state.models,
            members,
            state.assignment[members],
            work=world.work,
            stream=stream.child("train"),
        )
        clients = members[reply.arrived]
        if not len(clients):
            return state
        trained = state.models[state.assignment[clients]] + reply.update[reply.arrived]
        labels = self._partition(trained, stream)

        models = state.models.copy()
        mean, counts = mean_by_model(trained, reply.examples[reply.arrived], labels, self.clusters)
        models[counts > 0] = mean[counts > 0]

        # A client outside of the cohort follows its model to the nearest new one.
        moved = _nearest_new(state.models, models)
        placed = np.flatnonzero(state.assignment != UNASSIGNED)
        absent = np.setdiff1d(placed, clients)
        state = cluster_steps.update_assignment(
            world, state, absent, moved[state.assignment[absent]]
        )
        state = replace(state, models=models)
        return cluster_steps.update_assignment(world, state, clients, labels)

    def place(
        self, world: World, state: FLTACState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FLTACState:
        return cluster_steps.place_by_policy(
            world, state, policy=self.newcomers, clients=newcomers, stream=stream
        )

    def _partition(self, trained: Float[np.ndarray, "n P"], stream: Stream) -> Int[np.ndarray, "n"]:
        """The cluster of each trained model, by K-means; as many clusters as there are models, at
        most."""
        clusters = min(self.clusters, len(np.unique(trained, axis=0)))
        return kmeans(trained, clusters, seed=int(stream.child("kmeans").words()[0]))


def _nearest_new(
    old: Float[np.ndarray, "K P"], new: Float[np.ndarray, "K P"]
) -> Int[np.ndarray, "K"]:
    """The number of the new model that is nearest to each old one."""
    distances = pairwise(np.concatenate([old, new]), "l2")[: len(old), len(old) :]
    return np.argmin(distances, axis=1)
