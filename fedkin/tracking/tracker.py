"""Telling others of a run while it goes on. A tracker is anything with three methods; whatever happens to it, the run
goes on and comes out the same."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from fedkin.core.errors import ConfigError, unknown
from fedkin.core.records import Record
from fedkin.core.storage import append_line, whole_lines
from fedkin.run import run_folder as folders

_log = logging.getLogger("fedkin")
TRACKED = "tracked"  # in a run folder: what trackers must remember until the run is resumed


@runtime_checkable
class Tracker(Protocol):
    """What is told of runs. Methods run beside each other, and seeds, are runs of their own, one after another."""

    def begin(self, name: str, description: dict[str, Any], folder: Path | None) -> None:
        """A run begins, or goes on. ``description`` is what its config.toml says, ``folder`` where it is kept."""
        ...

    def __call__(self, record: Record) -> None:
        """A round is done: the line of metrics.jsonl. Every round comes once, in order, from round 0 on; a run that is
        resumed goes on where it was, and one that was not tracked before begins with the rounds it has."""
        ...

    def end(self, summary: dict[str, Any] | None) -> None:
        """The run is finished, as its summary.json says; None where it was interrupted or failed."""
        ...


class TrackerDispatch:
    """All trackers of one run."""

    def __init__(
        self, trackers: Sequence[Tracker], description: Mapping[str, Any], folder: Path | None, also: Callable | None
    ) -> None:
        self._listeners = [_Listener(tracker, dict(description), folder) for tracker in trackers]
        self._also = also

    def __call__(self, record: Record) -> None:
        """Pass on the record of a round."""
        for listener in self._listeners:
            listener.hear(record)
        if self._also:
            self._also(record)

    def finish(self, summary: dict[str, Any]) -> None:
        """The run is finished."""
        for listener in self._listeners:
            listener.finish(summary)

    def stop(self) -> None:
        """Nothing comes any more; those that were not told of an end are told of a stop."""
        for listener in self._listeners:
            listener.stop()


@contextmanager
def telling(
    trackers: Sequence[Tracker], description: Mapping[str, Any], folder: Path | None, also: Callable | None
) -> Iterator[TrackerDispatch]:
    """What a run calls after every round: it tells all trackers, and then ``also``."""
    told = TrackerDispatch(trackers, description, folder, also)
    try:
        yield told
    finally:
        told.stop()


class _Listener:
    """One tracker of one run: begun when there is something to tell, and let go when it fails."""

    def __init__(self, tracker: Tracker, description: dict[str, Any], folder: Path | None) -> None:
        self.tracker, self.description, self.folder = tracker, description, folder
        self.kind = type(tracker).__name__
        self.last, self.open, self.lost = -1, False, False

    def hear(self, record: Record) -> None:
        with self._spared():
            self._begin()
            self._tell(record)

    def finish(self, summary: dict[str, Any]) -> None:
        with self._spared():
            self._begin()
            if self.open:
                self.open = False
                self.tracker.end(copy.deepcopy(summary))

    def stop(self) -> None:
        if self.open:
            with self._spared():
                self.open = False
                self.tracker.end(None)

    def _begin(self) -> None:
        """Say what the run is, and all rounds that it has on disk and the tracker does not know."""
        if self.open or self.lost:
            return
        self.tracker.begin(name_of(self.description, self.folder), copy.deepcopy(self.description), self.folder)
        self.open = True
        if self.folder is not None:
            told = whole_lines(self._memory())
            self.last = int(told[-1]) if told else -1
            for record in folders.read_records(self.folder):
                self._tell(record)

    def _tell(self, record: Record) -> None:
        if record["round"] <= self.last or self.lost:
            return
        self.tracker(copy.deepcopy(record))  # what it does to its copy changes nothing
        self.last = record["round"]
        if self.folder is not None:
            append_line(self._memory(), str(self.last))

    def _memory(self) -> Path:
        assert self.folder is not None
        (self.folder / TRACKED).mkdir(exist_ok=True)
        return self.folder / TRACKED / f"{self.kind}.rounds"

    @contextmanager
    def _spared(self) -> Iterator[None]:
        """A tracker that fails is left alone from then on, with one warning."""
        try:
            yield
        except Exception as error:
            if not self.lost:
                reason = " ".join(str(error).split()) or type(error).__name__
                _log.warning("%s is told nothing more of this run, which goes on: %s", self.kind, reason)
            self.lost, self.open = True, False


def name_of(description: Mapping[str, Any], folder: Path | None) -> str:
    """What a run is called among others: its folder (else its data), method and seed."""
    where = outermost(folder).resolve().name if folder else description["data"]["name"]
    return f"{where} {description['method']['name']} seed {description['run']['seed']}"


def outermost(folder: Path) -> Path:
    """The folder that was asked for, of one in its ``against/NAME`` or ``seeds/S``."""
    while folder.parent.name in ("against", "seeds"):
        folder = folder.parent.parent
    return folder


def figures(record: Mapping[str, Any], most: int = 32) -> dict[str, float]:
    """The numbers of a record, flat: ``cluster_sizes/0``, ``bytes_by_operation/train/0`` (down) and ``/1`` (up). Lists of
    more than ``most`` numbers are left out: nobody looks at a curve for each of a thousand peers."""
    found: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, (int, float)):
            found[name] = float(value)
        elif isinstance(value, (list, tuple, Mapping)) and len(value) <= most:
            inner = value if isinstance(value, Mapping) else {str(i): each for i, each in enumerate(value)}
            found |= {f"{name}/{key}": number for key, number in figures(inner, most).items()}
    found.pop("round", None)
    return found


def settings(description: Mapping[str, Any]) -> dict[str, Any]:
    """A description, flat: ``method.clusters``. What is neither text nor a number stands as text."""
    flat = {}
    for section, entries in description.items():
        for name, value in entries.items() if isinstance(entries, Mapping) else [("", entries)]:
            flat[f"{section}.{name}".rstrip(".")] = value if isinstance(value, (str, int, float)) else str(value)
    return flat


def make(track: Any, out: Path | None) -> list[Tracker]:
    """The trackers that are named, or given: ``track`` as a user wrote it.

    Raises:
        ConfigError: a name that is not known, the same one twice, something that is no tracker, or one that writes
            into a run's folder where there is none.
        MissingExtra: a library that is not installed.
    """
    from fedkin.tracking.tracker_kinds import TRACKERS

    if isinstance(track, str) or not isinstance(track, Sequence):
        raise ConfigError(f"track must be a list of trackers or of their names, got {track!r}")
    made: list[Tracker] = []
    for one in track:
        if isinstance(one, str) and one not in TRACKERS:
            raise ConfigError(unknown("tracker", one, TRACKERS))
        tracker = TRACKERS[one]() if isinstance(one, str) else one
        if isinstance(tracker, type) or not isinstance(tracker, Tracker):
            raise ConfigError(f"a tracker is called with every round, and has begin and end; got {one!r}")
        kind = type(tracker).__name__
        if kind in [type(other).__name__ for other in made]:
            raise ConfigError(f"{kind} is named twice in track; once is enough")
        if out is None and isinstance(tracker, tuple(TRACKERS.values())):
            raise ConfigError(f"{kind} writes what it tracks beside the run, and needs out=, the folder that keeps it")
        made.append(tracker)
    return made
