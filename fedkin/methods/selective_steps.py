"""Steps of selective re-clustering (selective.py): checks of models on ranges of clients' samples,
and clusters that open, close and merge.

Shapes: N clients, n clients that are checked, M models, k of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.method import UNASSIGNED, State
from fedkin.core.world import World
from fedkin.measures.selective import better_e_value, equal_models
from fedkin.methods import cluster_steps
from fedkin.tasks.feddrift import SpanScores


@dataclass(frozen=True)
class SelectiveState(State):
    """M models (some may have no clients), and the facts of each client's last check."""

    error: Float[np.ndarray, "N"]  # p_i; NaN before the first check
    begin: Int[np.ndarray, "N"]  # first sample on which the client trains
    end: Int[np.ndarray, "N"]  # its number of samples at the last check
    left: Int[np.ndarray, "N"]  # the cluster that a client of a challenger has left; -1 otherwise
    opened: Int[np.ndarray, "M"]  # round in which a challenger was opened; 0 for other models


class Checked(NamedTuple):
    """Clients, and the range of positions of the samples on which they are checked."""

    clients: Int[np.ndarray, "n"]
    start: Int[np.ndarray, "n"]
    stop: Int[np.ndarray, "n"]

    @property
    def samples(self) -> Int[np.ndarray, "n"]:
        """Number of samples of each client."""
        return self.stop - self.start

    def select(self, mask: Bool[np.ndarray, "n"]) -> Checked:
        """Only the clients of a mask."""
        return Checked(*(column[mask] for column in self))


def used_models(state: State) -> Int[np.ndarray, "k"]:
    """The models that have clients, ascending."""
    return np.unique(state.assignment[state.assignment != UNASSIGNED])


def changed(array: np.ndarray, where: Int[np.ndarray, "n"], values: Any) -> np.ndarray:
    """A copy of an array with other values in some places.

    Args:
        array: the array.
        where: the places.
        values: one for each of them, or one for all.
    """
    after = array.copy()
    after[where] = values
    return after


def correct_samples(
    world: World, state: State, used: Int[np.ndarray, "k"], checked: Checked
) -> Int[np.ndarray, "n k"]:
    """Number of samples that each of some models predicts correctly; -1 for a client that does not
    reply.

    Args:
        world, state: clients and state of the round.
        used: the models.
        checked: clients and their samples.
    """
    task = SpanScores(state.models[used], checked.start, checked.stop)
    reply = world.run(task, checked.clients)
    return np.where(reply.arrived[:, None], reply.correct, -1)


def own_correct(world: World, state: State, checked: Checked) -> Int[np.ndarray, "n"]:
    """Number of samples that each client's cluster model predicts correctly. A client is sent this
    model only.

    Args:
        world, state: clients and state of the round.
        checked: clients and their samples.
    """
    correct = np.zeros(len(checked.clients), np.int64)
    cluster = state.assignment[checked.clients]
    for k in np.unique(cluster):
        rows = cluster == k
        correct[rows] = correct_samples(world, state, np.array([k]), checked.select(rows))[:, 0]
    return correct


def open_challenger(
    state: SelectiveState, clients: Int[np.ndarray, "s"], place: int, round: int
) -> SelectiveState:
    """The state with a challenger in a free place, for clients that fit no model in use. It starts
    as the model that most of them used.

    Args:
        state: the state before the clients move.
        clients: these clients.
        place: the free place.
        round: the round.
    """
    before = state.assignment[clients]
    models = state.models.copy()
    models[place] = models[np.bincount(before).argmax()]
    return replace(
        state,
        models=models,
        left=changed(state.left, clients, before),
        opened=changed(state.opened, np.array([place]), round),
    )


def close_challengers(
    world: World,
    state: SelectiveState,
    clients: Int[np.ndarray, "n"],
    due: Bool[np.ndarray, "M"],
    alpha: float,
) -> SelectiveState:
    """The state after the trial of challengers: one that is not better than the models that its
    clients left is closed.

    Args:
        world: the clients.
        state: the state.
        clients: clients that can be asked.
        due: the challengers whose trial is over.
        alpha: probability of keeping a challenger that is not better.
    """
    members = clients[due[state.assignment[clients]] & (state.left[clients] != UNASSIGNED)]
    for challenger in np.unique(state.assignment[members]).tolist():
        its = members[state.assignment[members] == challenger]
        checked = Checked(its, state.begin[its], state.end[its])
        before = replace(state, assignment=changed(state.assignment, its, state.left[its]))
        new = own_correct(world, state, checked)
        old = own_correct(world, before, checked)
        both = (new >= 0) & (old >= 0)
        # Without a reply there is no evidence, so the trial goes on.
        if not both.any():
            continue
        e_value = better_e_value(
            old[both].sum(keepdims=True),
            new[both].sum(keepdims=True),
            checked.samples[both].sum(keepdims=True),
        )
        # All clients of the challenger, asked or not, share its fate.
        every = np.flatnonzero(state.assignment == challenger)
        if e_value[0] < 1 / alpha:
            # A client that came later returns to the cluster that most of the others left.
            usual = np.bincount(state.left[its]).argmax()
            back = np.where(state.left[every] == UNASSIGNED, usual, state.left[every])
            state = cluster_steps.assign(world, state, every, back)
            state = replace(state, error=changed(state.error, every, np.nan))
        state = replace(
            state,
            left=changed(state.left, every, UNASSIGNED),
            opened=changed(state.opened, np.array([challenger]), 0),
        )
    return state


def merge_equal(
    world: World,
    state: SelectiveState,
    clients: Int[np.ndarray, "n"],
    margin: float,
    alpha: float,
) -> SelectiveState:
    """The state after the two most clearly equal clusters have merged, if there are two.
    Challengers on trial are left out.

    Args:
        world: the clients.
        state: the state.
        clients: clients that compare all models in use.
        margin: loss of accuracy that neither cluster may have.
        alpha: probability of a wrong merge.
    """
    used = used_models(state)
    used = used[state.opened[used] == 0]
    if len(used) < 2:
        return state
    clients = clients[np.isin(state.assignment[clients], used)]
    checked = Checked(clients, state.begin[clients], state.end[clients])
    correct = correct_samples(world, state, used, checked)
    replied = (correct >= 0).all(axis=1)
    pair = equal_models(
        correct[replied],
        np.searchsorted(used, state.assignment[clients[replied]]),
        checked.samples[replied],
        margin=margin,
        alpha=alpha,
    )
    if pair is None:
        return state
    first, second = used[list(pair)]
    sizes = [int((state.assignment == k).sum()) for k in (first, second)]
    models = state.models.copy()
    models[first] = np.average(models[[first, second]].astype(np.float64), axis=0, weights=sizes)
    moving = np.flatnonzero(state.assignment == second)
    state = replace(
        state,
        models=models,
        error=changed(state.error, moving, np.nan),
        # Clients of a challenger that left the second cluster would return to the first one.
        left=np.where(state.left == second, first, state.left),
    )
    return cluster_steps.assign(world, state, moving, np.full(len(moving), first))
