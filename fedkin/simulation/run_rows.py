"""Runs a task for some clients on this machine, and combines their replies into one reply.

A call of ``world.run`` sends one task to some clients. A row of the call is one piece of work: a
client, and the model that it trains or scores if the task has one. Depending on the task, an array
of the combined reply has an entry for each row, a mean for each model, or a sum over all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.client import ClientRows
from fedkin.core.client_engine import ClientEngine, ClientSamples
from fedkin.core.client_memory import ClientMemory
from fedkin.core.engine_protocols import Scorer, Trainer
from fedkin.core.errors import TaskError
from fedkin.core.object_repr import client_list
from fedkin.core.randomness import Stream
from fedkin.core.replies import PartialReply, ReplyBuilder
from fedkin.core.task import Task
from fedkin.data.federated import FederatedData


def add_replies(builder: ReplyBuilder, rows: ClientRows, compiled: bool) -> None:
    """Run a task for the rows (clients with their models) whose clients reply, and add the replies
    to the builder.

    Args:
        builder: builds the combined reply, and knows the task.
        rows: rows of the call of ``world.run``.
        compiled: whether to run the task's compiled form (``compute_rows``), if it has one;
            otherwise the task runs client by client.

    Raises:
        TaskError: a reply does not fit the task's schema; a row has no reply, or two.
    """
    task = builder.task
    form = type(task).compute_rows if compiled else Task.compute_rows
    # A task's own `compute_rows` may leave out a row or yield it twice, so replies are counted.
    replies = np.zeros(len(rows.clients), np.int64)
    all_active = bool(rows.active.all())
    for index, arrays in form(task, rows):
        # The task computes all rows; replies of clients that do not reply are dropped here.
        if not all_active:
            index, arrays = _active(index, arrays, rows.active)
        replies[index] += 1
        try:
            builder.add(index, arrays)
        except TaskError as error:
            raise TaskError(f"{error} (client {_names(rows, rows.clients[index])})") from error
    wrong = rows.active & (replies != 1)
    if wrong.any():
        names = _names(rows, rows.clients[wrong])
        raise TaskError(
            f"task {task.name}: compute_rows must give one reply for each row, but gave none or "
            f"several for client {names}"
        )


class SummedCall(NamedTuple):
    """The facts about a call of ``world.run`` that all Ray actors (processes) need, if each actor
    adds up the replies of the clients that it computes."""

    task: Task  # a task without memory
    sizes: Mapping[str, int]  # sizes of the reply's axes by name, such as P
    compiled: bool  # whether the task runs in its compiled form, as in ``add_replies``
    together: bool  # whether all rows of one client are computed together, as for detectors
    stream: Stream | None  # random numbers of the call


class PartOfRows(NamedTuple):
    """The rows (clients with their models) of a call that one Ray actor computes."""

    rows: Int[np.ndarray, "r"]  # indices among the rows of the call
    clients: Int[np.ndarray, "r"]  # client of each row
    steps: Int[np.ndarray, "r"]  # epochs or steps that each row completes


class RowReplies:
    """Computes the replies of some clients, in an actor (a Ray process) that holds all data.

    Args:
        data: samples of all clients.
        ids: the clients' ids in the random streams.
        scorer: scores models.
        trainer: trains models.
    """

    def __init__(
        self, data: FederatedData, ids: Int[np.ndarray, "N"], scorer: Scorer, trainer: Trainer
    ) -> None:
        self._data = data
        self._ids = ids
        self._scorer = scorer
        self._trainer = trainer

    def partial(self, call: SummedCall, part: PartOfRows) -> PartialReply:
        """The replies of the rows (clients with their models) that one actor computes: arrays with
        an entry for each row, and sums over these rows.

        Args:
            call: facts about the call of ``world.run``, the same for all actors.
            part: the rows of this actor.
        """
        task = call.task.select(part.rows)
        engine = ClientEngine(self._scorer, self._trainer, call.together, limited=_refuse_part)
        # Only tasks without memory come here, but `ClientRows` needs a memory, so this one is
        # empty.
        memory = ClientMemory(len(self._ids), ids=self._ids, names=self._data.client_names)
        rows = ClientRows(
            task=task.name,
            clients=part.clients,
            active=np.ones(len(part.rows), bool),  # other rows are not sent to actors
            steps=part.steps,
            samples=ClientSamples(self._ids, self._data, first_data=self._data),  # no shift here
            engine=engine,
            memory=memory,
            declared={},
            stream=call.stream,
        )
        builder = ReplyBuilder(task, len(part.rows), call.sizes)
        add_replies(builder, rows, call.compiled)
        return builder.partial()


def _refuse_part(*_: Any) -> NoReturn:
    """Raise TaskError for a task in which clients use only a part of their samples.

    Actors have a trainer and a scorer only for all samples of each client.
    """
    raise TaskError(
        "replies to a task that uses only a part of a client's samples cannot be summed by actors; "
        "set run.sum_by_actor = false"
    )


def _active(
    index: Any, arrays: dict[str, Any], active: Bool[np.ndarray, "n"]
) -> tuple[Any, dict[str, Any]]:
    """Select the rows (clients with their models) whose clients reply, and the entries of these
    rows in the arrays that a task computed.

    Arrays with a wrong number of entries are returned unchanged, so that the check against the
    schema reports them.

    Args:
        index: the rows of the call of ``world.run`` that the task computed.
        arrays: results of the task, with an entry for each of these rows.
        active: for each row of the whole call, whether its client replies.
    """
    rows = np.arange(len(active))[index]
    replying = active[rows]
    arrays = {name: np.asarray(values) for name, values in arrays.items()}
    if replying.all() or any(values.shape[:1] != rows.shape for values in arrays.values()):
        return rows, arrays
    return rows[replying], {name: values[replying] for name, values in arrays.items()}


def _names(rows: ClientRows, clients: Int[np.ndarray, "r"]) -> str:
    """Names of clients for an error message; their ids if the data have no names."""
    names = getattr(rows.data, "client_names", None)
    return client_list(clients, names) if names else client_list(rows.ids[clients])
