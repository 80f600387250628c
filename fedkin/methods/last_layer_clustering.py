"""Clustering of clients by their last layers after one short training, the first step of
Hierarchical and Athena.

L. A. C. de Souza, G. F. Camilo, M. Sammarco, M. E. M. Campista, L. H. M. K. Costa: Aprendizado
Federado com Agrupamento Hierarquico de Clientes para Aumento da Acuracia. SBRC 2022; and L. A. C.
de Souza's thesis, which names no formula.

    all clients train from one start w_0
    v_i = the last layer of client i after this training
    clusters of the v_i, once

Only ``layer`` is sent: the ``bias`` of the last layer, C numbers (as in the authors' code), or the
whole ``last_layer`` (as in the text). If models are detectors, v_i concatenates the last layers of
one detector for each class: trained for classes that client i has, zero for the others. Distances
are Euclidean, on unscaled values.

``dbscan`` links clients at most ``eps`` apart if they have ``min_samples`` clients within eps,
including themselves. eps depends on model, data and local training: see ``fedkin eps``. ``optics``
needs no eps, ``kmeans`` needs the number of clusters. The paper does not treat noise: here a noise
client becomes a cluster of one (``own``, the default), or joins the ``nearest``.

A new client also trains from w_0, and joins the cluster of the nearest client; there is only one
clustering. A client farther than ``suspicious`` from all others (in the unit of eps; the paper
gives no number) is excluded permanently.

Differs from the code: v_i is the layer's update. For the bias this is equal, because biases start
at zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.clustering import density
from fedkin.clustering.dbscan_eps import eps_advice
from fedkin.clustering.kmeans import kmeans
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, ClientRemark, State
from fedkin.core.randomness import Stream
from fedkin.core.requirements import (
    AtLeast,
    ClientReads,
    DataNeeds,
    MemoryNeeds,
    ModelNeeds,
    ModelParts,
    Requirements,
)
from fedkin.core.validation import (
    check_choice,
    check_not_negative,
    check_positive,
    check_positive_integer,
)
from fedkin.core.world import World
from fedkin.methods import cluster_steps
from fedkin.methods.about import LAST_LAYER_CLUSTERING, NUMBER_OF_MODELS
from fedkin.methods.last_layer_training import last_layer_updates

# Meanings of the options that both methods have.
MEANINGS = {
    "clusters": NUMBER_OF_MODELS,
    "algorithm": LAST_LAYER_CLUSTERING,
    "eps": LAST_LAYER_CLUSTERING,
    "min_samples": LAST_LAYER_CLUSTERING,
    "layer": LAST_LAYER_CLUSTERING,
    "noise": LAST_LAYER_CLUSTERING,
    "suspicious": LAST_LAYER_CLUSTERING,
    "pretraining": LAST_LAYER_CLUSTERING,
    "fraction": LAST_LAYER_CLUSTERING,
}


@dataclass(frozen=True)
class LastLayerState(State):
    """Arrays that Hierarchical and Athena keep from round to round."""

    start: Float[np.ndarray, "P"]  # w_0
    layers: Float[np.ndarray, "N d"]  # v_i; NaN for a client without one
    suspects: Bool[np.ndarray, "N"]

    def excluded(self) -> Bool[np.ndarray, "N"]:
        return self.suspects


S = TypeVar("S", bound=LastLayerState)


@dataclass(frozen=True)
class LastLayerClustering:
    """Base class of Hierarchical and Athena: how clients are clustered. The two methods add how
    clusters are trained."""

    algorithm: Literal["dbscan", "optics", "kmeans"] = "dbscan"  # clustering of the last layers
    eps: float = 0.0279  # eps of dbscan: the authors', for MobileNetV2 on CIFAR-10 after ten epochs
    min_samples: int = 2  # smallest number of clients within eps, for dbscan and optics
    clusters: int | None = None  # number of clusters for kmeans
    layer: Literal["bias", "last_layer"] = "bias"  # clustered part: the bias, or the whole layer
    noise: Literal["own", "nearest"] = "own"  # noise clients: clusters of one, or nearest cluster
    suspicious: float | None = (
        None  # excludes clients farther than this from all others; None: no client
    )
    pretraining: int = 10  # local epochs of the clustering round

    def __post_init__(self) -> None:
        check_choice("algorithm", self.algorithm, ("dbscan", "optics", "kmeans"))
        check_choice("layer", self.layer, ("bias", "last_layer"))
        check_choice("noise", self.noise, ("own", "nearest"))
        for name in ("min_samples", "pretraining"):
            check_positive_integer(name, getattr(self, name))
        if self.algorithm == "optics" and self.min_samples < 2:
            raise MethodError(f"min_samples must be at least 2 for optics, got {self.min_samples}")
        check_positive("eps", self.eps)
        if self.suspicious is not None:
            check_not_negative("suspicious", self.suspicious)
        if (self.clusters is not None) != (self.algorithm == "kmeans"):
            raise MethodError(
                "set the option clusters for algorithm 'kmeans', and leave it out for the others; "
                f"got algorithm {self.algorithm!r} and clusters = {self.clusters!r}"
            )
        check_positive_integer("clusters", 1 if self.clusters is None else self.clusters)

    def requirements(self) -> Requirements:
        return Requirements(
            clients=AtLeast(self.clusters or 1, because="clusters"),
            model=ModelNeeds(last_layer=True),
            reads=ClientReads(updates="single"),
            parts=ModelParts(shared_head="last layers"),
            memory=MemoryNeeds(compares_all=True),
            data=DataNeeds(classes="trains the output of each class that a client has"),
        )

    def _distance_limit(self) -> float:
        """The distance beyond which a client is excluded, if it is that far from all others;
        infinite if no client is to be excluded."""
        return np.inf if self.suspicious is None else self.suspicious

    def place(self, world: World, state: S, newcomers: Int[np.ndarray, "c"], stream: Stream) -> S:
        """New clients join the cluster of the nearest client that has one."""
        newcomers = newcomers[~state.suspects[newcomers]]
        if not len(newcomers):
            return state
        clients, updates = self._last_layers(world, state.start, newcomers, stream)
        placed = state.assignment != UNASSIGNED
        cluster, distance = density.nearest_label(
            updates, state.layers[placed], state.assignment[placed]
        )
        return self._assign_or_exclude(
            world, state, clients, updates=updates, cluster=cluster, distance=distance
        )

    def cluster_clients(self, world: World, stream: Stream) -> LastLayerState:
        """The clustering round: all reachable clients train from w_0. The clusters' models are
        still w_0 after it."""
        start = world.initial(stream.child("model"))
        reachable = world.clients(stream.round)
        clients, updates = self._last_layers(world, start, reachable, stream)

        # Find clients that are far from all others, which are excluded.
        distance = np.zeros(len(updates))
        if self.suspicious is not None:
            distance = density.nearest_neighbour_distance(updates)
        near = distance <= self._distance_limit()
        if not near.any():
            raise MethodError(
                f"clustering round: {len(clients)} of {len(reachable)} clients replied, but no two "
                f"are near each other (suspicious = {self.suspicious}; the nearest two are "
                f"{distance.min(initial=np.inf):.3g} apart); raise method.suspicious"
            )

        labels = np.full(len(clients), UNASSIGNED)
        labels[near] = self._partition(updates[near], stream)
        total = world.total_clients
        state = LastLayerState(
            models=np.repeat(start[None], int(labels.max()) + 1, axis=0),
            assignment=np.full(total, UNASSIGNED),
            start=start,
            layers=np.full((total, updates.shape[1]), np.nan, np.float32),
            suspects=np.zeros(total, bool),
        )
        return self._assign_or_exclude(
            world, state, clients, updates=updates, cluster=labels, distance=distance
        )

    def _last_layers(
        self,
        world: World,
        start: Float[np.ndarray, "P"],
        clients: Int[np.ndarray, "c"],
        stream: Stream,
    ) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n d"]]:
        """The clients that replied after training from w_0, and the update v_i of each one's last
        layer."""
        return last_layer_updates(
            world,
            start=start,
            clients=clients,
            layer=self.layer,
            epochs=self.pretraining,
            stream=stream,
        )

    def _partition(self, points: Float[np.ndarray, "n d"], stream: Stream) -> Int[np.ndarray, "n"]:
        """The cluster of each client, by the update of its last layer (a point). Clusters are
        numbered in the order of their first clients."""
        if self.algorithm == "kmeans":
            labels = kmeans(points, self.clusters or 1, int(stream.child("kmeans").words()[0]))
        elif self.algorithm == "dbscan":
            labels = density.dbscan(points, self.eps, self.min_samples)
        else:
            labels = density.optics(points, self.min_samples)
        return density.by_first_appearance(density.assign_noise(points, labels, self.noise))

    def _assign_or_exclude(
        self,
        world: World,
        state: S,
        clients: Int[np.ndarray, "n"],
        updates: Float[np.ndarray, "n d"],
        cluster: Int[np.ndarray, "n"],
        distance: Float[np.ndarray, "n"],
    ) -> S:
        """The state with clients in their clusters, or excluded.

        The state keeps the last layers, to compare later clients with them."""
        layers = state.layers.copy()
        layers[clients] = updates
        excluded = distance > self._distance_limit()
        suspects = state.suspects.copy()
        suspects[clients] = excluded
        state = replace(state, layers=layers, suspects=suspects)
        return cluster_steps.assign(world, state, clients, np.where(excluded, UNASSIGNED, cluster))

    def remarks(self, state: LastLayerState) -> tuple[str, ...]:
        """Warnings about excluded clients, and about an eps that separates no clients."""
        remarks = []
        excluded = np.flatnonzero(state.suspects)
        if len(excluded):
            text = "clients {} are suspicious: excluded from training and scores"
            remarks.append(ClientRemark(text, excluded))
        if self.algorithm == "dbscan":
            updates = state.layers[state.assignment != UNASSIGNED]
            advice = eps_advice(updates, self.eps, self.min_samples)
            if advice is not None:
                remarks.append(advice)
        return tuple(remarks)
