"""Clustering of clients by the last layer of one short training, which Hierarchical and Athena
begin with.

L. A. C. de Souza, G. F. Camilo, M. Sammarco, M. E. M. Campista, L. H. M. K. Costa: Aprendizado
Federado com Agrupamento Hierarquico de Clientes para Aumento da Acuracia. SBRC 2022; and L. A. C.
de Souza's thesis, which names no formula.

    all clients train from one start w_0; v_i = what client i's last layer has become; clusters of
    the v_i, once

Only ``layer`` travels: the ``bias`` of the last layer, C numbers (what the authors' code clusters),
or the whole ``last_layer`` (as in the text). Where models are detectors, v_i joins those of one
detector for each class that client i has; zero for the others. Distances are Euclidean, on raw
numbers.

``dbscan`` links clients at most ``eps`` apart, if they have ``min_samples`` clients that near,
themselves included; eps depends on model, data and local work: see ``fedkin eps``. ``optics`` needs
no eps, ``kmeans`` the number of clusters. Noise, of which the paper says nothing, becomes a cluster
of its ``own`` (default), or joins the ``nearest``.

A newcomer trains from w_0 likewise and joins the cluster of the nearest client; clusters are never
made anew. A client farther than ``suspicious`` from all others (in the unit of eps; the paper gives
no number) is excluded for good.

Differs from the code: v_i is the layer's update, which for the bias is the same, because biases
start at zero.
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
from fedkin.methods import policies
from fedkin.methods.about import LAST_LAYER_CLUSTERING, NUMBER_OF_MODELS
from fedkin.methods.last_layer_training import last_layer_updates

# What the options mean that both methods have.
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
    """What both methods keep from round to round."""

    start: Float[np.ndarray, "P"]  # w_0
    layers: Float[np.ndarray, "N d"]  # v_i; NaN of a client that has not trained for it
    suspects: Bool[np.ndarray, "N"]

    def excluded(self) -> Bool[np.ndarray, "N"]:
        return self.suspects


S = TypeVar("S", bound=LastLayerState)


@dataclass(frozen=True)
class LastLayerClustering:
    """How clients are clustered; the two methods define what a cluster then trains."""

    algorithm: Literal["dbscan", "optics", "kmeans"] = "dbscan"  # that clusters the last layers
    eps: float = 0.0279  # of dbscan: the authors', for MobileNetV2 on CIFAR-10 after ten epochs
    min_samples: int = 2  # of dbscan and optics
    clusters: int | None = None  # of kmeans
    layer: Literal["bias", "last_layer"] = (
        "bias"  # what of the last layer is clustered: its bias, or all
    )
    noise: Literal["own", "nearest"] = (
        "own"  # clients that are left out: clusters of their own, or the nearest cluster
    )
    suspicious: float | None = (
        None  # who is farther than this from all others is excluded; None: nobody
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
                f"clusters is for algorithm 'kmeans', which needs it; got {self.clusters!r}"
            )
        check_positive_integer("clusters", 1 if self.clusters is None else self.clusters)

    def requirements(self) -> Requirements:
        return Requirements(
            clients=AtLeast(self.clusters or 1, because="clusters"),
            model=ModelNeeds(last_layer=True),
            reads=ClientReads(updates="single"),
            parts=ModelParts(shared_head="last layers"),
            memory=MemoryNeeds(compares_all=True),
        )

    def _distance_limit(self) -> float:
        return np.inf if self.suspicious is None else self.suspicious

    def place(self, world: World, state: S, newcomers: Int[np.ndarray, "c"], stream: Stream) -> S:
        """The cluster of the nearest client that has one."""
        newcomers, known = newcomers[~state.suspects[newcomers]], state.assignment != UNASSIGNED
        if not len(newcomers):
            return state
        clients, updates = last_layer_updates(
            world, state.start, newcomers, self.layer, self.pretraining, stream
        )
        cluster, distance = density.nearest_label(
            updates, state.layers[known], state.assignment[known]
        )
        return self._assign_or_exclude(world, state, clients, updates, cluster, distance)

    def cluster_clients(self, world: World, stream: Stream) -> LastLayerState:
        """The clustering round: all reachable clients train from w_0. The models of the clusters
        are w_0 still."""
        start, reachable = world.initial(stream.child("model")), world.clients(stream.round)
        clients, updates = last_layer_updates(
            world, start, reachable, self.layer, self.pretraining, stream
        )
        distance = (
            np.zeros(len(updates))
            if self.suspicious is None
            else density.nearest_neighbour_distance(updates)
        )
        near = distance <= self._distance_limit()
        if not near.any():
            raise MethodError(
                f"clustering round: {len(clients)} of {len(reachable)} clients replied, and none "
                f"is near another "
                f"(suspicious = {self.suspicious}; the nearest two are "
                f"{distance.min(initial=np.inf):.3g} apart)"
            )
        labels, assignment = (
            np.full(len(clients), UNASSIGNED),
            np.full(world.total_clients, UNASSIGNED),
        )
        labels[near] = self._partition(updates[near], stream)
        layers = np.full((len(assignment), updates.shape[1]), np.nan, np.float32)
        models = np.repeat(start[None], int(labels.max()) + 1, axis=0)
        state = LastLayerState(models, assignment, start, layers, assignment == 0)
        return self._assign_or_exclude(world, state, clients, updates, labels, distance)

    def _partition(self, points: Float[np.ndarray, "n d"], stream: Stream) -> Int[np.ndarray, "n"]:
        """Clusters, numbered by their lowest client."""
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
        """The state with clients in their clusters, or excluded; last layers are kept for newcomers
        to compare with."""
        layers, suspects, excluded = (
            state.layers.copy(),
            state.suspects.copy(),
            distance > self._distance_limit(),
        )
        layers[clients], suspects[clients] = updates, excluded
        state = replace(state, layers=layers, suspects=suspects)
        return policies.assign(world, state, clients, np.where(excluded, UNASSIGNED, cluster))

    def remarks(self, state: LastLayerState) -> tuple[str, ...]:
        """Warnings: excluded clients, and an eps that separates no clients."""
        excluded = np.flatnonzero(state.suspects)
        updates = state.layers[state.assignment != UNASSIGNED]
        words = "clients {} are suspicious: excluded from training and scores"
        remarks = (ClientRemark(words, excluded),) if len(excluded) else ()
        advice = (
            eps_advice(updates, self.eps, self.min_samples) if self.algorithm == "dbscan" else None
        )
        return remarks if advice is None else (*remarks, advice)
