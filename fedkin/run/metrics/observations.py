"""Observations of what clients do in a round, from which the metrics of the round are computed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.method import UNASSIGNED, State
from fedkin.core.object_repr import client_list
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.tasks.shift import Note, Shifted
from fedkin.tasks.train import TrainingReply

_log = logging.getLogger("fedkin")
_MODELS = "models"  # name of a training task's field that holds the models


@dataclass(frozen=True)
class TrainingRecord:
    """A training in a round: the models that were sent, the clients, and the reply (updates of
    single clients, or means of updates). Several tasks that send the same models count as one
    training."""

    models: Float[np.ndarray, "K P"]
    clients: Int[np.ndarray, "n"]
    reply: TrainingReply


class Observations:
    """Observations of a round.

    Attributes:
        training: the round's last training of whole models.
        missing: number of replies that never arrived.
        nonfinite: number of clients whose replies were excluded because a value in them was
            impossible or not finite.
        outliers: number of clients whose replies were excluded because of a much larger norm than
            the others.
        detected: mask of the clients that detected a shift; None if no client was tested.
        placed: mask of the clients that were placed and stored their label counts.
        reassigned: mask of the clients that were notified of a new cluster.
    """

    def __init__(self, clients: int, round: int, names: Sequence[str] | None = None) -> None:
        self._clients = clients
        self._round = round
        self._names = names
        self.training: TrainingRecord | None = None
        self.missing = 0
        self.nonfinite = 0
        self.outliers = 0
        self.detected: Bool[np.ndarray, "N"] | None = None
        self.placed, self.reassigned = np.zeros((2, clients), bool)

    def observe(self, task: Task, clients: Int[np.ndarray, "n"], reply: Reply) -> None:
        """Record a task that was run, and its reply. ``clients`` has the client of each row of the
        reply (a row: one client with one model)."""
        # A client with several rows counts once. Between peers each row is a message and counts.
        missing = clients[~reply.arrived & ~reply.nonfinite]
        self.missing += len(missing) if task.between_peers else len(np.unique(missing))
        outliers = np.array(reply.outliers, np.int64)
        nonfinite = reply.nonfinite.copy()
        # Outliers are counted as such; the reply lists them among the excluded rows, too.
        nonfinite[outliers] = False
        self.outliers += len(np.unique(clients[outliers]))  # the server has logged their names
        self._count_nonfinite(task, np.unique(clients[nonfinite]), ", ".join(reply.faults))
        if (training := task.training(reply)) is not None:
            self._observe_training(TrainingRecord(getattr(task, _MODELS), clients, training))
        if isinstance(task, Note):
            self.placed[clients] = True
        elif isinstance(task, Shifted):
            self.detected = (
                np.zeros(self._clients, bool) if self.detected is None else self.detected
            )
            self.detected[clients[reply.shifted]] = True

    def _observe_training(self, training: TrainingRecord) -> None:
        """Store a training as the last one of the round. If the training before it sent the same
        models, join the two into one."""
        earlier = self.training
        if earlier is not None and earlier.models is training.models:
            training = join(earlier, training)
        self.training = training

    def _count_nonfinite(self, task: Task, clients: Int[np.ndarray, "b"], arrays: str) -> None:
        """Count the clients whose replies were excluded because numbers in them are impossible or
        not finite, and log their names."""
        self.nonfinite += len(clients)
        if len(clients):
            names = client_list(clients, self._names)
            what = f"{task.name}: {arrays}" if arrays else task.name
            _log.warning(
                "round %d: the reply of client %s is not finite (%s); it is excluded from this "
                "round",
                self._round,
                names,
                what,
            )


def join(earlier: TrainingRecord, later: TrainingRecord) -> TrainingRecord:
    """Join two trainings that sent the same models into one, with clients in the order of their
    ids.

    If the replies hold means instead of updates, only the values of single clients (e.g. losses)
    are joined. Means cannot be joined, so the means of the earlier training are kept (the means of
    the later one if the earlier has none)."""
    clients = np.concatenate([earlier.clients, later.clients])
    order = np.argsort(clients, kind="stable")
    both = (earlier.reply, later.reply)
    names = ("model_index", "examples", "loss", "first_loss", "arrived", "nonfinite")
    rows = {name: np.concatenate([getattr(reply, name) for reply in both])[order] for name in names}
    # A weight means that the updates are means by model, which are not joined.
    if any(reply.weight is not None for reply in both):
        known = next(reply for reply in both if reply.weight is not None)
        return TrainingRecord(
            later.models, clients[order], replace(known, **rows, before_training=None)
        )
    update = np.concatenate([reply.update for reply in both])[order]
    return TrainingRecord(
        later.models,
        clients[order],
        replace(later.reply, **rows, update=update, before_training=None),
    )


def distances(training: TrainingRecord | None, state: State) -> Float[np.ndarray, "a"] | None:
    """Distance |w_i - w| of each received client model to the client's cluster model after the
    round.

    None if updates of single clients are unknown, or cover only a part of each model. Source:
    FedGroup eq. 4 (sum of the distances) and FlexCFL eq. 3 (mean).
    """
    # A weight in the reply means that only means by model are known.
    if (
        training is None
        or training.reply.weight is not None
        or training.models.shape[1:] != state.models.shape[1:]
    ):
        return None
    norms = []
    target = state.aggregated_into(training.clients, training.reply.model_index)
    # Float64 numbers of all rows share one array, because a new one for each row takes more time
    # than the arithmetic.
    difference = np.empty(state.models.shape[1], np.float64)
    for row in np.flatnonzero(training.reply.arrived & (target != UNASSIGNED)):
        received = training.models[training.reply.model_index[row]]
        np.add(received, training.reply.update[row], out=difference, dtype=np.float64)
        difference -= state.models[target[row]]
        norms.append(float(np.linalg.norm(difference)))
    return np.array(norms, np.float64)
