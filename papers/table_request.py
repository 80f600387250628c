"""A request for cells of a table, by the names of table, rows and columns; where its runs are
stored; how long it takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedkin.core.errors import ConfigError, unknown
from papers.catalogue import PAPERS, Paper, Table, tables
from papers.reproduction_marks import ComparedNumber, Results
from papers.result_store import Job, JobList, Stored, pending, read, seconds_of_rows, store_of

CHECKOUT = Path("papers/results")


@dataclass(frozen=True)
class TableRequest:
    """Some cells of a table, from some seeds, and the store of their runs. ``claim``: the key of
    the claim that the cells judge, if one was asked for."""

    table: Table
    store: Path
    jobs: tuple[Job, ...]
    paper: Paper
    seeds: int | None = None  # number of seeds, from 0 on; None: the recipe's
    claim: str = ""

    def missing(self) -> JobList:
        """The runs that the store lacks."""
        return pending([(job, self.seeds_of(job)) for job in self.jobs], self.results())

    def seeds_of(self, job: Job) -> Sequence[int]:
        """The seeds of a job."""
        return job.seeds if self.seeds is None else range(self.seeds)

    def results(self) -> Results:
        """The stored runs of the paper, of these seeds."""
        runs = self.stored().runs
        return [line for line in runs if self.seeds is None or line["seed"] < self.seeds]

    def stored(self) -> Stored:
        """The stored runs of the paper, and the lines that are left out."""
        return read(self.store, self.paper.jobs(), any_seed=True)

    def seconds(self) -> dict[str, float]:
        """How long a run of each row takes."""
        timed = [*self.stored().runs, *shipped(self.store.parent, self.paper)]
        return {row: time.seconds for row, time in seconds_of_rows(self.table.jobs, timed).items()}

    def numbers(self) -> list[ComparedNumber]:
        """The numbers of these cells, ours and the paper's."""
        rows, columns = ({getattr(job, name) for job in self.jobs} for name in ("row", "column"))
        other = [job for job in self.table.jobs if job not in self.jobs]
        no_rows = {job.row for job in other} - rows
        no_columns = {job.column for job in other} - columns
        numbers = self.table.numbers(self.results())
        return [
            number
            for number in numbers
            if number.row not in no_rows and number.column not in no_columns
        ]

    def selected_runs(self) -> Results:
        """The stored runs of these cells, and of other tables."""
        other = [job for job in self.table.jobs if job not in self.jobs]
        return [line for line in self.results() if not any(job.matches(line) for job in other)]


def request_table(
    name: str,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    seeds: int | None = None,
    folder: Path | None = None,
) -> TableRequest:
    """Some cells of a table, by names that need not be exact.

    Args:
        name: of the table, or of a figure that shows the same runs.
        rows: names of rows or how they begin, single or separated by commas; empty: all.
        columns: names of columns, in the same form.
        seeds: seeds 0 to ``seeds - 1``; None: the recipe's.
        folder: of the stores; None: the default folder.

    Raises:
        ConfigError: a table, a row or a column that does not exist, no cell at all, or no seed.
    """
    if seeds is not None and seeds < 1:
        raise ConfigError(f"--seeds: expected at least 1, got {seeds}")
    paper, table = _find_table(name)
    in_rows = _select("row", table, rows, [job.row for job in table.jobs])
    in_columns = _select("column", table, columns, [job.column for job in table.jobs])
    jobs = tuple(job for job in table.jobs if job.row in in_rows and job.column in in_columns)
    if not jobs:
        raise ConfigError(
            f"{table.name} has no cell in rows {', '.join(rows)} and columns {', '.join(columns)}"
        )
    return TableRequest(
        table=table,
        store=store_of(folder or default_folder(), paper.name),
        jobs=jobs,
        paper=paper,
        seeds=seeds,
    )


def _find_table(name: str) -> tuple[Paper, Table]:
    names = {
        alias: (paper, table)
        for paper, table in tables().values()
        for alias in (table.name, *table.also)
    }
    if plain(name) not in names:
        raise ConfigError(f"{unknown('table', plain(name), names)} (fedkin reproduce lists all)")
    return names[plain(name)]


def _select(kind: str, table: Table, texts: Sequence[str], names: Sequence[str]) -> set[str]:
    """The names that match the texts, whole or separated by commas; all where there is no text."""
    if not texts:
        return set(names)
    selected: set[str] = set()
    for text in texts:
        parts = [text] if _matches(text, names) else text.split(",")
        for part in filter(plain, parts):
            matches = _matches(part, names)
            if not matches:
                raise ConfigError(
                    f"{table.name}: {unknown(kind, plain(part), {plain(name) for name in names})}"
                )
            selected |= matches
    if not selected:
        raise ConfigError(
            f"{table.name}: expected the name of a {kind}, got {', '.join(map(repr, texts))}"
        )
    return selected


def _matches(text: str, names: Sequence[str]) -> set[str]:
    """The name itself, or all that begin so."""
    exact = {name for name in names if plain(name) == plain(text)}
    return exact or {name for name in names if plain(text) and plain(name).startswith(plain(text))}


def plain(text: str) -> str:
    """A name as it may be typed: ``FEMNIST-MCLR, own images`` is ``femnist-mclr-own-images``."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def default_folder() -> Path:
    """papers/results in a checkout, else results, both in the working directory."""
    return CHECKOUT if CHECKOUT.is_dir() else Path("results")


@dataclass(frozen=True)
class TableSummary:
    """A table in the list: its number of cells, how many have a run, and the seconds of all runs
    and of missing runs. ``guessed``: the time of some row is an estimate, because it has no run."""

    table: Table
    cells: int
    measured: int
    seconds: float
    seconds_left: float
    guessed: bool


def summaries(folder: Path | None = None) -> list[TableSummary]:
    """All tables, with their stored runs."""
    results_folder = folder or default_folder()
    summaries = []
    for paper in PAPERS.values():
        stored = read(store_of(results_folder, paper.name), paper.jobs(), any_seed=True).runs
        summaries += [
            _summary(table, stored, [*stored, *shipped(results_folder, paper)])
            for table in paper.tables
        ]
    return summaries


def _summary(table: Table, stored: Results, timed: Results) -> TableSummary:
    rows = seconds_of_rows(table.jobs, timed)
    missing = pending([(job, job.seeds) for job in table.jobs], stored)
    whole = sum(rows[job.row].seconds * len(job.seeds) for job in table.jobs)
    left = sum(rows[job.row].seconds for job, _ in missing)
    measured = sum(any(job.matches(line) for line in stored) for job in table.jobs)
    guessed = not all(time.measured for time in rows.values())
    return TableSummary(
        table=table,
        cells=len(table.jobs),
        measured=measured,
        seconds=float(whole),
        seconds_left=float(left),
        guessed=guessed,
    )


def shipped(folder: Path, paper: Paper) -> Results:
    """The runs in the checkout, which say how long a run takes; none where they are the store's
    own."""
    checkout = Path(__file__).resolve().parents[1] / CHECKOUT
    return (
        []
        if checkout == folder.resolve()
        else read(store_of(checkout, paper.name), paper.jobs(), any_seed=True).runs
    )
