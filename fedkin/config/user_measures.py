"""User-defined measures: given as objects, or by their import path ``package.module:Measure``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedkin.config import user_methods
from fedkin.config.schema import Values
from fedkin.core.errors import ConfigError
from fedkin.measures.lookup import entry_of
from fedkin.measures.measure import Measure
from fedkin.measures.reserved_names import OTHER_ENTRIES, TABLE_ENTRIES
from fedkin.measures.table import COMPARED, MEASURES

_TAKEN = {*MEASURES, *OTHER_ENTRIES, *TABLE_ENTRIES, *(MEASURES[name].by for name in COMPARED)}
_ENDS = ("_low", "_high")  # names of measures may not end so; intervals use these for their bounds


def resolved(
    entries: Iterable[Any] | Measure, place: str
) -> tuple[list[Values], tuple[Measure, ...]]:
    """Find the measures that a user gives. Returns the tables that describe the measures in a run's
    config.toml, and the measures.

    Args:
        entries: measures, import paths ``module:Measure``, or entries of a description; or one
            measure.
        place: where the entries were read, for messages.

    Raises:
        ConfigError: an import fails, a value is not a measure, a name is reserved, or a measure is
            given twice.
    """
    described: list[Values] = []
    measures: list[Measure] = []
    for entry in [entries] if isinstance(entries, (str, Measure)) else entries:
        measure, origin = _measure(entry, place)
        _check(measure, measures, place)
        measures.append(measure)
        described.append(entry_of(measure, origin))
    return described, tuple(measures)


def _measure(entry: Any, place: str) -> tuple[Measure, str]:
    """The measure that a user gave as an object, an import path or a table; and its import path."""
    if isinstance(entry, Measure):
        return entry, _origin(entry)
    name = entry.get("from") if isinstance(entry, Mapping) else entry
    if not isinstance(name, str):
        raise ConfigError(
            f'{place}: expected fk.Measure(...) or "module:Measure", got {entry!r:.80}'
        )
    try:
        found = user_methods.found(name)
        measure = found() if callable(found) else found
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
    except Exception as error:  # whatever the user's own class raises
        words = " ".join(str(error).split())
        raise ConfigError(
            f"{place}: {name!r} raised an error when it was called: {type(error).__name__}: {words}"
        ) from error
    if not isinstance(measure, Measure):
        raise ConfigError(
            f"{place}: {name!r}: expected fk.Measure(...), or a function that returns one, got "
            f"{type(measure).__name__}; see docs/write-a-measure.md"
        )
    return measure, name


def _origin(measure: Measure) -> str:
    """The module and name of a measure's function, in the form of an import path."""
    return f"{getattr(measure.of, '__module__', '')}:{getattr(measure.of, '__qualname__', '')}"


def _check(measure: Measure, before: Sequence[Measure], place: str) -> None:
    """Raise ConfigError if a measure has no function, or if its name is taken."""
    name = measure.name
    if measure.of is None:
        raise ConfigError(
            f"{place}: the measure {name!r} has no function; give it a function of the scored "
            "clients: fk.Measure(..., of=FUNCTION)"
        )
    if any(name == other.name for other in before):
        raise ConfigError(f"{place}: the measure {name!r} is given twice; remove one")
    if name in _TAKEN or name.endswith(_ENDS):
        raise ConfigError(
            f"{place}: the name {name!r} is taken: records or tables have it already; choose "
            "another one"
        )
