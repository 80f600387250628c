"""Steps that clustered methods share: placement of clients (their assignment to clusters),
migration (a new placement after a client's data have shifted), initial models, averaging weights,
and inter-cluster aggregation.

Source: FlexCFL (Duan et al. 2022), sections 3.2 and 3.4. Shapes: K clusters, P parameters, n
clients that a function gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import inter_cluster_aggregation
from fedkin.clustering.kmeans import distinct_rows
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.model_spec import BYTES_PER_NUMBER
from fedkin.core.randomness import Stream
from fedkin.core.requirements import Separation
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.core.validation import check_choice, check_not_negative
from fedkin.core.world import World
from fedkin.measures.number_shift import LARGEST_T, LEAST_DISTANCE
from fedkin.methods.compared_part import Part, only_part
from fedkin.tasks.loss_shift import LossShifted
from fedkin.tasks.losses import Losses
from fedkin.tasks.shift import Note, Shifted
from fedkin.tasks.similarities import Directions, Similarities
from fedkin.tasks.train import TrainingReply

WEIGHTING = ("simple", "examples", "first_client")
BY_LOSS = "loss"
NONE: Mapping[str, Any] = MappingProxyType({})
# The test with which clients detect a shift of their data, after which they are placed again.
Migration = Literal["none", "label_blind", "label_aware", "label_quantiles", "loss"]
MIGRATION = get_args(Migration)
PRETRAINING_STEPS = (
    50  # number of mini-batches that give a client's direction, as in FlexCFL's code
)

S = TypeVar("S", bound=State)


def check_policies(method: Any, newcomers: tuple[str, ...]) -> None:
    """Raise MethodError if a method has an invalid value in a field that configures these steps:
    placement, migration and inter-cluster aggregation.

    Args:
        method: a method with the fields ``newcomers``, ``migration``, ``threshold`` and ``eta_g``.
        newcomers: values of ``newcomers`` that the method offers.
    """
    check_choice("newcomers", method.newcomers, newcomers)
    check_choice("migration", method.migration, MIGRATION)
    check_not_negative("threshold", method.threshold)
    if method.migration == BY_LOSS and method.threshold != LEAST_DISTANCE:
        raise MethodError(
            f"threshold = {method.threshold:g} does not apply to migration = 'loss', whose limit "
            f"is Welch's t of {LARGEST_T:g}; leave out threshold, or set migration = "
            "'label_quantiles' or 'label_blind'"
        )
    check_not_negative("eta_g", method.eta_g)


def standing_tasks(method: Any) -> tuple[Task, ...]:
    """The tasks that a method sends to all clients in every round: the test whether a client's
    labels have shifted; an empty tuple if the method's clients do not migrate, or test losses.

    Args:
        method: a method with the fields ``migration`` and ``threshold``.
    """
    if method.migration in ("none", BY_LOSS):
        return ()
    return (Shifted(method.migration, method.threshold),)


def shared_head(method: Any) -> str:
    """The text ``shared_head`` of a method's ``ModelParts``. It names data that the method compares
    between clients, and that can be compared only if all clients have the same last layer. The text
    is empty if the method compares no such data.

    Args:
        method: a method with the field ``newcomers``.
    """
    return "losses of all models (newcomers = 'loss')" if method.newcomers == "loss" else ""


def separation(method: Any, mixing: Mapping[str, Any] = NONE, choosing: bool = False) -> Separation:
    """How far a client's updates spread among the models of a method that uses the steps in this
    file.

    Args:
        method: a method with the field ``eta_g`` and, if it has them, ``newcomers`` and
            ``migration``.
        mixing: further options, each with the value with which every model gets something of every
            client.
        choosing: whether the method itself compares the models in every round.
    """
    if method.eta_g:
        return Separation("unknown", because="eta_g")
    options = vars(method)
    for option, value in mixing.items():
        if options[option] == value:
            return Separation("unknown", because=option)
    if choosing:
        return Separation("by_choice")
    for option in ("newcomers", "migration"):
        if options.get(option) == BY_LOSS:
            return Separation("by_choice", because=option)
    return Separation("by_cluster")


def sends(method: Any) -> str:
    """The text ``sends`` of a method's ``ClientReads``. It names data that each client reveals to
    the server because the method uses the steps in this file. The text is empty if clients reveal
    no such data.

    Args:
        method: a method with the fields ``newcomers`` and ``eta_g``.
    """
    if method.eta_g:
        return "which clusters have clients (eta_g)"
    return "losses of all models (newcomers = 'loss')" if method.newcomers == "loss" else ""


def migrate(world: World, state: S, method: Any, place: Callable[..., S], stream: Stream) -> S:
    """The state after all clients whose data have shifted are assigned to clusters again, also
    those outside the cohort (FlexCFL, Alg. 2, l. 4-6).

    A client that does not reply keeps its cluster, and detects the same shift again in the next
    round. The test of losses sends every client its cluster's model.

    Args:
        world, state, stream: clients, state and random numbers of the round.
        method: the method, with fields ``migration`` and ``threshold``.
        place: the method's function that places clients.
    """
    if method.migration == "none":
        return state
    reachable = world.clients(stream.round)
    assigned = reachable[state.assignment[reachable] != UNASSIGNED]
    if method.migration == BY_LOSS:
        losses = LossShifted(state.models, state.assignment[assigned])
        shifted = world.run(losses, assigned).risen
    else:
        shifted = world.run(Shifted(method.migration, method.threshold), assigned).shifted
    migrants = assigned[shifted]
    if len(migrants):
        state = place(world, state, migrants, stream.child("migration"))
    return state


def assign(
    world: World, state: S, clients: Int[np.ndarray, "n"], cluster: Int[np.ndarray, "n"]
) -> S:
    """The state with clients placed in clusters.

    Each placed client stores its present label counts, to detect later shifts of its data.

    Args:
        world, state: clients and state of the round.
        clients: clients to place.
        cluster: cluster of each of them; UNASSIGNED leaves the client where it is.
    """
    state = _with_clusters(world, state, clients, cluster)
    world.run(Note(), clients[cluster != UNASSIGNED])
    return state


def update_assignment(
    world: World, state: S, clients: Int[np.ndarray, "n"], cluster: Int[np.ndarray, "n"]
) -> S:
    """The state with the new clusters of a round's clients, for methods that assign clusters again
    in every round.

    Unlike in ``assign``, only clients that had no cluster store their label counts, to detect later
    shifts of their data. The other clients still compare with the counts that they stored before.

    Args:
        world, state: clients and state of the round.
        clients: clients of the round.
        cluster: cluster of each of them; UNASSIGNED leaves the client where it is.
    """
    placed = clients[(state.assignment[clients] == UNASSIGNED) & (cluster != UNASSIGNED)]
    state = _with_clusters(world, state, clients, cluster)
    world.run(Note(), placed)
    return state


def _with_clusters(
    world: World, state: S, clients: Int[np.ndarray, "n"], cluster: Int[np.ndarray, "n"]
) -> S:
    """The state with new clusters for some clients. Clients that move to another cluster delete the
    data that they have stored for the old one (real clients get a message to do so).

    Args:
        world, state: clients and state of the round.
        clients: clients to place.
        cluster: cluster of each of them; UNASSIGNED leaves the client where it is.
    """
    is_placed = cluster != UNASSIGNED
    placed = clients[is_placed]
    assignment = state.assignment.copy()
    assignment[placed] = cluster[is_placed]
    changed = assignment[placed] != state.assignment[placed]
    world.reassigned(np.unique(placed[changed]))
    return replace(state, assignment=assignment)


def cluster_by_loss(
    world: World, state: State, clients: Int[np.ndarray, "n"]
) -> Int[np.ndarray, "n"]:
    """The cluster whose model has the lowest training loss on each client's data.

    All K models are sent to the clients.

    Args:
        world, state: clients and state of the round.
        clients: clients that evaluate. A client without a finite loss gets UNASSIGNED.
    """
    losses = world.run(Losses(state.models), clients).losses
    finite = np.isfinite(losses)
    lowest = np.argmin(np.where(finite, losses, np.inf), axis=1)
    return np.where(finite.any(axis=1), lowest, UNASSIGNED)


class Nearest(NamedTuple):
    """The cluster with the nearest direction for each client, and which clients have replied."""

    cluster: Int[np.ndarray, "n"]  # UNASSIGNED for a client whose update cannot be compared
    replied: Bool[np.ndarray, "n"]  # a client that replied has received the directions


def cluster_by_direction(
    world: World,
    start: Float[np.ndarray, "P"],
    directions: Float[np.ndarray, "K P"],
    clients: Int[np.ndarray, "n"],
    stream: Stream,
    steps: int = PRETRAINING_STEPS,
) -> Nearest:
    """The cluster whose direction is nearest to each client's first update (FlexCFL, eq. 8).

    It is argmin_k (1 - cos)/2; in a tie, the first one.

    Args:
        world, stream: clients and random numbers of the round.
        start: initial model of the clients' training.
        directions: directions of the clusters. They are not sent here, because clients have
            received them before.
        clients: clients that compare. A client that does not reply, or whose update is zero, gets
            UNASSIGNED.
        steps: number of mini-batches that a client trains.
    """
    task = Similarities(start, directions, replace(world.work, steps=steps))
    reply = world.run(task, clients, stream.child("pretrain"))
    unknown = np.isnan(reply.cosine).any(axis=1)
    most_similar = np.argmax(np.nan_to_num(reply.cosine), axis=1)
    return Nearest(
        cluster=np.where(unknown, UNASSIGNED, most_similar),
        # A reply that is not finite does not count as arrived, but its client has replied.
        replied=reply.arrived | reply.nonfinite,
    )


def random_models(world: World, clusters: int, stream: Stream) -> Float[np.ndarray, "K P"]:
    """A different random initial model for every cluster.

    Args:
        world, stream: clients and random numbers of the round.
        clusters: number of clusters.

    Raises:
        MethodError: there are fewer reachable clients than clusters, or two models are equal.
    """
    reachable = len(world.clients(stream.round))
    if clusters > reachable:
        raise MethodError(
            f"{clusters} clusters need at least as many clients, got {reachable}; lower "
            "method.clusters"
        )
    models = np.stack([world.initial(stream.child(f"model{k}")) for k in range(clusters)])
    if distinct_rows(models) < clusters:
        raise MethodError(
            f"{clusters} clusters must start from different models, but some of them are equal, so "
            "they would never separate: use a model whose initial weights are drawn at random (of "
            "a PyTorch network, give the function that makes it, such as fk.torch_model(Net); "
            "leave head = false out of an adapter's model)"
        )
    return models


def aggregation_weights(
    weighting: str,
    reply: TrainingReply,
    clients: Int[np.ndarray, "n"],
    world: World,
    stream: Stream,
) -> Float[np.ndarray, "n"]:
    """Weight of each client's update in the mean over the clients that trained the same model; 0
    for an update that did not arrive.

    Args:
        weighting: ``simple`` (1 each), ``examples`` (number of the client's samples), or
            ``first_client``: 1 for the first client of each cluster in the order in which the
            cohort was drawn, and 0 for all others.
        reply: the clients' reply to the training task, with one row for each client.
        clients: client of each row of the reply.
        world, stream: clients and random numbers of the round.
    """
    if weighting == "examples":
        return np.where(reply.arrived, reply.examples, 0.0)
    if weighting != "first_client":
        return np.where(reply.arrived, 1.0, 0.0)
    # ``np.unique`` gives the first place of each model, so the rows come in the drawn order.
    order = _drawn_order(clients, world.total_clients, stream)
    order = order[reply.arrived[order]]
    _, first_of_model = np.unique(reply.model_index[order], return_index=True)
    weight = np.zeros(len(clients))
    weight[order[first_of_model]] = 1
    return weight


def _drawn_order(
    clients: Int[np.ndarray, "n"], total_clients: int, stream: Stream
) -> Int[np.ndarray, "n"]:
    """The positions of a cohort's clients in ``clients``, in the order in which the clients were
    drawn.

    Cohorts are sorted by id. A round-robin cohort was drawn in the order of ids, starting where the
    last cohort ended. Any other cohort was drawn uniformly, so any random order is equivalent to
    the order in which it was drawn.
    """
    rows = np.argsort(clients)
    begin = (stream.round - 1) * len(clients)
    place_in_turn = (clients[rows] - begin) % total_clients
    is_turn = begin < total_clients and (place_in_turn < len(clients)).all()
    if is_turn:
        return rows[np.argsort(place_in_turn)]
    return rows[stream.child("drawn_order").rng().permutation(len(clients))]


def _random_cluster(
    clusters: int, clients: Int[np.ndarray, "n"], stream: Stream
) -> Int[np.ndarray, "n"]:
    """A random cluster for each client to be placed (FlexCFL's RAC ablation)."""
    return stream.child("random").rng().integers(clusters, size=len(clients))


def place_by_policy(
    world: World,
    state: S,
    policy: str,
    clients: Int[np.ndarray, "n"],
    stream: Stream,
    start: Float[np.ndarray, "P"] | None = None,
    part: Part = "all",
) -> S:
    """The state with clients placed by a policy.

    Args:
        world, state, stream: clients, state and random numbers of the round.
        policy: ``loss``, ``direction`` or ``random``.
        clients: clients to place.
        start: common initial model of all clusters, needed for ``direction``: a cluster's direction
            is the change of the cluster's model since then.
        part: the part of the directions that clients compare.

    Raises:
        MethodError: the policy is ``direction``, but there is no common start.
    """
    if policy == "loss":
        return assign(world, state, clients, cluster_by_loss(world, state, clients))
    if policy == "random":
        return assign(world, state, clients, _random_cluster(len(state.models), clients, stream))
    if start is None:
        raise MethodError(
            "clusters without a common start have no directions by which clients could be placed; "
            "use newcomers='loss'"
        )
    directions = only_part(state.models - start, world.spec, part)
    world.run(Directions(directions), clients)
    nearest = cluster_by_direction(
        world, start=start, directions=directions, clients=clients, stream=stream
    )
    return assign(world, state, clients, nearest.cluster)


def aggregate_between_clusters(world: World, state: S, eta_g: float, normalize: bool = True) -> S:
    """Inter-cluster aggregation among the clusters that have clients (FlexCFL, Alg. 2, l. 18-21).

    If every cluster has a separate server, each sends its model once. This is counted as traffic
    between servers.

    Args:
        world, state: clients and state of the round.
        eta_g: weight of the other clusters' models; 0 leaves the state unchanged.
        normalize: as in ``aggregation.inter_cluster_aggregation``.
    """
    if not eta_g:
        return state
    populated = np.unique(state.assignment[state.assignment != UNASSIGNED])
    if len(populated) < 2:
        return state
    models = state.models.copy()
    models[populated] = inter_cluster_aggregation(models[populated], eta_g, normalize)
    world.ledger.between_servers("sharing", models[populated].size * BYTES_PER_NUMBER)
    return replace(state, models=models)


def check_plain_steps(work: LocalTraining, option: str, cure: str) -> None:
    """Raise MethodError if local training has another optimizer, momentum or a step schedule. The
    method needs plain SGD, because only then is the update of one step a multiple of a gradient.

    Args:
        work: local training of the clients.
        option: the method's option that needs plain steps, for the message.
        cure: another option to set, for the message.
    """
    is_used = {
        "optimizer": work.optimizer != "sgd",
        "momentum": work.momentum,
        "step_schedule": work.step_schedule,
    }
    for name in is_used:
        if is_used[name]:
            raise MethodError(
                f"{option} needs one step of plain SGD, without local.{name} = "
                f"{getattr(work, name)!r}; leave that out, or {cure}"
            )
