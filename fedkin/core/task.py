"""Client work as a value. A task says what the server sends to a client, what the client computes,
and what it replies.

A task is a frozen dataclass, and ``World.run`` runs it on any clients, simulated or real. Its
fields are sent down, each as declared (``shared``, ``chosen``, ``each``, ``kept``, ``initial``,
``stays``; any other field is a plain setting). ``up`` is the schema of the reply: ``Rows`` if the
server receives each client's values, ``Sums`` if it receives only sums over clients. Shapes: n rows
of a call, K models, P parameters, C classes, d numbers of a sample.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.errors import ModelError, TaskError
from fedkin.core.model_spec import BYTES_PER_NUMBER, ModelSpec
from fedkin.core.schema import INDEX, Memory, Rows
from fedkin.core.task_registry import register
from fedkin.core.training import LocalTraining


class Down(NamedTuple):
    """How a field is sent down."""

    kind: Literal["shared", "chosen", "each", "kept", "initial", "setting", "stays"] = "setting"
    axes: str = ""
    by: str = ""  # the field that holds each row's index


def _field(down: Down, **default: Any) -> Any:
    return dataclasses.field(metadata={"down": down}, **default)


def shared(axes: str, **default: Any) -> Any:
    """A field whose whole array is sent to every client."""
    return _field(Down("shared", axes), **default)


def chosen(axes: str, by: str = INDEX, **default: Any) -> Any:
    """A field of models. A client receives the models that its rows index in the field ``by``; if
    that is None, all of them."""
    return _field(Down("chosen", axes, by), **default)


def each(**default: Any) -> Any:
    """A field with an entry for each row, or None."""
    return _field(Down("each"), **default)


def kept(axes: str, **default: Any) -> Any:
    """A field whose array a client receives once and keeps. Its bytes are counted only for the task
    that announces it."""
    return _field(Down("kept", axes), **default)


def initial(axes: str = "P", **default: Any) -> Any:
    """A field with the run's initial model, which clients generate from the seed: no bytes are
    counted."""
    return _field(Down("initial", axes), **default)


def setting(**default: Any) -> Any:
    """A field with a plain value, or with the settings of local training."""
    return _field(Down(), **default)


def stays(**default: Any) -> Any:
    """A field that stays on the server."""
    return _field(Down("stays"), **default)


@dataclass(frozen=True)
class Task:
    """Base of all client work. A subclass is a frozen dataclass with ``up`` and ``compute``."""

    # Its name in messages and on the ledger; by default the class's name in lower case with _.
    name: ClassVar[str] = ""
    # The reply's schema; a property where it depends on the fields.
    up: ClassVar[Any] = Rows()
    # The arrays that it reads or stores on the client.
    memory: ClassVar[Mapping[str, Memory]] = {}
    # How a real client gets it. ``asked``: now, in a separate message. ``next``: with the next
    # message, since no reply is needed. ``announced``: its kept arrays are sent with the first
    # message that needs them.
    delivery: ClassVar[Literal["asked", "next", "announced"]] = "asked"
    # Header entry by which a server lets clients answer it in every reply.
    standing: ClassVar[str] = ""
    # Arrays of standing tasks that count as missing after this task.
    resets: ClassVar[tuple[str, ...]] = ()
    # Whether it is for models that detect one class (True), for other models (False), or both
    # (None).
    detectors: ClassVar[bool | None] = False
    # Whether row i is a message from client i to another client, which no server can run.
    between_peers: ClassVar[bool] = False
    # How it is made private. ``sum``: clipped sums by model with noise, once in a round.
    # ``unit_sum``: sums by model of vectors of norm at most 1 with noise, before the first round.
    # ``choice``: the client chooses among released values, and the server does not release the
    # choice. ``not``: not at all.
    charged: ClassVar[str] = "not"

    # The next three have no annotations, since a subclass may have fields of these names.

    # Whether models stay on their device, so that nothing is sent.
    local = cast(Any, False)
    # Whether a simulated client may fail to reply.
    can_be_lost = cast(Any, True)
    # Local training, which a straggler may not complete.
    work = cast(Any, None)

    def compute(self, client: Client) -> dict[str, Any]:
        """The reply of one client: its arrays without the row axis. Fields by row have one entry
        here."""
        raise NotImplementedError(f"{type(self).__name__} has no compute(client)")

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        """The replies of all rows in portions: row indices, and their arrays. The default computes
        one client after another; a task may have a faster form."""
        return rows.one_by_one(self)

    def check(self, model: str, spec: ModelSpec, classes: int) -> None:
        """Raise ModelError for a model for which the task is not defined.

        Args:
            model: the model's name.
            spec: its spec.
            classes: C.
        """
        if self.detectors is not None and spec.detects != self.detectors:
            expected = "a detector" if self.detectors else "a model with a score for every class"
            raise ModelError(
                f"model {model!r} does not support the task {self.name}, which needs {expected}"
            )

    def check_reply(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise TaskError for a reply that fits the schema but cannot be true."""

    def sizes(self) -> dict[str, int]:
        """Sizes by name, from the arrays that are sent down. Raises TaskError if two disagree."""
        sizes: dict[str, int] = {}
        for field, down in fields_down(self):
            value = getattr(self, field)
            if not down.axes or value is None:
                continue
            axes = down.axes.split()
            if not isinstance(value, np.ndarray) or value.ndim != len(axes):
                raise TaskError(
                    f"task {self.name}: {field} must have the axes [{down.axes}], got "
                    f"{np.shape(value)}"
                )
            for axis, size in zip(axes, np.shape(value), strict=True):
                if sizes.setdefault(axis, size) != size:
                    raise TaskError(
                        f"task {self.name}: {field} has {axis} = {size}, and another field "
                        f"{sizes[axis]}"
                    )
        return sizes

    def select(self, rows: Int[np.ndarray, "r"]) -> Task:
        """The task restricted to some rows."""
        selected: dict[str, Any] = {}
        for field, down in fields_down(self):
            value = getattr(self, field)
            if down.kind == "each" and value is not None:
                selected[field] = value[rows]
            elif isinstance(value, LocalTraining):
                selected[field] = value.select(rows)
        return dataclasses.replace(self, **selected)

    def single(self) -> Task | None:
        """The same work with each client's reply instead of sums; None if there is no such form."""
        return None

    def for_messages(self, spec: ModelSpec) -> Task:
        """The form sent to real clients, which may request more in the same message."""
        return self

    def norm_group(self) -> str:
        """Name of a group of tasks whose vectors have comparable norms."""
        return self.name

    def start_norms(self) -> Float[np.ndarray, "K"] | None:
        """Norms of the models that clients train, if their replies are updates of these; None for
        other work."""
        models = getattr(self, "models", None)
        if not isinstance(models, np.ndarray) or models.ndim != 2:
            return None
        return np.linalg.norm(models, axis=1)

    def training(self, reply: Any) -> Any:
        """The reply seen as a training of whole models, for the metrics of a round; None for other
        work."""
        return None

    def stored_models(self, reply: Any) -> dict[str, np.ndarray]:
        """Models that a real client, alone on its device, stores for later use."""
        return {}

    def __init_subclass__(cls) -> None:
        if not cls.__dict__.get("name"):
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        register(cls, set(dir(Task)))


def fields_down(task: Task | type[Task]) -> tuple[tuple[str, Down], ...]:
    """Names of a task's fields, and how each is sent down. Raises TaskError for a class that is not
    a dataclass."""
    return _fields_of(task if isinstance(task, type) else type(task))


@cache
def _fields_of(kind: type[Task]) -> tuple[tuple[str, Down], ...]:
    if "__dataclass_fields__" not in kind.__dict__ and inspect.get_annotations(kind):
        raise TaskError(
            f"task {kind.name}: put @dataclass(frozen=True) above the class, which has fields"
        )
    return tuple(
        (field.name, field.metadata.get("down", Down())) for field in dataclasses.fields(kind)
    )


def call_clients(task: Task, clients: Int[np.ndarray, "n"], total: int) -> Int[np.ndarray, "n"]:
    """The client ids of a call's rows, as integers.

    Args:
        task: the call's task.
        clients: ids, one per row.
        total: N.

    Raises:
        TaskError: an unknown client; two rows of one client if the task has memory.
    """
    clients = np.asarray(clients, np.int64)
    if clients.size and not 0 <= clients.min() <= clients.max() < total:
        raise TaskError(f"task {task.name}: clients must be from 0 to {total - 1}, got {clients}")
    if task.memory and len(np.unique(clients)) < len(clients):
        names = " and one ".join(task.memory)
        raise TaskError(f"task {task.name}: a client has one row only, as it keeps one {names}")
    return clients


def call_sizes(task: Task, rows: int, known: Mapping[str, int]) -> dict[str, int]:
    """The sizes of a call by name: those known to the world, and the task's.

    Args:
        task: the call's task.
        rows: n.
        known: sizes known to the world.

    Raises:
        TaskError: an array has another size, does not have one entry for each row, or indexes a
            model that is not sent.
    """
    sizes = task.sizes()
    for field, down in fields_down(task):
        value = getattr(task, field)
        for axis in down.axes.split() if value is not None else ():
            if sizes[axis] != known.get(axis, sizes[axis]):
                raise TaskError(
                    f"task {task.name}: {field} has {axis} = {sizes[axis]}, expected {known[axis]}"
                )
        if down.kind == "each" and value is not None:
            _check_entries(task, field, value, rows)
        if down.kind == "chosen" and getattr(task, down.by) is not None:
            _check_index(task, field, down)
    return {**known, **sizes}


def _check_entries(task: Task, field: str, value: Any, rows: int) -> None:
    """Raise TaskError for a field by row that does not have one entry for each row."""
    if not isinstance(value, np.ndarray):
        raise TaskError(
            f"task {task.name}: {field} must be an array with an entry for each row, got {value!r}"
        )
    if np.shape(value)[:1] != (rows,):
        entries = len(value) if value.ndim else "no"
        raise TaskError(
            f"task {task.name}: {field} has {entries} entries, and the call {rows} rows"
        )


def _check_index(task: Task, field: str, down: Down) -> None:
    """Raise TaskError for an index out of the sent models, and for replies by model with a model
    that no client has."""
    count = len(getattr(task, field))
    index = np.asarray(getattr(task, down.by))
    # A row with several models may index fewer of them: -1 stands for none.
    low = 0 if index.ndim == 1 else -1
    if index.size and not low <= index.min() <= index.max() < count:
        none = "" if low == 0 else ", or -1 for none"
        raise TaskError(
            f"task {task.name}: {down.by} must be from 0 to {count - 1}, as there are so many "
            f"{field}{none}; got {index.min()} to {index.max()}"
        )
    for name, array in task.up.of("row").items():
        if down.axes.split()[0] in array.axes.split():
            raise TaskError(
                f"task {task.name}: {name} has an entry for each of the {field}, of which a "
                f"client receives its own only; let {field} be shared({down.axes!r})"
            )


def traffic(
    task: Task,
    clients: Int[np.ndarray, "n"],
    answered: Bool[np.ndarray, "n"],
    sizes: Mapping[str, int],
) -> tuple[int, int] | None:
    """Bytes (downloaded, uploaded) of a call, from the task's declarations; None for a task without
    counted traffic.

    Every number counts as 4 bytes, the size in which models and updates are sent. A client with
    several rows of one model receives the model once.

    Args:
        task: the call's task.
        clients: client of each row.
        answered: rows whose client replied.
        sizes: by name.
    """
    counted_down = ("shared", "chosen")
    if task.delivery == "announced":
        counted_down = ("shared", "chosen", "kept")
    down = 0
    counted = False
    for field, how in fields_down(task):
        value = getattr(task, field)
        if value is None:
            continue
        if how.kind in counted_down:
            down += _copies(task, how, value, clients) * BYTES_PER_NUMBER
            counted = True
    arrays = [array for array in task.up.arrays.values() if array.counted]
    row_bytes = sum(int(np.prod(array.shape(sizes))) * BYTES_PER_NUMBER for array in arrays)
    if task.local or not (counted or arrays):
        return None
    up = int(answered.sum()) * row_bytes if row_bytes else 0
    return (up, up) if task.between_peers else (down, up)


def _copies(task: Task, how: Down, value: np.ndarray, clients: Int[np.ndarray, "n"]) -> int:
    """How many numbers of a field are sent to all clients of a call."""
    index = getattr(task, how.by) if how.kind == "chosen" else None
    # Most calls have ascending clients, which need no search for duplicates.
    distinct = bool((clients[1:] > clients[:-1]).all())
    if index is None:
        return value.size * (len(clients) if distinct else len(np.unique(clients)))
    if distinct and index.ndim == 1:
        return len(clients) * value[:1].size
    row, *_ = np.nonzero(index >= 0)
    pairs = np.unique(clients[row].astype(np.int64) * len(value) + index[index >= 0])
    return len(pairs) * value[:1].size
