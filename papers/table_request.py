"""What somebody asks for by the name of a table, of rows and of columns; where its runs are kept; how long it takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedkin.core.errors import ConfigError, unknown
from papers.catalogue import PAPERS, Paper, Table, tables
from papers.reproduction_marks import Compared, Measured
from papers.result_store import Job, Todo, pending, read, seconds_of_rows

CHECKOUT = Path("papers/results")


@dataclass(frozen=True)
class Wish:
    """Some cells of a table, from some seeds, and the store of their runs."""

    table: Table
    store: Path
    jobs: tuple[Job, ...]
    seeds: int | None = None  # how many, from 0 on; None: what the recipe says

    def todo(self) -> Todo:
        """The runs that the store lacks."""
        return pending([(job, self.seeds_of(job)) for job in self.jobs], self.measured())

    def seeds_of(self, job: Job) -> Sequence[int]:
        return job.seeds if self.seeds is None else range(self.seeds)

    def measured(self) -> Measured:
        """What the store holds of the paper, of these seeds."""
        return [line for line in read(self.store) if self.seeds is None or line["seed"] < self.seeds]

    def seconds(self) -> dict[str, float]:
        """What a run of each row takes."""
        paper = tables()[self.table.name][0]
        timed = [*read(self.store), *shipped(self.store.parent, paper)]
        return {row: seconds for row, (seconds, _) in seconds_of_rows(self.table.jobs, timed).items()}

    def compared(self) -> list[Compared]:
        """The numbers of these cells, ours beside the paper's."""
        found = self.table.compare(self.measured())
        rows, columns = ({getattr(job, name) for job in self.jobs} for name in ("row", "column"))
        other = [job for job in self.table.jobs if job not in self.jobs]
        no_rows, no_columns = {job.row for job in other} - rows, {job.column for job in other} - columns
        return [number for number in found if number.row not in no_rows and number.column not in no_columns]


def wish(
    name: str,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    seeds: int | None = None,
    folder: Path | None = None,
) -> Wish:
    """Some cells of a table, by names that need not be exact.

    Raises ConfigError for a table, a row or a column that is not there, for no cell at all, and for no seed.
    """
    if seeds is not None and seeds < 1:
        raise ConfigError(f"--seeds: expected at least 1, got {seeds}")
    paper, table = _find(name)
    in_rows = _chosen("row", table, rows, [job.row for job in table.jobs])
    in_columns = _chosen("column", table, columns, [job.column for job in table.jobs])
    jobs = tuple(job for job in table.jobs if job.row in in_rows and job.column in in_columns)
    if not jobs:
        raise ConfigError(f"{table.name} has no cell in rows {', '.join(rows)} and columns {', '.join(columns)}")
    return Wish(table, store(folder or default_folder(), paper), jobs, seeds)


def _find(name: str) -> tuple[Paper, Table]:
    """A table by its name, or by that of a figure that shows the same runs."""
    names = {alias: (paper, table) for paper, table in tables().values() for alias in (table.name, *table.also)}
    if plain(name) not in names:
        raise ConfigError(f"{unknown('table', plain(name), names)} (fedkin reproduce lists all)")
    return names[plain(name)]


def _chosen(kind: str, table: Table, asked: Sequence[str], names: Sequence[str]) -> set[str]:
    """The names that are meant: those asked for, whole or separated by commas; all where none is."""
    if not asked:
        return set(names)
    found: set[str] = set()
    for text in asked:
        parts = [text] if _meant(text, names) else text.split(",")
        for part in filter(plain, parts):
            meant = _meant(part, names)
            if not meant:
                known = {plain(name) for name in names}
                raise ConfigError(f"{table.name}: {unknown(kind, plain(part), known)}")
            found |= meant
    if not found:
        raise ConfigError(f"{table.name}: expected the name of a {kind}, got {', '.join(map(repr, asked))}")
    return found


def _meant(text: str, names: Sequence[str]) -> set[str]:
    """The name itself, or all that begin so."""
    exact = {name for name in names if plain(name) == plain(text)}
    return exact or {name for name in names if plain(text) and plain(name).startswith(plain(text))}


def plain(text: str) -> str:
    """A name as it may be typed: ``FEMNIST-MCLR, own images`` is ``femnist-mclr-own-images``."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def default_folder() -> Path:
    """papers/results in a checkout, else results, both in the working directory."""
    return CHECKOUT if CHECKOUT.is_dir() else Path("results")


def store(folder: Path, paper: Paper) -> Path:
    """The runs of a paper's cells, one JSON object a line."""
    return folder / f"{paper.name}.jsonl"


@dataclass(frozen=True)
class Offer:
    """A table in the list: how many cells it has, how many have a run, what all runs take and what those take that are
    not there yet, in seconds; ``guessed``: no run of some row says how long it is."""

    table: Table
    cells: int
    measured: int
    seconds: float
    seconds_left: float
    guessed: bool


def offers(folder: Path | None = None) -> list[Offer]:
    """Everything that can be repeated, with what a store holds of it."""
    chosen, found = folder or default_folder(), []
    for paper in PAPERS.values():
        held = read(store(chosen, paper))
        found += [_offer(table, held, [*held, *shipped(chosen, paper)]) for table in paper.tables]
    return found


def _offer(table: Table, held: Measured, timed: Measured) -> Offer:
    rows = seconds_of_rows(table.jobs, timed)
    todo = pending([(job, job.seeds) for job in table.jobs], held)
    whole = sum(rows[job.row][0] * len(job.seeds) for job in table.jobs)
    left = sum(rows[job.row][0] for job, _ in todo)
    measured = sum(any(job.answers(line) for line in held) for job in table.jobs)
    guessed = not all(known for _, known in rows.values())
    return Offer(table, len(table.jobs), measured, float(whole), float(left), guessed)


def shipped(folder: Path, paper: Paper) -> Measured:
    """The runs that a checkout brings along, which say how long a run takes; none where they are the store's own."""
    brought = Path(__file__).resolve().parents[1] / CHECKOUT
    return [] if brought == folder.resolve() else read(store(brought, paper))
