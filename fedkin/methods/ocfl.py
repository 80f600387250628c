"""OCFL: FedAvg until the clients' updates begin to point apart; then one clustering.

M. Zuziak, R. Pellungrini, S. Rinzivillo: One-Shot Clustering for Federated Learning. IEEE BigData
2024, arXiv 2503.04231.

Notation: u_i the update of client i, Gamma_ij = 1 - cos(u_i, u_j), T the temperature of a round,
N clients.

    1  all clients train the joint model, each round
    2  T = |Gamma|_F / sqrt(4 N (N - 1))          0: all alike, 0.5: orthogonal, 1: two opposite
    3  in the first round with T > T of the round before, the clients are clustered by Gamma, once;
       each cluster's model is the joint model plus the mean update of its clients
    4  FedAvg in each cluster

Any rise of T fires the rule: it is no test whether clusters exist. ``confirm`` is our addition:
clusters are only proposed in that round, and adopted in the next one if they separate its updates
better than random clusters of the same sizes (a permutation test at this level). Otherwise the
joint training goes on, and a later rise may propose others. Clients with few samples differ in
every round in the same way, which the test cannot tell from clusters.

Differs from the authors' code: clients that HDBSCAN leaves out join the nearest cluster
(``noise="own"``: they form a cluster, as coded). Updates are trained parameters, without counters
of batches, and means are weighted by samples, not plain. A client without an update in the
clustering round is placed when it is selected. The paper's cohort has all clients; with a smaller
one, temperatures of different clients are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import mean_by_model
from fedkin.clustering.one_shot import Clusterer, clusters_of
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
from fedkin.measures.temperature import (
    cosine_distances,
    rises,
    separation_p_value,
    temperature,
)
from fedkin.methods import cluster_steps
from fedkin.methods.about import COMPARED_PART, NUMBER_OF_MODELS, About
from fedkin.methods.compared_part import PARTS, Part, only_part
from fedkin.methods.fedavg import single_model_state, train_and_average
from fedkin.tasks.train import train


@dataclass(frozen=True)
class OCFLState(State):
    """Arrays that OCFL keeps from round to round."""

    start: Float[np.ndarray, "P"]  # w_0
    temperature: Float[np.ndarray, ""]  # T of the last round; infinite before the first
    proposed: Int[np.ndarray, "N"]  # clusters to confirm; -1 for all if there are none
    clustered: Bool[np.ndarray, ""]  # whether the clustering is done


@plain_options
@dataclass(frozen=True)
class OCFL:
    """FedAvg until the temperature of the updates rises, then one clustering.

    Examples:
        >>> import fedkin as fk
        >>> fk.OCFL(clusterer="kmeans", clusters=3).confirm
        0.0
    """

    about: ClassVar[About] = About(
        name="ocfl",
        paper="Zuziak et al., IEEE BigData 2024",
        compares="updates",
        when="once, after some rounds of FedAvg",
        membership="hard",
        decides="server",
        count="given or found",
        leaves="updates, until the clustering",
        meanings={"clusters": NUMBER_OF_MODELS, "part": COMPARED_PART},
    )

    # how clients are clustered: HDBSCAN on Gamma, or mean shift or K-means on its rows
    clusterer: Clusterer = "hdbscan"
    clusters: int = 3  # number of clusters, for K-means
    min_size: int = 3  # smallest cluster of HDBSCAN
    noise: Literal["nearest", "own"] = "nearest"  # cluster of clients that HDBSCAN leaves out
    # level of the permutation test that confirms clusters in the next round; 0: no test
    confirm: float = 0.0
    newcomers: Literal["loss", "direction", "random"] = "loss"  # how clients are placed later
    part: Part = "all"  # compared part of updates

    def __post_init__(self) -> None:
        check_choice("clusterer", self.clusterer, ("hdbscan", "mean_shift", "kmeans"))
        for name in ("clusters", "min_size"):
            check_positive_integer(name, getattr(self, name))
        if self.min_size < 2:
            raise MethodError(f"min_size must be at least 2, got {self.min_size}")
        check_choice("noise", self.noise, ("nearest", "own"))
        check_not_negative("confirm", self.confirm)
        if self.confirm >= 1:
            raise MethodError(f"confirm must be below 1, such as 0.05, got {self.confirm:g}")
        check_choice("newcomers", self.newcomers, ("loss", "direction", "random"))
        check_choice("part", self.part, PARTS)

    def requirements(self) -> Requirements:
        return Requirements(
            clients=AtLeast(2),
            reads=ClientReads(updates="single"),
            parts=ModelParts(shared_head=cluster_steps.shared_head(self)),
            rounds=RoundNeeds(full_cohort=True, first_clustering=2),
            memory=MemoryNeeds(compares_all=True),
            keeps_clusters=True,
        )

    def init(self, world: World, stream: Stream) -> OCFLState:
        """One cluster with all clients, and its model, the joint model."""
        start = single_model_state(world, stream)
        return OCFLState(
            models=start.models,
            assignment=start.assignment,
            start=start.models[0],
            temperature=np.array(np.inf),
            proposed=np.full(world.total_clients, UNASSIGNED),
            clustered=np.array(False),
        )

    def round(
        self, world: World, state: OCFLState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> OCFLState:
        if state.clustered:
            # Line 4
            models = train_and_average(world, state, cohort, work=world.work, stream=stream)
            return replace(state, models=models)

        # Line 1
        joint = np.zeros(len(cohort), np.int64)
        reply = train(
            world,
            state.models,
            cohort,
            joint,
            work=world.work,
            stream=stream.child("train"),
        )

        # Line 2; a zero update has no direction.
        compared = only_part(reply.update, world.spec, self.part)
        usable = reply.arrived & compared.any(axis=1)
        distances = cosine_distances(compared[usable])
        # Fewer than two updates say nothing, so the temperature stays.
        now = temperature(distances) if len(distances) > 1 else float(state.temperature)

        # Line 3
        clients = cohort[usable]
        if (state.proposed != UNASSIGNED).any():
            labels = self._confirmed(state.proposed[clients], distances, stream)
            state = replace(state, proposed=np.full_like(state.proposed, UNASSIGNED))
        else:
            labels = self._formed(state, distances, now, stream)
            if labels is not None and self.confirm:
                proposed = state.proposed.copy()
                proposed[clients] = labels
                state = replace(state, proposed=proposed)
                labels = None
        state = replace(state, temperature=np.array(now))
        weights = np.where(reply.arrived, reply.examples, 0.0)
        if labels is None:
            mean, _ = mean_by_model(reply.update, weights, joint, 1)
            return replace(state, models=state.models + mean)
        return self._split(
            world,
            state,
            clients=clients,
            updates=reply.update[usable],
            labels=labels,
            weights=weights[usable],
        )

    def _formed(
        self, state: OCFLState, distances: Float[np.ndarray, "n n"], now: float, stream: Stream
    ) -> Int[np.ndarray, "n"] | None:
        """The cluster of each client if the temperature has risen; None otherwise."""
        if len(distances) < 2 or not rises(now, float(state.temperature)):
            return None
        return clusters_of(
            distances,
            self.clusterer,
            clusters=min(self.clusters, len(distances)),
            min_size=self.min_size,
            noise=self.noise,
            seed=int(stream.child("kmeans").words()[0]),
        )

    def _confirmed(
        self, labels: Int[np.ndarray, "n"], distances: Float[np.ndarray, "n n"], stream: Stream
    ) -> Int[np.ndarray, "n"] | None:
        """The proposed clusters (-1 for a client without one), if the updates of this round confirm
        them; None otherwise."""
        known = labels != UNASSIGNED
        among = distances[np.ix_(known, known)]
        p_value = separation_p_value(among, labels[known], stream.child("confirm").rng())
        return labels if p_value <= self.confirm else None

    def _split(
        self,
        world: World,
        state: OCFLState,
        clients: Int[np.ndarray, "n"],
        updates: Float[np.ndarray, "n P"],
        labels: Int[np.ndarray, "n"],
        weights: Float[np.ndarray, "n"],
    ) -> OCFLState:
        """The state with clusters, each with the joint model plus the mean update of its
        clients."""
        known = labels != UNASSIGNED
        mean, _ = mean_by_model(
            updates[known], weights[known], labels[known], int(labels.max()) + 1
        )
        state = replace(
            state,
            models=state.models + mean,
            assignment=np.full_like(state.assignment, UNASSIGNED),
            clustered=np.array(True),
        )
        return cluster_steps.assign(world, state, clients, labels)

    def place(
        self, world: World, state: OCFLState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> OCFLState:
        """A client that took no part in the clustering joins one of the clusters."""
        place = partial(cluster_steps.place_by_policy, start=state.start, part=self.part)
        return place(world, state, policy=self.newcomers, clients=newcomers, stream=stream)
