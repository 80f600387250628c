"""Lookup of measures by name, and of the user's measures that a run's stored description lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedkin.core.errors import ConfigError, unknown
from fedkin.measures.measure import Measure
from fedkin.measures.run_scores import ACCURACIES, RunScores
from fedkin.measures.scores import names_in
from fedkin.measures.table import EXTRA, MEASURES

# Fields of a user's measure that are stored in a description.
WORDS = ("name", "title", "head", "short", "unit", "digits", "direction")


def measures_of(names: Iterable[str]) -> list[Measure]:
    """The measures with the given names, in this order."""
    return [MEASURES[name] for name in names]


def score_in(record: Mapping[str, Any]) -> Measure:
    """The measure that chooses the best round, from a record of a round or a run's summary."""
    return MEASURES[names_in(record).score]


def measures_in(description: Mapping[str, Any]) -> tuple[Measure, ...]:
    """The measures that every table of a run shows after the built-in ones: ``EXTRA``, and the
    user's measures in the run's description.

    No user's module is imported. Damaged entries are skipped.
    """
    settings = description.get("run")
    entries = settings.get("measures") if isinstance(settings, Mapping) else None
    if not isinstance(entries, Sequence):
        return EXTRA
    measures = [_from_entry(entry) for entry in entries]
    return EXTRA + tuple(measure for measure in measures if measure is not None)


def _from_entry(entry: Any) -> Measure | None:
    """A user's measure from its entry in a run's description. The measure has no function, as its
    values are already in the records. None for a damaged entry."""
    if not isinstance(entry, Mapping):
        return None
    # Keys that this version does not know are ignored.
    words = {name: value for name, value in entry.items() if name in WORDS}
    digits = words.pop("digits", None)
    if not isinstance(digits, (int, type(None))):
        return None
    if not all(isinstance(word, str) for word in words.values()):
        return None
    try:
        return Measure(**words, digits=digits)
    except (ConfigError, TypeError):
        return None


def entry_of(measure: Measure, origin: str) -> dict[str, Any]:
    """The entry of a user's measure for a run's description.

    Args:
        measure: the measure.
        origin: import path of the measure, ``module:name``.
    """
    entry = {"from": origin}
    for name in WORDS:
        value = getattr(measure, name)
        if value not in ("", None):
            entry[name] = value
    return entry


def compared_by(word: str, own: Iterable[Measure] = (), scores: RunScores = ACCURACIES) -> Measure:
    """The measure that a word of ``fedkin compare --by`` means.

    Args:
        word: ``final``, ``best``, ``bottom``, ``validation``, or the name of a user's measure.
        own: the user's measures (``measures_in``).
        scores: the measures of the runs' score.

    Raises:
        ConfigError: the word is unknown, or the measure does not say whether higher or lower values
            are better.
    """
    by_word = {measure.by: measure for measure in (*scores.compared, *own)}
    if word not in by_word:
        raise ConfigError(unknown("measure", str(word), by_word))
    measure = by_word[word]
    if measure.direction == "neither":
        raise ConfigError(
            f"measure {word!r} does not define which direction is better; set "
            'direction="higher" or "lower"'
        )
    return measure
