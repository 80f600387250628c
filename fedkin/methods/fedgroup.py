"""FedGroup and FedGrouProx: clients whose first updates have similar directions share a model.

M. Duan, D. Liu, X. Ji, R. Liu, L. Liang, X. Chen, Y. Tan: FedGroup: Ternary Cosine Similarity-based
Clustered Federated Learning Framework toward High Accuracy in Heterogeneity Data. arXiv 2010.06870.

Notation: m clusters (the paper's groups), D_i the update of client i after one epoch from the
initial model w_0, V three base directions of the updates, M the ternary similarity matrix, eta_g
the inter-group learning rate.

Differs from the paper, as the authors' code does:
* A group's first model is the plain mean of its clients' *solutions*, and training continues from
  it, not from w_0 (Alg. 2, l. 2). (Alg. 4, l. 7 subtracts w_0 from a mean of updates, an error.)
* Inter-group aggregation is divided by 1 + eta_g sum 1/|w_l| (paper's sum: ``normalize=False``).
* All reachable clients that reply are placed before the first round, so all rounds test them.
* A newcomer trains from w_0 (eq. 10 says the current global model): one start for all directions.

Differs from both: the update of a newcomer is compared with the mean first update of a group's
clients in the cold start, since all these updates start from w_0. The paper compares it with the
group's latest update, the code with the change of the group's model by inter-group aggregation.
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
    """Arrays that FedGroup keeps from round to round."""

    start: Float[np.ndarray, "P"]  # w_0
    directions: Float[np.ndarray, "K P"]  # mean updates of the groups in the cold start
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
        >>> method = fk.FedGroup(clusters=2)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=6)
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
        },
    )

    clusters: int = 3  # m, the number of groups
    alpha: int = 20  # alpha m clients are pre-trained for the group cold start
    eta_g: float = 0.01  # inter-group learning rate
    mu: float = 0.0  # proximal term of the local solver; above 0 this is FedGrouProx
    components: int = 3  # base directions: three, hence "ternary"
    centers: Literal["kmeans", "random"] = "kmeans"  # "random": the RCC ablation
    newcomers: Literal["similarity", "random"] = "similarity"  # "random": the RAC ablation
    normalize: bool = True  # divides the inter-group sum; False: the paper's plain sum

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
        """Find groups from the first updates of some clients (the group cold start, Alg. 4), then
        place all other clients (the client cold start)."""
        reachable = world.clients(stream.round)
        if self.clusters > len(reachable):
            raise MethodError(
                f"{self.clusters} clusters need at least as many clients, got {len(reachable)}; "
                "lower method.clusters"
            )
        start = world.initial(stream.child("model"))

        # Alg. 3, l. 2-6: the pre-training of some clients
        sample_size = self.clusters if self.centers == "random" else self.alpha * self.clusters
        rng = stream.child("pretrain").rng()
        sample = rng.choice(reachable, min(sample_size, len(reachable)), replace=False)
        sample.sort()
        clients, updates = self._pretrain(world, start, sample, stream)
        if len(clients) < self.clusters:
            raise MethodError(
                f"cold start of {self.clusters} clusters: only {len(clients)} of {len(sample)} "
                "clients sent an update; lower method.clusters, or raise method.alpha, so that "
                "more clients are asked"
            )
        labels = self._partition(updates, stream)

        # Alg. 4, l. 10
        directions = simple_mean_by_cluster(updates, labels, self.clusters)
        assignment = np.full(world.total_clients, UNASSIGNED, np.int64)
        assignment[clients] = labels
        state = FedGroupState(
            models=start + directions,
            assignment=assignment,
            start=start,
            directions=directions,
            pretrained=assignment != UNASSIGNED,
        )
        return self.place(world, state, np.setdiff1d(reachable, clients), stream)

    def round(
        self, world: World, state: FedGroupState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FedGroupState:
        # The RAC ablation draws a new group whenever a client is selected.
        if self.newcomers == "random":
            state = self.place(world, state, cohort[~state.pretrained[cohort]], stream)

        # Alg. 2, l. 5-8
        work = self._work(world)
        models = train_and_average(world, state, cohort, work=work, stream=stream)

        # Alg. 2, l. 9-10
        models = inter_cluster_aggregation(models, self.eta_g, self.normalize)
        return replace(state, models=models)

    def place(
        self, world: World, state: FedGroupState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FedGroupState:
        """Place new clients in the group with the nearest direction (client cold start, eq. 10)."""
        assignment = state.assignment.copy()
        if self.newcomers == "random":
            rng = stream.child("place").rng()
            assignment[newcomers] = rng.integers(self.clusters, size=len(newcomers))
            return replace(state, assignment=assignment)
        # Portions of this size hold no more updates in memory than the group cold start.
        portion = self.alpha * self.clusters
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
        """Let clients train one epoch from w_0 (Alg. 3, l. 11-16). Returns the clients with a
        nonzero update, and their updates. A zero update has no direction, so its client gets no
        group."""
        reply = train(
            world,
            start[None],
            clients,
            np.zeros(len(clients), np.int64),
            work=replace(self._work(world), epochs=1, steps=None),
            stream=stream.child("pretrain"),
        )
        usable = reply.arrived & reply.update.any(axis=1)
        return clients[usable], reply.update[usable]

    def _partition(self, updates: Float[np.ndarray, "a P"], stream: Stream) -> Int[np.ndarray, "a"]:
        """The group of each client, by the direction of its first update."""
        # The RCC ablation: every drawn client is a group.
        if self.centers == "random":
            return np.arange(len(updates))
        directions = base_directions(updates, min(self.components, len(updates)))
        similarity = ternary_similarity(updates, directions)

        # Alg. 4, l. 3
        seed = int(stream.child("kmeans").words()[0])
        return kmeans(similarity, self.clusters, seed=seed)

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
