"""Steps that Hierarchical and Athena share: clients' last layers, their classes, checks of given
clusters, and sampling of cluster members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.world import World
from fedkin.tasks.classes import Classes
from fedkin.tasks.train import train

NO_DETECTOR = -1  # in a table of detectors: no client has the class


def last_layer_updates(
    world: World,
    start: Float[np.ndarray, "P"],
    clients: Int[np.ndarray, "c"],
    layer: str,
    epochs: int,
    stream: Stream,
) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n d"]]:
    """Updates of the last layer after some epochs of training; only these are uploaded.

    Args:
        world, stream: clients and random numbers of the round.
        start: initial model of all clients.
        clients: clients that train.
        layer: ``bias``, or the whole ``last_layer``.
        epochs: number of epochs.

    Returns:
        The clients that reply, and the update of each one's last layer as a row. If models are
        detectors, a row concatenates the last layers of one detector for each class; they are zero
        for classes that the client does not have.

    Raises:
        MethodError: the model's last layer is unknown.
    """
    part = world.spec.head_bias if layer == "bias" else world.spec.head
    if part is None:
        raise MethodError(
            "clients are clustered by a model's last layer, but this model does not end in a "
            "weight [C, d] and a bias [C] (C classes, d inputs): put these two arrays last in its "
            "parameters, or use a model such as model.name=mlp"
        )
    work = replace(world.work, epochs=epochs, steps=None)
    stream = stream.child("last_layer")
    if not world.spec.detects:
        model_index = np.zeros(len(clients), np.int64)
        reply = train(world, start[None], clients, model_index, work=work, part=part, stream=stream)
        return clients[reply.arrived], reply.update[reply.arrived]

    # A client trains one detector for each class that it has.
    has_class = world.run(Classes(), clients).classes
    row, positive = np.nonzero(has_class)
    reply = train(
        world,
        start[None],
        clients[row],
        np.zeros(len(row), np.int64),
        work=replace(work, positive=positive),
        part=part,
        stream=stream,
    )
    updates = np.zeros((*has_class.shape, reply.update.shape[1]), np.float32)
    updates[row, positive] = reply.update
    # A client counts only if it has told its classes, and the replies of all its detectors have
    # arrived.
    complete = np.bincount(row, ~reply.arrived, len(clients)) == 0
    complete &= has_class.any(axis=1)
    return clients[complete], updates.reshape(len(clients), -1)[complete]


def count_classes(
    world: World, clients: Int[np.ndarray, "c"], cluster: Int[np.ndarray, "c"], clusters: int
) -> Int[np.ndarray, "K C"]:
    """How many clients of each cluster have training samples of each class.

    Args:
        world: the clients, which report their classes.
        clients: clients to count.
        cluster: cluster of each of these clients.
        clusters: number of clusters.
    """
    has_class = world.run(Classes(), clients).classes
    counts = np.zeros((clusters, has_class.shape[1]), np.int64)
    np.add.at(counts, cluster, has_class)
    return counts


def check_cluster_numbers(assignment: Sequence[int]) -> None:
    """Check that given clusters have the numbers 0, 1, .. without a gap.

    Args:
        assignment: cluster of each client; UNASSIGNED for a client without one.

    Raises:
        MethodError: they have other numbers, or there are none.
    """
    labels = np.unique(np.asarray(assignment))
    clusters = labels[labels != UNASSIGNED]
    are_integers = len(clusters) and labels.dtype.kind == "i"
    if not are_integers or not np.array_equal(clusters, np.arange(len(clusters))):
        raise MethodError(
            f"assignment must number its clusters 0, 1, .. without a gap, got {assignment}"
        )


def sample_members(
    cohort: Int[np.ndarray, "n"], assignment: Int[np.ndarray, "N"], fraction: float, stream: Stream
) -> Int[np.ndarray, "m"]:
    """A random fraction of each cluster's clients in the cohort, ascending.

    Args:
        cohort: clients of the round; clients without a cluster are left out.
        assignment: cluster of every client.
        fraction: share of a cluster's clients, rounded; at least one client of each cluster.
        stream: stream of the round.
    """
    order = stream.child("fraction").rng().permutation(cohort[assignment[cohort] != UNASSIGNED])
    sample = [cohort[:0]]
    for cluster in np.unique(assignment[order]):
        members = order[assignment[order] == cluster]
        sample.append(members[: max(1, round(fraction * len(members)))])
    return np.sort(np.concatenate(sample))


def detector_table(counts: Int[np.ndarray, "K C"]) -> Int[np.ndarray, "K C"]:
    """The detector that the clients of each cluster use for each class.

    ``counts`` has the number of clients of each cluster that have each class. A cluster has a
    detector for each of its classes. Detectors are numbered cluster by cluster, and by class within
    a cluster. For any other class a cluster's clients use the detector of the cluster where most
    clients have the class (in a tie, the first one). NO_DETECTOR marks a class that no client has.
    """
    exists = counts > 0
    number = np.cumsum(exists).reshape(counts.shape) - 1
    detector = np.where(exists, number, NO_DETECTOR)
    of_most_clients = detector[counts.argmax(axis=0), np.arange(counts.shape[1])]
    return np.where(exists, detector, of_most_clients)
