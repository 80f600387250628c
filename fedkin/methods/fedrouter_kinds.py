"""FedRouter for clients with several kinds of texts: the state, and the steps that change it.

Each kind of a client is in the cluster whose centroid is nearest to the kind's centre. The client
trains one of its kinds in a round, and each of its texts is tested with the model of a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import simple_mean_by_cluster
from fedkin.clustering.kmeans import kmeans
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.measures.distances import nearest_centre
from fedkin.methods import cluster_steps
from fedkin.tasks.fedrouter import EvaluateRouted, KindCentres, TrainKind


@dataclass(frozen=True)
class FedRouterKindsState(State):
    """Arrays of FedRouter, and the kinds of texts of each client.

    ``assignment`` has the cluster with the most texts of each client.
    """

    centroids: Float[np.ndarray, "K e"]  # c_k
    centres: Float[np.ndarray, "N L e"]  # centre of each kind of a client
    counts: Int[np.ndarray, "N L"]  # its training samples; 0 for a kind that the client lacks
    cluster_of: Int[np.ndarray, "N L"]  # its cluster, or UNASSIGNED
    is_global: Bool[np.ndarray, ""]  # whether a text may use the models of all clusters

    @property
    def membership(self) -> Float[np.ndarray, "N K"]:
        """The share of each client's texts in each cluster; 1/K for a client that is unknown."""
        samples = self._samples_in_clusters()
        is_known = samples.any(axis=1, keepdims=True)
        samples = np.where(is_known, samples, 1.0)
        return samples / samples.sum(axis=1, keepdims=True)

    def evaluation(self, spec: ModelSpec, clients: Int[np.ndarray, "n"]) -> Task:
        usable = self._samples_in_clusters()[clients] > 0
        if self.is_global:
            usable = np.ones_like(usable)
        return EvaluateRouted(self.models, self.centroids, usable=usable, size=spec.embedding)

    def aggregated_into(
        self, clients: Int[np.ndarray, "n"], trained: Int[np.ndarray, "n"]
    ) -> Int[np.ndarray, "n"]:
        return trained

    def _samples_in_clusters(self) -> Float[np.ndarray, "N K"]:
        """The number of training samples of each client in each cluster."""
        samples = np.zeros((len(self.assignment), self.clusters))
        clients, kinds = np.nonzero(self.counts)
        np.add.at(samples, (clients, self.cluster_of[clients, kinds]), self.counts[clients, kinds])
        return samples


def first_state(
    world: World, clusters: int, kinds: int, is_global: bool, stream: Stream
) -> FedRouterKindsState:
    """The clusters of the kinds of all reachable clients, whose models are all w_0.

    Args:
        world, stream: clients and random numbers of the run's start.
        clusters: number of clusters.
        kinds: largest number of kinds of a client.
        is_global: whether a text may use the models of all clusters.

    Raises:
        MethodError: the clients have fewer kinds than there are clusters.
    """
    reachable = world.clients(stream.round)
    reply = world.run(KindCentres(world.spec.embedding, kinds), reachable, stream.child("kinds"))
    has_kind = (reply.counts > 0) & reply.arrived[:, None]
    points = reply.centres[has_kind]
    if len(points) < clusters:
        raise MethodError(
            f"{clusters} clusters need at least as many kinds of texts, but "
            f"{reply.arrived.sum()} of {len(reachable)} clients sent {len(points)}; lower "
            "method.clusters"
        )
    labels = kmeans(points, clusters, seed=int(stream.child("kmeans").words()[0]))
    start = world.initial(stream.child("model"))
    total = world.total_clients
    state = FedRouterKindsState(
        models=np.repeat(start[None], clusters, axis=0),
        assignment=np.full(total, UNASSIGNED, np.int64),
        centroids=simple_mean_by_cluster(points, labels, clusters),
        centres=np.zeros((total, kinds, points.shape[1])),
        counts=np.zeros((total, kinds), np.int64),
        cluster_of=np.full((total, kinds), UNASSIGNED, np.int64),
        is_global=np.array(is_global),
    )
    cluster_of = np.full(has_kind.shape, UNASSIGNED, np.int64)
    cluster_of[has_kind] = labels
    return _with_kinds(
        world,
        state,
        reachable,
        centres=reply.centres,
        counts=reply.counts,
        cluster_of=cluster_of,
    )


def train_kinds(
    world: World, state: FedRouterKindsState, cohort: Int[np.ndarray, "n"], stream: Stream
) -> Float[np.ndarray, "K P"]:
    """The models after a round in which each client trains one of its kinds, in turn.

    Args:
        world, state, stream: clients, state and random numbers of the round.
        cohort: clients of the round; clients without a cluster are left out.
    """
    members = cohort[state.assignment[cohort] != UNASSIGNED]
    known = (state.counts[members] > 0).sum(axis=1)
    kind = stream.round % known
    task = TrainKind(
        models=state.models,
        work=world.work,
        model_index=state.cluster_of[members, kind],
        centres=state.centres[members],
        known=known,
        kind=kind,
        size=world.spec.embedding,
    )
    reply = world.run(task, members, stream.child("train"))
    return state.models + reply.update


def place_kinds(
    world: World, state: FedRouterKindsState, newcomers: Int[np.ndarray, "c"], stream: Stream
) -> FedRouterKindsState:
    """The state in which each kind of a new client is in the cluster with the nearest centroid.

    Args:
        world, state, stream: clients, state and random numbers of the round.
        newcomers: the new clients; one that does not reply stays without a cluster.
    """
    kinds = state.counts.shape[1]
    task = KindCentres(world.spec.embedding, kinds)
    reply = world.run(task, newcomers, stream.child("kinds"))
    clients = newcomers[reply.arrived]
    centres = reply.centres[reply.arrived]
    counts = reply.counts[reply.arrived]
    flat = centres.reshape(-1, centres.shape[2])
    cluster_of = nearest_centre(flat, state.centroids).reshape(counts.shape)
    cluster_of = np.where(counts > 0, cluster_of, UNASSIGNED)
    return _with_kinds(world, state, clients, centres=centres, counts=counts, cluster_of=cluster_of)


def _with_kinds(
    world: World,
    state: FedRouterKindsState,
    clients: Int[np.ndarray, "c"],
    centres: Float[np.ndarray, "c L e"],
    counts: Int[np.ndarray, "c L"],
    cluster_of: Int[np.ndarray, "c L"],
) -> FedRouterKindsState:
    """The state with the kinds of some clients, each in the cluster with the most of its texts.

    A client without any kind, because it did not reply, has no cluster.
    """
    arrays = {"centres": centres, "counts": counts, "cluster_of": cluster_of}
    changed = {}
    for name, rows in arrays.items():
        changed[name] = getattr(state, name).copy()
        changed[name][clients] = rows
    # A client that did not reply has NaN for centres.
    changed["centres"][clients[~(counts > 0).any(axis=1)]] = 0
    state = replace(state, **changed)
    samples = state._samples_in_clusters()[clients]
    cluster = np.where(samples.any(axis=1), samples.argmax(axis=1), UNASSIGNED)
    return cluster_steps.assign(world, state, clients, cluster)
