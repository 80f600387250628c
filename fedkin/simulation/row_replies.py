"""The replies of a call's rows, computed on this machine and added to the call's reply."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.client import ClientRows
from fedkin.core.client_memory import ClientMemory
from fedkin.core.display import client_list
from fedkin.core.errors import TaskError
from fedkin.core.randomness import Stream
from fedkin.core.replies import PartialReply, ReplyBuilder
from fedkin.core.task import Task
from fedkin.core.workers import Scorer, Trainer
from fedkin.data.federated import FederatedData


def add_replies(builder: ReplyBuilder, rows: ClientRows, compiled: bool) -> None:
    """Let the active rows do a task, and take their replies.

    Args:
        builder: of the reply, which has the task.
        rows: of the call.
        compiled: whether the task is run in its compiled form, where it has one; else client by client.

    Raises:
        TaskError: replies that do not fit the task's schema; a row that has none, or two.
    """
    task = builder.task
    form = type(task).compute_rows if compiled else Task.compute_rows
    done, every = np.zeros(len(rows.clients), np.int64), bool(rows.active.all())
    for index, arrays in form(task, rows):
        some, own = (index, arrays) if every else _active(index, arrays, rows.active)
        done[some] += 1
        try:
            builder.add(some, own)
        except TaskError as error:
            raise TaskError(f"{error} (client {_names(rows, rows.clients[some])})") from error
    if (wrong := rows.active & (done != 1)).any():
        names = _names(rows, rows.clients[wrong])
        raise TaskError(f"task {task.name}: compute_rows must give each row once; client {names}")


class RowReplies:
    """Replies of some rows of a call, of an actor that holds all data.

    Args:
        data: of all clients.
        ids: their numbers in streams.
        scorer, trainer: compute with the model.
    """

    def __init__(self, data: FederatedData, ids: Int[np.ndarray, "N"], scorer: Scorer, trainer: Trainer) -> None:
        self._data, self._ids, self._workers = data, ids, {"scorer": scorer, "trainer": trainer}

    def partial(
        self,
        task: Task,
        sizes: dict[str, int],
        compiled: bool,
        together: bool,
        stream: Stream | None,
        some: Int[np.ndarray, "r"],
        clients: Int[np.ndarray, "r"],
        steps: Int[np.ndarray, "r"],
    ) -> PartialReply:
        """The part of a reply that some rows make, with their sums.

        Args:
            task: of the call; it has no memory.
            sizes: by name.
            compiled: as for ``add_replies``.
            together: whether rows of one client stay in one portion.
            stream: random numbers of the call.
            some: which rows these are.
            clients: theirs.
            steps: epochs or steps that they complete.
        """
        own, active = task.select(some), np.ones(len(some), bool)
        kept = ClientMemory(len(self._ids), ids=self._ids, names=self._data.client_names)
        memory: dict[str, Any] = {"memory": kept, "declared": {}}
        data = {"data": self._data, "first_data": self._data, "limited": _refuse_part}
        more: dict[str, Any] = {**data, **self._workers, **memory, "together": together, "stream": stream}
        builder = ReplyBuilder(own, len(some), sizes)
        add_replies(builder, ClientRows(task.name, clients, active, steps, self._ids, **more), compiled)
        return builder.partial()


def _refuse_part(*_: Any) -> NoReturn:
    raise TaskError("a task that takes a part of a client's samples cannot be summed by actors (run.sum_by_actor)")


def _active(index: Any, arrays: dict[str, Any], active: Bool[np.ndarray, "n"]) -> tuple[Any, dict[str, Any]]:
    """The rows of a portion whose clients reply, and their arrays; a wrong number of entries stays as it is."""
    some = np.arange(len(active))[index]
    own, replying = {name: np.asarray(values) for name, values in arrays.items()}, active[some]
    if replying.all() or any(values.shape[:1] != some.shape for values in own.values()):
        return some, own
    return some[replying], {name: values[replying] for name, values in own.items()}


def _names(rows: ClientRows, clients: Int[np.ndarray, "r"]) -> str:
    names = getattr(rows.data, "client_names", None)
    return client_list(clients, names) if names else client_list(rows.ids[clients])
