"""What a method is: three steps on an immutable state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream
from fedkin.core.world import World

COLD = -1  # the assignment of a client that has no cluster yet


@dataclass(frozen=True)
class Served:
    """What clients are tested on: ``models[which]``; or, where models are detectors, one of each class, ``model_index`` [n C]
    (-1: none), of which detector d has learned to find class ``positive[d]`` among the clients of cluster ``home[d]``.
    """

    models: Float[np.ndarray, "D P"]
    model_index: Int[np.ndarray, "n ..."]
    positive: Int[np.ndarray, "D"] | None = None
    home: Int[np.ndarray, "D"] | None = None


@dataclass(frozen=True)
class State:
    """What every method keeps from round to round; a method adds arrays of its own by subclassing.

    All fields are NumPy arrays, so that a checkpoint is the state and nothing else.
    """

    models: Float[np.ndarray, "K P"]
    assignment: Int[np.ndarray, "N"]  # cluster of each client, COLD if it has none

    @property
    def clusters(self) -> int:
        """K, where a cluster has one model."""
        return len(self.models)

    def served(self, clients: Int[np.ndarray, "n"]) -> Served:
        """What these clients, each with a cluster, are tested on."""
        return Served(self.models, self.assignment[clients])

    def becomes(self, clients: Int[np.ndarray, "n"], trained: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        """Which model each client's local solution has become a part of, if it trained model ``trained``; or COLD."""
        return self.assignment[clients]

    def excluded(self) -> Bool[np.ndarray, "N"]:
        """Clients that get no cluster, and shall not."""
        return np.zeros(len(self.assignment), bool)


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


def positive(name: str, value: object) -> None:
    """Refuse a hyper-parameter that is not a finite number above zero."""
    not_negative(name, value)
    if not value:
        raise MethodError(f"{name} must be a number above 0, got {value!r}")


def in_unit(name: str, value: object) -> None:
    """Refuse a hyper-parameter that is not a share of something: above 0, at most 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value <= 1:
        raise MethodError(f"{name} must be a number above 0 and at most 1, got {value!r}")


def one_of(name: str, value: object, known: tuple) -> None:
    """Refuse a hyper-parameter that is none of the known words."""
    if value not in known:
        raise MethodError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
