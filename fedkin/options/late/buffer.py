"""Buffer of replies that missed their round, until a later round uses them.

Shapes: b buffered replies, r added replies, u used replies, p numbers of an update.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.schema import INDEX, WEIGHT
from fedkin.core.task import Task


class Row(NamedTuple):
    """The numbers that are stored with each late reply in the buffer. Each field is an array with
    one entry per reply."""

    task: Int[np.ndarray, "b"]  # checksum of the task's name
    client: Int[np.ndarray, "b"]
    model: Int[np.ndarray, "b"]  # model that the client trained
    models: Int[np.ndarray, "b"]  # number of models in the round of the request
    examples: Int[np.ndarray, "b"]  # number of the client's samples
    sent: Int[np.ndarray, "b"]  # round of the request
    due: Int[np.ndarray, "b"]  # first round that may use the reply


@dataclass
class LateBuffer:
    """Late replies: one row of numbers for each (``rows``: client, model, round, ...), their
    ``updates``, and how many replies were used and dropped so far (``counts``).

    A checkpoint stores these three arrays.
    """

    rows: Int[np.ndarray, "b 7"]
    updates: Float[np.ndarray, "b p"]
    counts: Int[np.ndarray, "2"]  # used and dropped replies

    @classmethod
    def empty(cls) -> LateBuffer:
        """A buffer without replies."""
        return cls(
            rows=np.zeros((0, len(Row._fields)), np.int64),
            updates=np.zeros((0, 0), np.float32),
            counts=np.zeros(2, np.int64),
        )

    @property
    def columns(self) -> Row:
        """The numbers stored with the buffered replies, by name: the columns of ``rows``."""
        return Row(*self.rows.T)

    def add(
        self,
        call: Task,
        clients: Int[np.ndarray, "r"],
        arrays: dict[str, np.ndarray],
        vector: str,
        sent: int,
        due: int,
    ) -> None:
        """Add replies to the buffer. All buffered updates have one length; updates of another
        length are dropped.

        Args:
            call: the task that the replies answer.
            clients: clients that sent the replies.
            arrays: the replies' arrays, a row for each client.
            vector: name of the update in ``arrays``.
            sent: round of the request.
            due: first round that may use the replies.
        """
        updates = arrays[vector]
        # An empty buffer does not know yet how long its updates will be.
        former = self.updates if self.updates.size else np.zeros((0, updates.shape[1]), np.float32)
        count = len(clients)
        if former.shape[1] != updates.shape[1]:
            self.counts[1] += count
            return
        rows = Row(
            task=np.full(count, _checksum(call)),
            client=clients,
            model=arrays[INDEX],
            models=np.full(count, call.sizes()["K"]),
            examples=arrays[WEIGHT],
            sent=np.full(count, sent),
            due=np.full(count, due),
        )
        self.rows = np.concatenate([self.rows, np.stack(rows, axis=1).astype(np.int64)])
        self.updates = np.concatenate([former, updates.astype(np.float32)])

    def take(
        self, call: Task, round: int, oldest: int, length: int, usable: Bool[np.ndarray, "b"]
    ) -> tuple[Row, Float[np.ndarray, "u p"]]:
        """Take out of the buffer the late replies that a task uses, in the order of their clients.

        Late replies to this task that are due but cannot be used, and late replies that are too
        old, are dropped.

        Args:
            call: the task, which clients answer in the present round too.
            round: the present round.
            oldest: replies of rounds before this one are dropped.
            length: p, size of the updates in the replies to the task.
            usable: which replies in the buffer may be used.

        Returns:
            The numbers stored with the used replies, and the updates of these replies.
        """
        waiting = self.columns
        same_task = waiting.task == _checksum(call)
        same_length = self.updates.shape[1] == length
        same_models = waiting.models == call.sizes()["K"]
        asked = same_task & (waiting.due <= round) & same_length
        expired = waiting.sent < oldest
        chosen = np.flatnonzero(asked & ~expired & usable & same_models)

        # In a fixed order the sums do not depend on the order in which replies arrived.
        order = chosen[np.lexsort((waiting.sent[chosen], waiting.client[chosen]))]
        rows = Row(*self.rows[order].T)
        updates = self.updates[order]

        # Replies to another task, or due later, stay. Replies that could have been used now but
        # were not (e.g. of a client that has replied in time) are dropped.
        stays = ~asked & ~expired
        used = len(order)
        dropped = (~stays).sum() - used
        self.counts += used, dropped
        self.rows = self.rows[stays]
        self.updates = self.updates[stays]
        return rows, updates


def _checksum(task: Task) -> int:
    """A task's name as a number, which fits into an array."""
    return crc32(task.name.encode())
