"""Interface between an experiment and its worlds: a simulation, or a federation with a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from fedkin.config.plan import Plan
from fedkin.config.registry import Entry
from fedkin.config.schema import Values
from fedkin.core.method import Method
from fedkin.core.model_spec import ModelSpec
from fedkin.core.world import World
from fedkin.options.base import Option
from fedkin.run.metrics.clustering import GroundTruth
from fedkin.run.trained.ingredients import Ingredients
from fedkin.task_types.task_type import TaskType

# Digests of inputs that determine results and are not in the description: the data and the model.
Digests = tuple[str, ...]
Methods = Sequence[tuple[Values, Method]]  # methods, each with its entry in the description


class ClientFacts(NamedTuple):
    """Facts about all N clients for the table of clients: samples, names and true clusters."""

    samples: Int[np.ndarray, "N"]
    names: Sequence[str] | None = None
    true_clusters: Int[np.ndarray, "N"] | None = None


class OpenWorld(NamedTuple):
    """The world of one run, with functions that return facts about it."""

    world: World
    client_facts: Callable[[], ClientFacts]  # called at the end of the run
    ground_truth: Callable[[], GroundTruth] = GroundTruth  # facts about the current round
    parts: Ingredients | None = None  # method, model and data of the run


@runtime_checkable
class WorldFactory(Protocol):
    """Makes the worlds of runs: a simulation, or a federation with a server. Each run has a
    separate world."""

    @property
    def clients(self) -> int:
        """The number of clients, including those that arrive later."""
        ...

    @property
    def spec(self) -> ModelSpec:
        """The model's size and layers."""
        ...

    @property
    def task_type(self) -> TaskType:
        """What the labels are: classes, numbers, counts, ..."""
        ...

    def digests(self) -> Digests:
        """Digests of inputs that determine results (data and model) but are not in the run's
        description."""
        ...

    def check(self, methods: Methods, plan: Plan, options: Iterable[Option]) -> None:
        """Raise ConfigError if a method with these options cannot run in this kind of world."""
        ...

    def open(self, entry: Values, method: Method) -> OpenWorld:
        """A new world for a run of a method; ``entry`` is the method's name and settings in the
        run's description."""
        ...


def named_methods(entries: Iterable[Entry]) -> Methods:
    """The methods of a configuration, each with its entry (name and settings) in a run's
    description.

    Args:
        entries: the methods with their names and settings, as the registry makes them.
    """
    return [(entry.values, entry.made) for entry in entries]


def method_places(methods: Methods) -> list[str]:
    """The place of each method in a configuration (``method`` or ``run.against: NAME``), for
    messages."""
    return ["method", *(f"run.against: {entry['name']}" for entry, _ in methods[1:])]
