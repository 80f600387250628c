"""FedGroup and FedGrouProx: clients whose first updates have similar directions share a model.

M. Duan, D. Liu, X. Ji, R. Liu, L. Liang, X. Chen, Y. Tan: FedGroup: Ternary Cosine Similarity-based
Clustered Federated Learning Framework toward High Accuracy in Heterogeneity Data. arXiv 2010.06870.

Notation: m clusters (the paper's groups), D_i the update of client i after one epoch from the
initial model w_0, V three base directions of the updates, M the ternary similarity matrix, eta_g
the inter-group learning rate.

Differs from the paper, as the authors' code does:
* A group's first model is the plain mean of its clients' *solutions*, and training continues from
  it, not from w_0 (Alg. 2, l. 2: ``start="initial"``). (Alg. 4, l. 7-8 subtract w_0 from a mean of
  updates, an error.)
* Inter-group aggregation is divided by 1 + eta_g sum 1/|w_l| (paper's sum: ``normalize=False``).
* All reachable clients that reply are placed before the first round, so all rounds test them.
* A newcomer trains from w_0 (eq. 10 says the current global model): one start for all directions.

Differs from both: a newcomer's update is compared with the mean first update of a group, as both
start from w_0; the paper takes the group's latest update, the code its inter-group change.

``newcomers="latest"`` is eq. 10 as printed: a client joins when it is first selected, trains from
the current global model, and is compared with each group's latest update. We read this as the
change of its model by training (Alg. 2, l. 7) in the last round in which it trained, before
inter-group aggregation; before its first training, as the update of its cold start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import inter_cluster_aggregation, simple_mean_by_cluster
from fedkin.clustering.kmeans import kmeans
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import AtLeast, ClientReads, Requirements
from fedkin.core.training import LocalTraining
from fedkin.core.validation import check_choices, check_not_negative, check_positive_integer
from fedkin.core.world import World
from fedkin.measures.cosine import dissimilarity
from fedkin.measures.ternary import base_directions, ternary_similarity
from fedkin.methods import cluster_steps
from fedkin.methods.about import (
    COLD_START_CLIENTS,
    COMPARED_PART,
    NUMBER_OF_MODELS,
    PROXIMAL_WEIGHT,
    RATE_BETWEEN_CLUSTERS,
    About,
)
from fedkin.methods.compared_part import Part, only_part
from fedkin.methods.fedavg import train_and_average
from fedkin.methods.group_cold_start import GroupColdStart, first_updates, sampled_updates


@dataclass(frozen=True)
class FedGroupState(State):
    """Arrays that FedGroup keeps from round to round."""

    start: Float[np.ndarray, "P"]  # w_0
    # Updates with which newcomers are compared: mean updates of the groups in the cold start, or
    # the groups' latest updates.
    directions: Float[np.ndarray, "K P"]
    pretrained: Bool[np.ndarray, "N"]  # whether a client took part in the group cold start

    @property
    def global_model(self) -> Float[np.ndarray, "P"]:
        """Unweighted mean of the group models (Alg. 2, l. 11)."""
        return self.models.mean(axis=0, dtype=np.float64).astype(np.float32)


@plain_options
@dataclass(frozen=True)
class FedGroup:
    """Clusters by the directions of the first updates, fixed for the run.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> model = fk.models.mclr(data)
        >>> run = fk.simulate(fk.FedGroup(clusters=2), data, model, rounds=1, cohort=6)
        >>> run.models.shape
        (2, 650)
    """

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
            "start": "as in FedGroup",
            "part": COMPARED_PART,
        },
    )

    clusters: int = 3  # number of clusters (m in the paper)
    alpha: int = 20  # clients per cluster that the group cold start trains first
    eta_g: float = 0.01  # learning rate between clusters; 0: clusters share nothing
    mu: float = 0.0  # weight of the proximal term; above 0 this is FedGrouProx
    components: int = 3  # number of base directions: three, hence "ternary"
    centers: Literal["kmeans", "random"] = "kmeans"  # how clusters are formed; "random": RCC
    # How clients outside the cold start are placed. "similarity": by their updates from w_0,
    # "latest": eq. 10 as printed, "random": the RAC ablation.
    newcomers: Literal["similarity", "latest", "random"] = "similarity"
    normalize: bool = True  # divides the inter-group sum; False: the paper's plain sum
    # First models of the groups: means of their clients' solutions, or "initial": w_0, as printed.
    start: Literal["solutions", "initial"] = "solutions"
    part: Part = "all"  # compared part of updates; of adapters, "B" or "head" finds clusters best

    def __post_init__(self) -> None:
        for name in ("clusters", "alpha", "components"):
            check_positive_integer(name, getattr(self, name))
        for name in ("eta_g", "mu"):
            check_not_negative(name, getattr(self, name))
        check_choices(self)

    def requirements(self) -> Requirements:
        return Requirements(
            clients=AtLeast(self.clusters, because="clusters"),
            reads=ClientReads(updates="single"),
            separation=cluster_steps.separation(self, {"newcomers": "latest"}),
        )

    def init(self, world: World, stream: Stream) -> FedGroupState:
        """Find groups from the first updates of some clients (the group cold start, Alg. 4), then
        place all other clients (the client cold start)."""
        cold_start = self.cold_start(world, stream)

        # Alg. 4, l. 10
        directions = simple_mean_by_cluster(cold_start.updates, cold_start.groups, self.clusters)
        changes = directions if self.start == "solutions" else np.zeros_like(directions)
        assignment = np.full(world.total_clients, UNASSIGNED, np.int64)
        assignment[cold_start.clients] = cold_start.groups
        state = FedGroupState(
            models=cold_start.start + changes,
            assignment=assignment,
            start=cold_start.start,
            directions=directions,
            pretrained=assignment != UNASSIGNED,
        )

        # By eq. 10 a client is placed with the global model of the round in which it joins.
        if self.newcomers == "latest":
            return state
        others = np.setdiff1d(world.clients(stream.round), cold_start.clients)
        return self.place(world, state, others, stream)

    def cold_start(self, world: World, stream: Stream) -> GroupColdStart:
        """First updates of some clients, and the groups of these clients (Alg. 3; Alg. 4, l. 3)."""
        start = world.initial(stream.child("model"))
        work = self._pretraining(world)
        clients, updates = sampled_updates(world, self, start=start, work=work, stream=stream)
        compared = only_part(updates, world.spec, self.part)
        return GroupColdStart(start, clients, updates, groups=self._partition(compared, stream))

    def round(
        self, world: World, state: FedGroupState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FedGroupState:
        # The RAC ablation draws a new group whenever a client is selected.
        if self.newcomers == "random":
            state = self.place(world, state, cohort[~state.pretrained[cohort]], stream)

        # Alg. 2, l. 5-8
        trained = train_and_average(world, state, cohort, work=self._work(world), stream=stream)

        directions = state.directions
        if self.newcomers == "latest":
            updates = trained - state.models
            directions = np.where(updates.any(axis=1, keepdims=True), updates, directions)

        # Alg. 2, l. 9-10
        models = inter_cluster_aggregation(trained, self.eta_g, self.normalize)
        return replace(state, models=models, directions=directions)

    def place(
        self, world: World, state: FedGroupState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FedGroupState:
        """Place new clients in the group with the nearest direction (client cold start, eq. 10)."""
        assignment = state.assignment.copy()
        if self.newcomers == "random":
            rng = stream.child("place").rng()
            assignment[newcomers] = rng.integers(self.clusters, size=len(newcomers))
            return replace(state, assignment=assignment)
        start = state.global_model if self.newcomers == "latest" else state.start
        directions = only_part(state.directions, world.spec, self.part)
        work = self._pretraining(world)
        # Portions of this size hold no more updates in memory than the group cold start.
        portion = self.alpha * self.clusters
        for part in np.split(newcomers, range(portion, len(newcomers), portion)):
            clients, updates = first_updates(world, start, clients=part, work=work, stream=stream)
            compared = only_part(updates, world.spec, self.part)
            assignment[clients] = np.argmin(dissimilarity(compared, directions), axis=1)
        return replace(state, assignment=assignment)

    def embedding(self, updates: Float[np.ndarray, "a P"]) -> Float[np.ndarray, "a k"]:
        """The ternary similarity matrix M, whose rows are clustered (Alg. 3, l. 7-9)."""
        directions = base_directions(updates, min(self.components, len(updates)))
        return ternary_similarity(updates, directions)

    def _partition(self, updates: Float[np.ndarray, "a P"], stream: Stream) -> Int[np.ndarray, "a"]:
        """The group of each client, by the direction of its first update."""
        if self.centers == "random":  # the RCC ablation: every drawn client is a group
            return np.arange(len(updates))
        # Alg. 4, l. 3
        seed = int(stream.child("kmeans").words()[0])
        return kmeans(self.embedding(updates), self.clusters, seed=seed)

    def _pretraining(self, world: World) -> LocalTraining:
        """The training of a cold start: one epoch (Alg. 3, l. 11-16)."""
        return replace(self._work(world), epochs=1, steps=None)

    def _work(self, world: World) -> LocalTraining:
        """The run's local training, with the proximal term of FedGrouProx."""
        return replace(world.work, mu=self.mu, partial=self.mu > 0)


@plain_options
@dataclass(frozen=True)
class FedGrouProx(FedGroup):
    """FedGroup with FedProx's local solver (Alg. 2, l. 17-18).

    Examples:
        >>> import fedkin as fk
        >>> fk.FedGrouProx(clusters=2).mu
        1.0
    """

    about: ClassVar[About] = replace(
        FedGroup.about,
        name="fedgrouprox",
        meanings={**FedGroup.about.meanings, "mu": PROXIMAL_WEIGHT},
    )

    mu: float = 1.0  # weight of the proximal term
