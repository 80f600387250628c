"""FedGroup and FedGrouProx: clients whose first updates have similar directions share a model.

M. Duan, D. Liu, X. Ji, R. Liu, L. Liang, X. Chen, Y. Tan: FedGroup: Ternary Cosine Similarity-based
Clustered Federated Learning Framework toward High Accuracy in Heterogeneity Data. arXiv 2010.06870.

Notation: m clusters (the paper's groups), D_i the update of client i after one epoch from the
initial model w_0, V three base directions of the updates, M the ternary similarity matrix, eta_g
the inter-group learning rate.

Differs from the paper, as the authors' code does:
* a group's first model is the plain mean of its clients' *solutions* (Alg. 4, l. 7 averages updates
  and then subtracts w_0 again: a slip), and training goes on from it, not from w_0 (Alg. 2, l. 2);
* inter-group aggregation is divided by 1 + eta_g sum 1/|w_l| (``normalize=False`` for the paper's
  bare sum);
* all clients that are reachable and reply are placed before the first round, and so tested from the
  start;
* a newcomer trains from w_0 (eq. 10 says the current global model): directions are comparable from
one start only. Differs from both: a group keeps the direction of its cold start for later
newcomers. The paper compares with the group's latest update; in the code that is overwritten by
what inter-group aggregation changed, which says nothing of the clients, and from w_0 the direction
of the start is the one to compare with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import inter_cluster_aggregation, simple_mean_by_cluster
from fedkin.clustering.kmeans import kmeans
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import AtLeast, ClientReads, Requirements
from fedkin.core.training import LocalTraining
from fedkin.core.validation import check_choice, check_not_negative, check_positive_integer
from fedkin.core.world import World
from fedkin.measures.cosine import dissimilarity
from fedkin.measures.ternary import base_directions, ternary_similarity
from fedkin.methods.about import (
    COLD_START_CLIENTS,
    NUMBER_OF_MODELS,
    PROXIMAL_WEIGHT,
    RATE_BETWEEN_CLUSTERS,
    About,
)
from fedkin.methods.fedavg import train_and_average
from fedkin.tasks.train import train


@dataclass(frozen=True)
class FedGroupState(State):
    """What FedGroup keeps from round to round."""

    start: Float[np.ndarray, "P"]  # w_0
    directions: Float[np.ndarray, "K P"]  # group updates of the cold start, for newcomers
    pretrained: Bool[np.ndarray, "N"]  # took part in the group cold start

    @property
    def global_model(self) -> Float[np.ndarray, "P"]:
        """Plain mean of the group models (Alg. 2, l. 11)."""
        return self.models.mean(axis=0, dtype=np.float64).astype(np.float32)


@plain_options
@dataclass(frozen=True)
class FedGroup:
    """Clusters by the directions of the first updates, fixed for the run."""

    about: ClassVar[About] = About(
        name="fedgroup",
        paper="Duan et al., arXiv 2010.06870",
        compares="directions of updates",
        when="once, before training",
        membership="hard",
        decides="server",
        count="given",
        leaves="a single update",
        meanings={
            "clusters": NUMBER_OF_MODELS,
            "alpha": COLD_START_CLIENTS,
            "eta_g": RATE_BETWEEN_CLUSTERS,
            "components": "as in FedGroup",
            "centers": "as in FedGroup",
            "newcomers": "as in FedGroup",
            "normalize": "as in FedGroup",
        },
    )

    clusters: int = 3  # m
    alpha: int = 20  # alpha m clients are pre-trained for the group cold start
    eta_g: float = 0.01  # inter-group learning rate
    mu: float = 0.0  # proximal term of the local solver; above 0 this is FedGrouProx
    components: int = 3  # base directions: three, hence "ternary"
    centers: Literal["kmeans", "random"] = "kmeans"  # "random": the RCC ablation
    newcomers: Literal["similarity", "random"] = "similarity"  # "random": the RAC ablation
    normalize: bool = True  # of the inter-group sum; False: the paper's bare sum

    def __post_init__(self) -> None:
        for name in ("clusters", "alpha", "components"):
            check_positive_integer(name, getattr(self, name))
        for name in ("eta_g", "mu"):
            check_not_negative(name, getattr(self, name))
        check_choice("centers", self.centers, ("kmeans", "random"))
        check_choice("newcomers", self.newcomers, ("similarity", "random"))
        check_choice("normalize", self.normalize, (True, False))

    def requirements(self) -> Requirements:
        return Requirements(
            clients=AtLeast(self.clusters, because="clusters"),
            reads=ClientReads(updates="single"),
        )

    def init(self, world: World, stream: Stream) -> FedGroupState:
        """Group cold start (Alg. 4), then client cold start of all others."""
        reachable = world.clients(stream.round)
        if self.clusters > len(reachable):
            raise MethodError(
                f"{self.clusters} clusters need as many clients, got {len(reachable)}; lower "
                f"method.clusters"
            )
        start = world.initial(stream.child("model"))
        sample_size = self.clusters if self.centers == "random" else self.alpha * self.clusters
        sample = (
            stream.child("pretrain")
            .rng()
            .choice(reachable, min(sample_size, len(reachable)), replace=False)
        )
        sample.sort()
        clients, updates = self._pretrain(world, start, sample, stream)  # Alg. 3, l. 2-6
        if len(clients) < self.clusters:
            raise MethodError(
                f"cold start of {self.clusters} clusters: {len(clients)} of {len(sample)} clients "
                f"gave an update"
            )
        labels = self._partition(updates, stream)
        directions = simple_mean_by_cluster(updates, labels, self.clusters)  # Alg. 4, l. 10
        assignment = np.full(world.total_clients, UNASSIGNED, np.int64)
        assignment[clients] = labels
        state = FedGroupState(
            start + directions, assignment, start, directions, assignment != UNASSIGNED
        )
        return self.place(world, state, np.setdiff1d(reachable, clients), stream)

    def round(
        self, world: World, state: FedGroupState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FedGroupState:
        if self.newcomers == "random":  # RAC draws anew every time a client is selected
            state = self.place(world, state, cohort[~state.pretrained[cohort]], stream)
        models = train_and_average(
            world, state, cohort, self._work(world), stream
        )  # Alg. 2, l. 5-8
        return replace(
            state, models=inter_cluster_aggregation(models, self.eta_g, self.normalize)
        )  # Alg. 2, l. 9-10

    def place(
        self, world: World, state: FedGroupState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FedGroupState:
        """Client cold start: the group whose direction is nearest to the newcomer's (eq. 10)."""
        assignment = state.assignment.copy()
        if self.newcomers == "random":
            assignment[newcomers] = (
                stream.child("place").rng().integers(self.clusters, size=len(newcomers))
            )
            return replace(state, assignment=assignment)
        portion = (
            self.alpha * self.clusters
        )  # updates in memory at a time, as in the group cold start
        for part in np.split(newcomers, range(portion, len(newcomers), portion)):
            clients, updates = self._pretrain(world, state.start, part, stream)
            assignment[clients] = np.argmin(dissimilarity(updates, state.directions), axis=1)
        return replace(state, assignment=assignment)

    def _pretrain(
        self,
        world: World,
        start: Float[np.ndarray, "P"],
        clients: Int[np.ndarray, "c"],
        stream: Stream,
    ) -> tuple[Int[np.ndarray, "a"], Float[np.ndarray, "a P"]]:
        """One epoch from w_0 (Alg. 3, l. 11-16); the clients that replied with an update that is
        not zero, and these: a zero update has no direction, and its client stays without a group.
        """
        work = replace(self._work(world), epochs=1, steps=None)
        model_index = np.zeros(len(clients), np.int64)
        reply = train(
            world, start[None], clients, model_index, work=work, stream=stream.child("pretrain")
        )
        usable = reply.arrived & reply.update.any(axis=1)
        return clients[usable], reply.update[usable]

    def _partition(self, updates: Float[np.ndarray, "a P"], stream: Stream) -> Int[np.ndarray, "a"]:
        if self.centers == "random":  # RCC: every drawn client is a group of its own
            return np.arange(len(updates))
        similarity = ternary_similarity(
            updates, base_directions(updates, min(self.components, len(updates)))
        )
        return kmeans(
            similarity, self.clusters, seed=int(stream.child("kmeans").words()[0])
        )  # Alg. 4, l. 3

    def _work(self, world: World) -> LocalTraining:
        return replace(world.work, mu=self.mu, partial=self.mu > 0)


@plain_options
@dataclass(frozen=True)
class FedGrouProx(FedGroup):
    """FedGroup with FedProx's local solver (Alg. 2, l. 17-18)."""

    about: ClassVar[About] = replace(
        FedGroup.about,
        name="fedgrouprox",
        meanings={**FedGroup.about.meanings, "mu": PROXIMAL_WEIGHT},
    )

    mu: float = 1.0  # proximal term
