"""Client work as a value: a task is what travels down to a client, what the client computes, and what travels up.

A task is a frozen dataclass, and ``World.run`` runs it on any clients, simulated or real. Its fields travel down,
each as its declaration says (``shared``, ``chosen``, ``each``, ``kept``, ``initial``, ``stays``; any other field is a
plain setting). ``up`` is the schema of the reply: ``Rows`` where each client's own numbers reach the server, ``Sums``
where only sums over clients do. Shapes: n rows of a call, K models, P parameters, C classes, d numbers of a sample.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.errors import ModelError, TaskError
from fedkin.core.layout import BYTES_PER_NUMBER, ModelSpec
from fedkin.core.schema import INDEX, Memory, Rows, Schema
from fedkin.core.training import LocalTraining


class Down(NamedTuple):
    """How a field travels down."""

    kind: Literal["shared", "chosen", "each", "kept", "initial", "setting", "stays"] = "setting"
    axes: str = ""
    by: str = ""  # the field that has each row's index


def _field(down: Down, **default: Any) -> Any:
    return dataclasses.field(metadata={"down": down}, **default)


def shared(axes: str, **default: Any) -> Any:
    """A field whose array every client receives whole."""
    return _field(Down("shared", axes), **default)


def chosen(axes: str, by: str = INDEX, **default: Any) -> Any:
    """A field of models of which a client receives those that its rows name in the field ``by``; where that is None,
    all of them."""
    return _field(Down("chosen", axes, by), **default)


def each(**default: Any) -> Any:
    """A field with an entry for each row, or None."""
    return _field(Down("each"), **default)


def kept(axes: str, **default: Any) -> Any:
    """A field whose array a client receives once, and keeps; only the task that announces it counts its bytes."""
    return _field(Down("kept", axes), **default)


def initial(axes: str = "P", **default: Any) -> Any:
    """A field that holds the run's initial model, which clients make from the seed: no bytes are counted."""
    return _field(Down("initial", axes), **default)


def setting(**default: Any) -> Any:
    """A field of a plain value, or of the settings of local training."""
    return _field(Down(), **default)


def stays(**default: Any) -> Any:
    """A field that is the server's own business."""
    return _field(Down("stays"), **default)


@dataclass(frozen=True)
class Task:
    """Base of all client work. A subclass is a frozen dataclass with ``up`` and ``compute``."""

    name: ClassVar[str] = ""  # in messages and on the ledger; by default the class's own, in lower case with _
    up: ClassVar[Any] = Rows()  # the reply's schema; a property where it depends on the fields
    memory: ClassVar[Mapping[str, Memory]] = {}  # what it reads or stores on the client
    delivery: ClassVar[Literal["asked", "next", "announced"]] = "asked"
    """When a real client gets it: now, in a message of its own; with the ``next`` message, as it asks for no reply; or
    ``announced``: its kept arrays travel with the first message that needs them."""
    standing: ClassVar[str] = ""  # header entry under which a server lets clients answer it in every reply
    resets: ClassVar[tuple[str, ...]] = ()  # arrays of standing tasks that are as if missing once it is done
    detectors: ClassVar[bool | None] = False  # for models that detect one class (True), for others, or both (None)
    between_peers: ClassVar[bool] = False  # row i is a message from client i to another: no server can run it
    charged: ClassVar[str] = "not"  # how it is made private, and so charged under a privacy budget
    # without types, as a subclass may have fields of these names
    local = cast(Any, False)  # whether models stay on the device that has them: nothing travels
    can_be_lost = cast(Any, True)  # whether a simulated client may fail to reply
    work = cast(Any, None)  # local training, which takes a straggler's time

    def compute(self, client: Client) -> dict[str, Any]:
        """The reply of one client: its arrays, without the row's axis. Fields by row have one entry here."""
        raise NotImplementedError(f"{type(self).__name__} has no compute(client)")

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Portions of the replies of all rows: indices of some rows, and their arrays. One client after another here;
        a task may have a faster form."""
        return rows.one_by_one(self)

    def check(self, model: str, spec: ModelSpec, classes: int) -> None:
        """Refuse (ModelError) a model that it is not defined for.

        Args:
            model: the model's name.
            spec: its layout.
            classes: C.
        """
        if self.detectors is not None and spec.detects != self.detectors:
            expected = "a detector" if self.detectors else "a model with a score for every class"
            raise ModelError(f"model {model!r} does not support the task {self.name}, which needs {expected}")

    def check_reply(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Refuse (TaskError) a reply that fits the schema and cannot be true all the same."""

    def sizes(self) -> dict[str, int]:
        """Sizes by name, from the arrays that travel down. Raises TaskError where two disagree."""
        sizes: dict[str, int] = {}
        for field, down in fields_down(self):
            value = getattr(self, field)
            if not down.axes or value is None:
                continue
            axes = down.axes.split()
            if np.ndim(value) != len(axes):
                raise TaskError(f"task {self.name}: {field} must have the axes [{down.axes}], got {np.shape(value)}")
            for axis, size in zip(axes, np.shape(value), strict=True):
                if sizes.setdefault(axis, size) != size:
                    raise TaskError(f"task {self.name}: {field} has {axis} = {size}, and another field {sizes[axis]}")
        return sizes

    def select(self, rows: Int[np.ndarray, "r"]) -> Task:
        """The same work for some of the rows."""
        own: dict[str, Any] = {}
        for field, down in fields_down(self):
            value = getattr(self, field)
            if down.kind == "each" and value is not None:
                own[field] = value[rows]
            elif isinstance(value, LocalTraining):
                own[field] = value.select(rows)
        return dataclasses.replace(self, **own)

    def single(self) -> Task | None:
        """The same work with each client's own reply in place of sums; None where there is no such form."""
        return None

    def for_messages(self, spec: ModelSpec) -> Task:
        """The form in which real clients get it: they may be asked for more in the same message."""
        return self

    def norm_group(self) -> str:
        """Vectors of one group have comparable norms."""
        return self.name

    def stored_models(self, reply: Any) -> dict[str, np.ndarray]:
        """Models that a real client, alone on its device, stores for its own use."""
        return {}

    def __init_subclass__(cls) -> None:
        if not cls.__dict__.get("name"):
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        other = _KINDS.get(cls.name)
        if other and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TaskError(f"two tasks are called {cls.name!r}: {other.__module__} and {cls.__module__}; rename one")
        if isinstance(cls.up, Schema):
            check_names(cls.name, cls.up)
        for name, memory in cls.memory.items():
            if _MEMORY.setdefault(name, memory) != memory:
                raise TaskError(f"task {cls.name}: another task keeps a different {name} on clients; rename it")
        _KINDS[cls.name] = cls


RESERVED = {"arrays", "arrived", "faults", "nonfinite", "weight"}  # in every reply
RESERVED |= {"clients", "moved", "trained_models"}  # in messages
_KINDS: dict[str, type[Task]] = {}  # every class of task that was defined
_MEMORY: dict[str, Memory] = {}  # what any of them keeps on clients


def check_names(task: str, schema: Schema) -> None:
    """Refuse (TaskError) arrays of a reply with names that have a meaning already."""
    if clash := RESERVED & schema.arrays.keys():
        raise TaskError(f"task {task}: a reply has {', '.join(sorted(clash))} already; choose another name")


def find_task(name: str) -> type[Task] | None:
    """The class of task with this name, of those that have been defined: a name never imports anything."""
    return _KINDS.get(name)


def all_tasks() -> list[type[Task]]:
    """Every class of task that has been defined, by name."""
    return [_KINDS[name] for name in sorted(_KINDS)]


def fields_down(task: Task | type[Task]) -> Iterator[tuple[str, Down]]:
    """Names of a task's fields, and how each travels down."""
    for field in dataclasses.fields(task):
        yield field.name, field.metadata.get("down", Down())


def call_sizes(task: Task, rows: int, known: Mapping[str, int]) -> dict[str, int]:
    """The sizes of a call by name: those that the world knows, and the task's own.

    Args:
        task: the call's.
        rows: n.
        known: what the world knows.

    Raises:
        TaskError: an array has another size, or has not one entry for each row, or names a model that is not sent.
    """
    own = task.sizes()
    for field, down in fields_down(task):
        value = getattr(task, field)
        for axis in down.axes.split() if value is not None else ():
            if own[axis] != known.get(axis, own[axis]):
                raise TaskError(f"task {task.name}: {field} has {axis} = {own[axis]}, expected {known[axis]}")
        if down.kind == "each" and value is not None and len(value) != rows:
            raise TaskError(f"task {task.name}: {field} has {len(value)} entries, and the call {rows} rows")
        if down.kind == "chosen":
            _check_index(task, field, down.by)
    return {**known, **own}


def _check_index(task: Task, field: str, by: str) -> None:
    """Refuse (TaskError) an index of models that are not there."""
    count, index = len(getattr(task, field)), getattr(task, by)
    if index is not None and np.size(index) and not -1 <= np.min(index) <= np.max(index) < count:
        raise TaskError(
            f"task {task.name}: {by} must be from 0 to {count - 1}, as there are so many {field}, or -1 for none; got "
            f"{np.min(index)} to {np.max(index)}"
        )


def traffic(
    task: Task, clients: Int[np.ndarray, "n"], answered: Bool[np.ndarray, "n"], sizes: Mapping[str, int]
) -> tuple[int, int] | None:
    """Bytes (downloaded, uploaded) of a call, from the task's declarations; None of a task that nothing is counted of.

    Floating-point numbers travel as float32. A client with several rows of one model receives it once.

    Args:
        task: the call's.
        clients: of its rows.
        answered: rows whose client replied.
        sizes: by name.
    """
    down, counted = 0, False
    for field, how in fields_down(task):
        value = getattr(task, field)
        if value is None:
            continue
        if how.kind in ("shared", "chosen") or (how.kind == "kept" and task.delivery == "announced"):
            down, counted = down + _copies(task, how, value, clients) * BYTES_PER_NUMBER, True
    arrays = [array for array in task.up.arrays.values() if array.counted]
    each_row = sum(int(np.prod(array.shape(sizes))) * BYTES_PER_NUMBER for array in arrays)
    if task.local or not (counted or arrays):
        return None
    up = int(answered.sum()) * each_row
    return (up, up) if task.between_peers else (down, up)


def _copies(task: Task, how: Down, value: np.ndarray, clients: Int[np.ndarray, "n"]) -> int:
    """How many numbers of a field travel down, to all clients of a call."""
    index = getattr(task, how.by) if how.kind == "chosen" else None
    if index is None:
        return value.size * len(np.unique(clients))
    row, *_ = np.nonzero(index >= 0)
    pairs = np.unique(clients[row].astype(np.int64) * len(value) + index[index >= 0])
    return len(pairs) * value[:1].size
