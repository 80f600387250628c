"""Requests of asynchronous clusters: those that clients still work on, and the buffers of replies.

Shapes: m requests, p numbers of an update, q further means of a reply (such as losses).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.replies import Reply
from fedkin.core.task import Task


@dataclass(frozen=True)
class Requests:
    """Requests to clients, an entry for each. A checkpoint stores these arrays.

    Attributes:
        client: the client.
        cluster: the model that the client trains.
        version: how often that model had stepped when the request was sent.
        models: number of models when the request was sent.
        examples: number of the client's samples, its weight in a mean.
        buffered: whether the reply has arrived, and waits in its cluster's buffer.
        time: when the reply arrives, in seconds of the simulation's clock. Infinite if that is not
            known. In a deployment 0 if the reply has come.
        update: the client's update.
        numbers: further numbers of the reply of which methods read means.
    """

    client: Int[np.ndarray, "m"]
    cluster: Int[np.ndarray, "m"]
    version: Int[np.ndarray, "m"]
    models: Int[np.ndarray, "m"]
    examples: Int[np.ndarray, "m"]
    buffered: Bool[np.ndarray, "m"]
    time: Float[np.ndarray, "m"]
    update: Float[np.ndarray, "m p"]
    numbers: Float[np.ndarray, "m q"]

    @classmethod
    def none(cls) -> Requests:
        """No requests."""
        return cls(
            client=np.zeros(0, np.int64),
            cluster=np.zeros(0, np.int64),
            version=np.zeros(0, np.int64),
            models=np.zeros(0, np.int64),
            examples=np.zeros(0, np.int64),
            buffered=np.zeros(0, bool),
            time=np.zeros(0),
            update=np.zeros((0, 0), np.float32),
            numbers=np.zeros((0, 0)),
        )

    def __len__(self) -> int:
        return len(self.client)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name, for a state."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def select(self, rows: Bool[np.ndarray, "m"] | Int[np.ndarray, "r"]) -> Requests:
        """Some of the requests.

        Args:
            rows: mask or indices of the requests.
        """
        return Requests(**{name: array[rows] for name, array in self.arrays().items()})

    def and_others(self, others: Requests) -> Requests:
        """These requests, followed by others."""
        if not len(self):
            return others
        mine = self.arrays()
        theirs = others.arrays()
        return Requests(**{name: np.concatenate([mine[name], theirs[name]]) for name in mine})

    def with_buffered(self, row: int) -> Requests:
        """The requests, where the reply to one of them waits in a buffer.

        Args:
            row: index of the request.
        """
        buffered = self.buffered.copy()
        buffered[row] = True
        return replace(self, buffered=buffered)

    def without(self, row: int) -> Requests:
        """The requests without one of them.

        Args:
            row: index of the request.
        """
        return self.select(np.arange(len(self)) != row)

    def digest(self, row: int) -> str:
        """A digest of the update in a reply, as 16 hexadecimal digits.

        Args:
            row: index of the request.
        """
        content = np.ascontiguousarray(self.update[row], np.float32).tobytes()
        return hashlib.sha256(content).hexdigest()[:16]


def other_means(task: Task, vector: str) -> list[str]:
    """The numbers, other than the update, of which a task's reply has a mean for each model.

    Args:
        task: the task, which asks for means.
        vector: name of the update in the reply.
    """
    return [name for name in task.up.of("model") if name != vector]


def numbers_of(task: Task, vector: str, reply: Reply) -> Float[np.ndarray, "n q"]:
    """These numbers in the replies of single clients, a row for each client.

    Args:
        task: the task, which asks for means.
        vector: name of the update in the reply.
        reply: the reply to ``task.single()``.
    """
    columns = [reply.arrays[name].astype(np.float64) for name in other_means(task, vector)]
    return np.stack(columns, axis=1) if columns else np.zeros((len(reply.arrived), 0))
