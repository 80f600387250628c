"""FL-TAC: in every round the server clusters the low-rank adapters of all clients by K-means, and
averages them in each cluster.

S. Ping et al.: FL-TAC: Enhanced Fine-Tuning in Federated Learning via Low-Rank, Task-Specific
Adapter Clustering. ICLR 2024 Workshop on LLM Agents, arXiv 2404.15384. v_i is what client i has
after training: its factors and its last layer.

    each selected client trains from the model of its cluster, in the first round from w_0
    clusters of all v_i by K-means
    w_k = mean of the v_i in cluster k, weighted by numbers of samples

A client that was not selected has v_i = the model of its cluster. It takes part in the clustering,
but in no mean of a cluster with selected clients. A cluster without selected clients gets the mean
of the former models of its clients. Clusters are numbered so that most clients keep their number.

In the paper a client has several tasks, and one adapter for each. Here a client has one data set,
so each pair of client and task is a client.

Differs from the authors' code:
* The last layer is a part of v_i. In the code one last layer goes from client to client and from
  task to task, trained by all in turn, which no federation can do.
* All clients are selected in every round of the code, and with at most K of them it averages
  nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import mean_by_model
from fedkin.clustering.kmeans import distinct_rows, kmeans
from fedkin.clustering.matching import match_labels
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import AtLeast, ClientReads, MemoryNeeds, ModelParts, Requirements
from fedkin.core.validation import check_choice, check_choices, check_positive_integer
from fedkin.core.world import World
from fedkin.methods import cluster_steps
from fedkin.methods.about import COMPARED_PART, NUMBER_OF_MODELS, About
from fedkin.methods.compared_part import PARTS, Part, only_part
from fedkin.tasks.train import train


@dataclass(frozen=True)
class FLTACState(State):
    """Arrays that FL-TAC keeps from round to round."""

    trained: Bool[np.ndarray, "N"]  # whether a client has ever trained


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
        meanings={"clusters": NUMBER_OF_MODELS, "part": COMPARED_PART},
    )

    clusters: int = 3  # number of clusters: the number of tasks in the paper
    # Compared part of the v_i: of an adapter's model, "B" or "head" find clusters best.
    part: Part = "all"
    newcomers: Literal["loss", "random"] = "loss"  # how clients are placed later

    def __post_init__(self) -> None:
        check_positive_integer("clusters", self.clusters)
        check_choice("part", self.part, PARTS)
        check_choices(self)

    def requirements(self) -> Requirements:
        return Requirements(
            clients=AtLeast(self.clusters, because="clusters"),
            reads=ClientReads(updates="single"),
            parts=ModelParts(shared_head="whole solutions"),
            memory=MemoryNeeds(compares_all=True),
        )

    def init(self, world: World, stream: Stream) -> FLTACState:
        """K equal models; clients join a cluster when they are first selected."""
        reachable = len(world.clients(stream.round))
        if self.clusters > reachable:
            raise MethodError(
                f"{self.clusters} clusters need at least as many clients, got {reachable}; lower "
                "method.clusters"
            )
        start = world.initial(stream.child("model"))
        return FLTACState(
            models=np.repeat(start[None], self.clusters, axis=0),
            assignment=np.full(world.total_clients, UNASSIGNED, np.int64),
            trained=np.zeros(world.total_clients, bool),
        )

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

        # Clients that were not selected have at most K different v_i, the models.
        absent = np.setdiff1d(np.flatnonzero(state.trained), clients)
        absent_of_model = np.bincount(state.assignment[absent], minlength=self.clusters)
        used = np.flatnonzero(absent_of_model)
        solutions = np.concatenate([trained, state.models[used]])
        labels = self._partition(
            solutions=only_part(solutions, world.spec, self.part),
            weights=np.concatenate([np.ones(len(clients)), absent_of_model[used]]),
            before=np.concatenate([state.assignment[clients], used]),
            stream=stream,
        )
        own = labels[: len(clients)]
        number = np.arange(self.clusters)
        number[used] = labels[len(clients) :]

        # A cluster may have the former number of another one, so the model that its clients keep
        # is found by the clients, not by the number.
        mean, examples = mean_by_model(trained, reply.examples[reply.arrived], own, self.clusters)
        former, absent_clients = mean_by_model(
            state.models[used], absent_of_model[used], number[used], self.clusters
        )
        kept = np.where(absent_clients[:, None] > 0, former, state.models)
        models = np.where(examples[:, None] > 0, mean, kept)

        ever = state.trained.copy()
        ever[clients] = True
        moved = number[state.assignment[absent]]
        state = replace(state, models=models, trained=ever)
        state = cluster_steps.update_assignment(world, state, absent, moved)
        return cluster_steps.update_assignment(world, state, clients, own)

    def place(
        self, world: World, state: FLTACState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FLTACState:
        """New clients join a cluster; before the first round all models are equal."""
        if not state.trained.any():
            first = np.zeros(len(newcomers), np.int64)
            return cluster_steps.assign(world, state, newcomers, first)
        return cluster_steps.place_by_policy(
            world, state, policy=self.newcomers, clients=newcomers, stream=stream
        )

    def _partition(
        self,
        solutions: Float[np.ndarray, "n P"],
        weights: Float[np.ndarray, "n"],
        before: Int[np.ndarray, "n"],
        stream: Stream,
    ) -> Int[np.ndarray, "n"]:
        """The cluster of each solution, by K-means.

        Args:
            solutions: the different v_i.
            weights: number of clients with each of them.
            before: their clusters so far, by which the new ones are numbered.
            stream: random numbers of the round.
        """
        clusters = min(self.clusters, distinct_rows(solutions))
        seed = int(stream.child("kmeans").words()[0])
        labels = kmeans(solutions, clusters, seed=seed, weights=weights)
        # As many clients as possible keep the number of their cluster.
        return match_labels(labels, before, self.clusters, weights=weights)
