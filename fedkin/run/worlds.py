"""Where runs take place: what an experiment needs of a simulation, or of a federation with a
server."""

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

# What decides numbers and is not in the description, such as the data and the model.
Digests = tuple[str, ...]
Methods = Sequence[tuple[Values, Method]]  # each with its entry in the description


class ClientFacts(NamedTuple):
    """What the table of clients says of all N clients besides their scores."""

    samples: Int[np.ndarray, "N"]
    names: Sequence[str] | None = None
    true_clusters: Int[np.ndarray, "N"] | None = None


class OpenWorld(NamedTuple):
    """The world of one run, and what is known of it besides."""

    world: World
    client_facts: Callable[[], ClientFacts]  # at the end of the run
    ground_truth: Callable[[], GroundTruth] = GroundTruth  # of the present round
    parts: Ingredients | None = None  # what runs here is made of


@runtime_checkable
class WorldFactory(Protocol):
    """Where runs take place: a simulation, or a federation with a server. Each run has a world of
    its own."""

    @property
    def clients(self) -> int:
        """The number of clients, including those that arrive later."""
        ...

    @property
    def spec(self) -> ModelSpec:
        """The model's size and layers."""
        ...

    def digests(self) -> Digests:
        """What decides numbers and is not in the description."""
        ...

    def check(self, methods: Methods, plan: Plan, options: Iterable[Option]) -> None:
        """Refuse (ConfigError) methods, with these options, that cannot run here."""
        ...

    def open(self, entry: Values, method: Method) -> OpenWorld:
        """A new world for a run of a method; ``entry`` is its entry in the description."""
        ...


def named_methods(entries: Iterable[Entry]) -> Methods:
    """The methods of a configuration, each with its entry in a description.

    Args:
        entries: of the methods.
    """
    return [(entry.values, entry.made) for entry in entries]


def method_places(methods: Methods) -> list[str]:
    """Where each method stands in a configuration, for messages."""
    return ["method", *(f"run.against: {entry['name']}" for entry, _ in methods[1:])]
