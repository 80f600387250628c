"""CFL-GP: spectral clustering of all clients' gradients at one model, averaged over queries.

H. Kim, H. Kim, G. de Veciana: Clustered Federated Learning via Gradient-based Partitioning. ICML
2024 (PMLR 235).

Notation: N clients, K clusters, p the rounds from one query to the next (``period``), T_c the round
after which there is no query (``last_query``). The criterion model is the model of cluster 0.

    every p-th round before T_c: all clients get the criterion model, and reply with the gradient
                                 g_i there
    G    <- (1 - beta) G + beta [g_1 .. g_N]       columns are clients; beta = 1, 1/2, 1/3 ..:
                                                   G is the mean of all queries
    Z    =  U_K^T G                                U_K the first K left singular vectors of G
    clusters: K-means on the columns of Z, numbered so that most clients keep their cluster
    in all rounds: FedAvg in each cluster (one step of one batch a round is the paper's averaging
                   of gradients)

With ``clusters = None``, K is the number up to ``max_clusters`` with the highest silhouette of
K-means at the first query. Gradients are then reduced to max(3, r) directions, where r is the rank
at the largest gap between singular values. The criterion model should be trained before it is used,
so ``warm_up`` rounds with one model come before the first query.

Differs from the paper: it queries its K models in turn, and its G has a block for each; here G has
one block, for the criterion model. Differs from the authors' code: (1) There, clients outside
cluster 0 get their cluster's model instead of the criterion model, so columns of G are gradients at
different models. (2) There beta stays 1 in rounds t with t + 1 < K p, so the first queries are
forgotten: ``weighting="as_coded"``. (3) Here the gradient is over all samples, not over one batch.
(4) Here clusters start as copies of the one model before the first query. (5) Here cluster ids are
matched by linear assignment; the code tries all K! orders.

A new client answers all past queries at once, with the criterion models that the state keeps. It
joins the cluster with the nearest mean in Z. For a client that missed a query, G holds the mean of
its answers to the other queries. The state holds N gradients and T_c / p models.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import simple_mean_by_cluster
from fedkin.clustering.matching import match_labels
from fedkin.clustering.spectral import count_by_silhouette, spectral_clusters, spectrum
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
from fedkin.core.validation import check_choice, check_integer_from_zero, check_positive_integer
from fedkin.core.world import World
from fedkin.measures.gram import gram
from fedkin.methods import cluster_steps
from fedkin.methods.about import COMPARED_PART, NUMBER_OF_MODELS, About
from fedkin.methods.compared_part import PARTS, Part, only_part
from fedkin.methods.fedavg import single_model_state, train_and_average
from fedkin.tasks.gradients import CriterionGradients


@dataclass(frozen=True)
class CFLGPState(State):
    """Arrays that CFL-GP keeps from round to round."""

    profiles: Float[np.ndarray, "N P"]  # G, one row per client: the mean of its gradients
    answers: Int[np.ndarray, "N"]  # number of gradients in each client's mean
    criteria: Float[np.ndarray, "Q P"]  # the criterion model of each query
    asked: Bool[np.ndarray, "Q"]  # which queries have been made


@plain_options
@dataclass(frozen=True)
class CFLGP:
    """Spectral clustering of all clients' gradients at one model, in the first rounds. It can
    estimate the number of clusters.

    Examples:
        >>> import fedkin as fk
        >>> method = fk.CFLGP(clusters=None, max_clusters=6)
        >>> method.clusters, method.max_clusters
        (None, 6)
    """

    about: ClassVar[About] = About(
        name="cflgp",
        paper="Kim et al., ICML 2024",
        compares="gradients at one model",
        when="the first rounds",
        membership="hard",
        decides="server",
        count="given or found",
        leaves="gradients",
        meanings={"clusters": NUMBER_OF_MODELS, "part": COMPARED_PART},
    )

    clusters: int | None = 4  # number of clusters (K); None: estimated at the first query
    period: int = 2  # number of rounds from one query to the next (p)
    last_query: int = 10  # last round with a query (T_c)
    weighting: Literal["mean", "as_coded"] = "mean"  # weighting of a client's gradients
    warm_up: int = 0  # rounds with one model before the first query
    max_clusters: int = 10  # largest number of clusters that is tried
    part: Part = "all"  # compared part of gradients: "B" or "head" for adapters

    def __post_init__(self) -> None:
        for name in ("clusters", "period", "last_query", "max_clusters"):
            if getattr(self, name) is not None:
                check_positive_integer(name, getattr(self, name))
        check_integer_from_zero("warm_up", self.warm_up)
        check_choice("weighting", self.weighting, ("mean", "as_coded"))
        check_choice("part", self.part, PARTS)

    def requirements(self) -> Requirements:
        return Requirements(
            clients=AtLeast(self.clusters or 3, because="clusters"),
            reads=ClientReads(updates="single"),
            parts=ModelParts(shared_head="gradients at one model"),
            rounds=RoundNeeds(first_clustering=self.warm_up + 1),
            memory=MemoryNeeds(kept_models=1, compares_all=True),
        )

    def init(self, world: World, stream: Stream) -> CFLGPState:
        """One cluster with all clients, and its model. Raises MethodError for too few clients."""
        clients = world.total_clients
        if clients < (self.clusters or 1):
            raise MethodError(
                f"{self.clusters} clusters need as many clients, got {clients}; lower "
                "method.clusters"
            )
        start = single_model_state(world, stream)
        queries = -(-self.last_query // self.period)
        parameters = world.spec.parameters
        return CFLGPState(
            models=start.models,
            assignment=start.assignment,
            profiles=np.zeros((clients, parameters), np.float32),
            answers=np.zeros(clients, np.int64),
            criteria=np.zeros((queries, parameters), np.float32),
            asked=np.zeros(queries, bool),
        )

    def round(
        self, world: World, state: CFLGPState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> CFLGPState:
        t = stream.round - 1 - self.warm_up
        if 0 <= t < self.last_query and t % self.period == 0:
            state = self._query(world, state, t // self.period, stream)
        models = train_and_average(world, state, cohort, work=world.work, stream=stream)
        return replace(state, models=models)

    def place(
        self, world: World, state: CFLGPState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> CFLGPState:
        """Once clusters exist, newcomers join the one with the nearest mean projected gradient."""
        for query in np.flatnonzero(state.asked).tolist():
            state = self._answers(world, state, query, newcomers)
        clustered = np.flatnonzero((state.assignment != UNASSIGNED) & (state.answers > 0))
        newcomers = newcomers[state.answers[newcomers] > 0]
        if not len(clustered) or not len(newcomers):
            return state
        n = len(clustered)
        K = len(state.models)
        profiles = state.profiles[np.concatenate([clustered, newcomers])]
        inner = gram(only_part(profiles, world.spec, self.part))

        # Z of the clustered clients, and the mean of each cluster
        decomposition = spectrum(inner[:n, :n])
        cluster = state.assignment[clustered]
        means = simple_mean_by_cluster(decomposition.projected(K), cluster, K)

        # Z of the new clients, in the same directions
        points = decomposition.project(inner[n:, :n], K)
        distance = np.linalg.norm(points[:, None] - means, axis=2)
        empty = np.bincount(cluster, minlength=K) == 0
        nearest = np.where(empty, np.inf, distance).argmin(axis=1)
        return cluster_steps.assign(world, state, newcomers, nearest)

    def _query(self, world: World, state: CFLGPState, query: int, stream: Stream) -> CFLGPState:
        """The state after one query of all clients for gradients.

        All reachable clients reply with gradients at the model of cluster 0, and get new clusters.
        """
        criteria = state.criteria.copy()
        criteria[query] = state.models[0]
        asked = state.asked.copy()
        asked[query] = True
        state = replace(state, criteria=criteria, asked=asked)
        state = self._answers(world, state, query, world.clients(stream.round))

        clients = np.flatnonzero(state.answers > 0)
        # Too few clients have replied so far for this number of clusters.
        if len(clients) < max(len(state.models), self.clusters or 3):
            return state
        profiles = only_part(state.profiles[clients], world.spec, self.part)
        decomposition = spectrum(gram(profiles))
        seed = int(stream.child("kmeans").words()[0])

        # Before the first clustering all clients are in the cluster of one model.
        K = len(state.models)
        if K == 1:
            K = self.clusters or count_by_silhouette(decomposition, self.max_clusters, seed)
            state = replace(
                state,
                models=np.repeat(state.models, K, axis=0),
                assignment=np.full_like(state.assignment, UNASSIGNED),
            )
        labels = spectral_clusters(decomposition, K, seed)
        cluster = match_labels(labels, state.assignment[clients], K)
        return cluster_steps.update_assignment(world, state, clients, cluster)

    def _answers(
        self, world: World, state: CFLGPState, query: int, clients: Int[np.ndarray, "n"]
    ) -> CFLGPState:
        """The state after these clients have sent gradients at the model that a query used."""
        criterion = state.criteria[query][None]
        task = CriterionGradients(criterion, np.zeros(len(clients), np.int64))
        reply = world.run(task, clients)
        clients = clients[reply.arrived]
        gradients = reply.gradients[reply.arrived]

        # G <- (1 - beta) G + beta g; a client's first answer has weight 1.
        is_first = state.answers[clients] == 0
        beta = np.where(is_first, 1, self._beta(state, query, clients))
        beta = beta.astype(np.float32)[:, None]
        earlier = np.where(is_first[:, None], 0, (1 - beta) * state.profiles[clients])
        profiles = state.profiles.copy()
        profiles[clients] = earlier + beta * gradients

        answers = state.answers.copy()
        answers[clients] += 1
        return replace(state, profiles=profiles, answers=answers)

    def _beta(
        self, state: CFLGPState, query: int, clients: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n"]:
        """The weight beta of the newest gradient in each client's profile (a moving mean)."""
        if self.weighting == "mean":
            return 1 / (state.answers[clients] + 1)
        models = self.clusters or len(state.models)
        t = query * self.period
        turn = (t + 1) // (models * self.period)
        return np.full(len(clients), 1 / (turn + 1))
