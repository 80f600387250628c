"""What a method is: three steps on an immutable state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from fedkin.errors import MethodError
from fedkin.randomness import Stream
from fedkin.world import World

COLD = -1  # the assignment of a client that has no cluster yet


@dataclass(frozen=True)
class State:
    """What every method keeps from round to round; a method adds arrays of its own by subclassing.

    All fields are NumPy arrays, so that a checkpoint is the state and nothing else.
    """

    models: Float[np.ndarray, "K P"]
    assignment: Int[np.ndarray, "N"]  # cluster of each client, COLD if it has none


@runtime_checkable
class Method(Protocol):
    """A frozen dataclass of hyper-parameters with three steps. The state's type is the method's own business."""

    def init(self, world: World, stream: Stream) -> Any:
        """The state before the first communication round."""
        ...

    def round(self, world: World, state: Any, cohort: Int[np.ndarray, "n"], stream: Stream) -> Any:
        """One communication round with a cohort (ascending client ids). One that ``place`` could not place is cold
        still, and the method may leave it out."""
        ...

    def place(self, world: World, state: Any, newcomers: Int[np.ndarray, "c"], stream: Stream) -> Any:
        """Give every newcomer (ascending client ids) a cluster; one that gives no answer stays cold. A method that
        chooses clusters anew in every round may leave that to ``round``."""
        ...


def at_least_one(name: str, value: object) -> None:
    """Refuse a hyper-parameter that is not a positive integer."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise MethodError(f"{name} must be an integer of at least 1, got {value!r}")


def not_negative(name: str, value: object) -> None:
    """Refuse a hyper-parameter that is not a finite number from zero up."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value < np.inf:
        raise MethodError(f"{name} must be a number from 0 up, got {value!r}")


def one_of(name: str, value: object, known: tuple) -> None:
    """Refuse a hyper-parameter that is none of the known words."""
    if value not in known:
        raise MethodError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
