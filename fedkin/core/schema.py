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

MAX_COUNT = 2**40  # largest possible count of samples or anything else
_DTYPES = tuple(np.dtype(kind) for kind in (np.float32, np.float64, np.int64, np.uint32, np.bool_))
# Names of the reply's arrays that give the means over the clients of a model.
WEIGHT = "examples"
INDEX = "model_index"


@dataclass(frozen=True)
class Array:
    """One array of a reply.

    Attributes:
        axes: sizes after the row axis, by name or as numbers, such as ``K`` or ``2 64``.
        dtype: NumPy type.
        low, high: bounds of possible values; a reply outside them is refused.
        missing: value in the row of a client without a reply.
        finite: whether a client that sends NaN or infinity is excluded.
        over: what each entry of the array belongs to: a ``row``; a ``model`` (the mean over its
            clients, weighted by examples); or ``all`` clients together (their sum). By default rows
            in ``Rows`` and all in ``Sums``.
        counted: whether its bytes are on the ledger. The few numbers sent along with a model are
            not.
        carried: whether the reply holds it. A simulation need not carry values that it has already.
        norm_checked: whether a server excludes vectors that are much longer than the others.
        registered: whether a server has known it since it accepted the client, such as its number
            of training samples. If only means are requested, it is not sent.
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
        """Raise TaskError for a declaration that no reply can satisfy; ``name`` is the array's."""
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
        """Whether some floats of its type are impossible, so that their row is excluded."""
        return np.dtype(self.dtype).kind == "f" and (
            self.finite or self.low > -np.inf or self.high < np.inf
        )

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Its shape without the row axis. Raises TaskError for an unknown size."""
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
    """An array of integers: by default at least 0, and 0 without a reply; see ``Array``."""
    options.setdefault("low", 0)
    options.setdefault("high", MAX_COUNT)
    options.setdefault("missing", 0)
    return Array(axes, np.int64, **options)


def booleans(axes: str = "", **options: Any) -> Array:
    """An array of booleans: by default False without a reply; see ``Array``."""
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
        """The arrays with an entry for each ``row``, each ``model``, or one entry for ``all``
        clients."""
        return self._of[over]

    @property
    def flags_rows(self) -> bool:
        """Whether a message must say which rows hold values: empty rows hold numbers too."""
        for array in self.arrays.values():
            is_float = np.dtype(array.dtype).kind == "f"
            if array.finite and is_float and array.over != "all" and not np.isnan(array.missing):
                return True
        return False


class Rows(Schema):
    """Each client's values reach the server."""

    over = "row"


class Sums(Schema):
    """The server needs only sums over clients. Arrays by ``row`` are what it must still know of
    each client, such as the model that it chose."""

    over = "all"


@dataclass(frozen=True)
class Memory:
    """A named array that a client keeps between rounds.

    Attributes:
        axes: shape, as in ``Array``.
        dtype: NumPy type.
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
