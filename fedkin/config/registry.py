"""What a configuration can name, and how a named choice is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fedkin.config.schema import Values, revive, schema
from fedkin.scenarios.population import Population

Registry = Mapping[str, Callable[..., Any]]
NOT_OPTIONS = ("data",)  # what the experiment hands over itself


def datasets() -> Registry:
    """Named data sets, the user's own file and planted clusters."""
    from fedkin.data import DATASETS, load
    from fedkin.scenarios.planted_clusters import planted

    return {"file": load, "planted": planted, **DATASETS}


class _Models(Mapping[str, Callable[..., Any]]):
    """Named models, and the user's own in PyTorch; who has one of those needs no JAX."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name == "torch":
            from fedkin.simulation.torch import configured

            return configured
        from fedkin.models import MODELS

        return MODELS[name]

    def __iter__(self) -> Iterator[str]:
        from fedkin.models import MODELS

        return iter([*MODELS, "torch"])

    def __len__(self) -> int:
        return sum(1 for _ in self)  # list() would ask for the length


def models() -> Registry:
    """Named models, and the user's own in PyTorch."""
    return _Models()


def methods() -> Registry:
    """Named methods."""
    from fedkin.methods import METHODS

    return dict(METHODS)


def method_title(name: str) -> str:
    """A method's name as its class spells it; another name stays as it is."""
    kind = methods().get(name)
    return getattr(kind, "__name__", name)


def shifts() -> Registry:
    """Named ways in which data move."""
    from fedkin.scenarios.shift import SHIFTS

    return dict(SHIFTS)


def make(registry: Registry, values: Values, *first: Any) -> Any:
    """Call a named choice with its checked options.

    The options go through their schema once more: TOML's lists come out as the tuples they stand for.
    """
    call = registry[values["name"]]
    options = {key: value for key, value in values.items() if key != "name"}
    return call(*first, **_typed(call, options))


def make_population(values: Values) -> Population:
    """The scenario section as a Population."""
    return Population(**_typed(Population, values))


def _typed(call: Callable[..., Any], options: Values) -> Values:
    section = revive(schema(call, NOT_OPTIONS), options)
    return {name: getattr(section, name) for name in options}


def options(call: Callable[..., Any]) -> set[str]:
    """The names of what a named choice can be told."""
    return set(schema(call, NOT_OPTIONS).model_fields)
