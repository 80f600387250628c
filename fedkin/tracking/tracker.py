"""Passing the rounds of a run on to trackers while it goes on. A tracker is anything with three
methods; whatever happens to it, the run goes on and comes out the same."""

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
TRACKED = "tracked"  # in a run folder: what trackers must store until the run is resumed
_INNER_FOLDERS = ("against", "seeds")  # of methods run beside another, and of seeds


@runtime_checkable
class Tracker(Protocol):
    """An object that logs runs. Several methods, or seeds, are separate runs, one after the
    other."""

    def begin(self, name: str, description: dict[str, Any], folder: Path | None) -> None:
        """A run begins, or goes on. ``description`` is what its config.toml says, ``folder`` where
        it is kept."""
        ...

    def __call__(self, record: Record) -> None:
        """A round is done: the line of metrics.jsonl. Every round comes once, in order, from round
        0 on; a run that is resumed goes on where it was, and one that was not tracked before begins
        with the rounds it has."""
        ...

    def end(self, summary: dict[str, Any] | None) -> None:
        """The run has ended, with its summary.json; None where it was interrupted or failed."""
        ...


class TrackerDispatch:
    """All trackers of one run, and the caller's listener."""

    def __init__(
        self, listeners: Sequence[_Listener], on_round: Callable[[Record], Any] | None
    ) -> None:
        self._listeners = listeners
        self._on_round = on_round

    def __call__(self, record: Record) -> Any:
        """Pass on the record of a round. Returns what ``on_round`` replies, which may end the
        run."""
        for listener in self._listeners:
            listener.pass_on(record)
        return self._on_round(record) if self._on_round else None

    def finish(self, summary: dict[str, Any]) -> None:
        """The run is finished."""
        for listener in self._listeners:
            listener.finish(summary)

    def stop(self) -> None:
        """Nothing comes any more: end the trackers whose run was not finished."""
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
    """The function that a run calls after every round: all trackers log it, and then ``on_round``
    is called.

    Args:
        trackers: the trackers that log the run.
        description: the contents of its config.toml.
        folder: where it is kept, if it is.
        earlier_records: reads all records that it has so far, for trackers that have not logged
            them yet.
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
    """One tracker of one run: begun with the first record, and dropped when it fails."""

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
        self.last = -1  # round that it has logged
        self.open = False
        self.failed = False

    def pass_on(self, record: Record) -> None:
        with self._dropped_on_error():
            self._begin()
            self._send(record)

    def finish(self, summary: dict[str, Any]) -> None:
        with self._dropped_on_error():
            self._begin()
            if self.open:
                self.open = False
                self.tracker.end(copy.deepcopy(summary))

    def stop(self) -> None:
        if self.open:
            with self._dropped_on_error():
                self.open = False
                self.tracker.end(None)

    def _begin(self) -> None:
        """Describe the run, and send the rounds that it has on disk and the tracker has not."""
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
        if record["round"] <= self.last or self.failed:
            return
        # A tracker may change its copy.
        self.tracker(copy.deepcopy(record))
        self.last = record["round"]
        if self.folder is not None:
            append_line(self._memory(), str(self.last))

    def _memory(self) -> Path:
        assert self.folder is not None
        (self.folder / TRACKED).mkdir(exist_ok=True)
        return self.folder / TRACKED / f"{self.kind}.rounds"

    @contextmanager
    def _dropped_on_error(self) -> Iterator[None]:
        """A tracker that fails is dropped; there is one warning."""
        try:
            yield
        except Exception as error:
            if not self.failed:
                reason = " ".join(str(error).split()) or type(error).__name__
                _log.warning("%s failed and is dropped; the run goes on: %s", self.kind, reason)
            self.failed = True
            self.open = False


def run_name(description: Mapping[str, Any], folder: Path | None) -> str:
    """The name of a run: its folder (else its data), method and seed."""
    experiment = outermost_folder(folder).resolve().name if folder else description["data"]["name"]
    return f"{experiment} {description['method']['name']} seed {description['run']['seed']}"


def outermost_folder(folder: Path) -> Path:
    """The folder that the user named, of one in its ``against/NAME`` or ``seeds/S``."""
    while folder.parent.name in _INNER_FOLDERS:
        folder = folder.parent.parent
    return folder


def flat_numbers(record: Mapping[str, Any], longest: int = 32) -> dict[str, float]:
    """The numbers of a record by name: ``cluster_sizes/0``, ``bytes_by_operation/train/0``
    (download) and ``/1`` (upload). Lists of more than ``longest`` numbers are left out: a curve for
    each of a thousand peers is useless."""
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
    """The settings of a description by name: ``method.clusters``. What is neither text nor a number
    stands as text."""
    flat = {}
    for section, entries in description.items():
        for name, value in entries.items() if isinstance(entries, Mapping) else [("", entries)]:
            is_plain = isinstance(value, (str, int, float))
            flat[f"{section}.{name}".rstrip(".")] = value if is_plain else str(value)
    return flat
