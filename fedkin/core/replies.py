"""Assembles the reply to a task from its clients' replies and checks it against the task's schema.

All numbers from clients pass through this module. Shapes: n rows of a call of ``World.run`` (each
row is a client that does the task, with its entries in the task's arrays), r rows of a portion (a
group of rows that are computed at once), K models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import WeightedSum
from fedkin.core.errors import TaskError
from fedkin.core.schema import INDEX, WEIGHT, Array
from fedkin.core.task import Task
from fedkin.core.task_registry import check_names


@dataclass(frozen=True)
class Reply:
    """The result of a task. Its arrays are also attributes, such as ``reply.cosine``.

    Attributes:
        arrays: the arrays of the task's schema, by name. An array has an entry for each row (a
            client that does the task) [n ...] or each model [K ...], or is a sum over all clients.
        arrived: rows with a valid reply.
        nonfinite: rows with a reply that is excluded: it is not finite, out of bounds, or does not
            fit the schema.
        weight: number of examples behind each model's mean, if the schema has means.
        faults: the rows that are excluded because of an array, by the array's name.
        outliers: the rows in ``nonfinite`` that are excluded because their vector has a much larger
            norm than the others.
    """

    arrays: dict[str, np.ndarray]
    arrived: Bool[np.ndarray, "n"]
    nonfinite: Bool[np.ndarray, "n"]
    weight: Float[np.ndarray, "K"] | None = None
    faults: Mapping[str, list[int]] = field(default_factory=dict)
    outliers: Sequence[int] = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["arrays"][name]
        except KeyError:
            names = ", ".join(self.__dict__.get("arrays", {})) or "none"
            raise AttributeError(f"the reply has no array {name!r}; it has {names}") from None


class PartialReply(NamedTuple):
    """The replies of some rows (clients that do the task), with sums instead of means.
    ``ReplyBuilder.merge`` adds them to the reply of all rows."""

    arrays: dict[str, np.ndarray]  # [r ...] by row
    sums: dict[str, np.ndarray]  # of all clients
    by_model: dict[str, WeightedSum]
    arrived: Bool[np.ndarray, "r"]
    nonfinite: Bool[np.ndarray, "r"]
    faults: dict[str, list[int]]


class ReplyBuilder:
    """Builds the reply to a task. The replies of the rows (clients that do the task) are added in
    portions (groups of rows).

    Args:
        task: the task.
        rows: n, the number of rows.
        sizes: sizes of the schema's axes, by name.
        counted: positions of the sums of scores that count samples (``TaskType.counted``).
    """

    def __init__(
        self, task: Task, rows: int, sizes: Mapping[str, int], counted: Sequence[int] = ()
    ) -> None:
        self.task = task
        self.sizes = sizes
        self.counted = counted
        schema = task.up
        check_names(task.name, schema)
        _check_axes(task, sizes)
        self.rows = schema.of("row")
        self.means = schema.of("model")
        self.totals = schema.of("all")
        self.arrays = {
            name: np.full((rows, *array.shape(sizes)), array.missing, array.dtype)
            for name, array in self.rows.items()
        }
        self.sums = {
            name: np.zeros(array.shape(sizes), np.result_type(array.dtype, np.int64))
            for name, array in self.totals.items()
        }
        self.models = sizes["K"] if self.means else 0
        self.by_model = {
            name: WeightedSum(self.models, _numbers(array, sizes))
            for name, array in self.means.items()
        }
        self.arrived = np.zeros(rows, bool)
        self.nonfinite = np.zeros(rows, bool)
        self.faults: dict[str, list[int]] = {}

    def add(self, rows: Int[np.ndarray, "r"] | slice, arrays: Mapping[str, np.ndarray]) -> None:
        """Add the replies of some rows (clients that do the task).

        Args:
            rows: indices of the rows, or a slice of all rows.
            arrays: an array [r ...] for each name of the schema, including the arrays that the
                builder sums or averages.

        Raises:
            TaskError: the arrays do not fit the schema.
        """
        count = len(self.arrived[rows])
        checked = check_arrays(
            task=self.task,
            arrays=arrays,
            known=self.task.up.carried,
            rows=count,
            sizes=self.sizes,
        )
        self.task.check_reply(checked)
        self.task.check_sums(checked, self.counted)
        if self.means and (checked[INDEX] >= self.models).any():
            raise TaskError(
                f"task {self.task.name}: expected {INDEX} below {self.models}, got "
                f"{checked[INDEX].max()}"
            )
        # Rows with faulty numbers are left out of all arrays and sums.
        faults = self._find_faults(rows, checked)
        sound: Any = slice(None)
        if faults is None:
            self.arrived[rows] = True
        else:
            sound = ~faults
            self.arrived[rows] = sound
            self.nonfinite[rows] = faults
            rows = np.arange(len(self.arrived))[rows][sound]
        for name in self.rows:
            self.arrays[name][rows] = checked[name][sound]
        for name in self.totals:
            self.sums[name] += checked[name][sound].sum(axis=0)
        for name, total in self.by_model.items():
            values = flat(checked[name])[sound]
            total.add(values, checked[WEIGHT][sound], checked[INDEX][sound])

    def partial(self) -> PartialReply:
        """The replies added so far, for merging into another builder."""
        return PartialReply(
            arrays=self.arrays,
            sums=self.sums,
            by_model=self.by_model,
            arrived=self.arrived,
            nonfinite=self.nonfinite,
            faults=self.faults,
        )

    def merge(self, rows: Int[np.ndarray, "r"], part: PartialReply) -> None:
        """Merge the partial reply of some rows (clients that do the task).

        A sum of partial sums may differ in its last bits from the sum of all rows, one by one.

        Args:
            rows: indices of the rows.
            part: the partial reply of these rows.
        """
        self.arrived[rows] = part.arrived
        self.nonfinite[rows] = part.nonfinite
        for name in self.rows:
            self.arrays[name][rows] = part.arrays[name]
        for name in self.totals:
            self.sums[name] += part.sums[name]
        for name, total in self.by_model.items():
            total.merge(part.by_model[name])
        for name, faulty in part.faults.items():
            self.faults.setdefault(name, []).extend(rows[faulty].tolist())

    def _find_faults(
        self, rows: Int[np.ndarray, "r"] | slice, arrays: Mapping[str, np.ndarray]
    ) -> Bool[np.ndarray, "r"] | None:
        """Mask of the rows of a reply (one per client) that have to be excluded, because
        floating-point numbers in them are not finite or out of bounds; None if there is no such
        row."""
        faults = None
        for name, array in self.task.up.excluding.items():
            sound = sound_rows(array, arrays[name])
            if sound.all():
                continue
            faults = ~sound if faults is None else faults | ~sound
            faulty_rows = np.arange(len(self.arrived))[rows][~sound]
            self.faults.setdefault(name, []).extend(faulty_rows.tolist())
        return faults

    def reply(self) -> Reply:
        """The complete reply of all rows (clients) that were added, with means by model."""
        arrays = {**self.arrays, **self.sums}
        weight = None
        for name, total in self.by_model.items():
            array = self.means[name]
            mean, weight = total.mean(array.dtype)
            arrays[name] = mean.reshape(len(mean), *array.shape(self.sizes))
        return Reply(
            arrays=arrays,
            arrived=self.arrived,
            nonfinite=self.nonfinite,
            weight=weight,
            faults=dict(self.faults),
        )


def check_arrays(
    task: Task,
    arrays: Mapping[str, np.ndarray],
    known: Mapping[str, Array],
    rows: int | None,
    sizes: Mapping[str, int],
) -> dict[str, np.ndarray]:
    """Check arrays against a schema, and convert them to its types.

    Args:
        task: the task, for messages.
        arrays: the received arrays.
        known: the expected arrays of the schema, by name.
        rows: number of entries of each array; None if they have no row axis.
        sizes: sizes of the axes, by name.

    Raises:
        TaskError: an array is missing, is not in the schema, has another shape or type, or has
            impossible values.
    """
    if arrays.keys() != known.keys():
        missing = sorted(known.keys() - arrays.keys())
        extra = sorted(arrays.keys() - known.keys())
        names = [f"no {name}" for name in missing] + [f"an unknown {name}" for name in extra]
        raise TaskError(
            f"task {task.name}: the reply has {', '.join(names)}; expected "
            f"{', '.join(known) or 'none'}"
        )
    return {
        name: _checked(
            task=task,
            name=name,
            array=array,
            value=arrays[name],
            rows=rows,
            sizes=sizes,
        )
        for name, array in known.items()
    }


def _checked(
    task: Task, name: str, array: Array, value: Any, rows: int | None, sizes: Mapping[str, int]
) -> np.ndarray:
    """Check one received array, and convert it to the declared type. Raises TaskError as
    ``check_arrays`` does."""
    value = np.asarray(value)
    shape = array.shape(sizes)
    if rows is not None:
        shape = (rows, *shape)
    kinds = {"f": "f", "i": "iu", "u": "u", "b": "b"}[np.dtype(array.dtype).kind]
    if value.dtype.kind not in kinds or value.shape != shape:
        raise TaskError(
            f"task {task.name}: expected {name} of shape {list(shape)} and type "
            f"{np.dtype(array.dtype)}, got {value.dtype} of shape {list(value.shape)}"
        )
    if kinds == "iu" and value.size and not array.low <= value.min() <= value.max() <= array.high:
        bad = value[(value < array.low) | (value > array.high)].flat[0]
        raise TaskError(
            f"task {task.name}: expected {name} from {array.low:g} to {array.high:g}, got {bad}"
        )
    if value.dtype == array.dtype:
        return value
    # A number too large for float32 becomes infinite, and its row is excluded later.
    with np.errstate(over="ignore"):
        return value.astype(array.dtype)


def sound_rows(array: Array, values: np.ndarray) -> Bool[np.ndarray, "r"]:
    """Mask of the rows (one per client) of a reply's array with valid floating-point numbers:
    finite where required, and within bounds."""
    numbers = flat(values)
    sound = np.ones(len(numbers), bool)
    if array.finite:
        sound &= np.isfinite(numbers).all(axis=1)
    if np.isfinite([array.low, array.high]).any():
        sound &= ~((numbers < array.low) | (numbers > array.high)).any(axis=1)
    return sound


def mean_reply(task: Task, reply: Reply, clients: Int[np.ndarray, "n"]) -> Reply:
    """The reply with one mean for each model, computed from the separate replies of clients.

    Rows are added in the order of client ids. All worlds, simulated or real, use this order, so
    their means have the same bits.

    Args:
        task: the task that asks for means by model.
        reply: the reply of ``task.single()``, with one entry for each client.
        clients: the client of each row.
    """
    order = np.argsort(clients, kind="stable")
    weight = np.where(reply.arrived, reply.arrays[WEIGHT], 0)
    arrays = {name: reply.arrays[name] for name in (*task.up.of("row"), *task.up.of("all"))}
    total_weight = None
    for name, array in task.up.of("model").items():
        rows = reply.arrays[name]
        total = WeightedSum(task.sizes()["K"], int(np.prod(rows.shape[1:])))
        total.add(flat(rows)[order], weight[order], reply.arrays[INDEX][order])
        mean, total_weight = total.mean(array.dtype)
        arrays[name] = mean.reshape(len(mean), *rows.shape[1:])
    return Reply(
        arrays=arrays,
        arrived=reply.arrived,
        nonfinite=reply.nonfinite,
        weight=total_weight,
        faults=reply.faults,
        outliers=reply.outliers,
    )


def without_rows(task: Task, reply: Reply, rows: Bool[np.ndarray, "n"]) -> Reply:
    """A reply in which some rows (clients that do the task) did not arrive.

    Args:
        task: the task, whose reply has one entry for each row.
        reply: the reply.
        rows: mask of the rows to leave out.
    """
    if not rows.any():
        return reply
    arrays = dict(reply.arrays)
    for name, declared in task.up.of("row").items():
        values = arrays[name].copy()
        values[rows] = declared.missing
        arrays[name] = values
    return replace(reply, arrays=arrays, arrived=reply.arrived & ~rows)


def mean_vector(task: Task) -> str | None:
    """Name of the vector that a task averages by model; None unless there is exactly one such
    vector."""
    vectors = [name for name, array in task.up.of("model").items() if array.norm_checked]
    return vectors[0] if len(vectors) == 1 and task.single() is not None else None


def _check_axes(task: Task, sizes: Mapping[str, int]) -> None:
    """Raise TaskError if the schema of a task's reply has axes of unknown size."""
    for name, array in task.up.arrays.items():
        if array.over == "model" and "K" not in sizes:
            raise TaskError(
                f"task {task.name}: {name} has an entry for each model, but no field of the task "
                "has the axis K"
            )
        try:
            array.shape(sizes)
        except TaskError as error:
            raise TaskError(
                f"task {task.name}: {name} has the axes [{array.axes}]; {error}"
            ) from error


def _numbers(array: Array, sizes: Mapping[str, int]) -> int:
    """How many numbers a reply's array has for one row (a client) or one model."""
    return int(np.prod(array.shape(sizes)))


def flat(values: np.ndarray) -> np.ndarray:
    """Flatten each entry of an array to one row of numbers, also for an array without entries."""
    return values.reshape(len(values), int(np.prod(values.shape[1:])))
