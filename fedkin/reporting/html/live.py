"""The live page of a run: its current state, and a report that is rebuilt as the run progresses."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fedkin.core.errors import FedkinError
from fedkin.measures.measure import Measure
from fedkin.measures.number_texts import megabytes
from fedkin.measures.run_scores import ACCURACIES, RunScores, scores_in
from fedkin.reporting.html.live_progress import MethodProgress, methods_of, progress_text
from fedkin.reporting.html.report import report
from fedkin.run.federation_state import read_state, server_state_file
from fedkin.run.folder import run_folder
from fedkin.run.metrics.partial_rounds import partial_text

_PAUSE = 10.0  # seconds before a report is rebuilt during a run
_LOG_LINES = 15
_AFTER = ("clusters", "replies missing", "excluded", "moved", "MB down", "MB up")


def heads_of(scores: RunScores) -> tuple[str, ...]:
    """The headings of the table of methods."""
    return ("method", "round", scores.of_round.narrow, scores.worst.narrow, *_AFTER)


class DeploymentLines(NamedTuple):
    """The lines of a live page about a deployment, a run with real sites.

    Attributes:
        parts: the deployment's programs on this machine: name, state, detail.
        log: the last lines of the server's log.
        problems: a line for each site that is refused or has failed, and one if the run was not
            started or has ended with an error.
        run_is_up: whether the run's process exists. The page cannot rely on the stored state: after
            the server was killed, it may still say that the server waits.
    """

    parts: list[tuple[str, str, str]]
    log: list[str]
    problems: Sequence[str] = ()
    run_is_up: bool = True


def no_deployment() -> DeploymentLines:
    """Empty ``DeploymentLines``, for the live page of a run without a deployment."""
    return DeploymentLines([], [])


@dataclass
class LivePage:
    """The live page of a run's folder. It never changes the folder.

    Attributes:
        folder: the run's folder, which may not exist yet.
        deployment: function that returns the programs and the log of a deployment. It is called at
            every request.
        clock: function that returns the time in seconds.
    """

    folder: Path
    deployment: Callable[[], DeploymentLines] = no_deployment
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _report: tuple[str, float, bytes] | None = None  # version, creation time, page

    def status(self) -> dict[str, Any]:
        """The part of the page above the report as plain JSON: the state of the run, the last
        record of each method, and the lines about a deployment."""
        deployment = self.deployment()
        server = read_state(server_state_file(self.folder))
        folders = self._folders()
        methods = methods_of(self.folder)
        finished = bool(folders) and all(
            (method.folder / run_folder.SUMMARY).exists() for method in methods
        )
        heads = [*heads_of(_scores(folders)), *(measure.head for measure in _measures(folders))]
        state = "finished" if finished else "running" if folders else "not started"
        if server.error:
            state = "ended with an error"
        elif server.failed_checks:
            state = "could not be started"
        elif server.waiting and deployment.run_is_up:
            state = f"{state}, {server.waiting}"
        return {
            "title": self.folder.name or str(self.folder),
            "state": f"{self.folder}: {state}; as of {time.strftime('%H:%M:%S')}",
            "progress": "" if finished else progress_text(methods),
            "heads": heads,
            "runs": [_row(method.folder) or _waiting_row(method, len(heads)) for method in methods],
            "parts": [list(part) for part in deployment.parts],
            "problems": list(deployment.problems or server.lines()),
            "log": deployment.log[-_LOG_LINES:],
            "version": self._shown_version(),
        }

    def report(self) -> bytes:
        """The current report as HTML. Raises CheckpointError if the run has no rounds to show
        yet."""
        with self._lock:
            now = self._version()
            # A report takes seconds, so a new one is made only if the run has progressed, and not
            # too often.
            if self._report is None or (
                self._report[0] != now and self.clock() - self._report[1] >= _PAUSE
            ):
                with tempfile.TemporaryDirectory() as place:
                    page = report(self.folder, Path(place) / "report.html").read_bytes()
                self._report = now, self.clock(), page
            return self._report[2]

    def _folders(self) -> list[Path]:
        """The folder of the run, and the folders of the methods with which it is compared."""
        inner = sorted((self.folder / run_folder.AGAINST).glob("*"))
        return [folder for folder in (self.folder, *inner) if run_folder.holds_run(folder)]

    def _version(self) -> str:
        """A text that changes when the run progresses, by which the page in the browser sees that
        its report is old."""
        files = [
            folder / name
            for folder in self._folders()
            for name in (run_folder.METRICS, run_folder.SUMMARY)
        ]
        return "-".join(str(file.stat().st_size) for file in files if file.exists())

    def _shown_version(self) -> str:
        """The version of the report that would be sent now. A recent report is reused for a
        while."""
        young = self._report is not None and self.clock() - self._report[1] < _PAUSE
        return self._report[0] if self._report is not None and young else self._version()


def _row(folder: Path) -> list[str]:
    """The table row of a run's last record; empty if there is no complete record yet."""
    try:
        config = run_folder.read_config(folder)
        records = run_folder.read_records(folder)
    except FedkinError:
        return []
    if not records:
        return []
    last = records[-1]
    rounds = config.rounds or "?"
    scores = scores_in(last)
    shown = (scores.of_round, scores.worst)
    shares = [measure.text_with_unit(last.get(measure.name)) for measure in shown]
    mark = partial_text(last)
    # The score covers only some clients if others had no cluster or were absent.
    shares[0] += f" ({mark})" if mark else ""
    moved = sum(int(record.get("migrations") or 0) for record in records)
    sizes = "/".join(str(size) for size in last.get("cluster_sizes") or [])
    sent = [megabytes(last.get(name) or 0, grouped=True) for name in ("bytes_down", "bytes_up")]
    nonfinite = last.get("nonfinite")
    excluded = None if nonfinite is None else nonfinite + (last.get("outliers") or 0)
    cells: Sequence[object] = (last.get("missing"), excluded, moved)
    texts = ["-" if cell is None else str(cell) for cell in cells]
    measured = [measure.text_with_unit(last.get(measure.column)) for measure in config.measures]
    return [
        config.method_with_options,
        f"{last['round']} of {rounds}",
        *shares,
        sizes,
        *texts,
        *sent,
        *measured,
    ]


def _waiting_row(method: MethodProgress, columns: int) -> list[str]:
    """The table row of a method without a complete record."""
    return [method.name, "waiting", *["-"] * (columns - 2)]


def _scores(folders: Sequence[Path]) -> RunScores:
    """The measures of the score of the runs in these folders; accuracies before the first round."""
    for folder in folders:
        with suppress(FedkinError):
            records = run_folder.read_records(folder)
            if records:
                return scores_in(records[-1])
    return ACCURACIES


def _measures(folders: Sequence[Path]) -> Sequence[Measure]:
    """The user's measures, from the descriptions of the runs in these folders."""
    try:
        return run_folder.read_config(folders[0]).measures if folders else ()
    except FedkinError:
        return ()
