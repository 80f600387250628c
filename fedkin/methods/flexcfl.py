"""FlexCFL: clusters from the directions of the first updates, newcomers at any time, and migration
when data shift.

M. Duan, D. Liu, X. Ji, Y. Wu, L. Liang, X. Chen, Y. Tan: Flexible Clustered Federated Learning for
Client-Level Data Distribution Shift. IEEE TPDS 2022, arXiv 2108.09749.

Notation: m clusters (the paper's groups), D_i the update of client i after 50 mini-batches from the
initial model w_0, V the first m left singular directions of the updates, tau_i the shift threshold,
eta_g the inter-group learning rate.

Differs from the paper, as the authors' code does:
* Pre-training is 50 mini-batches (``steps``), not all local epochs.
* A group's first model is the plain mean of its clients' *solutions* (Alg. 3 averages updates), and
  training continues from it, not from w_0 (Alg. 2, l. 2).
* Inter-group aggregation is divided by 1 + eta_g sum 1/|w_l| (``normalize=False`` for the paper's
  sum).
* The shift test ignores labels, so it misses a permutation of classes (``migration="label_aware"``
  detects it), and tau_i = 0.2 n_i / C keeps the n_i of the start.
* There is no proximal term. It is an input mu of Alg. 2, whose lines do not use it; ``mu`` adds it
  to the training of rounds (FedProx for FedAvg in l. 16), not to pre-training (Alg. 1).
Differs from the code: a placed client compares directions itself (Alg. 2, l. 6: "locally"), so its
update is never sent. Re-clustering, "redo" and temperature, which the code switches off, are left
out. Differs from both: a client with a zero update has no direction, so it waits until it is
selected again.

FedGroup in the paper's tables is ``migration="none"``; RCC is ``centers="random"``, RAC is
``newcomers="random"``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import simple_mean_by_cluster
from fedkin.clustering.agglomerative import agglomerative
from fedkin.clustering.kmeans import kmeans
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import AtLeast, ClientReads, ModelParts, Requirements
from fedkin.core.validation import check_choice, check_not_negative, check_positive_integer
from fedkin.core.world import World
from fedkin.measures.cosine import cosine
from fedkin.measures.edc import edc_embedding
from fedkin.measures.madc import madc
from fedkin.methods import cluster_steps
from fedkin.methods.about import (
    COLD_START_CLIENTS,
    COMPARED_PART,
    NUMBER_OF_MODELS,
    RATE_BETWEEN_CLUSTERS,
    SHIFTED_SHARE,
    About,
)
from fedkin.methods.compared_part import PARTS, Part, only_part
from fedkin.methods.fedavg import train_and_average
from fedkin.methods.group_cold_start import GroupColdStart, sampled_updates
from fedkin.tasks.similarities import Directions


@dataclass(frozen=True)
class FlexCFLState(State):
    """Arrays that FlexCFL keeps from round to round."""

    start: Float[np.ndarray, "P"]  # w_0
    directions: Float[np.ndarray, "K P"]  # mean updates of the groups in the cold start
    informed: Bool[np.ndarray, "N"]  # whether a client has been sent the directions


@plain_options
@dataclass(frozen=True)
class FlexCFL:
    """Clusters by first updates. It places new clients, and migrates clients whose data shift.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.FlexCFL(clusters=2)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (2, 650)
    """

    about: ClassVar[About] = About(
        name="flexcfl",
        paper="Duan et al., TPDS 2022",
        compares="directions of updates",
        when="once; newcomers and migration later",
        membership="hard",
        decides="server",
        count="given",
        leaves="a single update",
        meanings={
            "clusters": NUMBER_OF_MODELS,
            "alpha": COLD_START_CLIENTS,
            "eta_g": RATE_BETWEEN_CLUSTERS,
            "threshold": SHIFTED_SHARE,
            "part": COMPARED_PART,
        },
    )

    clusters: int = 3  # number of clusters (m in the paper)
    alpha: int = 20  # clients per cluster that the group cold start trains first
    steps: int = cluster_steps.PRETRAINING_STEPS  # number of mini-batches of the pre-training
    measure: Literal["edc", "madc"] = "edc"  # dissimilarity of two updates
    eta_g: float = 0.0  # learning rate between clusters; 0: clusters share nothing
    mu: float = 0.0  # weight of the proximal term in rounds, as in FedProx; 0: none
    # test with which clients detect a shift of their data
    migration: cluster_steps.Migration = "label_blind"
    threshold: float = 0.2  # largest change of labels without a shift, in the unit of migration
    centers: Literal["clustered", "random"] = "clustered"  # how clusters are formed; "random": RCC
    newcomers: Literal["direction", "loss", "random"] = (
        "direction"  # how clients are placed later; "random": RAC
    )
    normalize: bool = True  # divides the inter-group sum; False: the paper's plain sum
    # Compared part of updates: of an adapter's model, "B" or "head" find clusters best.
    part: Part = "all"

    def __post_init__(self) -> None:
        for name in ("clusters", "alpha", "steps"):
            check_positive_integer(name, getattr(self, name))
        check_not_negative("mu", self.mu)
        check_choice("measure", self.measure, ("edc", "madc"))
        check_choice("centers", self.centers, ("clustered", "random"))
        check_choice("normalize", self.normalize, (True, False))
        check_choice("part", self.part, PARTS)
        cluster_steps.check_policies(self, ("direction", "loss", "random"))

    def requirements(self) -> Requirements:
        return Requirements(
            clients=AtLeast(self.clusters, because="clusters"),
            reads=ClientReads(updates="single", standing=cluster_steps.standing_tasks(self)),
            parts=ModelParts(shared_head=cluster_steps.shared_head(self)),
            separation=cluster_steps.separation(self),
        )

    def init(self, world: World, stream: Stream) -> FlexCFLState:
        """Find groups from the first updates of some clients (the group cold start, Alg. 3). All
        other clients are placed when they are first selected."""
        cold_start = self.cold_start(world, stream)
        clients = cold_start.clients

        # Alg. 3, l. 15-18
        directions = simple_mean_by_cluster(cold_start.updates, cold_start.groups, self.clusters)

        # Alg. 3, l. 19
        informed = np.zeros(world.total_clients, bool)
        if self.migration != "none" and self.newcomers == "direction":
            world.run(Directions(only_part(directions, world.spec, self.part)), clients)
            informed[clients] = True

        state = FlexCFLState(
            models=cold_start.start + directions,
            assignment=np.full(world.total_clients, UNASSIGNED, np.int64),
            start=cold_start.start,
            directions=directions,
            informed=informed,
        )
        return cluster_steps.assign(world, state, clients, cold_start.groups)

    def cold_start(self, world: World, stream: Stream) -> GroupColdStart:
        """First updates of some clients, and the groups of these clients (Alg. 3, l. 2-14)."""
        start = world.initial(stream.child("model"))
        work = replace(world.work, steps=self.steps)
        clients, updates = sampled_updates(world, self, start=start, work=work, stream=stream)
        compared = only_part(updates, world.spec, self.part)
        return GroupColdStart(start, clients, updates, groups=self._partition(compared, stream))

    def round(
        self, world: World, state: FlexCFLState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FlexCFLState:
        # Alg. 2, l. 4-6
        state = cluster_steps.migrate(world, state, method=self, place=self.place, stream=stream)

        # l. 8-11
        work = replace(world.work, mu=self.mu, partial=True) if self.mu else world.work
        models = train_and_average(world, state, cohort, work=work, stream=stream)
        state = replace(state, models=models)

        # l. 12-13
        return cluster_steps.aggregate_between_clusters(world, state, self.eta_g, self.normalize)

    def place(
        self, world: World, state: FlexCFLState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FlexCFLState:
        """Place new clients in the group with the nearest direction (client cold start, eq. 8)."""
        if self.newcomers != "direction":
            return cluster_steps.place_by_policy(
                world,
                state,
                policy=self.newcomers,
                clients=newcomers,
                stream=stream,
                start=state.start,
            )
        directions = only_part(state.directions, world.spec, self.part)
        world.run(Directions(directions), newcomers[~state.informed[newcomers]])
        nearest = cluster_steps.cluster_by_direction(
            world,
            start=state.start,
            directions=directions,
            clients=newcomers,
            stream=stream,
            steps=self.steps,
        )
        # A client that did not reply may not have received the directions, so it gets them again.
        informed = state.informed.copy()
        informed[newcomers[nearest.replied]] = True
        state = replace(state, informed=informed)
        return cluster_steps.assign(world, state, newcomers, nearest.cluster)

    def embedding(self, updates: Float[np.ndarray, "a P"]) -> Float[np.ndarray, "a m"]:
        """The cosines with m directions, whose rows are clustered (Alg. 3, l. 12-13; eq. 7)."""
        return edc_embedding(updates, self.clusters)

    def _partition(self, updates: Float[np.ndarray, "a P"], stream: Stream) -> Int[np.ndarray, "a"]:
        """The group of each client, by the direction of its first update."""
        # The RCC ablation: every drawn client is a group.
        if self.centers == "random" or len(updates) == self.clusters:
            return np.arange(len(updates))

        # Alg. 3, l. 7-10
        if self.measure == "madc":
            distances = madc(cosine(updates, updates))
            return agglomerative(distances, clusters=self.clusters, linkage="complete")

        # Alg. 3, l. 11-14
        seed = int(stream.child("kmeans").words()[0])
        return kmeans(self.embedding(updates), self.clusters, seed)
