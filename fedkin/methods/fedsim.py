"""FedSim: one global model, averaged so that each cluster of similar clients has equal weight.

C. Palihawadana, N. Wiratunga, A. Wijekoon, H. Kalutarage: FedSim: Similarity guided model
aggregation for Federated Learning. Neurocomputing 483 (2022), pages 432-445.

Notation: w_t the global model, g_k the gradient of client k's full training loss at w_t, n_k its
training samples, w_k its solution. In every round the g_k of the cohort are reduced by principal
component analysis, and clients are clustered by the reduced gradients. Then

    cluster model  w_c = sum_{k in c} n_k w_k / sum_{k in c} n_k    (eq. 13; its n is the divisor)
    global model   w_{t+1} = mean over the clusters of w_c          (eq. 14)

With one cluster it is FedAvg. Clusters affect only how solutions are weighted, not how they are
trained, so a client sends g_k and its solution in one message.

Differs from the paper: its Alg. 2, l. 6 clusters the raw gradients; here, as in the authors' code,
the reduced ones are clustered. The authors' code has three peculiarities, each of which is followed
only if ``as_coded`` contains its name:
* ``leftover_model``: after the models of all clusters are evaluated, the model of the last cluster
  stays loaded, and the next round's gradients are taken at this model, not at w_t;
* ``round_robin_start``: in the first round clients are assigned to the clusters in turn, without
  gradients;
* ``configured_count``: the sum of the cluster models is divided by the configured number of
  clusters, even if fewer were formed (the model then shrinks).
In their code the draw of the cohort and K-means++ share a seed; here the two are independent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int

from fedkin.aggregation import mean_by_model
from fedkin.clustering.kmeans import kmeans_small
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import AtLeast, ClientReads, ModelParts, Requirements
from fedkin.core.validation import check_choice, check_not_negative, check_positive_integer
from fedkin.core.world import World
from fedkin.measures.pca import count_distinct, principal_scores
from fedkin.methods.about import COMPARED_PART, UNLIKE_OTHERS, About
from fedkin.methods.compared_part import PARTS, Part, only_part
from fedkin.methods.fedavg import single_model_state
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.train import train

Quirk = Literal["leftover_model", "round_robin_start", "configured_count"]
QUIRKS: tuple[Quirk, ...] = ("leftover_model", "round_robin_start", "configured_count")


@dataclass(frozen=True)
class FedSimState(State):
    """Arrays that FedSim keeps from round to round."""

    groups: Int[np.ndarray, "N"]  # clusters of the last cohort; UNASSIGNED for all other clients
    last_cluster: Float[np.ndarray, "P"]  # model of the last cluster in the last round


@plain_options
@dataclass(frozen=True)
class FedSim:
    """One global model, in which each cluster of clients has the same weight.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.FedSim(clusters=2), data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (1, 650)
    """

    about: ClassVar[About] = About(
        name="fedsim",
        paper="Palihawadana et al., Neurocomputing 2022",
        compares="local gradients, reduced",
        when="every round",
        membership="hard",
        decides="server",
        count="given",
        leaves="updates",
        meanings={"clusters": UNLIKE_OTHERS, "part": COMPARED_PART},
    )

    clusters: int = 5  # number of clusters in a cohort
    variance: float | int = 0.95  # share of the gradients' variance that the components keep
    # how the cohort is clustered; "round_robin" is the random clustering of Fig. 7
    clustering: Literal["similarity", "round_robin"] = "similarity"
    as_coded: tuple[Quirk, ...] = ()  # differences in which to follow the authors' code
    # Compared part of gradients: of an adapter's model, "B" or "head" find clusters best.
    part: Part = "all"

    def __post_init__(self) -> None:
        check_positive_integer("clusters", self.clusters)
        check_choice("part", self.part, PARTS)
        check_choice("clustering", self.clustering, ("similarity", "round_robin"))
        check_not_negative("variance", self.variance)
        if not 0 < self.variance <= 1:
            raise MethodError(
                f"variance must be a share above 0 and at most 1, got {self.variance!r}"
            )
        if not isinstance(self.as_coded, tuple):
            raise MethodError(
                f"as_coded must be a tuple with any of {', '.join(map(repr, QUIRKS))}; got "
                f"{self.as_coded!r}"
            )
        for quirk in self.as_coded:
            check_choice("as_coded", quirk, QUIRKS)

    def requirements(self) -> Requirements:
        """The method needs a cohort of at least as many clients as clusters."""
        clusters = AtLeast(self.clusters, because="clusters")
        return Requirements(
            clients=clusters,
            cohort=clusters,
            reads=ClientReads(updates="single"),
            parts=ModelParts(shared_head="gradients at one model"),
        )

    def init(self, world: World, stream: Stream) -> FedSimState:
        start = single_model_state(world, stream)
        return FedSimState(
            models=start.models,
            assignment=start.assignment,
            groups=np.full(world.total_clients, UNASSIGNED, np.int64),
            last_cluster=start.models[0],
        )

    def round(
        self, world: World, state: FedSimState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FedSimState:
        """Train, cluster the cohort by gradients, and average (Alg. 1, l. 2-11)."""
        # Alg. 1, l. 2 and 7, and Alg. 2, l. 2
        round_robin = self._is_round_robin(stream)
        at_last_cluster = "leftover_model" in self.as_coded and not round_robin
        model_index = np.zeros(len(cohort), np.int64)
        reply = train(
            world,
            state.models,
            cohort,
            model_index,
            gradient=not (round_robin or at_last_cluster),
            stream=stream.child("train"),
        )
        rows = np.flatnonzero(reply.arrived)
        gradients = None if reply.gradient is None else reply.gradient[rows]
        if at_last_cluster:
            task = Gradients(state.last_cluster[None], model_index[rows])
            gradients = world.run(task, cohort[rows]).gradients
            finite = np.isfinite(gradients).all(axis=1)
            rows = rows[finite]
            gradients = gradients[finite]
        if not len(rows):
            return state

        # l. 4
        if gradients is not None:
            gradients = only_part(gradients, world.spec, self.part)
        labels = self._clusters(gradients, len(rows), stream)
        groups = np.full(world.total_clients, UNASSIGNED, np.int64)
        groups[cohort[rows]] = labels

        # l. 9, eq. 13
        clusters = int(labels.max()) + 1
        update, _ = mean_by_model(reply.update[rows], reply.examples[rows], labels, clusters)
        cluster_models = state.models + update

        # l. 11, eq. 14
        models = self._global(state.models, update)
        return replace(state, models=models, groups=groups, last_cluster=cluster_models[-1])

    def place(
        self, world: World, state: FedSimState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FedSimState:
        return state  # one model serves all clients

    def _is_round_robin(self, stream: Stream) -> bool:
        """Whether this round deals clients to clusters in turn, without comparing gradients."""
        return self.clustering == "round_robin" or (
            "round_robin_start" in self.as_coded and stream.round == 1
        )

    def _clusters(
        self, gradients: Float[np.ndarray, "a P"] | None, clients: int, stream: Stream
    ) -> Int[np.ndarray, "a"]:
        """The cluster of each client that replied (Alg. 2, l. 3-7). Without gradients, clients are
        dealt to clusters in turn.

        There are at most as many clusters as clients, or as distinct gradients.
        """
        if gradients is None:
            in_turn = np.arange(clients) % min(self.clusters, clients)
            return stream.child("deal").rng().permutation(in_turn)

        rng = stream.child("kmeans").rng()
        return cluster_gradients(gradients, self.clusters, self.variance, rng)

    def _global(
        self, models: Float[np.ndarray, "1 P"], update: Float[np.ndarray, "K P"]
    ) -> Float[np.ndarray, "1 P"]:
        """The global model (eq. 14), from the mean updates of the clusters."""
        mean = update.mean(axis=0, dtype=np.float64).astype(np.float32)
        after = models + mean
        # The authors' code divides by the configured number of clusters, even if some are empty.
        if "configured_count" in self.as_coded and len(update) != self.clusters:
            return after * np.float32(len(update) / self.clusters)
        return after


def cluster_gradients(
    gradients: Float[np.ndarray, "n P"],
    clusters: int,
    variance: float | int,
    rng: np.random.Generator,
) -> Int[np.ndarray, "n"]:
    """The cluster of each client by its gradient (Alg. 2, l. 5-6), without empty clusters.

    Args:
        gradients: of the clients' full training losses.
        clusters: largest number of clusters.
        variance: share of the gradients' variance that the principal components keep.
        rng: random generator of the starts of K-means.
    """
    # Alg. 2, l. 5
    scores = principal_scores(gradients, variance)

    # Alg. 2, l. 6; empty clusters are not numbered
    labels = kmeans_small(scores, min(clusters, count_distinct(scores)), rng)
    _, numbered = np.unique(labels, return_inverse=True)
    return numbered
