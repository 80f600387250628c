"""Schemas of replies and of client memory: names, shapes, types and bounds of arrays.

``Rows`` and ``Sums`` declare the reply to a task, ``Memory`` what a client keeps between rounds.
Axes are letters or numbers: K models, P parameters, C classes, d numbers of a sample.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from fedkin.core.errors import TaskError

MAX_COUNT = 2**40  # upper bound of all counts that clients send, such as their samples
_DTYPES = tuple(np.dtype(kind) for kind in (np.float32, np.float64, np.int64, np.uint32, np.bool_))
# To average by model, a reply has an array with the weight of each row, and one with its model.
WEIGHT = "examples"
INDEX = "model_index"


@dataclass(frozen=True)
class Array:
    """One array of a reply.

    Attributes:
        axes: sizes of a client's (or model's) entry, by name or as numbers, e.g. ``K``, ``2 64``.
        dtype: NumPy type.
        low, high: bounds of possible values; a reply outside the bounds is refused.
        missing: value for a client that did not reply.
        finite: whether a client that sends NaN or infinity is excluded.
        over: ``row``: one entry for each row (a client that does the task). ``model``: one entry
            for each model, the mean over its clients weighted by examples. ``all``: the sum over
            all clients. The default is ``row`` in ``Rows`` and ``all`` in ``Sums``.
        counted: whether the ledger counts the array's bytes. The few numbers sent along with a
            model are not counted.
        carried: whether replies contain the array. If False, it is declared only so that its bytes
            are counted. Replies leave it out, because the simulation already has its values.
        norm_checked: whether a server excludes vectors with a much larger norm than the others.
        registered: whether clients send the value once at registration, such as their number of
            training samples. A task that requests only means does not send it again.
    """

    axes: str = ""
    dtype: Any = np.float64
    low: float | int = -np.inf
    high: float | int = np.inf
    missing: Any = np.nan
    finite: bool = True
    over: Literal["row", "model", "all"] | None = None
    counted: bool = True
    carried: bool = True
    norm_checked: bool = False
    registered: bool = False

    def check(self, name: str) -> None:
        """Raise TaskError for a declaration that no reply can satisfy; ``name`` is the array's
        name."""
        dtype = np.dtype(self.dtype)
        if dtype not in _DTYPES:
            raise TaskError(
                f"{name}: dtype must be one of float32, float64, int64, uint32 and bool, got "
                f"{dtype}"
            )
        # NaN differs from itself, and only floats can hold it.
        if dtype.kind != "f" and (
            self.missing != self.missing or self.missing != dtype.type(self.missing)
        ):
            raise TaskError(
                f"{name}: missing = {self.missing} is not of type {dtype}; give a value of this "
                "type"
            )
        if self.norm_checked and (dtype.kind != "f" or self.over == "all"):
            raise TaskError(
                f"{name}: norm_checked needs an array of floats with over = 'row' or 'model', got "
                f"{dtype} with over = {self.over!r}; remove norm_checked"
            )

    @property
    def excludes(self) -> bool:
        """Whether rows (clients' replies) can be excluded for NaN, infinity or numbers out of
        bounds in this array."""
        return np.dtype(self.dtype).kind == "f" and (
            self.finite or self.low > -np.inf or self.high < np.inf
        )

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The array's shape without the row axis (one row per client). Raises TaskError for an axis
        of unknown size."""
        if not self.axes:
            return ()
        try:
            return tuple(int(axis) if axis.isdigit() else sizes[axis] for axis in self.axes.split())
        except KeyError as error:
            raise TaskError(
                f"the size of axis {error} is not known; known sizes: {', '.join(sorted(sizes))}"
            ) from error


def floats(axes: str = "", dtype: Any = np.float64, **options: Any) -> Array:
    """Declare an array of floating-point numbers; the arguments are those of ``Array``."""
    return Array(axes, dtype, **options)


def integers(axes: str = "", **options: Any) -> Array:
    """Declare an array of integers. By default values are at least 0, and 0 stands for a missing
    reply. The arguments are those of ``Array``."""
    options.setdefault("low", 0)
    options.setdefault("high", MAX_COUNT)
    options.setdefault("missing", 0)
    return Array(axes, np.int64, **options)


def booleans(axes: str = "", **options: Any) -> Array:
    """Declare an array of booleans. By default False stands for a missing reply. The arguments are
    those of ``Array``."""
    options.setdefault("missing", False)
    return Array(axes, np.bool_, **options)


class Schema:
    """Declares the arrays of a reply, by name."""

    over: ClassVar[Literal["row", "all"]]

    def __init__(self, **arrays: Array) -> None:
        for name, array in arrays.items():
            if not isinstance(array, Array):
                raise TaskError(
                    f"{name} must be floats(...), integers(...) or booleans(...), got {array!r}"
                )
        self.arrays = {
            name: dataclasses.replace(a, over=a.over or self.over) for name, a in arrays.items()
        }
        self.carried = {name: array for name, array in self.arrays.items() if array.carried}
        self.excluding = {name: array for name, array in self.carried.items() if array.excludes}
        self._of = {
            over: {n: a for n, a in self.carried.items() if a.over == over}
            for over in ("row", "model", "all")
        }
        for name, array in self.arrays.items():
            array.check(name)
        if self.of("model") and not {WEIGHT, INDEX} <= self.of("row").keys():
            raise TaskError(
                f"means by model ({', '.join(self.of('model'))}) need the arrays {WEIGHT} and "
                f"{INDEX}, with one entry for each client; declare them too"
            )

    def of(self, over: str) -> dict[str, Array]:
        """The arrays with the given ``over``: an entry for each ``row`` (a client that does the
        task), an entry for each ``model``, or one entry for ``all`` clients."""
        return self._of[over]

    @property
    def flags_rows(self) -> bool:
        """Whether a message must mark the rows of the reply's arrays whose clients replied. It must
        if the other rows are filled with ordinary numbers (``missing``) instead of NaN."""
        for array in self.arrays.values():
            is_float = np.dtype(array.dtype).kind == "f"
            if array.finite and is_float and array.over != "all" and not np.isnan(array.missing):
                return True
        return False


class Rows(Schema):
    """Schema of a reply in which the server receives the values of each client."""

    over = "row"


class Sums(Schema):
    """Schema of a reply in which the server receives sums over clients. Arrays by ``row`` hold the
    few values of each client that the server still needs, such as the model that it chose."""

    over = "all"


@dataclass(frozen=True)
class Memory:
    """A named array that a client keeps between rounds.

    Attributes:
        axes: sizes of the axes, by name or as numbers, as in ``Array``.
        dtype: NumPy type.
        lifetime: ``run``: kept for the whole run. ``assignment``: kept until the client's cluster
            changes.
    """

    axes: str = ""
    dtype: Any = np.float32
    lifetime: Literal["run", "assignment"] = "run"

    def __post_init__(self) -> None:
        if self.lifetime not in ("run", "assignment"):
            raise TaskError(
                f"the lifetime of a memory must be 'run' or 'assignment', got {self.lifetime!r}"
            )
        if np.dtype(self.dtype).kind not in "fib":
            raise TaskError(
                f"the dtype of a memory must be float, signed integer or bool, got {self.dtype}"
            )
