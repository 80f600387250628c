"""The replies of a call's rows, computed on this machine and added to the call's reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.client import ClientEngine, ClientRows, ClientSamples
from fedkin.core.client_memory import ClientMemory
from fedkin.core.engine_protocols import Scorer, Trainer
from fedkin.core.errors import TaskError
from fedkin.core.object_repr import client_list
from fedkin.core.randomness import Stream
from fedkin.core.replies import PartialReply, ReplyBuilder
from fedkin.core.task import Task
from fedkin.data.federated import FederatedData


def add_replies(builder: ReplyBuilder, rows: ClientRows, compiled: bool) -> None:
    """Run a task for the rows whose clients reply, and add their replies.

    Args:
        builder: builder of the reply, which has the task.
        rows: rows of the call.
        compiled: whether the task runs in its compiled form, if it has one; otherwise client by
            client.

    Raises:
        TaskError: a reply does not fit the task's schema; a row has no reply, or two.
    """
    task = builder.task
    form = type(task).compute_rows if compiled else Task.compute_rows
    replies = np.zeros(len(rows.clients), np.int64)
    all_active = bool(rows.active.all())
    for index, arrays in form(task, rows):
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
        raise TaskError(f"task {task.name}: compute_rows must give each row once; client {names}")


class SummedCall(NamedTuple):
    """Properties that all parts of a call share when actors add up its replies."""

    task: Task  # a task without memory
    sizes: Mapping[str, int]  # the schema's sizes by name
    compiled: bool  # whether the task runs in its compiled form, as in ``add_replies``
    together: bool  # whether all rows of one client stay in one portion
    stream: Stream | None  # random numbers of the call


class PartOfRows(NamedTuple):
    """The rows of a call that one actor computes."""

    rows: Int[np.ndarray, "r"]  # indices in the call
    clients: Int[np.ndarray, "r"]
    steps: Int[np.ndarray, "r"]  # epochs or steps that each row completes


class RowReplies:
    """Computes the replies of some rows of a call, on an actor that holds all data.

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
        """The reply to a part of the rows, with the sums over them."""
        task = call.task.select(part.rows)
        engine = ClientEngine(self._scorer, self._trainer, call.together, limited=_refuse_part)
        memory = ClientMemory(len(self._ids), ids=self._ids, names=self._data.client_names)
        rows = ClientRows(
            task=task.name,
            clients=part.clients,
            active=np.ones(len(part.rows), bool),
            steps=part.steps,
            samples=ClientSamples(self._ids, self._data, first_data=self._data),
            engine=engine,
            memory=memory,
            declared={},
            stream=call.stream,
        )
        builder = ReplyBuilder(task, len(part.rows), call.sizes)
        add_replies(builder, rows, call.compiled)
        return builder.partial()


def _refuse_part(*_: Any) -> NoReturn:
    raise TaskError(
        "a task that takes a part of a client's samples cannot be summed by actors "
        "(run.sum_by_actor)"
    )


def _active(
    index: Any, arrays: dict[str, Any], active: Bool[np.ndarray, "n"]
) -> tuple[Any, dict[str, Any]]:
    """The rows of a portion whose clients reply, and their arrays.

    Arrays with a wrong number of entries are returned unchanged, so that the schema reports them.
    """
    rows = np.arange(len(active))[index]
    replying = active[rows]
    arrays = {name: np.asarray(values) for name, values in arrays.items()}
    if replying.all() or any(values.shape[:1] != rows.shape for values in arrays.values()):
        return rows, arrays
    return rows[replying], {name: values[replying] for name, values in arrays.items()}


def _names(rows: ClientRows, clients: Int[np.ndarray, "r"]) -> str:
    names = getattr(rows.data, "client_names", None)
    return client_list(clients, names) if names else client_list(rows.ids[clients])
