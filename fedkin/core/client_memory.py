"""What clients keep between rounds: named arrays, as columns with a row for each client.

A simulated client's memory is in the checkpoint of its run, a real client's on its own disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.errors import TaskError
from fedkin.core.schema import Memory

LIMIT = 2**26  # bytes that one client may keep
_ABSENT, _RUN, _ASSIGNMENT = 0, 1, 2
_LIFETIMES = {"run": _RUN, "assignment": _ASSIGNMENT}
_PREFIX = "clients/"  # in front of a column's name in a checkpoint
_STATE = ".kept"  # behind it: the lifetime of each client's row, 0 where it keeps nothing


def client_name(client: int, names: Sequence[str] | None, ids: Int[np.ndarray, "K"]) -> str:
    """A client as messages name it: by its name, or by its number where clients have no names.

    Args:
        client: its position.
        names: of all clients, by position.
        ids: the numbers of all clients, by position.
    """
    return names[client] if names else str(ids[client])


class ClientMemory:
    """The memory of N clients.

    Args:
        clients: N.
        limit: bytes that each client may keep, of all its arrays together.
        ids: numbers of the clients in messages; None for 0 .. N-1.
        names: of the clients, in place of the numbers.
    """

    def __init__(
        self,
        clients: int,
        limit: int = LIMIT,
        ids: Int[np.ndarray, "N"] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self._clients, self._limit, self._ids = (
            clients,
            limit,
            np.arange(clients) if ids is None else ids,
        )
        self._names = names
        self._columns: dict[str, np.ndarray] = {}
        self._kept: dict[str, Int[np.ndarray, "N"]] = {}
        self.changes = 0  # how often anything was stored or forgotten

    def has(self, name: str, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Which of these clients keep an array of this name."""
        kept = self._kept.get(name)
        return np.zeros(len(clients), bool) if kept is None else kept[clients] != _ABSENT

    def read(self, name: str, clients: Int[np.ndarray, "n"], default: np.ndarray) -> np.ndarray:
        """The arrays of some clients [n ...]; ``default`` [n ...] of those that keep none."""
        if name not in self._columns:
            return default
        values, absent = self._columns[name][clients], ~self.has(name, clients)
        values[absent] = default[absent]
        return values

    def kept(self, name: str, client: int) -> np.ndarray:
        """A copy of the array that one client keeps."""
        return np.array(self._columns[name][client])

    def bytes(self) -> Int[np.ndarray, "N"]:
        """How many bytes each client keeps, of all its arrays together."""
        return self._bytes(list(self._columns), np.arange(self._clients))

    def _bytes(self, names: list[str], clients: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        none = np.zeros(len(clients), np.int64)
        return sum(
            (self.has(name, clients) * self._columns[name][:1].nbytes for name in names), none
        )

    def write(
        self,
        task: str,
        name: str,
        memory: Memory,
        clients: Int[np.ndarray, "n"],
        values: np.ndarray,
    ) -> None:
        """Let clients keep arrays, in place of those of this name that they kept before.

        Args:
            task: that stores them, for the message.
            name: of the array.
            memory: its declaration.
            clients: their positions, each once.
            values: [n ...].

        Raises:
            TaskError: another type or shape than declared or kept by others, values that are not
                finite, or more than the limit.
        """
        if not len(clients):
            return
        values, column = np.asarray(values), self._columns.get(name)
        who = self.who(task, clients[0], name)
        if values.dtype.kind not in "fiub" or not np.can_cast(
            values.dtype, memory.dtype, "same_kind"
        ):
            raise TaskError(
                f"{who}: expected the type {np.dtype(memory.dtype)}, got {values.dtype}"
            )
        shape = values.shape[1:]
        if not _fits(memory.axes.split(), shape) or (
            column is not None and column.shape[1:] != shape
        ):
            known = "" if column is None else f", as {list(column.shape[1:])} is kept"
            raise TaskError(
                f"{who}: expected the axes [{memory.axes}]{known}, got the shape {list(shape)}"
            )
        with np.errstate(over="ignore"):
            given, values = values, values.astype(memory.dtype, copy=False)
        if values.dtype.kind == "i" and not np.array_equal(values, given):
            raise TaskError(f"{who}: a number is too large for {values.dtype}")
        finite = np.isfinite(values.reshape(len(values), -1)).all(axis=1)
        if not finite.all():
            bad = self.who(task, clients[~finite][0], name)
            raise TaskError(
                f"{bad}: expected finite numbers of type {values.dtype}, got NaN or infinity"
            )
        own, others = values[:1].nbytes, [one for one in self._columns if one != name]
        total = own + self._bytes(others, clients)
        if np.max(total) > self._limit:
            bad = self.who(task, clients[np.argmax(total)], name)
            raise TaskError(
                f"{bad}: {own} bytes, and {np.max(total)} with what it keeps already, are above "
                f"the limit of "
                f"{self._limit} bytes for a client: keep less, such as a part of a model"
            )
        if column is None:
            self._columns[name] = np.zeros((self._clients, *values.shape[1:]), memory.dtype)
            self._kept[name] = np.zeros(self._clients, np.int8)
        self._columns[name][clients], self._kept[name][clients] = (
            values,
            _LIFETIMES[memory.lifetime],
        )
        self.changes += 1

    def who(self, task: str, client: int | np.integer, name: str) -> str:
        """Task, client and memory, for messages; the client is a position."""
        return (
            f"task {task}, client {client_name(int(client), self._names, self._ids)}, memory {name}"
        )

    def forget(self, clients: Int[np.ndarray, "n"], lifetime: str | None = None) -> None:
        """Forget what clients keep: all of it, as they have left for good, or arrays of one
        lifetime."""
        for name, kept in self._kept.items():
            ended = kept[clients] == _LIFETIMES[lifetime] if lifetime else kept[clients] != _ABSENT
            if ended.any():
                self._columns[name][clients[ended]], kept[clients[ended]] = 0, _ABSENT
                self.changes += 1
        for name in [
            name for name, kept in self._kept.items() if not kept.any()
        ]:  # another shape may follow
            del self._columns[name], self._kept[name]

    def copy(self) -> ClientMemory:
        """The same memory, apart from this one."""
        other = ClientMemory(self._clients, self._limit, self._ids, self._names)
        other.restore(self.arrays())
        return other

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it, for a checkpoint."""
        states = {_PREFIX + name + _STATE: kept.copy() for name, kept in self._kept.items()}
        return {_PREFIX + name: column.copy() for name, column in self._columns.items()} | states

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from what ``arrays`` returned; other names are ignored."""
        names = [
            name.removesuffix(_STATE).removeprefix(_PREFIX)
            for name in arrays
            if name.endswith(_STATE)
        ]
        self._columns = {name: arrays[_PREFIX + name].copy() for name in names}
        self._kept = {name: arrays[_PREFIX + name + _STATE].copy() for name in names}


def _fits(axes: list[str], shape: tuple[int, ...]) -> bool:
    """Whether a shape has these axes, and the size of those that are numbers."""
    return len(axes) == len(shape) and all(
        not axis.isdigit() or int(axis) == size for axis, size in zip(axes, shape, strict=True)
    )


class OwnMemory:
    """The memory of one client, as its task sees it: like a dictionary of the arrays that the task
    declares.

    Args:
        memory: of all clients.
        client: its position there.
        task: that sees it, for messages.
        declared: what the task declares.
    """

    def __init__(
        self, memory: ClientMemory, client: int, task: str, declared: Mapping[str, Memory]
    ) -> None:
        self._memory, self._client, self._task, self._declared = (
            memory,
            np.array([client]),
            task,
            declared,
        )

    def __contains__(self, name: str) -> bool:
        self._check(name)
        return bool(self._memory.has(name, self._client)[0])

    def get(self, name: str, default: Any = None) -> Any:
        """The array of this name; ``default`` where none is kept."""
        return self[name] if name in self else default

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self:
            raise TaskError(
                f"{self._who(name)}: none is kept; ask `in` first, or use `get` with a default"
            )
        return self._memory.kept(name, int(self._client[0]))

    def __setitem__(self, name: str, value: Any) -> None:
        self._check(name)
        self._memory.write(
            self._task, name, self._declared[name], self._client, np.asarray(value)[None]
        )

    def _check(self, name: str) -> None:
        """Refuse (TaskError) an array that the task does not declare."""
        if name not in self._declared:
            known = ", ".join(self._declared) or "nothing"
            raise TaskError(
                f"{self._who(name)}: the task's `memory` does not declare it; it declares {known}"
            )

    def _who(self, name: str) -> str:
        return self._memory.who(self._task, self._client[0], name)
