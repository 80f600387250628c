"""Tasks: descriptions of client work. A task declares the data that the server sends to a client,
the client's computation, and its reply.

A task is a frozen dataclass, and ``World.run`` runs it on simulated or real clients. Its fields are
sent to clients, each as declared (``shared``, ``chosen``, ``each``, ``kept``, ``initial``,
``stays``). Any other field is a plain setting. ``up`` is the schema of the reply: ``Rows`` if the
server receives each client's values, ``Sums`` if it receives only sums over clients. Shapes: n rows
of a call of ``World.run`` (each row is a client that does the task), K models, P parameters, C
classes, d numbers of a sample.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
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
    """How a task's field is sent to clients. The functions below explain each kind."""

    kind: Literal["shared", "chosen", "each", "kept", "initial", "setting", "stays"] = "setting"
    axes: str = ""
    by: str = ""  # the field that holds each row's index


def _field(down: Down, **default: Any) -> Any:
    """A dataclass field of a task whose metadata say how it is sent to clients."""
    return dataclasses.field(metadata={"down": down}, **default)


def shared(axes: str, **default: Any) -> Any:
    """Declare a field whose whole array is sent to every client."""
    return _field(Down("shared", axes), **default)


def chosen(axes: str, by: str = INDEX, **default: Any) -> Any:
    """Declare a field of models. The field ``by`` holds the model index of each row (a client that
    does the task once), and a client receives the models that its rows index. If the field ``by``
    is None, the client receives all models."""
    return _field(Down("chosen", axes, by), **default)


def each(**default: Any) -> Any:
    """Declare a field with an entry for each row (a client that does the task once), or None. A
    client receives the entries of its rows."""
    return _field(Down("each"), **default)


def kept(axes: str, **default: Any) -> Any:
    """Declare a field whose array a client receives once and keeps. Its bytes are counted once, for
    the task that announces the array to clients (a task with ``delivery = "announced"``)."""
    return _field(Down("kept", axes), **default)


def initial(axes: str = "P", **default: Any) -> Any:
    """Declare a field with the run's initial model. Clients generate it from the seed, so no bytes
    are counted."""
    return _field(Down("initial", axes), **default)


def setting(**default: Any) -> Any:
    """Declare a field with a plain value, or with the settings of local training."""
    return _field(Down(), **default)


def stays(**default: Any) -> Any:
    """Declare a field that stays on the server."""
    return _field(Down("stays"), **default)


@dataclass(frozen=True)
class Task:
    """Base of all client work. A subclass is a frozen dataclass with the reply's schema ``up`` and
    the function ``compute``."""

    # Its name in messages and on the ledger; by default the class's name in lower case with _.
    name: ClassVar[str] = ""
    # The reply's schema; a property where it depends on the fields.
    up: ClassVar[Any] = Rows()
    # The arrays that the task reads or stores on the client.
    memory: ClassVar[Mapping[str, Memory]] = {}
    # How a real client receives the task. ``asked``: at once, in a separate message. ``next``: with
    # the next message, since no reply is needed. ``announced``: its kept arrays are sent with the
    # first message that needs them.
    delivery: ClassVar[Literal["asked", "next", "announced"]] = "asked"
    # Header entry by which a server requests this task's answer in every reply; empty: never.
    standing: ClassVar[str] = ""
    # Arrays of standing tasks whose latest values this task makes invalid, so that they are missing
    # until the next reply.
    resets: ClassVar[tuple[str, ...]] = ()
    # Whether the task is for detectors of one class (True), for other models (False), or for both
    # (None).
    detectors: ClassVar[bool | None] = False
    # Whether row i is a message from client i to another client, which no server can run.
    between_peers: ClassVar[bool] = False
    # How differential privacy protects the reply. ``sum``: clipped sums by model with noise, once
    # in a round. ``unit_sum``: sums by model of vectors of norm at most 1 with noise, before the
    # first round. ``choice``: the client chooses among released values, and the server does not
    # release the choice. ``not``: the reply is not protected.
    charged: ClassVar[str] = "not"

    # The next three attributes have no annotations, since a subclass may have fields of these
    # names.

    # Whether models stay on their device, so that nothing is sent.
    local = cast(Any, False)
    # Whether a simulated client may fail to reply.
    can_be_lost = cast(Any, True)
    # Local training, which a straggler may not complete.
    work = cast(Any, None)

    def compute(self, client: Client) -> dict[str, Any]:
        """The reply of one client: its arrays without the row axis. The task's fields with an entry
        for each client have only this client's entry."""
        raise NotImplementedError(f"{type(self).__name__} has no compute(client)")

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield the replies of all rows (clients that do the task) in portions: the indices of the
        portion's rows, and the arrays of their replies. The default computes one client after
        another; a task may override it with a faster form."""
        return rows.one_by_one(self)

    def check(self, model: str, spec: ModelSpec, classes: int) -> None:
        """Raise ModelError if the task is not defined for a model.

        Args:
            model: the model's name.
            spec: the model's spec.
            classes: C, the number of classes.
        """
        if self.detectors is not None and spec.detects != self.detectors:
            expected = "a detector" if self.detectors else "a model with a score for every class"
            raise ModelError(
                f"model {model!r} does not support the task {self.name}, which needs {expected}"
            )

    def check_labels(self, task_type: Any) -> None:
        """Raise MethodError if the task does not work with labels of a task type (``TaskType``)."""
        return

    def check_reply(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise TaskError for a reply that fits the schema but has impossible values."""

    def check_sums(self, arrays: Mapping[str, np.ndarray], counted: Sequence[int]) -> None:
        """Raise TaskError for sums of scores that count more samples than there are.

        Args:
            arrays: a reply that fits the schema.
            counted: positions of the sums that count samples (``TaskType.counted``).
        """

    def sizes(self) -> dict[str, int]:
        """Sizes of the axes by name, from the arrays in the task's fields. Raises TaskError if two
        arrays disagree."""
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
                        f"task {self.name}: {field} has {axis} = {size}, but another field has "
                        f"{sizes[axis]}"
                    )
        return sizes

    def select(self, rows: Int[np.ndarray, "r"]) -> Task:
        """The task restricted to the rows (clients) with the given indices."""
        selected: dict[str, Any] = {}
        for field, down in fields_down(self):
            value = getattr(self, field)
            if down.kind == "each" and value is not None:
                selected[field] = value[rows]
            elif isinstance(value, LocalTraining):
                selected[field] = value.select(rows)
        return dataclasses.replace(self, **selected)

    def single(self) -> Task | None:
        """The task that does the same work and returns each client's reply instead of sums. None if
        there is no such task."""
        return None

    def for_messages(self, spec: ModelSpec) -> Task:
        """The form of the task that is sent to real clients. It may also request work that would
        otherwise need another message (e.g. an evaluation before the training)."""
        return self

    def norm_group(self) -> str:
        """Name of a group of tasks whose vectors have comparable norms. The server compares norms
        within a group to find outliers."""
        return self.name

    def start_norms(self) -> Float[np.ndarray, "K"] | None:
        """Norms of the models from which clients train, if the replies are updates of these models.
        None for other work."""
        models = getattr(self, "models", None)
        if not isinstance(models, np.ndarray) or models.ndim != 2:
            return None
        return np.linalg.norm(models, axis=1)

    def training(self, reply: Any) -> Any:
        """The part of the task's reply that describes local training of whole models, for the
        metrics of a round. None if the task does not train."""
        return None

    def stored_models(self, reply: Any) -> dict[str, np.ndarray]:
        """Models in the task's reply that a real client also stores on its own device, by name."""
        return {}

    def __init_subclass__(cls) -> None:
        if not cls.__dict__.get("name"):
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        register(cls, set(dir(Task)))


def fields_down(task: Task | type[Task]) -> tuple[tuple[str, Down], ...]:
    """The names of a task's fields, and how each is sent to clients. Raises TaskError for a class
    that is not a dataclass."""
    return _fields_of(task if isinstance(task, type) else type(task))


@cache
def _fields_of(kind: type[Task]) -> tuple[tuple[str, Down], ...]:
    """The names of a task class's fields, and how each is sent to clients (``fields_down``). The
    result is cached, since every run of a task needs it."""
    if "__dataclass_fields__" not in kind.__dict__ and inspect.get_annotations(kind):
        raise TaskError(
            f"task {kind.name}: put @dataclass(frozen=True) above the class, which has fields"
        )
    return tuple(
        (field.name, field.metadata.get("down", Down())) for field in dataclasses.fields(kind)
    )


def call_clients(task: Task, clients: Int[np.ndarray, "n"], total: int) -> Int[np.ndarray, "n"]:
    """Check the ids of the clients that are to do a task, and convert them to integers.

    Args:
        task: the task.
        clients: client ids; a client that does the task several times is given several times.
        total: N, the number of clients.

    Raises:
        TaskError: a client is unknown, or is given twice although the task has memory.
    """
    clients = np.asarray(clients, np.int64)
    if clients.size and not 0 <= clients.min() <= clients.max() < total:
        raise TaskError(f"task {task.name}: clients must be from 0 to {total - 1}, got {clients}")
    if task.memory and len(np.unique(clients)) < len(clients):
        names = " and ".join(task.memory)
        raise TaskError(
            f"task {task.name}: a client may be given only once, because the task keeps {names} in "
            "the client's memory; leave out repeated clients"
        )
    return clients


def call_sizes(task: Task, rows: int, known: Mapping[str, int]) -> dict[str, int]:
    """The sizes of all axes of a task's arrays, by name: the sizes that the world knows, and the
    sizes in the task's fields.

    Args:
        task: the task.
        rows: n, the number of rows (clients that do the task).
        known: sizes that the world knows, by name.

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
    """Raise TaskError unless a task's field with an entry for each row has as many entries as there
    are rows (clients that do the task)."""
    if not isinstance(value, np.ndarray):
        raise TaskError(
            f"task {task.name}: {field} must be an array with an entry for each client, got "
            f"{value!r}"
        )
    if np.shape(value)[:1] != (rows,):
        entries = len(value) if value.ndim else "no"
        raise TaskError(
            f"task {task.name}: {field} has {entries} entries, but world.run got {rows} clients; "
            "give one entry for each client"
        )


def _check_index(task: Task, field: str, down: Down) -> None:
    """Check a field declared with ``chosen``, of which a client receives only the models that its
    index names. Raise TaskError if an index is out of range, or if the reply has an entry for each
    model: a client that has only some of the models cannot give such a reply."""
    count = len(getattr(task, field))
    index = np.asarray(getattr(task, down.by))
    # A row with several models may index fewer of them: -1 stands for none.
    low = 0 if index.ndim == 1 else -1
    if index.size and not low <= index.min() <= index.max() < count:
        none = "" if low == 0 else ", or -1 for none"
        raise TaskError(
            f"task {task.name}: {down.by} must be from 0 to {count - 1}, the last index of "
            f"{field}{none}; got {index.min()} to {index.max()}"
        )
    for name, array in task.up.of("row").items():
        if down.axes.split()[0] in array.axes.split():
            raise TaskError(
                f"task {task.name}: {name} has an entry for each of the {field}, but a client "
                f"receives only the {field} that it indexes; declare {field} as "
                f"shared({down.axes!r})"
            )


def traffic(
    task: Task,
    clients: Int[np.ndarray, "n"],
    answered: Bool[np.ndarray, "n"],
    sizes: Mapping[str, int],
) -> tuple[int, int] | None:
    """Bytes (downloaded, uploaded) when clients do a task, from the task's declarations; None for a
    task without counted traffic.

    Every number counts as 4 bytes, the size in which models and updates are sent. A client that
    uses a model in several rows (repetitions of the task) receives it once.

    Args:
        task: the task.
        clients: the client of each row (a client that does the task once).
        answered: mask of the rows with a reply.
        sizes: sizes of the axes, by name.
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
    # Between peers, the reply that one peer uploads is what another one downloads.
    return (up, up) if task.between_peers else (down, up)


def _copies(task: Task, how: Down, value: np.ndarray, clients: Int[np.ndarray, "n"]) -> int:
    """How many numbers are sent for one field of a task, over all clients that do the task."""
    index = getattr(task, how.by) if how.kind == "chosen" else None
    # Most calls have strictly ascending clients, so no search for duplicates is needed.
    distinct = bool((clients[1:] > clients[:-1]).all())
    if index is None:
        return value.size * (len(clients) if distinct else len(np.unique(clients)))
    if distinct and index.ndim == 1:
        return len(clients) * value[:1].size
    row, *_ = np.nonzero(index >= 0)
    # A client receives a model once, even if several of its rows use it. Each pair of a client and
    # a model is counted once, by a number that identifies the pair.
    pairs = np.unique(clients[row].astype(np.int64) * len(value) + index[index >= 0])
    return len(pairs) * value[:1].size
