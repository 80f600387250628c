"""Trackers log every round of a run, and this module forwards the rounds to them.

A tracker is any object with the three methods of ``Tracker``. A failure of a tracker never stops or
changes the run.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from fedkin.core.records import Record
from fedkin.core.storage import append_line, complete_lines

_log = logging.getLogger("fedkin")
TRACKED = "tracked"  # folder in a run folder: which rounds each tracker has logged, for resuming
_INNER_FOLDERS = ("against", "seeds")  # folders of compared methods and of seeds in a run's folder


@runtime_checkable
class Tracker(Protocol):
    """The interface of a tracker. If a run has several methods or seeds, each of them is a separate
    run for the tracker: ``begin``, its rounds, ``end``."""

    def begin(self, name: str, description: dict[str, Any], folder: Path | None) -> None:
        """Called when a run begins or is resumed. ``description`` is the content of the run's
        config.toml, ``folder`` the run's folder."""
        ...

    def __call__(self, record: Record) -> None:
        """Log the record of a round, as in metrics.jsonl.

        Every round is passed once, in order, from round 0. A resumed run continues after the last
        logged round. A run that was not tracked before starts with its stored rounds.
        """
        ...

    def end(self, summary: dict[str, Any] | None) -> None:
        """Called when a run ends. ``summary`` is the content of its summary.json, or None if the
        run was interrupted or failed."""
        ...


class TrackerDispatch:
    """Passes every record of a run to its trackers, and then to the caller's ``on_round``."""

    def __init__(
        self, listeners: Sequence[_Listener], on_round: Callable[[Record], Any] | None
    ) -> None:
        self._listeners = listeners
        self._on_round = on_round

    def __call__(self, record: Record) -> Any:
        """Forward the record of a round. Returns the result of ``on_round``, which may end the
        run."""
        for listener in self._listeners:
            listener.pass_on(record)
        return self._on_round(record) if self._on_round else None

    def finish(self, summary: dict[str, Any]) -> None:
        """Tell all trackers that the run is finished, with the run's summary."""
        for listener in self._listeners:
            listener.finish(summary)

    def stop(self) -> None:
        """End the trackers of an unfinished run."""
        for listener in self._listeners:
            listener.stop()


@contextmanager
def dispatching(
    trackers: Sequence[Tracker],
    description: Mapping[str, Any],
    folder: Path | None = None,
    earlier_records: Callable[[], Iterable[Record]] = tuple,
    on_round: Callable[[Record], Any] | None = None,
) -> Iterator[TrackerDispatch]:
    """Context manager that makes the function which a run calls after every round. The trackers are
    ended when the context ends, even by an error.

    Args:
        trackers: the trackers that log the run.
        description: the contents of the run's config.toml.
        folder: the run's folder; None if the run is not stored.
        earlier_records: reads all stored records, for trackers that have not logged them yet.
        on_round: called last with every record.
    """
    listeners = [
        _Listener(tracker, dict(description), folder, earlier_records) for tracker in trackers
    ]
    dispatch = TrackerDispatch(listeners, on_round)
    try:
        yield dispatch
    finally:
        dispatch.stop()


class _Listener:
    """Calls one tracker for one run. The tracker begins with the first record, and is dropped after
    an error."""

    def __init__(
        self,
        tracker: Tracker,
        description: dict[str, Any],
        folder: Path | None,
        earlier_records: Callable[[], Iterable[Record]],
    ) -> None:
        self.tracker = tracker
        self.description = description
        self.folder = folder
        self.earlier_records = earlier_records
        self.kind = type(tracker).__name__
        self.last = -1  # last logged round
        self.open = False
        self.failed = False

    def pass_on(self, record: Record) -> None:
        """Send the record of a round to the tracker, which begins before its first record."""
        with self._dropped_on_error():
            self._begin()
            self._send(record)

    def finish(self, summary: dict[str, Any]) -> None:
        """End the tracker with the summary of the finished run."""
        with self._dropped_on_error():
            # A resumed run may have had no round left, so the tracker may not have begun.
            self._begin()
            if self.open:
                self.open = False
                self.tracker.end(copy.deepcopy(summary))

    def stop(self) -> None:
        """End the tracker of an unfinished run, without a summary. A tracker that has ended is left
        alone."""
        if self.open:
            with self._dropped_on_error():
                self.open = False
                self.tracker.end(None)

    def _begin(self) -> None:
        """Call the tracker's ``begin``, and send the stored rounds that the tracker has not logged.
        If the tracker has already begun or has failed, do nothing."""
        if self.open or self.failed:
            return
        self.tracker.begin(
            run_name(self.description, self.folder), copy.deepcopy(self.description), self.folder
        )
        self.open = True
        if self.folder is not None:
            rounds = complete_lines(self._memory())
            self.last = int(rounds[-1]) if rounds else -1
            for record in self.earlier_records():
                self._send(record)

    def _send(self, record: Record) -> None:
        """Log a record, unless the tracker has failed or has already logged the record's round."""
        if record["round"] <= self.last or self.failed:
            return
        # A copy, because a tracker may change it.
        self.tracker(copy.deepcopy(record))
        self.last = record["round"]
        if self.folder is not None:
            append_line(self._memory(), str(self.last))

    def _memory(self) -> Path:
        """The file that lists which rounds the tracker has logged."""
        assert self.folder is not None
        (self.folder / TRACKED).mkdir(exist_ok=True)
        return self.folder / TRACKED / f"{self.kind}.rounds"

    @contextmanager
    def _dropped_on_error(self) -> Iterator[None]:
        """Context manager that drops a failing tracker with one warning."""
        try:
            yield
        except Exception as error:
            if not self.failed:
                reason = " ".join(str(error).split()) or type(error).__name__
                _log.warning(
                    "tracker %s failed and is no longer called; the run continues: %s",
                    self.kind,
                    reason,
                )
            self.failed = True
            self.open = False


def run_name(description: Mapping[str, Any], folder: Path | None) -> str:
    """The name of a run: its folder (or its data), method and seed."""
    experiment = outermost_folder(folder).resolve().name if folder else description["data"]["name"]
    return f"{experiment} {description['method']['name']} seed {description['run']['seed']}"


def outermost_folder(folder: Path) -> Path:
    """The folder that the user named. ``folder`` may be inside it: the folder of a compared method
    (``against/NAME``) or of a seed (``seeds/S``)."""
    while folder.parent.name in _INNER_FOLDERS:
        folder = folder.parent.parent
    return folder


def flat_numbers(record: Mapping[str, Any], longest: int = 32) -> dict[str, float]:
    """The numbers of a record by name. Entries of lists get the name and their position, such as
    ``cluster_sizes/0``, or ``bytes_by_operation/train/0`` (download) and ``/1`` (upload).

    Lists with more than ``longest`` numbers are left out: a tracker draws a curve for each number,
    and a thousand curves cannot be read.
    """
    numbers: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, (int, float)):
            numbers[name] = float(value)
        elif isinstance(value, (list, tuple, Mapping)) and len(value) <= longest:
            if isinstance(value, Mapping):
                entries = value
            else:
                entries = {str(place): entry for place, entry in enumerate(value)}
            for key, number in flat_numbers(entries, longest).items():
                numbers[f"{name}/{key}"] = number
    numbers.pop("round", None)
    return numbers


def flat_settings(description: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a description by section and name, such as ``method.clusters``. Values that
    are neither text nor numbers are converted to text."""
    flat = {}
    for section, entries in description.items():
        for name, value in entries.items() if isinstance(entries, Mapping) else [("", entries)]:
            is_plain = isinstance(value, (str, int, float))
            flat[f"{section}.{name}".rstrip(".")] = value if is_plain else str(value)
    return flat
