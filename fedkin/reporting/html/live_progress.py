"""How far a run and the methods that it is compared with are, and the time that is left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from fedkin.config.description import Description
from fedkin.core.errors import FedkinError
from fedkin.run.folder import run_folder

_QUIET = 60.0  # seconds without a new round after which the time left is not estimated


class MethodProgress(NamedTuple):
    """How far the run of one method is.

    Attributes:
        name: the method's name.
        folder: the folder of its run.
        round: the last finished round; None if the run has not begun.
        rounds: the configured number of rounds; None if unknown.
        pace: mean seconds per round; None if unknown.
    """

    name: str
    folder: Path
    round: int | None
    rounds: int | None
    pace: float | None

    @property
    def begun(self) -> bool:
        """Whether the run has a finished round. Round 0 is the evaluation of the new models."""
        return self.round is not None


def methods_of(folder: Path) -> list[MethodProgress]:
    """The methods of a run in the order in which they are run, also those that have not begun.
    Empty if the folder holds no run.

    Args:
        folder: the run's folder.
    """
    try:
        config = run_folder.read_config(folder)
    except FedkinError:
        return []
    others = [
        _progress(other, run_folder.against_folder(folder, other.method_name))
        for other in config.against
    ]
    return [_progress(config, folder), *others]


def progress_text(methods: Sequence[MethodProgress], now: float | None = None) -> str:
    """The progress of a run as text: ``method 2 of 3: ifca, round 5 of 12, about 40 s left``.

    Args:
        methods: the methods, in the order in which they are run.
        now: seconds since 1970; default: the current time.
    """
    begun = [method for method in methods if method.begun]
    if not begun:
        return ""
    current = begun[-1]
    words = [f"round {current.round} of {current.rounds or '?'}"]
    if len(methods) > 1:
        number = methods.index(current) + 1
        words.insert(0, f"method {number} of {len(methods)}: {current.name}")
    quiet = (time.time() if now is None else now) - _last_written(current.folder)
    if quiet > max(_QUIET, 10 * (current.pace or 0.0)):
        words.append(f"no new round for {_in_words(quiet)}")
    else:
        seconds = seconds_left(methods)
        if seconds is not None:
            words.append(f"about {_in_words(seconds)} left")
    return ", ".join(words)


def seconds_left(methods: Sequence[MethodProgress]) -> float | None:
    """The estimated seconds until all methods are finished; None if there is no estimate.

    A method that has not begun is estimated at the mean pace of the others.

    Args:
        methods: the methods, in the order in which they are run.
    """
    paces = [method.pace for method in methods if method.pace is not None]
    if not paces:
        return None
    mean = sum(paces) / len(paces)
    current = max(number for number, method in enumerate(methods) if method.begun)
    seconds = 0.0
    # Earlier methods have ended, perhaps before their last configured round.
    for method in methods[current:]:
        if method.rounds is None:
            return None
        each = mean if method.pace is None else method.pace
        seconds += each * max(0, method.rounds - (method.round or 0))
    return seconds


def _progress(config: Description, folder: Path) -> MethodProgress:
    """How far the run of a method in a folder is."""
    records = []
    totals = []
    with suppress(FedkinError, OSError):
        records = run_folder.read_records(folder)
        totals = [line["total"] for line in run_folder.read_records(folder, run_folder.TIMINGS)]
    return MethodProgress(
        name=config.method_with_options,
        folder=folder,
        round=records[-1]["round"] if records else None,
        rounds=config.rounds,
        pace=_pace(totals),
    )


def _pace(totals: Sequence[float]) -> float | None:
    """Mean seconds per round, from the total seconds after each round. Round 0, which also
    compiles, does not count."""
    if len(totals) < 2:
        return None
    return (totals[-1] - totals[0]) / (len(totals) - 1)


def _last_written(folder: Path) -> float:
    """The time at which a run's last round was written, in seconds since 1970."""
    return (folder / run_folder.METRICS).stat().st_mtime


def _in_words(seconds: float) -> str:
    """A duration without decimals, in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
