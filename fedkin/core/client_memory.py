"""Client memory: named arrays that clients keep between rounds. All clients' arrays of one name are
stored together, as a column with one row per client.

The memory of a simulated client is part of the run's checkpoint. A real client stores its memory on
its own disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.errors import TaskError
from fedkin.core.schema import Memory

LIMIT = 2**26  # bytes that one client may keep
_ABSENT = 0
_LIFETIMES = {"run": 1, "assignment": 2}
_PREFIX = "clients/"  # prefix of a column's name in a checkpoint
# Suffix of the array with the lifetime of each client's row (0 if it keeps nothing).
_STATE = ".kept"


def client_name(client: int, names: Sequence[str] | None, ids: Int[np.ndarray, "K"]) -> str:
    """A client's name for messages: its name, or its number if clients have no names.

    Args:
        client: the client's position.
        names: names of all clients, by position.
        ids: numbers of all clients, by position.
    """
    return names[client] if names else str(ids[client])


class ClientMemory:
    """The memory of N clients.

    Args:
        clients: N.
        limit: bytes that each client may keep, over all its arrays.
        ids: client numbers for messages; None for 0 .. N-1.
        names: client names, used instead of the numbers.
    """

    def __init__(
        self,
        clients: int,
        limit: int = LIMIT,
        ids: Int[np.ndarray, "N"] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self._clients = clients
        self._limit = limit
        self._ids = np.arange(clients) if ids is None else ids
        self._names = names
        self._columns: dict[str, np.ndarray] = {}
        self._kept: dict[str, Int[np.ndarray, "N"]] = {}
        self.changes = 0  # how often anything was stored or deleted

    def has(self, name: str, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Whether each client keeps an array called ``name``."""
        kept = self._kept.get(name)
        return np.zeros(len(clients), bool) if kept is None else kept[clients] != _ABSENT

    def read(self, name: str, clients: Int[np.ndarray, "n"], default: np.ndarray) -> np.ndarray:
        """The arrays of ``clients`` [n ...] called ``name``. A client without such an array gets
        its row of ``default`` [n ...]."""
        if name not in self._columns:
            return default
        values = self._columns[name][clients]
        absent = ~self.has(name, clients)
        values[absent] = default[absent]
        return values

    def kept(self, name: str, client: int) -> np.ndarray:
        """A copy of one client's array called ``name``."""
        return np.array(self._columns[name][client])

    def bytes(self) -> Int[np.ndarray, "N"]:
        """Bytes kept by each client, over all its arrays."""
        return self._bytes(list(self._columns), np.arange(self._clients))

    def _bytes(self, names: list[str], clients: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        """Bytes that each of the given clients keeps, over the arrays with the given names."""
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
        """Store an array for each client. It replaces an earlier array of the same name.

        Args:
            task: the task that stores the arrays, for messages.
            name: the array's name.
            memory: the array's declaration.
            clients: the clients' positions, without repeats.
            values: the arrays [n ...].

        Raises:
            TaskError: the type or shape differs from the declared or stored one, values are not
                finite, or the limit is exceeded.
        """
        if not len(clients):
            return
        given = np.asarray(values)
        who = self.who(task, clients[0], name)
        self._check_form(who, name, memory, given)
        with np.errstate(over="ignore"):
            stored = given.astype(memory.dtype, copy=False)
        if stored.dtype.kind == "i" and not np.array_equal(stored, given):
            raise TaskError(f"{who}: a number is too large for {stored.dtype}")
        finite = np.isfinite(stored.reshape(len(stored), -1)).all(axis=1)
        if not finite.all():
            bad = self.who(task, clients[~finite][0], name)
            raise TaskError(
                f"{bad}: expected finite numbers of type {stored.dtype}, got NaN or infinity"
            )
        self._check_limit(task, name, clients, stored[:1].nbytes)
        if name not in self._columns:
            self._columns[name] = np.zeros((self._clients, *stored.shape[1:]), memory.dtype)
            self._kept[name] = np.zeros(self._clients, np.int8)
        self._columns[name][clients] = stored
        self._kept[name][clients] = _LIFETIMES[memory.lifetime]
        self.changes += 1

    def _check_form(self, who: str, name: str, memory: Memory, values: np.ndarray) -> None:
        """Raise TaskError if the type or shape of new client arrays differs from their declaration,
        or from the arrays of the same name that other clients keep."""
        is_numeric = values.dtype.kind in "fiub"
        if not is_numeric or not np.can_cast(values.dtype, memory.dtype, "same_kind"):
            raise TaskError(
                f"{who}: expected the type {np.dtype(memory.dtype)}, got {values.dtype}"
            )
        column = self._columns.get(name)
        shape = values.shape[1:]
        is_same = column is None or column.shape[1:] == shape
        if not _fits(memory.axes.split(), shape) or not is_same:
            kept = "" if column is None else f", as {list(column.shape[1:])} is kept"
            raise TaskError(
                f"{who}: expected the axes [{memory.axes}]{kept}, got the shape {list(shape)}"
            )

    def _check_limit(self, task: str, name: str, clients: Int[np.ndarray, "n"], size: int) -> None:
        """Raise TaskError if a new array of ``size`` bytes would exceed the memory limit of a
        client."""
        other_names = [column for column in self._columns if column != name]
        total = size + self._bytes(other_names, clients)
        if np.max(total) > self._limit:
            bad = self.who(task, clients[np.argmax(total)], name)
            raise TaskError(
                f"{bad}: {size} bytes, or {np.max(total)} with the client's other arrays, is above "
                f"the limit of {self._limit} bytes for a client; store less, such as a part of a "
                "model"
            )

    def who(self, task: str, client: int | np.integer, name: str) -> str:
        """Text that names a task, a client and a memory array, for messages. ``client`` is a
        position."""
        return (
            f"task {task}, client {client_name(int(client), self._names, self._ids)}, memory {name}"
        )

    def forget(self, clients: Int[np.ndarray, "n"], lifetime: str | None = None) -> None:
        """Delete the memory of clients: all arrays, or only those with the given ``lifetime``.
        Clients that leave for good lose all arrays."""
        for name, kept in self._kept.items():
            ended = kept[clients] == _LIFETIMES[lifetime] if lifetime else kept[clients] != _ABSENT
            if ended.any():
                self._columns[name][clients[ended]] = 0
                kept[clients[ended]] = _ABSENT
                self.changes += 1
        # Delete an empty column, so that the name can be used for an array of another shape.
        for name in [name for name, kept in self._kept.items() if not kept.any()]:
            del self._columns[name], self._kept[name]

    def copy(self) -> ClientMemory:
        """A copy of the memory of all clients, independent of the original."""
        other = ClientMemory(self._clients, self._limit, self._ids, self._names)
        other.restore(self.arrays())
        return other

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays, for a checkpoint."""
        states = {_PREFIX + name + _STATE: kept.copy() for name, kept in self._kept.items()}
        return {_PREFIX + name: column.copy() for name, column in self._columns.items()} | states

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore the arrays that ``arrays`` returned; arrays with other names are ignored."""
        names = [
            name.removesuffix(_STATE).removeprefix(_PREFIX)
            for name in arrays
            if name.endswith(_STATE)
        ]
        self._columns = {name: arrays[_PREFIX + name].copy() for name in names}
        self._kept = {name: arrays[_PREFIX + name + _STATE].copy() for name in names}


def _fits(axes: list[str], shape: tuple[int, ...]) -> bool:
    """Whether the shape of a client's array has the declared axes. Axes that are numbers must match
    in size."""
    return len(axes) == len(shape) and all(
        not axis.isdigit() or int(axis) == size for axis, size in zip(axes, shape, strict=True)
    )


class OwnMemory:
    """The memory of one client, as its task sees it: a dictionary that can hold the arrays that the
    task declares.

    Args:
        memory: the memory of all clients.
        client: the client's position.
        task: the task's name, for messages.
        declared: the memory arrays that the task declares, by name.
    """

    def __init__(
        self, memory: ClientMemory, client: int, task: str, declared: Mapping[str, Memory]
    ) -> None:
        self._memory = memory
        self._client = np.array([client])
        self._task = task
        self._declared = declared

    def __contains__(self, name: str) -> bool:
        self._check(name)
        return bool(self._memory.has(name, self._client)[0])

    def get(self, name: str, default: Any = None) -> Any:
        """The stored array called ``name``; ``default`` if there is none."""
        return self[name] if name in self else default

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self:
            raise TaskError(
                f"{self._who(name)}: no array is stored yet; check with `in` first, or use `get` "
                "with a default"
            )
        return self._memory.kept(name, int(self._client[0]))

    def __setitem__(self, name: str, value: Any) -> None:
        self._check(name)
        self._memory.write(
            task=self._task,
            name=name,
            memory=self._declared[name],
            clients=self._client,
            values=np.asarray(value)[None],
        )

    def _check(self, name: str) -> None:
        """Raise TaskError for the name of a memory array that the task does not declare."""
        if name not in self._declared:
            declared = ", ".join(self._declared) or "nothing"
            raise TaskError(
                f"{self._who(name)}: the task's `memory` does not declare it; it declares "
                f"{declared}"
            )

    def _who(self, name: str) -> str:
        """Text that names the task, the client and one of its arrays, for messages."""
        return self._memory.who(self._task, self._client[0], name)
