"""The jobs of a table, and the store of their runs: one JSON object a line, a line a run.

A line ends with its checksum, so a damaged or edited line is no run. A run belongs to a job if it
has the job's key, one of its seeds and the digest of its setting. Other lines are named and do not
count: runs of no job, lines that are no run, and second copies of a run (from two processes at a
time).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from fedkin.core.storage import append_line, storage_errors
from papers.recipe import LONG, Cell, measure, resumable_in
from papers.setting_digest import digest

CHECKSUM = "checksum"
Line = dict[str, Any]
Measure = Callable[[Any, int], Line]
JobList = list[tuple["Job", int]]


@dataclass(frozen=True)
class Job:
    """A cell, or a question: run once from each of its seeds."""

    row: str
    column: str
    seeds: tuple[int, ...]
    key: Mapping[str, Any]  # the entries that its lines in the store have
    measure: Callable[[int], Line]  # seed -> line
    seconds: float | int  # of a run on two cores, as the recipe estimates
    setting: Callable[[int], str]  # seed -> digest of the setting
    # Its runs are the paper's: no variant, no other data, no question of ours.
    published: bool = False
    needs: str = ""  # files that may not be redistributed
    resumable: bool = False  # its runs keep checkpoints, and continue after an interruption

    @property
    def identity(self) -> tuple[tuple[str, Any], ...]:
        """The entries of its key. Two tables of a paper may make a job each for the same runs: two
        objects of one identity."""
        return tuple(self.key.items())

    @property
    def name(self) -> str:
        """Row and column."""
        return f"{self.row}, {self.column}"

    def matches(self, line: Line) -> bool:
        """Whether a line of the store is a run of this job."""
        same = all(line.get(name) == value for name, value in self.key.items())
        return same and line.get("setting") == self.setting(line["seed"])

    def run(self, seed: int, unfinished: Path | None = None) -> Line:
        """Run it from a seed.

        Args:
            seed: of the run.
            unfinished: folder of the runs that have not ended yet: a resumable run of this seed
                continues from there. None: the run starts from round 0 and keeps no checkpoints.

        Returns:
            The line for the store.
        """
        with resumable_in(unfinished):
            return {"setting": self.setting(seed), **self.measure(seed)}


def unique_jobs(jobs: Iterable[Job]) -> list[Job]:
    """The jobs of a paper, each once, in their order.

    Args:
        jobs: of one paper; of several with one identity the first stays.
    """
    first: dict[tuple[tuple[str, Any], ...], Job] = {}
    for job in jobs:
        first.setdefault(job.identity, job)
    return list(first.values())


def job_of(cell: Cell, how: Measure = measure) -> Job:
    """A cell as a job; ``how`` it is measured, where not by the figures of tables."""
    setting = cell.setting
    key = {"table": cell.table, "row": setting.row, "column": cell.column}
    published = not setting.deviation and not cell.variant_of
    return Job(
        row=setting.row,
        column=cell.column,
        seeds=setting.seeds,
        key=key,
        measure=lambda seed: how(cell, seed),
        seconds=setting.seconds,
        setting=cache(lambda seed: digest(cell.description(seed))),
        published=published,
        needs=setting.needs,
        resumable=setting.seconds >= LONG,
    )


def job_of_question(
    question: Any,
    seeds: tuple[int, ...],
    measure: Measure,
    row: str,
    column: str,
    seconds: float | int,
    fixed: Mapping[str, Any] | None = None,
) -> Job:
    """A question as a job.

    Args:
        question: a frozen dataclass; its lines begin with its fields.
        seeds: a run is made from each.
        measure: runs it from one seed.
        row: of its table.
        column: of its table.
        seconds: of a run on two cores.
        fixed: settings that all questions share, such as the number of rounds; part of the setting.
    """
    key = asdict(question)
    of_setting = digest({**key, "fixed": dict(fixed or {})})
    return Job(
        row=row,
        column=column,
        seeds=seeds,
        key=key,
        measure=lambda seed: measure(question, seed),
        seconds=seconds,
        setting=lambda seed: of_setting,
    )


@dataclass(frozen=True)
class Stored:
    """The content of a store: the runs, and the lines that are left out."""

    runs: list[Line]
    damaged: list[str] = field(default_factory=list)  # "FILE, line 3", of lines that are no run
    unknown: list[Line] = field(default_factory=list)  # runs of no job of today's recipes
    # Runs of a job from a seed that its recipe does not have.
    other_seeds: list[Line] = field(default_factory=list)
    # Runs of a job and a seed that are there already.
    repeated: list[Line] = field(default_factory=list)

    def left_out(self) -> list[str]:
        """The lines that do not count, in words; empty if all lines are runs of today's recipes."""
        damaged = [f"{where}: not a run, damaged" for where in self.damaged]
        unknown = _counted(self.unknown, "of another setting")
        others = _counted(self.other_seeds, "from a seed that the recipe does not have")
        return [*damaged, *unknown, *others, *_counted(self.repeated, "stored again")]


def _counted(lines: Sequence[Line], why: str) -> list[str]:
    """The number of runs of each name, and why they are left out."""
    counts = Counter(_name(line) for line in lines)
    return [
        f"{name}: {count} {'run' if count == 1 else 'runs'} {why}" for name, count in counts.items()
    ]


def _name(line: Line) -> str:
    """A run that no job knows, in words."""
    words = [line.get(name) for name in ("table", "panel", "row", "kind", "column", "method")]
    return ", ".join(str(word) for word in words if word) or "a run without a name"


def store_of(folder: Path, name: str) -> Path:
    """The file of a store.

    Args:
        folder: of all stores.
        name: of the paper, or ``trust``.
    """
    return folder / f"{name}.jsonl"


def unfinished_of(folder: Path) -> Path:
    """The folder of the runs that have not ended yet.

    Args:
        folder: of all stores.
    """
    return folder / "unfinished"


def unfinished_runs(folder: Path) -> list[str]:
    """The names of the runs that have not ended yet. They do not count, and the command that began
    them continues them.

    Args:
        folder: of all stores.
    """
    runs = unfinished_of(folder)
    return sorted(run.name for run in runs.iterdir() if run.is_dir()) if runs.is_dir() else []


def read(store: Path, jobs: Sequence[Job] | None = None, any_seed: bool = False) -> Stored:
    """Read a store.

    Args:
        store: the file.
        jobs: only runs of these jobs; None: all runs, whatever their setting.
        any_seed: also take runs of these jobs from other seeds than the recipe's.
    """
    runs = [_parsed(line) for line in _text(store).splitlines()]
    damaged = [f"{store}, line {number}" for number, run in enumerate(runs, start=1) if run is None]
    parsed = [run for run in runs if run is not None]
    if jobs is None:
        return Stored(parsed, damaged)
    first_lines: dict[tuple[int, int], Line] = {}
    unknown = list[Line]()
    other_seeds = list[Line]()
    repeated = list[Line]()
    for run, job in zip(parsed, _owners(parsed, jobs), strict=True):
        if job is None:
            unknown.append(run)
        elif not any_seed and run["seed"] not in job.seeds:
            other_seeds.append(run)
        elif first_lines.setdefault((id(job), run["seed"]), run) is not run:
            repeated.append(run)
    return Stored(
        runs=list(first_lines.values()),
        damaged=damaged,
        unknown=unknown,
        other_seeds=other_seeds,
        repeated=repeated,
    )


def _owners(lines: Sequence[Line], jobs: Sequence[Job]) -> list[Job | None]:
    """The job of each line."""
    by_key = {_key(job.key, job.key): job for job in jobs}
    shapes = {tuple(job.key) for job in jobs}
    candidates = [[by_key.get(_key(line, names)) for names in shapes] for line in lines]
    return [
        next((job for job in of_line if job is not None and job.matches(line)), None)
        for line, of_line in zip(lines, candidates, strict=True)
    ]


def _key(values: Mapping[str, Any], names: Iterable[str]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, _hashable(values.get(name))) for name in names)


def _hashable(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (list, dict)) else value


def _text(store: Path) -> str:
    if not store.exists():
        return ""
    with storage_errors(store, "read"):
        return store.read_bytes().decode(errors="replace")


def _parsed(text: str) -> Line | None:
    """A run, or None where a line is none."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict) or line.pop(CHECKSUM, None) != _checksum(line):
        return None
    seed = line.get("seed")
    return line if isinstance(seed, int) and not isinstance(seed, bool) else None


def text_of(line: Line) -> str:
    """A run as it is stored, with its checksum.

    Args:
        line: without a checksum.
    """
    return json.dumps({**line, CHECKSUM: _checksum(line)})


def _checksum(line: Line) -> str:
    return hashlib.sha256(json.dumps(line).encode()).hexdigest()[:8]


def pending(requested: Iterable[tuple[Job, Sequence[int]]], stored: Sequence[Line]) -> JobList:
    """The runs that are requested and not in the store yet."""
    by_row: dict[Any, list[Line]] = {}
    for line in stored:
        by_row.setdefault(line.get("setting"), []).append(line)
    return [
        (job, seed)
        for job, seeds in requested
        for seed in seeds
        if not any(
            line["seed"] == seed and job.matches(line) for line in by_row.get(job.setting(seed), [])
        )
    ]


def carry_out(jobs: JobList, store: Path) -> Iterator[Line]:
    """Run jobs one after another. Each run is stored as soon as it is done.

    Raises StorageError before anything is run, if the store cannot be written.
    """
    prepare(store)
    for job, seed in jobs:
        line = job.run(seed, unfinished_of(store.parent))
        keep(line, store)
        yield line


def keep(line: Line, store: Path) -> None:
    """Append a run to a store that is prepared."""
    append_line(store, text_of(line))


def prepare(store: Path) -> None:
    """Make the store, or end it with a whole line, and check that it can be written.

    Raises StorageError where it cannot.
    """
    with storage_errors(store):
        store.parent.mkdir(parents=True, exist_ok=True)
        content = store.read_bytes() if store.exists() else b""
        whole = content.rfind(b"\n") + 1
        with store.open("r+b" if store.exists() else "xb") as file:
            file.seek(0, 2)
            if content[whole:] and _parsed(content[whole:].decode(errors="replace")):
                file.write(b"\n")
            elif content[whole:]:
                file.truncate(whole)


class RowTime(NamedTuple):
    """How long a run of a row takes."""

    seconds: float
    measured: bool  # else the recipe's estimate


def seconds_of_rows(jobs: Iterable[Job], stored: Sequence[Line]) -> dict[str, RowTime]:
    """How long a run of each row takes: the median of the row's runs in the store, else the
    recipe's estimate."""
    rows: dict[str, list[Job]] = {}
    for job in jobs:
        rows.setdefault(job.row, []).append(job)
    times = {}
    for row, of_row in rows.items():
        shapes = {_key(job.key, job.key) for job in of_row}
        names = {tuple(job.key) for job in of_row}
        seconds = [
            float(m["seconds"])
            for m in stored
            if "seconds" in m and any(_key(m, n) in shapes for n in names)
        ]
        times[row] = (
            RowTime(median(seconds), True) if seconds else RowTime(float(of_row[0].seconds), False)
        )
    return times
