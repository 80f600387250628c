"""Callbacks of a run: functions that get the record of each round, trackers, and the progress
display."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedkin.core.errors import ConfigError
from fedkin.core.progress import Progress
from fedkin.core.records import Record
from fedkin.run.stopping import STOP, asks_to_stop
from fedkin.tracking.registry import TRACKERS, make_trackers
from fedkin.tracking.tracker import Tracker

OnRound = Callable[[Record], Any]
Callback = str | Tracker | OnRound | Progress


class Callbacks(NamedTuple):
    """The callbacks of a run, sorted by kind."""

    trackers: list[Tracker]
    on_round: OnRound | None
    progress: bool | None  # whether to show progress; None: on a terminal and in a notebook


def by_kind(callbacks: Callback | Sequence[Callback], folder: Path | None) -> Callbacks:
    """Sort callbacks by their kind.

    Args:
        callbacks: one callback or several, as the user gave them.
        folder: the run's folder.

    Raises:
        ConfigError: a value is not a callback, ``Progress`` is given twice, or ``make_trackers``
            refuses a tracker.
        MissingExtra: the library of a tracker is not installed.
    """
    single = isinstance(callbacks, str) or not isinstance(callbacks, Sequence)
    entries: Sequence[Any] = [callbacks] if single else callbacks  # type: ignore[assignment]
    tracked: list[Any] = []
    functions: list[OnRound] = []
    progress: bool | None = None
    for entry in entries:
        if isinstance(entry, type):
            name = entry.__name__
            raise ConfigError(f"callbacks must be instances, {name}(...), got the class {name}")
        if isinstance(entry, Progress):
            if progress is not None:
                raise ConfigError("callbacks: Progress is given twice; remove one")
            progress = entry.show
        elif isinstance(entry, (str, Tracker)):
            tracked.append(entry)
        elif callable(entry):
            functions.append(entry)
        else:
            raise ConfigError(
                "callbacks must be functions of a round's record, trackers, or names of trackers "
                f"({', '.join(TRACKERS)}); got {entry!r}"
            )
    return Callbacks(make_trackers(tracked, folder), _call_all(functions), progress)


def _call_all(functions: Sequence[OnRound]) -> OnRound | None:
    """Combine callbacks into one function that calls each of them with the record of a round. The
    function returns ``STOP``, which ends the run, if any callback returns ``STOP``. None if there
    are no callbacks."""
    if len(functions) <= 1:
        return functions[0] if functions else None

    def call_all(record: Record) -> Any:
        replies = [function(record) for function in functions]
        return STOP if any(asks_to_stop(reply) for reply in replies) else None

    return call_all
