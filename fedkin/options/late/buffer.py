"""Replies that wait for a later round. Shapes: b of them, p numbers of an update, n rows of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.schema import INDEX, WEIGHT
from fedkin.core.task import Task


class Row(NamedTuple):
    """What is known of a reply that waits, or of each of several."""

    task: Int[np.ndarray, "b"]  # a checksum of its name
    client: Int[np.ndarray, "b"]
    model: Int[np.ndarray, "b"]  # that it trained
    models: Int[np.ndarray, "b"]  # that there were
    examples: Int[np.ndarray, "b"]
    sent: Int[np.ndarray, "b"]  # the round it is of
    due: Int[np.ndarray, "b"]  # the first round that may use it


@dataclass
class LateBuffer:
    """Late replies with their updates, and how many were used and dropped so far: the arrays of a
    checkpoint."""

    rows: Int[np.ndarray, "b 7"]
    updates: Float[np.ndarray, "b p"]
    counts: Int[np.ndarray, "2"]

    @classmethod
    def empty(cls) -> LateBuffer:
        """Without any."""
        return cls(
            np.zeros((0, len(Row._fields)), np.int64),
            np.zeros((0, 0), np.float32),
            np.zeros(2, np.int64),
        )

    @property
    def known(self) -> Row:
        """The columns by name."""
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
        """Put replies to the others. Updates of another length than theirs are dropped: one is kept
        at a time.

        Args:
            call: the task that they are of.
            clients: whose they are.
            arrays: of them, by row.
            vector: which of these is the update.
            sent: the round of the call.
            due: the first round that may use them.
        """
        updates = arrays[vector]
        former = self.updates if self.updates.size else np.zeros((0, updates.shape[1]), np.float32)
        if former.shape[1] != updates.shape[1]:
            self.counts[1] += len(clients)
            return
        same = [
            np.full(len(clients), value)
            for value in (_checksum(call), call.sizes()["K"], sent, due)
        ]
        rows = Row(same[0], clients, arrays[INDEX], same[1], arrays[WEIGHT], same[2], same[3])
        self.rows = np.concatenate([self.rows, np.stack(rows, axis=1).astype(np.int64)])
        self.updates = np.concatenate([former, updates.astype(np.float32)])

    def take(
        self, call: Task, round: int, oldest: int, length: int, usable: Bool[np.ndarray, "b"]
    ) -> tuple[Row, Float[np.ndarray, "u p"]]:
        """Those that a call uses, by client, out of the buffer; those that are of no more use go,
        too.

        Args:
            call: the task.
            round: the present one.
            oldest: the first round whose replies are still of use.
            length: of the updates that the call is about.
            usable: which of all are of use by what else is known of them.
        """
        known = self.known
        asked = (
            (known.task == _checksum(call))
            & (known.due <= round)
            & (self.updates.shape[1] == length)
        )
        old = known.sent < oldest
        chosen = np.flatnonzero(asked & ~old & usable & (known.models == call.sizes()["K"]))
        order = chosen[
            np.lexsort((known.sent[chosen], known.client[chosen]))
        ]  # sums do not depend on who came first
        rows = Row(*self.rows[order].T)
        updates = self.updates[order]
        stays = ~asked & ~old
        self.counts += len(order), (~stays).sum() - len(order)
        self.rows = self.rows[stays]
        self.updates = self.updates[stays]
        return rows, updates


def _checksum(task: Task) -> int:
    return crc32(task.name.encode())
