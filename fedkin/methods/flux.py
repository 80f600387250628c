"""FLUX: clusters by descriptors of clients' data, found by density; newcomers need no labels.

D. Fenoglio, M. Li, et al.: FLUX: Efficient Descriptor-Driven Clustered Federated Learning under
Arbitrary Distribution Shifts. NeurIPS 2025, arXiv 2511.22305.

    FedAvg for at least 3 rounds, and until one of the rounds so far has raised the mean accuracy
         by less than ``gain``; but for no more than ``latest`` rounds
    z    input of the model's last layer, projected on C random orthonormal axes known to all
    s_i  = [mean, deviation of z; means, deviations of z by class]
         2C + 2C^2 numbers; -1 for a class with fewer than 2 samples
    each block of C columns is scaled to 0 .. 1, by its lowest and highest number over all clients
         and columns
    eps  = knee of the clients' distances to their nearest other client, ascending
    DBSCAN(eps, min_samples = 2), then FedAvg in each cluster
    a newcomer joins the cluster with the nearest mean of the first 2C numbers, which need no labels

``eps = "knee"`` is the published rule (``clustering.dbscan_eps.kneedle``; without a knee the median
distance, where the code fails). **It rarely finds the number of clusters**: clients farther than
the knee from their nearest other client are noise, and become clusters of one (``noise = "own"``).
For 20 clients in four rotations it gives 5 to 10 clusters (benchmarks/field/flux.py). ``eps =
"gap"`` takes the widest range of eps over which DBSCAN finds the same clusters, at least two. Its
upper end must be at least 1.25 times its lower end. Otherwise there is one cluster.

Differs from the paper, whose bounds are for means and covariances: descriptors here have means and
standard deviations, as in the code.
Differs from the code: z is the input of the last layer (in a network with one dense layer the
output of its convolutions, as in the code). The axes are the principal axes of random points. These
points fill the unit cube, so that no client reveals its largest activation, and z is not centred at
their mean. Accuracies are measured on the training samples of the cohort. Clusters continue from
the joint model. There is no Laplace noise. The axes are sent as a model's last layer, and clients
reply with moments of its outputs. eps is a distance of two clients, which DBSCAN counts as
neighbours; in the code rounding decides about these two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import simple_mean_by_cluster
from fedkin.clustering import dbscan_eps, density
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import (
    ClientReads,
    DataNeeds,
    ModelNeeds,
    ModelParts,
    Requirements,
    RoundNeeds,
)
from fedkin.core.validation import check_choice, check_integer_from_zero, check_not_negative
from fedkin.core.world import World
from fedkin.measures.descriptors import scaled, value_ranges
from fedkin.methods import cluster_steps
from fedkin.methods.about import About
from fedkin.methods.fedavg import single_model_state, train_and_average
from fedkin.methods.random_head import (
    class_count,
    descriptors,
    training_accuracy,
    with_projection,
)
from fedkin.tasks.score_moments import DescribingModel

_GAP = 1.25  # for ``eps="gap"``: eps must be able to grow by this factor
_LEAST_EPS = float(np.finfo(np.float64).tiny)  # eps if all clients are equal


@dataclass(frozen=True)
class FLUXState(State):
    """Arrays that FLUX keeps from round to round."""

    accuracies: Float[np.ndarray, "R"]  # mean accuracy after each of the first rounds; or NaN
    extractor: Float[np.ndarray, "P"]  # joint model at the clustering, which ends with the axes
    ranges: Float[np.ndarray, "2 B"]  # lowest and highest number of each block
    # scaled [mean, deviation] of the clustered clients, d = 2C; NaN for all others
    profiles: Float[np.ndarray, "N d"]
    clustered: Bool[np.ndarray, ""]


@plain_options
@dataclass(frozen=True)
class FLUX:
    """FedAvg, then one clustering by descriptors of clients' data.

    It estimates the number of clusters; new clients need no labels.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.FLUX(latest=1), data, fk.models.mclr(data), rounds=2, cohort=6)
        >>> run.assignment.shape
        (6,)
    """

    about: ClassVar[About] = About(
        name="flux",
        paper="Fenoglio, Li, et al., NeurIPS 2025",
        compares="descriptors of data",
        when="once, after some rounds of FedAvg",
        membership="hard",
        decides="server",
        count="found",
        leaves="moments of outputs",
    )

    latest: int = 8  # largest number of rounds with one model: 0.8 of the code's 10
    gain: float = 0.06  # clusters once the gain of accuracy is below this
    eps: Literal["knee", "gap"] = "knee"  # rule for DBSCAN's eps: published, or widest range
    # DBSCAN's noise clients become clusters of one, or join the nearest cluster
    noise: Literal["own", "nearest"] = "own"

    def __post_init__(self) -> None:
        check_integer_from_zero("latest", self.latest)
        check_not_negative("gain", self.gain)
        check_choice("eps", self.eps, ("knee", "gap"))
        check_choice("noise", self.noise, density.NOISE_POLICIES)

    def requirements(self) -> Requirements:
        first = min(self.latest, 3) + 1
        return Requirements(
            model=ModelNeeds(last_layer=True),
            reads=ClientReads(sends="moments of its samples"),
            parts=ModelParts(shared_head="the accuracy of the shared model"),
            rounds=RoundNeeds(first_clustering=first),
            data=DataNeeds(newcomer_labels=False, classes="compares the samples of each class"),
        )

    def init(self, world: World, stream: Stream) -> FLUXState:
        """The initial state: one cluster with all clients, and its model.

        Raises:
            MethodError: the model's last layer is unknown.
        """
        start = single_model_state(world, stream)
        classes = class_count(world.spec)
        return FLUXState(
            models=start.models,
            assignment=start.assignment,
            accuracies=np.full(self.latest, np.nan),
            extractor=start.models[0],
            ranges=np.full((2, 2 * classes + 2), np.nan),
            profiles=np.full((world.total_clients, 2 * classes), np.nan),
            clustered=np.array(False),
        )

    def round(
        self, world: World, state: FLUXState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FLUXState:
        if not state.clustered and self._is_due(state, stream.round - 1):
            state = self._cluster(world, state, stream)
        models = train_and_average(world, state, cohort, work=world.work, stream=stream)
        state = replace(state, models=models)
        if state.clustered or not 0 < stream.round <= self.latest:
            return state

        # The cohort's mean accuracy shows whether the model is usable.
        accuracies = state.accuracies.copy()
        accuracies[stream.round - 1] = training_accuracy(world, state, cohort)
        return replace(state, accuracies=accuracies)

    def place(
        self, world: World, state: FLUXState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FLUXState:
        """New clients join the cluster with the nearest descriptor mean; they send no labels."""
        if not state.clustered:
            return cluster_steps.assign(world, state, newcomers, np.zeros(len(newcomers), np.int64))
        world.run(DescribingModel(state.extractor), newcomers)
        newcomers, described = descriptors(world, state.extractor, newcomers, labels=False)
        points = scaled(described, state.ranges, class_count(world.spec))

        clustered = np.isfinite(state.profiles).all(axis=1) & (state.assignment != UNASSIGNED)
        labels = state.assignment[clustered]
        means = simple_mean_by_cluster(state.profiles[clustered], labels, len(state.models))
        populated = np.unique(labels)
        nearest, _ = density.nearest_label(points, means[populated], populated)
        return cluster_steps.assign(world, state, newcomers, nearest)

    def _is_due(self, state: FLUXState, rounds: int) -> bool:
        """Whether clients must be clustered now, after this number of rounds with one model: after
        ``latest`` rounds, or after 3 or more if any of them raised the accuracy by less than
        ``gain``."""
        gains = np.diff(state.accuracies[:rounds])
        return rounds >= self.latest or (rounds >= 3 and bool((gains < self.gain).any()))

    def _cluster(self, world: World, state: FLUXState, stream: Stream) -> FLUXState:
        """The state with clusters of all reachable clients, if at least two of them have
        replied."""
        extractor = with_projection(state.models[0], world.spec)
        reachable = world.clients(stream.round)
        world.run(DescribingModel(extractor), reachable)
        clients, described = descriptors(world, extractor, reachable)
        if len(clients) < 2:
            return state

        # s_i, with its blocks scaled to 0 .. 1
        classes = class_count(world.spec)
        ranges = value_ranges(described, classes)
        points = scaled(described, ranges, classes)
        profiles = np.full_like(state.profiles, np.nan)
        profiles[clients] = points[:, : 2 * classes]

        # DBSCAN. Every cluster starts from the joint model.
        labels = density.dbscan(points, self._eps(points), min_samples=2)
        labels = density.by_first_appearance(density.assign_noise(points, labels, self.noise))
        state = FLUXState(
            models=np.repeat(state.models, int(labels.max()) + 1, axis=0),
            assignment=np.full_like(state.assignment, UNASSIGNED),
            accuracies=state.accuracies,
            extractor=extractor,
            ranges=ranges,
            profiles=profiles,
            clustered=np.array(True),
        )
        return cluster_steps.assign(world, state, clients, labels)

    def _eps(self, points: Float[np.ndarray, "n d"]) -> float:
        """DBSCAN's eps for the clients' descriptors, by the rule that the option ``eps`` names. It
        is above zero even if all descriptors are equal."""
        if self.eps == "gap":
            return dbscan_eps.suggest_eps(dbscan_eps.eps_ranges(points, 2), _GAP)
        distances = dbscan_eps.k_distances(points, 2)
        knee = dbscan_eps.kneedle(distances)
        eps = np.median(distances) if knee is None else distances[knee]
        return max(float(eps), _LEAST_EPS)
