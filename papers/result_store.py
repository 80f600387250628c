"""What is run for a table, and the store of what came of it: one JSON object a line, a line a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from fedkin.core.errors import DataError
from fedkin.core.storage import append_line, storing
from papers.recipe import Cell, measure

Line = dict[str, Any]
Measure = Callable[[Any, int], Line]
Todo = list[tuple["Job", int]]


@dataclass(frozen=True)
class Job:
    """A cell, or a question: run once from each of its seeds."""

    row: str
    column: str
    seeds: tuple[int, ...]
    key: dict[str, Any]  # by which its lines are known in the store
    measure: Callable[[int], Line]  # seed -> line
    seconds: float | int  # of a run on two cores; what the recipe guesses

    @property
    def name(self) -> str:
        return f"{self.row}, {self.column}"

    def answers(self, line: Line) -> bool:
        """Whether a line of the store is a run of this job."""
        return all(line.get(name) == value for name, value in self.key.items())


def job_of(cell: Cell, how: Measure = measure) -> Job:
    """A cell as a job; ``how`` it is measured, where not by the figures of tables."""
    setting = cell.setting
    key = {"table": cell.table, "row": setting.row, "column": cell.column}
    return Job(setting.row, cell.column, setting.seeds, key, lambda seed: how(cell, seed), setting.seconds)


def job_of_question(
    question: Any, seeds: tuple[int, ...], answer: Measure, row: str, column: str, seconds: float | int
) -> Job:
    """A question (a frozen dataclass, whose fields its lines begin with) as a job."""
    return Job(row, column, seeds, asdict(question), lambda seed: answer(question, seed), seconds)


def read(store: Path) -> list[Line]:
    """What the store holds; a last line that a killed process left torn is not counted.

    Raises DataError where a line is no run.
    """
    text = _text(store)
    lines, whole = text.splitlines(), text.endswith("\n")
    found = [_parsed(line) for line in lines]
    if found and found[-1] is None and not whole:
        found.pop()
    if None in found:
        where = f"{store}, line {found.index(None) + 1}"
        raise DataError(f"{where}: expected a run as one JSON object; delete the line to run it again")
    return [line for line in found if line is not None]


def _text(store: Path) -> str:
    if not store.exists():
        return ""
    with storing(store):
        return store.read_bytes().decode(errors="replace")


def _parsed(text: str) -> Line | None:
    """A run, or None where a line is none."""
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("seed"), int) else None


def pending(asked: Iterable[tuple[Job, Sequence[int]]], held: Sequence[Line]) -> Todo:
    """The runs that are asked for and not in the store yet."""
    todo = []
    for job, seeds in asked:
        have = {line["seed"] for line in held if job.answers(line)}
        todo += [(job, seed) for seed in seeds if seed not in have]
    return todo


def carry_out(todo: Todo, store: Path) -> Iterator[Line]:
    """Run one after another; each is in the store as soon as it is done.

    Raises StorageError where the store cannot be written, before anything is run.
    """
    with storing(store):
        store.parent.mkdir(parents=True, exist_ok=True)
        _mend(store)
    for job, seed in todo:
        line = job.measure(seed)
        append_line(store, json.dumps(line))
        yield line


def _mend(store: Path) -> None:
    """End the store with a whole line, and try whether it can be written."""
    last = _text(store).rpartition("\n")[2]
    with store.open("r+b" if store.exists() else "xb") as file:
        end = file.seek(0, 2)
        if last and _parsed(last):
            file.write(b"\n")
        elif last:
            file.truncate(end - len(last.encode()))


def seconds_of_rows(jobs: Iterable[Job], held: Sequence[Line]) -> dict[str, tuple[float, bool]]:
    """What a run of each row takes, and whether that was measured: the median of the row's runs in the store, else
    what the recipe guesses."""
    rows: dict[str, list[Job]] = {}
    for job in jobs:
        rows.setdefault(job.row, []).append(job)
    found = {}
    for row, of_row in rows.items():
        took = [float(m["seconds"]) for m in held if "seconds" in m and any(job.answers(m) for job in of_row)]
        found[row] = (median(took), True) if took else (float(of_row[0].seconds), False)
    return found
