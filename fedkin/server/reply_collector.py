"""Builds the server's reply to a task from the messages of the nodes.

Each message is checked against the task's schema. Updates with too large a norm are excluded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.errors import TaskError
from fedkin.core.replies import Reply, ReplyBuilder, check_arrays, flat, sound_rows
from fedkin.core.schema import INDEX, MAX_COUNT, WEIGHT, Array, booleans, floats, integers
from fedkin.core.task import Task
from fedkin.server.norm_filter import NormFilter
from fedkin.server.task_messages import MODELS, known_rows


class Outlier(NamedTuple):
    """An update that is excluded because its norm is above the limit.

    Attributes:
        model: index of the model that the update is for; None if clients do not report it.
        norm: norm of the update.
        limit: the largest allowed norm.
    """

    model: int | None
    norm: float
    limit: float


class _Means(NamedTuple):
    """The means in one message: for each model that the node's clients trained, the mean over these
    clients."""

    rows: Int[np.ndarray, "r"]  # rows of the clients in the means
    models: Int[np.ndarray, "k"]  # model of each mean
    weight: Float[np.ndarray, "k"]  # number of samples of each mean
    arrays: dict[str, np.ndarray]  # the means by name


class ReplyCollector(ReplyBuilder):
    """A reply to a task that is built from the messages of nodes.

    Args:
        task: the task that was sent.
        rows: number n of the clients that were asked; each has one row in the reply's arrays.
        sizes: sizes of the schema's axes by name.
        norm_filter: finds updates with too large a norm, for this kind of training.
        samples: number of samples of each row's client, as registered.
        tell: called for each row (client) that is excluded for its norm, with the row and its
            outlier.
    """

    def __init__(
        self,
        task: Task,
        rows: int,
        sizes: Mapping[str, int],
        norm_filter: NormFilter,
        samples: Int[np.ndarray, "n"],
        tell: Callable[[int, Outlier], None] = lambda row, outlier: None,
        counted: Sequence[int] = (),
    ) -> None:
        super().__init__(task, rows, sizes, counted)
        self._norm_filter = norm_filter
        self._tell = tell
        self._outliers: list[int] = []
        # Arrays that the server knows already, so that clients need not send them.
        self._known: dict[str, np.ndarray] = {}
        for name in known_rows(task):
            values = getattr(task, INDEX) if name == INDEX else samples
            self._known[name] = np.asarray(values)
        self._means: list[_Means] = []

    def read(
        self,
        rows: Int[np.ndarray, "r"],
        arrays: Mapping[str, np.ndarray],
        used: Int[np.ndarray, "k"] | None,
    ) -> None:
        """Add a node's reply.

        Args:
            rows: positions of the node's clients among all clients that were asked.
            arrays: arrays of the message.
            used: indices of the models that were sent to the node; None if all were.

        Raises:
            TaskError: the reply cannot be used. Then the caller must call ``exclude`` with
                ``rows``.
        """
        arrays = dict(arrays)
        arrived, nonfinite = self._flags(rows, arrays)
        means = self._read_means(rows, arrays, used)
        totals = self._read_totals(int(arrived.sum()), arrays)
        checked = self._read_rows(rows, arrays, used, arrived)
        self.task.check_reply(checked | totals)
        self.task.check_sums(checked | totals, self.counted)
        if means:
            self._check_weight(means, checked[INDEX][arrived], checked[WEIGHT][arrived])
        self._check_sound(checked, arrived)

        # Only here, after all checks, does the reply change.
        self.arrived[rows] = arrived
        self.nonfinite[rows] = nonfinite
        for name in self.rows:
            self.arrays[name][rows[arrived]] = checked[name][arrived]
        if arrived.any():
            for name in self.totals:
                self.sums[name] += totals[name]
        if means:
            self._means.append(means)

    def _read_rows(
        self,
        rows: Int[np.ndarray, "r"],
        arrays: dict[str, np.ndarray],
        used: Int[np.ndarray, "k"] | None,
        arrived: Bool[np.ndarray, "r"],
    ) -> dict[str, np.ndarray]:
        """The checked arrays with one row per client, including arrays that the node did not send
        because the server knows them.

        A node numbers the models that were sent to it; these numbers become indices among all K
        models.
        """
        sent = {name: array for name, array in self.rows.items() if name not in self._known}
        checked = check_arrays(
            task=self.task,
            arrays=arrays,
            known=sent,
            rows=len(rows),
            sizes=self.sizes,
        )
        if used is not None and INDEX in checked:
            checked[INDEX] = self._translated(INDEX, checked[INDEX], used)
        index = getattr(self.task, INDEX, None)
        if index is not None and INDEX in checked:
            differs = checked[INDEX] != np.asarray(index)[rows]
            if (arrived & differs).any():
                raise TaskError(
                    f"task {self.task.name}: a client's reply has another {INDEX} than the server "
                    "assigned to it"
                )
        return checked | {name: values[rows] for name, values in self._known.items()}

    def _check_sound(self, checked: dict[str, np.ndarray], arrived: Bool[np.ndarray, "r"]) -> None:
        """Raise TaskError for numbers that are not finite or out of bounds, in the rows of clients
        that replied."""
        for name, array in self.rows.items():
            if checked[name].dtype.kind != "f":
                continue
            if (arrived & ~sound_rows(array, checked[name])).any():
                raise TaskError(
                    f"task {self.task.name}: the array {name} is not finite, or out of bounds"
                )

    def exclude(self, rows: Int[np.ndarray, "r"]) -> None:
        """Mark the rows of some clients as unusable (``nonfinite``): a reply came, but its numbers
        do not count."""
        self.arrived[rows] = False
        self.nonfinite[rows] = True
        for name, array in self.rows.items():
            self.arrays[name][rows] = array.missing

    def reply(self) -> Reply:
        """The reply for all clients (one row each), without outliers (updates with too large a
        norm)."""
        for name, array in self.rows.items():
            if array.norm_checked:
                self._exclude_rows(name)
        if self.means:
            self._add_means()
        return replace(super().reply(), outliers=tuple(sorted(set(self._outliers))))

    def _exclude_rows(self, name: str) -> None:
        """Exclude the rows (clients) whose vector in the array ``name`` has too large a norm."""
        arrived = np.flatnonzero(self.arrived)
        norms = _norms(self.arrays[name][arrived])
        models = self.arrays[INDEX][arrived] if INDEX in self.rows else None
        for place, outlier in self._find_outliers(norms, models):
            self._exclude_outlier(arrived[[place]], outlier)

    def _find_outliers(
        self, norms: Float[np.ndarray, "r"], models: Int[np.ndarray, "r"] | None
    ) -> list[tuple[int, Outlier]]:
        """The updates whose norm is above their limit, with their positions in ``norms``."""
        of_models = self.task.start_norms()
        starts = None if models is None or of_models is None else of_models[models]
        limits = self._norm_filter.limits(norms, models, starts)
        found: list[tuple[int, Outlier]] = []
        for place in np.flatnonzero(norms > limits).tolist():
            outlier = Outlier(
                model=None if models is None else int(models[place]),
                norm=float(norms[place]),
                limit=float(limits[place]),
            )
            found.append((place, outlier))
        return found

    def _exclude_outlier(self, rows: Int[np.ndarray, "r"], outlier: Outlier) -> None:
        """Exclude and report the rows (clients) behind an update or mean with too large a norm."""
        self.exclude(rows)
        self._outliers += rows.tolist()
        for row in rows.tolist():
            self._tell(row, outlier)

    def _flags(
        self, rows: Int[np.ndarray, "r"], arrays: dict[str, np.ndarray]
    ) -> tuple[Bool[np.ndarray, "r"], Bool[np.ndarray, "r"]]:
        """Masks of the rows (clients of a node) that hold numbers, and of the rows whose numbers
        were not finite.

        The arrays of the masks are removed from ``arrays``.
        """
        if not self.task.up.flags_rows and "arrived" not in arrays:
            return np.ones(len(rows), bool), np.zeros(len(rows), bool)
        schema: dict[str, Array] = dict.fromkeys(("arrived", "nonfinite"), booleans())
        flags = {name: arrays.pop(name) for name in schema if name in arrays}
        checked = check_arrays(
            task=self.task,
            arrays=flags,
            known=schema,
            rows=len(rows),
            sizes={},
        )
        arrived = checked["arrived"]
        nonfinite = checked["nonfinite"]
        if (arrived & nonfinite).any():
            raise TaskError(
                f"task {self.task.name}: nonfinite marks clients that are also marked as arrived"
            )
        return arrived, nonfinite

    def _read_totals(self, clients: int, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Check a node's sums over those of its clients that replied.

        A sum's bounds are the bounds for one client times the number of clients. The sums are
        removed from ``arrays``.
        """
        schema = {
            name: _summed(array, self.sums[name].dtype, clients)
            for name, array in self.totals.items()
        }
        sums = {name: arrays.pop(name) for name in schema if name in arrays}
        totals = check_arrays(
            task=self.task,
            arrays=sums,
            known=schema,
            rows=None,
            sizes=self.sizes,
        )
        for name, array in schema.items():
            if not sound_rows(array, totals[name][None]).all():
                raise TaskError(
                    f"task {self.task.name}: the array {name} is not finite, or out of bounds"
                )
        return totals

    def _read_means(
        self,
        rows: Int[np.ndarray, "r"],
        arrays: dict[str, np.ndarray],
        used: Int[np.ndarray, "k"] | None,
    ) -> _Means | None:
        """Check a node's means, and the number of samples behind each mean.

        All means of a message are used, or none. The means are removed from ``arrays``.
        """
        if not self.means:
            return None
        schema = {**self.means, "weight": floats(), MODELS: integers()}
        of_models = {name: arrays.pop(name) for name in schema if name in arrays}
        checked = check_arrays(
            task=self.task,
            arrays=of_models,
            known=schema,
            rows=np.size(of_models.get(MODELS, ())),
            sizes=self.sizes,
        )
        models = checked.pop(MODELS)
        weight = checked.pop("weight")
        if len(set(models.tolist())) != len(models):
            raise TaskError(f"task {self.task.name}: {MODELS} lists a model twice")
        if used is None:
            used = np.arange(self.sizes["K"])
        models = self._translated(MODELS, models, used)
        for name, array in self.means.items():
            if not sound_rows(array, checked[name]).all():
                raise TaskError(
                    f"task {self.task.name}: the array {name} is not finite, or out of bounds"
                )
        if not ((weight > 0) & (weight <= MAX_COUNT)).all():
            raise TaskError(
                f"task {self.task.name}: weight is not a possible number of training samples"
            )
        return _Means(rows, models, weight, checked)

    def _check_weight(self, means: _Means, index: Int[np.ndarray, "a"], examples: Any) -> None:
        """Raise TaskError unless a node sent a mean for exactly the models that its clients
        trained, each with the number of training samples of these clients."""
        counted = index[examples > 0]
        if set(counted.tolist()) != set(means.models.tolist()):
            raise TaskError(
                f"task {self.task.name}: {MODELS} differ from the models that the node's clients "
                "trained"
            )
        expected = np.bincount(index, examples, self.sizes["K"])[means.models]
        if not np.allclose(means.weight, expected, rtol=1e-6):
            raise TaskError(
                f"task {self.task.name}: weight is not the number of training samples of the "
                "clients that trained the model"
            )

    def _translated(
        self, name: str, models: Int[np.ndarray, "r"], used: Int[np.ndarray, "k"]
    ) -> Int[np.ndarray, "r"]:
        """Translate indices among the models sent to a node to indices among all models."""
        if models.size and models.max() >= len(used):
            raise TaskError(
                f"task {self.task.name}: {name} has models that were not sent, such as "
                f"{models.max()}"
            )
        return used[models]

    def _add_means(self) -> None:
        """Add the means of all messages, each with its weight.

        A mean with too large a norm is left out, and the clients behind it are excluded.
        """
        counts = [len(means.models) for means in self._means]
        starts = np.cumsum([0, *counts])
        excluded = self._outlying_means(int(starts[-1]))
        for means, start, stop in zip(self._means, starts[:-1], starts[1:], strict=True):
            out = np.isin(np.arange(start, stop), list(excluded))
            for name, total in self.by_model.items():
                total.add(flat(means.arrays[name]), np.where(out, 0, means.weight), means.models)
            index = self.arrays[INDEX][means.rows]
            for place in np.flatnonzero(out).tolist():
                behind = means.rows[(index == means.models[place]) & self.arrived[means.rows]]
                self._exclude_outlier(behind, excluded[start + place])

    def _outlying_means(self, count: int) -> dict[int, Outlier]:
        """The means with too large a norm, by their position among the means of all messages."""
        models = np.concatenate([np.zeros(0, np.int64), *(means.models for means in self._means)])
        found: dict[int, Outlier] = {}
        for name, array in self.means.items():
            if count and array.norm_checked:
                norms = np.concatenate([_norms(means.arrays[name]) for means in self._means])
                found |= dict(self._find_outliers(norms, models))
        return found


def _summed(array: Array, dtype: np.dtype, clients: int) -> Array:
    """The schema of a sum over several clients: the bounds for one client, times the number of
    clients.

    For 0 clients there are no bounds, because 0 times an infinite bound is NaN.

    Args:
        array: schema of one client's number.
        dtype: type of the sum.
        clients: number of clients.
    """
    if not clients:
        return replace(array, dtype=dtype.type, missing=0, low=-np.inf, high=np.inf)
    low, high = (0, 1) if np.dtype(array.dtype).kind == "b" else (array.low, array.high)
    return replace(
        array,
        dtype=dtype.type,
        missing=0,
        low=low * clients,
        high=high * clients,
    )


def _norms(updates: Float[np.ndarray, "r ..."]) -> Float[np.ndarray, "r"]:
    """The norm of each update in float64, computed without a float64 copy of all updates."""
    updates = flat(updates)
    return np.sqrt(np.einsum("rp,rp->r", updates, updates, dtype=np.float64))
