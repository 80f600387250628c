"""The methods of a comparison. If its grid varies options of methods (such as ``method.clusters``),
each method is listed once for every value of those options that the method has."""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any

from fedkin.config import registry
from fedkin.config.comparison_axes import Axis
from fedkin.config.comparison_grid import Variant
from fedkin.config.inherited_options import unlike_others, why_impossible
from fedkin.config.schema import Values
from fedkin.core.errors import ConfigError, nearest

_log = logging.getLogger("fedkin")


def variants(
    entries: Iterable[Values], main: str, axes: Sequence[Axis], place: str, drawn: bool = False
) -> tuple[Variant, ...]:
    """Each method with every combination of the values of those axes (options with several values)
    that apply to the method. In a random search, it is each method once, with the options that it
    takes from a trial.

    An axis applies to a method if the method has the option with the same meaning as the main
    method, and if the option does not conflict with the method's other options. Methods that have
    the option but keep their own value are logged.

    Args:
        entries: the methods as configured.
        main: name of the main method, which is the one in [method]. If an option has several
            meanings, its meaning in this method counts, or its most common meaning if this method
            does not have the option.
        axes: options of methods, and their values.
        place: where the methods were read, for messages.
        drawn: whether the values are those of the trials of a random search.

    Raises:
        ConfigError: a method or option is unknown, or an axis applies to no method.
    """
    entries = list(entries)
    known = [_options(entry, place) for entry in entries]
    names = [str(entry["name"]) for entry in entries]
    having = {
        one.option: [name for name, own in zip(names, known, strict=True) if one.option in own]
        for one in axes
    }
    meaning = {option: _with_one_meaning(option, having[option], main) for option in having}
    # The axes that apply to each method.
    taken = [
        _possible(entry, [one for one in axes if one.option in own and name in meaning[one.option]])
        for entry, own, name in zip(entries, known, names, strict=True)
    ]
    for one in axes:
        takers = [own for own in taken if one in own]
        if not having[one.option]:
            near = nearest(one.option, sorted(set().union(*known)))
            cure = f"did you mean 'method.{near}'?" if near else "remove it from the grid"
            raise ConfigError(
                f"compare.grid: no method of this comparison has an option '{one.key}'; {cure}"
            )
        every = zip(entries, known, taken, strict=True)
        keepers = [
            str(entry.get("label") or entry["name"])
            for entry, options, own in every
            if one.option in options and one not in own
        ]
        if takers and keepers:
            _say_kept(one.key, ", ".join(keepers))
        elif not takers:  # values that suit no method are refused when the first method is made
            taken = [
                [*own, one] if one.option in options else own
                for own, options in zip(taken, known, strict=True)
            ]
    make = _in_trials if drawn else _of_method
    return tuple(
        v for entry, own in zip(entries, taken, strict=True) for v in make(entry, own, place)
    )


def one_line(label: Any) -> str:
    """A label without line breaks."""
    return " ".join(str(label).split())


def check_label(label: Any, place: str) -> None:
    """Raise ConfigError for a label that is neither text nor a number."""
    if not isinstance(label, (str, int, float)):
        raise ConfigError(f'{place}: label: expected text, got {label!r}; for example label = "a"')


def _options(entry: Values, place: str) -> set[str]:
    """The names of the options of the method in an entry (its name or a table). Raises ConfigError
    for an invalid entry."""
    registry.resolve("method", registry.methods(), _bare(entry), lambda key: f"{place}: {key}")
    check_label(entry.get("label", ""), place)
    return registry.options(registry.methods()[entry["name"]])


def _with_one_meaning(option: str, names: Sequence[str], main: str) -> list[str]:
    """The methods in which an option has the same meaning as in the main method. If the main method
    does not have the option, the most common meaning in the library is used."""
    other = [name for name in names if unlike_others(name, option)]
    usual = [name for name in names if name not in other]
    return other if main in other or not usual else usual


def _possible(entry: Values, axes: Sequence[Axis]) -> list[Axis]:
    """The largest set of axes (options with several values) for which at least one combination of
    values gives a method that can be made without an error."""
    subsets = (
        own for size in range(len(axes), 0, -1) for own in itertools.combinations(axes, size)
    )
    return list(next((own for own in subsets if _some_possible(entry, own)), ()))


def _some_possible(entry: Values, axes: Sequence[Axis]) -> bool:
    """Whether the method can be made with at least one combination of the axes' values."""
    changes = itertools.product(*(one.values for one in axes))
    options = [one.option for one in axes]
    return any(
        not why_impossible({**_bare(entry), **dict(zip(options, values, strict=True))})
        for values in changes
    )


def _of_method(entry: Values, axes: Sequence[Axis], place: str) -> Iterable[Variant]:
    """A method with every combination of the values of the axes that apply to it."""
    bare = _bare(entry)
    label = one_line(entry.get("label") or registry.method_title(entry["name"]))
    for values in itertools.product(*(one.values for one in axes)):
        changes = {one.option: value for one, value in zip(axes, values, strict=True)}
        where = "compare.grid: method." if changes else f"{place}: "
        resolved = registry.resolve(
            "method", registry.methods(), {**bare, **changes}, partial(_place_of, where)
        )
        swept = [one for one in axes if len(one.values) > 1]
        parts = [one.label(changes[one.option]) for one in swept]
        yield Variant(
            ", ".join([label, *parts]),
            resolved.values,
            base=label if parts else "",
            values={one.key: changes[one.option] for one in swept},
        )


def _in_trials(entry: Values, axes: Sequence[Axis], place: str) -> Iterable[Variant]:
    """A method of a random search, with the names of the options that it takes from a trial."""
    (method,) = _of_method(entry, [], place)
    yield dataclasses.replace(method, takes=tuple(one.option for one in axes))


def _place_of(where: str, key: str) -> str:
    """The place of a method's option in the configuration, for messages."""
    return f"{where}{key}"


def _bare(entry: Values) -> Values:
    """A method's entry without its label."""
    return {key: value for key, value in entry.items() if key != "label"}


@cache
def _say_kept(key: str, names: str) -> None:
    """Log once per process that methods keep their own value of an option."""
    _log.warning(
        "%s is not applied to %s: the option has another meaning there or conflicts with other "
        "options",
        key,
        names,
    )
