"""FL+HC: FedAvg for some rounds, one hierarchical clustering of all clients' updates, then FedAvg
in each cluster.

C. Briggs, Z. Fan, P. Andras: Federated Learning with Hierarchical Clustering of Local Updates to
Improve Training on Non-IID Data. IJCNN 2020, arXiv 2004.11791.

Before ``cluster_round`` there is one joint model, trained by FedAvg. In that round all reachable
clients train from it, whatever the cohort, and their updates are clustered once: the dendrogram is
cut at ``clusters`` clusters, or at the distance ``distance``. From then on every cluster runs a
separate FedAvg, and no client is clustered again.

The authors published no code, and the paper leaves two choices open. Here updates are compared, not
whole models (equivalent for l1 and l2, but not for cosine). The training of the clustering round is
kept: every cluster starts from the joint model plus the mean update of its clients, weighted by
numbers of samples. A distance may leave one cluster, or one cluster per client; both are valid.
``distance="silhouette"`` is our addition: the cut with the highest mean silhouette, which isolates
attackers in the clustering round (docs/robustness.md). A client without an update in the clustering
round (for cosine: with a zero update), or one that comes later, is UNASSIGNED. It is placed when it
is selected (``newcomers``). In the clustering round the server holds N x P numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import mean_by_model
from fedkin.clustering.agglomerative import LINKAGES, agglomerative, best_silhouette
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import (
    AtLeast,
    ClientReads,
    MemoryNeeds,
    ModelParts,
    Requirements,
    RoundNeeds,
)
from fedkin.core.validation import check_choice, check_not_negative, check_positive_integer
from fedkin.core.world import World
from fedkin.measures.distances import METRICS, pairwise
from fedkin.methods import cluster_steps
from fedkin.methods.about import COMPARED_PART, NUMBER_OF_MODELS, SHIFTED_SHARE, About
from fedkin.methods.compared_part import PARTS, Part, only_part
from fedkin.methods.fedavg import single_model_state, train_and_average
from fedkin.tasks.train import train

CLUSTERS = 3  # default if neither a number of clusters nor a distance is given


@dataclass(frozen=True)
class FLHCState(State):
    """Arrays that FL+HC keeps from round to round."""

    start: Float[np.ndarray, "P"]  # w_0
    clustered: Bool[np.ndarray, ""]  # whether the clustering is done


@plain_options
@dataclass(frozen=True)
class FLHC:
    """One hierarchical clustering of all updates, then FedAvg in each cluster.

    Give ``clusters`` or ``distance``, not both.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.FLHC(clusters=2, cluster_round=1)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=2, cohort=6)
        >>> run.models.shape
        (2, 650)
    """

    about: ClassVar[About] = About(
        name="flhc",
        paper="Briggs et al., IJCNN 2020",
        compares="updates",
        when="once, after some rounds of FedAvg",
        membership="hard",
        decides="server",
        count="given or found",
        leaves="updates, once",
        meanings={
            "clusters": NUMBER_OF_MODELS,
            "threshold": SHIFTED_SHARE,
            "part": COMPARED_PART,
        },
    )

    clusters: int | None = None  # number of clusters; 3 if no distance is given
    # distance at which the dendrogram is cut, in the metric and linkage below
    distance: float | Literal["silhouette"] | None = None
    cluster_round: int = 20  # the clustering round; the rounds before are FedAvg
    metric: Literal["l1", "l2", "cosine"] = "l2"  # distance between updates
    linkage: Literal["ward", "complete", "average", "single"] = "ward"  # linkage; ward needs l2
    newcomers: Literal["loss", "direction", "random"] = "loss"  # how clients are placed later
    migration: cluster_steps.Migration = "none"  # shift test of clients
    threshold: float = 0.2  # largest change of labels without a shift, in the unit of migration
    eta_g: float = 0.0  # learning rate between clusters; 0: clusters share nothing
    # Compared part of updates: of an adapter's model, "B" or "head" find clusters best.
    part: Part = "all"

    def __post_init__(self) -> None:
        if self.clusters is not None:
            check_positive_integer("clusters", self.clusters)
        if self.distance == "silhouette":
            if self.metric != "cosine":
                raise MethodError(
                    f"distance 'silhouette' needs metric 'cosine', got {self.metric!r}"
                )
        elif self.distance is not None:
            check_not_negative("distance", self.distance)
        if self.clusters is not None and self.distance is not None:
            raise MethodError(
                f"give clusters or distance, not both; got {self.clusters} and {self.distance}"
            )
        check_positive_integer("cluster_round", self.cluster_round)
        check_choice("metric", self.metric, METRICS)
        check_choice("linkage", self.linkage, LINKAGES)
        check_choice("part", self.part, PARTS)
        if self.linkage == "ward" and self.metric != "l2":
            raise MethodError(
                f"linkage 'ward' needs metric 'l2', got {self.metric!r}; use linkage 'complete'"
            )
        cluster_steps.check_policies(self, ("loss", "direction", "random"))

    def requirements(self) -> Requirements:
        return Requirements(
            clients=AtLeast(self._cluster_count() or 1, because="clusters"),
            reads=ClientReads(updates="single", standing=cluster_steps.standing_tasks(self)),
            parts=ModelParts(shared_head=cluster_steps.shared_head(self)),
            rounds=RoundNeeds(first_clustering=self.cluster_round),
            memory=MemoryNeeds(compares_all=True),
            keeps_clusters=self.migration == "none" and not self.eta_g,
        )

    def init(self, world: World, stream: Stream) -> FLHCState:
        """The initial state: one cluster with all clients, and its model, the joint model."""
        self._require(world.total_clients, f"the federation has {world.total_clients}")
        start = single_model_state(world, stream)
        return FLHCState(
            models=start.models,
            assignment=start.assignment,
            start=start.models[0],
            clustered=np.array(False),
        )

    def round(
        self, world: World, state: FLHCState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FLHCState:
        if len(state.models) > 1:
            state = cluster_steps.migrate(
                world, state, method=self, place=self.place, stream=stream
            )
        if stream.round < self.cluster_round or state.clustered:
            models = train_and_average(world, state, cohort, work=world.work, stream=stream)
            state = replace(state, models=models)
        else:
            state = self._cluster(world, state, stream)
        return cluster_steps.aggregate_between_clusters(world, state, self.eta_g)

    def place(
        self, world: World, state: FLHCState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FLHCState:
        """A client that took no part in the clustering joins one of the clusters."""
        return cluster_steps.place_by_policy(
            world,
            state,
            policy=self.newcomers,
            clients=newcomers,
            stream=stream,
            start=state.start,
            part=self.part,
        )

    def _cluster(self, world: World, state: FLHCState, stream: Stream) -> FLHCState:
        """The clustering round: all clients train from the joint model, and are clustered by their
        updates. Returns the state with the clusters and their first models."""
        reachable = world.clients(stream.round)
        reply = train(
            world,
            state.models,
            reachable,
            np.zeros(len(reachable), np.int64),
            work=world.work,
            stream=stream.child("train"),
        )
        # A zero update has no direction, so it has no cosine distance to others.
        compared = only_part(reply.update, world.spec, self.part)
        usable = reply.arrived & (compared.any(axis=1) | (self.metric != "cosine"))
        clients = reachable[usable]
        updates = reply.update[usable]
        self._require(
            len(clients),
            f"{len(clients)} of {len(reachable)} gave an update in round {stream.round}",
        )

        # Cut the dendrogram.
        distances = pairwise(compared[usable], self.metric)
        if self.distance == "silhouette":
            labels = best_silhouette(distances, self.linkage)
        else:
            labels = agglomerative(
                distances,
                clusters=self._cluster_count(),
                threshold=self.distance,
                linkage=self.linkage,
            )

        # Each cluster starts from the joint model plus the mean update of its clients.
        mean, _ = mean_by_model(updates, reply.examples[usable], labels, int(labels.max()) + 1)
        state = replace(
            state,
            models=state.models + mean,
            assignment=np.full_like(state.assignment, UNASSIGNED),
            clustered=np.array(True),
        )
        return cluster_steps.assign(world, state, clients, labels)

    def _cluster_count(self) -> int | None:
        """The number of clusters to form; None if the option ``distance`` determines it."""
        if self.distance is not None:
            return self.clusters
        return self.clusters or CLUSTERS

    def _require(self, clients: int, count: str) -> None:
        """Raise MethodError unless there are at least as many clients as clusters, and at least
        one.

        Args:
            clients: number of clients.
            count: text for the message that says which clients were counted, and how many.
        """
        clusters = self._cluster_count() or 1
        if clients < clusters:
            raise MethodError(
                f"{clusters} clusters need at least as many clients, but {count}; lower "
                "method.clusters"
            )
