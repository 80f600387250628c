"""What any clustered method can be given: a place for newcomers, migration after a shift, sharing between clusters,
the last layers of its clients.

Source: FlexCFL (Duan et al. 2022), sections 3.2 and 3.4. Letters: K clusters, P parameters, n clients of a call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Int

from fedkin.aggregation import inter_cluster
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.randomness import Stream
from fedkin.core.validation import check_choice, check_not_negative
from fedkin.core.world import BYTES_PER_NUMBER, World

MIGRATION = ("none", "label_blind", "label_aware")
NONE = -1  # in place of a detector
PRETRAINING = 50  # mini-batches that tell a client's direction, as in FlexCFL's code

S = TypeVar("S", bound=State)


def check(method: Any, newcomers: tuple[str, ...]) -> None:
    """Refuse impossible policies among a method's fields (MethodError)."""
    check_choice("newcomers", method.newcomers, newcomers)
    check_choice("migration", method.migration, MIGRATION)
    for name in ("threshold", "eta_g"):
        check_not_negative(name, getattr(method, name))


def migrated(world: World, state: S, method: Any, place: Callable[..., S], stream: Stream) -> S:
    """Clients that find their data shifted are placed anew, selected or not (FlexCFL, Alg. 2, l. 4-6).

    One that gives no answer keeps its cluster, and finds the same again next time.
    """
    if method.migration == "none":
        return state
    reachable = world.clients(stream.round)
    warm = reachable[state.assignment[reachable] != UNASSIGNED]
    moved = warm[world.shifted(warm, test=method.migration, threshold=method.threshold)]
    return place(world, state, moved, stream.child("migration")) if len(moved) else state


def assign(world: World, state: S, clients: Int[np.ndarray, "n"], cluster: Int[np.ndarray, "n"]) -> S:
    """The clients placed in their clusters, each noting what its data are; UNASSIGNED ones stay as they are."""
    world.note(clients[cluster != UNASSIGNED])
    return _moved(state, clients, cluster)


def update_assignment(world: World, state: S, clients: Int[np.ndarray, "n"], cluster: Int[np.ndarray, "n"]) -> S:
    """The clients in the clusters that they chose, or were given, in this round. Only for one that had none is that a
    placement, of which it notes what its data are: the others go on comparing with what they noted."""
    world.note(clients[(state.assignment[clients] == UNASSIGNED) & (cluster != UNASSIGNED)])
    return _moved(state, clients, cluster)


def _moved(state: S, clients: Int[np.ndarray, "n"], cluster: Int[np.ndarray, "n"]) -> S:
    found = cluster != UNASSIGNED
    assignment = state.assignment.copy()
    assignment[clients[found]] = cluster[found]
    return replace(state, assignment=assignment)


def by_loss(world: World, state: State, clients: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """The cluster whose model has the lowest training loss on a client's data, which gets all K models for it."""
    losses = world.losses(state.models, clients)
    finite = np.isfinite(losses)
    return np.where(finite.any(axis=1), np.argmin(np.where(finite, losses, np.inf), axis=1), UNASSIGNED)


def by_direction(
    world: World,
    start: Float[np.ndarray, "P"],
    directions: Float[np.ndarray, "K P"],
    clients: Int[np.ndarray, "n"],
    stream: Stream,
    steps: int = PRETRAINING,
) -> Int[np.ndarray, "n"]:
    """The cluster whose direction is nearest to a client's own first update: argmin_k (1 - cos)/2, the first of equals
    (FlexCFL, eq. 8). A client without an answer, or whose update has no direction, is left UNASSIGNED."""
    work = replace(world.work, steps=steps)
    similarity = world.similarities(start, directions, clients, work=work, stream=stream.child("pretrain"))
    unknown = np.isnan(similarity).any(axis=1)
    return np.where(unknown, UNASSIGNED, np.argmax(np.nan_to_num(similarity), axis=1))


def at_random(clusters: int, clients: Int[np.ndarray, "n"], stream: Stream) -> Int[np.ndarray, "n"]:
    """Any cluster (the RAC ablation)."""
    return stream.child("random").rng().integers(clusters, size=len(clients))


def placed(
    world: World,
    state: S,
    how: str,
    clients: Int[np.ndarray, "n"],
    stream: Stream,
    start: Float[np.ndarray, "P"] | None = None,
) -> S:
    """Clients in the clusters that a policy gives them: by ``loss``, at ``random``, or by ``direction``, a cluster's
    direction being the way its model has come from the ``start`` that all clusters have in common."""
    if how == "loss":
        return assign(world, state, clients, by_loss(world, state, clients))
    if how == "random":
        return assign(world, state, clients, at_random(len(state.models), clients, stream))
    if start is None:
        raise MethodError(
            "clusters without a common start have no directions to place clients by; use newcomers='loss'"
        )
    directions = state.models - start
    world.send(directions, clients)
    return assign(world, state, clients, by_direction(world, start, directions, clients, stream))


def last_layers(
    world: World, start: Float[np.ndarray, "P"], clients: Int[np.ndarray, "c"], layer: str, epochs: int, stream: Stream
) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n d"]]:
    """The clients that answer, and how the last layer of each has moved in some epochs from a start: its ``bias``, or
    the whole ``last_layer``; no more than that travels back. Where models are detectors: the last layers of one for
    each class that a client has, end to end, zero for the others.

    Raises MethodError where the model has no last layer to be found.
    """
    part = world.spec.head_bias if layer == "bias" else world.spec.head
    if part is None:
        raise MethodError(
            "clients are clustered by a model's last layer, and this model does not end in a weight [C, d] and a bias "
            "[C]: make them its last two leaves"
        )
    work, stream = replace(world.work, epochs=epochs, steps=None), stream.child("last_layer")
    if not world.spec.detects:
        model_index = np.zeros(len(clients), np.int64)
        reply = world.train(start[None], clients, model_index, work=work, part=part, stream=stream)
        return clients[reply.arrived], reply.update[reply.arrived]
    has = world.classes(clients)
    row, kind = np.nonzero(has)
    work = replace(work, positive=kind)
    reply = world.train(start[None], clients[row], np.zeros(len(row), np.int64), work=work, part=part, stream=stream)
    points = np.zeros((*has.shape, reply.update.shape[1]), np.float32)
    points[row, kind] = reply.update
    there = np.bincount(row, ~reply.arrived, len(clients)) == 0
    return clients[there], points.reshape(len(clients), -1)[there]


def one_of_each(counts: Int[np.ndarray, "K C"]) -> Int[np.ndarray, "K C"]:
    """The detector of each class that a cluster's clients use, detectors being numbered by cluster and class: their
    own, or that of the cluster where most clients have the class (the first of equals); NONE where nobody has it."""
    own = np.where(counts > 0, np.cumsum(counts > 0).reshape(counts.shape) - 1, NONE)
    return np.where(own == NONE, own[counts.argmax(axis=0), np.arange(counts.shape[1])], own)


def shared(world: World, state: S, eta_g: float, normalize: bool = True) -> S:
    """Inter-cluster aggregation among the clusters that have clients (FlexCFL, Alg. 2, l. 18-21); none with eta_g = 0.

    Where every cluster has a server of its own, each sends its model once: that is counted between servers.
    """
    if not eta_g:
        return state
    live = np.unique(state.assignment[state.assignment != UNASSIGNED])
    if len(live) < 2:
        return state
    models = state.models.copy()
    models[live] = inter_cluster(models[live], eta_g, normalize)
    world.ledger.between_servers("sharing", models[live].size * BYTES_PER_NUMBER)
    return replace(state, models=models)
