"""The jobs of a table, and the store of their runs: one JSON object a line, a line a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from fedkin.core.errors import DataError
from fedkin.core.storage import append_line, storage_errors
from papers.recipe import Cell, measure

Line = dict[str, Any]
Measure = Callable[[Any, int], Line]
JobList = list[tuple["Job", int]]


@dataclass(frozen=True)
class Job:
    """A cell, or a question: run once from each of its seeds."""

    row: str
    column: str
    seeds: tuple[int, ...]
    key: dict[str, Any]  # the entries that its lines in the store have
    measure: Callable[[int], Line]  # seed -> line
    seconds: float | int  # of a run on two cores; what the recipe guesses

    @property
    def name(self) -> str:
        """Row and column."""
        return f"{self.row}, {self.column}"

    def matches(self, line: Line) -> bool:
        """Whether a line of the store is a run of this job."""
        return all(line.get(name) == value for name, value in self.key.items())


def job_of(cell: Cell, how: Measure = measure) -> Job:
    """A cell as a job; ``how`` it is measured, where not by the figures of tables."""
    setting = cell.setting
    key = {"table": cell.table, "row": setting.row, "column": cell.column}
    return Job(setting.row, cell.column, setting.seeds, key, lambda seed: how(cell, seed), setting.seconds)


def job_of_question(
    question: Any, seeds: tuple[int, ...], measure: Measure, row: str, column: str, seconds: float | int
) -> Job:
    """A question as a job.

    Args:
        question: a frozen dataclass, whose fields its lines begin with.
        seeds: from which it is run.
        measure: runs it from one seed.
        row: where it stands in its table.
        column: likewise.
        seconds: of a run on two cores.
    """
    return Job(row, column, seeds, asdict(question), lambda seed: measure(question, seed), seconds)


def read(store: Path) -> list[Line]:
    """The runs in a store; a last line that a killed process left torn is not counted.

    Raises DataError where a line is no run.
    """
    text = _text(store)
    lines, whole = text.splitlines(), text.endswith("\n")
    runs = [_parsed(line) for line in lines]
    if runs and runs[-1] is None and not whole:
        runs.pop()
    if None in runs:
        where = f"{store}, line {runs.index(None) + 1}"
        raise DataError(f"{where}: expected a run as one JSON object; delete the line to run it again")
    return [line for line in runs if line is not None]


def _text(store: Path) -> str:
    if not store.exists():
        return ""
    with storage_errors(store):
        return store.read_bytes().decode(errors="replace")


def _parsed(text: str) -> Line | None:
    """A run, or None where a line is none."""
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("seed"), int) else None


def pending(requested: Iterable[tuple[Job, Sequence[int]]], stored: Sequence[Line]) -> JobList:
    """The runs that are requested and not in the store yet."""
    missing = []
    for job, seeds in requested:
        done = {line["seed"] for line in stored if job.matches(line)}
        missing += [(job, seed) for seed in seeds if seed not in done]
    return missing


def carry_out(jobs: JobList, store: Path) -> Iterator[Line]:
    """Run jobs one after another; each is in the store as soon as it is done.

    Raises StorageError where the store cannot be written, before anything is run.
    """
    with storage_errors(store):
        store.parent.mkdir(parents=True, exist_ok=True)
        _repair(store)
    for job, seed in jobs:
        line = job.measure(seed)
        append_line(store, json.dumps(line))
        yield line


def _repair(store: Path) -> None:
    """End the store with a whole line, and check that it can be written."""
    last = _text(store).rpartition("\n")[2]
    with store.open("r+b" if store.exists() else "xb") as file:
        end = file.seek(0, 2)
        if last and _parsed(last):
            file.write(b"\n")
        elif last:
            file.truncate(end - len(last.encode()))


class RowTime(NamedTuple):
    """How long a run of a row takes."""

    seconds: float
    measured: bool  # else the recipe's estimate


def seconds_of_rows(jobs: Iterable[Job], stored: Sequence[Line]) -> dict[str, RowTime]:
    """How long a run of each row takes: the median of the row's runs in the store, else the recipe's estimate."""
    rows: dict[str, list[Job]] = {}
    for job in jobs:
        rows.setdefault(job.row, []).append(job)
    times = {}
    for row, of_row in rows.items():
        seconds = [float(m["seconds"]) for m in stored if "seconds" in m and any(job.matches(m) for job in of_row)]
        times[row] = RowTime(median(seconds), True) if seconds else RowTime(float(of_row[0].seconds), False)
    return times
