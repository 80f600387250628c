"""What clients reply, and what they keep: names, shapes, types and bounds of arrays.

``Rows`` and ``Sums`` declare the reply to a task, ``Memory`` what a client keeps between rounds.
Axes are named by letters, or are numbers: K models, P parameters, C classes, d numbers of a sample.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from fedkin.core.errors import TaskError

MAX_COUNT = 2**40  # of samples, or anything else that is counted: more cannot be true
_DTYPES = tuple(np.dtype(kind) for kind in (np.float32, np.float64, np.int64, np.uint32, np.bool_))
# Arrays of a reply by which means over the clients of a model are taken.
WEIGHT = "examples"
INDEX = "model_index"


@dataclass(frozen=True)
class Array:
    """One array of a reply.

    Attributes:
        axes: sizes behind the row's own axis, by name or as numbers, such as ``K`` or ``2 64``.
        dtype: of NumPy.
        low, high: bounds of possible values; a reply outside is refused.
        missing: what the row of a client without a reply holds.
        finite: whether a client that sends NaN or infinity is left out.
        over: what the reply has an entry for: each ``row``; each ``model`` (the mean over its
            clients, weighted by examples); or ``all`` clients together, the sum. By default rows in
            ``Rows`` and all in ``Sums``.
        counted: whether it is on the ledger; the few numbers beside a model are not.
        carried: whether the reply holds it. A simulation need not carry what it has already.
        norm_checked: whether a server leaves out vectors that are far longer than others.
        registered: whether a server knows it since it accepted the client, as its number of
            training samples: where only means are wanted, it is not sent.
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
        """Refuse (TaskError) what no reply can hold, under the name of the array."""
        dtype = np.dtype(self.dtype)
        if dtype not in _DTYPES:
            raise TaskError(
                f"{name}: dtype must be one of float32, float64, int64, uint32 and bool, got "
                f"{dtype}"
            )
        if dtype.kind != "f" and (
            self.missing != self.missing or self.missing != dtype.type(self.missing)
        ):
            raise TaskError(
                f"{name}: missing = {self.missing} is no {dtype}; give a value of this type"
            )
        if self.norm_checked and (dtype.kind != "f" or self.over == "all"):
            raise TaskError(f"{name}: norm_checked is for vectors of floats, by row or by model")

    @property
    def excludes(self) -> bool:
        """Whether some floats of its type are not possible, so that their row is left out."""
        return np.dtype(self.dtype).kind == "f" and (
            self.finite or self.low > -np.inf or self.high < np.inf
        )

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Its shape behind the row's axis. Raises TaskError where a size is not known."""
        if not self.axes:
            return ()
        try:
            return tuple(int(axis) if axis.isdigit() else sizes[axis] for axis in self.axes.split())
        except KeyError as error:
            raise TaskError(
                f"the size {error} is not known here; known: {', '.join(sorted(sizes))}"
            ) from error


def floats(axes: str = "", dtype: Any = np.float64, **options: Any) -> Array:
    """An array of floating-point numbers; see ``Array``."""
    return Array(axes, dtype, **options)


def integers(axes: str = "", **options: Any) -> Array:
    """An array of integers, by default from 0 up and 0 without a reply; see ``Array``."""
    options.setdefault("low", 0)
    options.setdefault("high", MAX_COUNT)
    options.setdefault("missing", 0)
    return Array(axes, np.int64, **options)


def booleans(axes: str = "", **options: Any) -> Array:
    """An array of truth values, by default False without a reply; see ``Array``."""
    options.setdefault("missing", False)
    return Array(axes, np.bool_, **options)


class Schema:
    """The arrays of a reply, by name."""

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
                f"means by model ({', '.join(self.of('model'))}) need {WEIGHT} and {INDEX} by row "
                "beside them"
            )

    def of(self, over: str) -> dict[str, Array]:
        """The arrays with an entry for each ``row``, for each ``model``, or one for ``all``
        clients."""
        return self._of[over]

    @property
    def flags_rows(self) -> bool:
        """Whether a message must say which rows hold numbers: those without hold numbers too."""
        for array in self.arrays.values():
            is_float = np.dtype(array.dtype).kind == "f"
            if array.finite and is_float and array.over != "all" and not np.isnan(array.missing):
                return True
        return False


class Rows(Schema):
    """Each client's own numbers reach the server."""

    over = "row"


class Sums(Schema):
    """The server needs sums over clients only. Arrays by ``row`` are what it must still know of a
    client, such as the model that it chose."""

    over = "all"


@dataclass(frozen=True)
class Memory:
    """A named array that a client keeps between rounds.

    Attributes:
        axes: its shape, as in ``Array``.
        dtype: of NumPy.
        lifetime: ``run``, or ``assignment``: until the client's cluster changes.
    """

    axes: str = ""
    dtype: Any = np.float32
    lifetime: Literal["run", "assignment"] = "run"

    def __post_init__(self) -> None:
        if self.lifetime not in ("run", "assignment"):
            raise TaskError(
                f"the lifetime of a memory is 'run' or 'assignment', got {self.lifetime!r}"
            )
        if np.dtype(self.dtype).kind not in "fib":
            raise TaskError(f"a memory is of floats, signed integers or bool, got {self.dtype}")
