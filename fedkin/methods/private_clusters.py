"""Clusters found only from noisy sums, so that client-level differential privacy covers them.

No paper describes the whole method. Its parts: K-means by noisy sums of points (Blum, Dwork,
McSherry, Nissim: Practical Privacy: The SuLQ Framework, PODS 2005), here with directions instead of
points, as in spherical K-means; before that, leading eigenvectors of a noisy second moment (Dwork,
Talwar, Thakurta, Zhang: Analyze Gauss, STOC 2014), which span the K directions of the clusters. x_i
is the first update of client i from the common start, as a count sketch of s numbers, which is
scaled to norm 1.

    1  M = sum_i x_i x_i^T + noise, its first K eigenvalues L and eigenvectors V; W = V L^(-1/2)
    2  4 K random directions c;  S_c = noise + sum of the x_i for which x_i W c is higher than for
       all other c
    3  K-means of the directions of W^T S_c, each with the weight |W^T S_c|
    4  the sums S_c for the K directions that result, in place of the random ones;
       ``refinements`` times

Line 1 requests one noisy sum from all clients, line 2 another one, and each repetition of line 4 a
further one. Line 3 needs no message.

W whitens: clusters whose first updates differ become orthogonal directions, however much they have
in common and whatever their sizes, as in moment decompositions (Anandkumar et al.: Tensor
Decompositions for Learning Latent Variable Models, JMLR 2014). Without W, candidates that differ
little merge two clusters into one.

Each client then chooses among the K released directions, by its data. This costs no privacy, since
the choice is not released. All sums are over all clients, before the first round; after that FedAvg
runs in each cluster. Without privacy there is no noise, and clients are weighted by their numbers
of samples.

A direction has noise in K dimensions, not in P parameters; this is why updates are projected. The
noise of a sum has a length of about 4 z sqrt(K), where z is the noise multiplier of the rounds (by
default these sums have 4 z). Clusters with fewer clients than this are not found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.clustering.kmeans import kmeans
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import AtLeast, Requirements
from fedkin.core.validation import check_positive_integer
from fedkin.core.world import World
from fedkin.measures.gram import leading_eigenpairs
from fedkin.measures.sketch import moment_matrix
from fedkin.methods import cluster_steps
from fedkin.methods.about import NUMBER_OF_MODELS, About
from fedkin.methods.fedavg import train_and_average
from fedkin.tasks.sketches import NearestSketch, SketchMoments, SketchSums


@dataclass(frozen=True)
class PrivateClustersState(State):
    """Arrays that PrivateClusters keeps from round to round."""

    start: Float[np.ndarray, "P"]  # initial model from which all directions are measured
    directions: Float[np.ndarray, "K s"]  # directions of the clusters, for newcomers
    sketch_seed: Int[np.ndarray, ""]


@plain_options
@dataclass(frozen=True)
class PrivateClusters:
    """Clusters by the directions of first updates; only noisy sums of these are released.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.PrivateClusters(clusters=2)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (2, 650)
    """

    about: ClassVar[About] = About(
        name="private_clusters",
        compares="directions of updates",
        when="once, before training",
        membership="hard",
        decides="client",
        count="given",
        leaves="sums of sketched updates; its cluster",
        meanings={
            "clusters": NUMBER_OF_MODELS,
        },
    )

    clusters: int = 3  # number of clusters (K)
    sketch: int = 64  # size of a sketched update (s)
    candidates: int = 4  # number of initial directions of K-means per cluster
    refinements: int = 1  # number of further K-means steps, each with one noisy sum

    def __post_init__(self) -> None:
        for name in ("clusters", "sketch", "candidates", "refinements"):
            check_positive_integer(name, getattr(self, name))
        if self.sketch < self.clusters:
            raise MethodError(
                f"sketch must be at least clusters = {self.clusters}, got {self.sketch}"
            )

    def requirements(self) -> Requirements:
        return Requirements(
            clients=AtLeast(self.clusters, because="clusters"),
            start_sums=2 + self.refinements,
        )

    def init(self, world: World, stream: Stream) -> PrivateClustersState:
        """The cold start (first clustering): directions from noisy sums, and each client in the
        nearest cluster."""
        clients = world.clients(stream.round)
        seed = int(stream.child("sketch").words()[0])
        start = world.initial(stream.child("model"))
        state = PrivateClustersState(
            models=np.stack([start] * self.clusters),
            assignment=np.full(world.total_clients, UNASSIGNED, np.int64),
            start=start,
            directions=self._directions(world, clients, start, seed=seed, stream=stream),
            sketch_seed=np.array(seed),
        )
        return self.place(world, state, clients, stream)

    def round(
        self,
        world: World,
        state: PrivateClustersState,
        cohort: Int[np.ndarray, "n"],
        stream: Stream,
    ) -> PrivateClustersState:
        models = train_and_average(world, state, cohort, work=world.work, stream=stream)
        return replace(state, models=models)

    def place(
        self,
        world: World,
        state: PrivateClustersState,
        newcomers: Int[np.ndarray, "c"],
        stream: Stream,
    ) -> PrivateClustersState:
        """Each new client chooses the nearest of the released directions."""
        task = NearestSketch(
            start=state.start,
            work=world.work,
            size=self.sketch,
            seed=int(state.sketch_seed),
            directions=state.directions,
        )
        nearest = world.run(task, newcomers, stream.child("pretrain")).nearest
        return cluster_steps.assign(world, state, newcomers, nearest)

    def _directions(
        self,
        world: World,
        clients: Int[np.ndarray, "c"],
        start: Float[np.ndarray, "P"],
        seed: int,
        stream: Stream,
    ) -> Float64[np.ndarray, "K s"]:
        """The direction of each cluster, computed from noisy sums only.

        The steps: whiten by the eigenvectors of the second moment, run K-means on the sums for
        random directions, and do some further K-means steps with new sums.
        """
        # M, and W
        pretrain = stream.child("pretrain")
        task = SketchMoments(start=start, work=world.work, size=self.sketch, seed=seed)
        moments = world.run(task, clients, pretrain).moments[0]
        # With noise the moments are never all zero.
        if not moments.any():
            raise MethodError(
                f"cold start of {self.clusters} clusters: 0 of {len(clients)} clients sent an "
                "update; the clients need training samples"
            )
        whitening = _whitening(moment_matrix(moments, self.sketch), self.clusters)

        def sums(directions: Float64[np.ndarray, "M K"]) -> Float64[np.ndarray, "M K"]:
            """W^T S_c for each whitened direction c, where S_c is the sum of the sketches that are
            nearest to c."""
            task = SketchSums(
                start=start,
                work=world.work,
                size=self.sketch,
                seed=seed,
                directions=_units(directions) @ whitening.T,
            )
            reply = world.run(task, clients, pretrain)
            # The reply holds means; times their weights these are sums again.
            return (reply.sketch * np.asarray(reply.weight)[:, None]) @ whitening

        # S_c of random directions
        rng = stream.child("candidates").rng()
        candidates = rng.standard_normal((self.candidates * self.clusters, self.clusters))
        points = sums(candidates)

        # K-means
        kmeans_seed = int(stream.child("kmeans").words()[0])
        lengths = np.linalg.norm(points, axis=1)
        labels = kmeans(_units(points), self.clusters, kmeans_seed, weights=lengths)
        points = np.stack([points[labels == k].sum(axis=0) for k in range(self.clusters)])

        # further steps
        for _ in range(self.refinements):
            points = sums(points)
        return _units(points) @ whitening.T


def _whitening(moments: Float64[np.ndarray, "s s"], clusters: int) -> Float64[np.ndarray, "s K"]:
    """W, the matrix that whitens sketches: the first K eigenvectors of the second moments, divided
    by the roots of their eigenvalues (up to a common factor). A column of zeros stands for a
    missing eigenvector."""
    values, vectors = leading_eigenpairs(moments, clusters)
    # An eigenvector is defined up to its sign, and the candidates are drawn in this basis. So the
    # largest entry of each is made positive, and rounding of the moments cannot flip it.
    largest = np.abs(vectors).argmax(axis=0)
    signs = np.where(vectors[largest, np.arange(clusters)] < 0, -1.0, 1.0)
    lengths = np.sqrt(values.max() / np.where(values > 0, values, 1))
    return vectors * signs * lengths


def _units(rows: Float[np.ndarray, "r K"]) -> Float64[np.ndarray, "r K"]:
    """The rows (each a direction or a sum of sketches) scaled to length 1; a row of zeros stays
    zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.maximum(lengths, np.finfo(np.float64).tiny)
