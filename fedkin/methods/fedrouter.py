"""FedRouter: clients are clustered by embeddings of their texts; each cluster trains one adapter.
New clients and single texts find their cluster without labels.

FedRouter, arXiv 2604.00050; read from the authors' code. f is the frozen network without adapters,
e_i the mean of f(x) over the training samples x of client i.

    e_i of all clients                                     (once, before training)
    clusters of the e_i by K-means; c_k = mean of the e_i in cluster k
    FedAvg in each cluster
    a new client, or a single text, joins the cluster with the nearest c_k

With L = ``kinds`` > 1, each client has up to L kinds of texts:

    client i: clusters of the f(x) of its texts by K-means, with centres e_i1 .. e_iL
    clusters of the e_ij of all clients by K-means; c_k = mean of the e_ij in cluster k
    round t: client i trains the model of the cluster of its kind j = t mod L, on the texts of this
    kind (those nearest to e_ij); FedAvg in each cluster
    a text x is tested with the model of the nearest c_k: ``local``, of the clusters in which the
    client has texts; ``global``, of all clusters

The paper speaks of clusters of similar adapters. Its code never compares adapters: it clusters
embeddings, once. A model without a frozen network has no embeddings; then f(x) = x.

Differs from the authors' code:
* The whole text is embedded; the code embeds the instruction only.
* Means are weighted by numbers of samples that were trained on. The code weighs by all samples of
  the client, which is the same for L = 1.
* ``run.place`` takes the nearest of all clusters for a single text, as with ``global`` in the code.
* f(x) is the input of the model's last layer: for a text encoder the mean over the tokens, as in
  the code, in float32 instead of float16.
* The kinds of a client are in the order of their numbers of texts. A client with fewer than L
  different texts has fewer kinds, and j = t mod its number of kinds.
Centres leave the clients unprotected, and describe their texts. The distance is Euclid's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int

from fedkin.aggregation import simple_mean_by_cluster
from fedkin.clustering.density import nearest_label
from fedkin.clustering.kmeans import kmeans
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import (
    AtLeast,
    ClientReads,
    DataNeeds,
    ModelParts,
    Requirements,
)
from fedkin.core.validation import check_choices, check_positive_integer
from fedkin.core.world import World
from fedkin.methods import cluster_steps
from fedkin.methods.about import NUMBER_OF_MODELS, About
from fedkin.methods.fedavg import train_and_average
from fedkin.methods.fedrouter_kinds import (
    FedRouterKindsState,
    first_state,
    place_kinds,
    train_kinds,
)
from fedkin.tasks.embeddings import MeanEmbedding


@dataclass(frozen=True)
class FedRouterState(State):
    """Arrays that FedRouter keeps from round to round."""

    centroids: Float[np.ndarray, "K e"]  # c_k


RouterState = FedRouterState | FedRouterKindsState


@plain_options
@dataclass(frozen=True)
class FedRouter:
    """Clusters of clients by the mean embedding of their texts; newcomers need no labels.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.FedRouter(clusters=2)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (2, 650)
    """

    about: ClassVar[About] = About(
        name="fedrouter",
        paper="arXiv 2604.00050",
        compares="embeddings of samples",
        when="once, before training",
        membership="hard",
        decides="server",
        count="given",
        leaves="the mean embedding of its samples",
        meanings={"clusters": NUMBER_OF_MODELS},
    )

    clusters: int = 4  # number of clusters (G in the code)
    kinds: int = 1  # largest number of kinds of texts of a client, each with a model (L)
    # The models that a text may be tested with: those of its client's clusters, or all.
    routing: Literal["local", "global"] = "local"

    def __post_init__(self) -> None:
        check_positive_integer("clusters", self.clusters)
        check_positive_integer("kinds", self.kinds)
        check_choices(self)

    def requirements(self) -> Requirements:
        sends = "the mean embedding of its samples"
        own = ""
        if self._by_text:
            sends = "mean embeddings of kinds of its samples"
            own = "a model for each text"
        # A client may have texts of ``kinds`` clusters.
        clients = math.ceil(self.clusters / self.kinds)
        return Requirements(
            clients=AtLeast(clients, because="clusters", per=self.kinds),
            reads=ClientReads(sends=sends),
            parts=ModelParts(own=own),
            data=DataNeeds(newcomer_labels=False),
            keeps_clusters=True,
        )

    @property
    def _by_text(self) -> bool:
        """Whether texts of a client may have different models."""
        return self.kinds > 1 or self.routing == "global"

    def init(self, world: World, stream: Stream) -> RouterState:
        """Clusters of all reachable clients, whose models are all w_0."""
        if self._by_text:
            is_global = self.routing == "global"
            return first_state(
                world, self.clusters, kinds=self.kinds, is_global=is_global, stream=stream
            )
        reachable = world.clients(stream.round)
        clients, means = _mean_embeddings(world, reachable)
        if len(clients) < self.clusters:
            raise MethodError(
                f"{self.clusters} clusters need at least as many embeddings, but {len(clients)} of "
                f"{len(reachable)} clients sent one; lower method.clusters"
            )
        seed = int(stream.child("kmeans").words()[0])
        labels = kmeans(means, self.clusters, seed=seed)
        start = world.initial(stream.child("model"))
        state = FedRouterState(
            models=np.repeat(start[None], self.clusters, axis=0),
            assignment=np.full(world.total_clients, UNASSIGNED, np.int64),
            centroids=simple_mean_by_cluster(means, labels, self.clusters),
        )
        return cluster_steps.assign(world, state, clients, labels)

    def round(
        self, world: World, state: RouterState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> RouterState:
        if isinstance(state, FedRouterKindsState):
            return replace(state, models=train_kinds(world, state, cohort, stream))
        models = train_and_average(world, state, cohort, work=world.work, stream=stream)
        return replace(state, models=models)

    def place(
        self, world: World, state: RouterState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> RouterState:
        """New clients join the cluster with the nearest centroid; they send no labels."""
        if isinstance(state, FedRouterKindsState):
            return place_kinds(world, state, newcomers, stream)
        clients, means = _mean_embeddings(world, newcomers)
        nearest, _ = nearest_label(means, state.centroids, np.arange(len(state.centroids)))
        return cluster_steps.assign(world, state, clients, nearest)


def _mean_embeddings(
    world: World, clients: Int[np.ndarray, "c"]
) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n e"]]:
    """The clients that have replied, and their e_i."""
    reply = world.run(MeanEmbedding(world.spec.embedding), clients)
    return clients[reply.arrived], reply.mean[reply.arrived]
