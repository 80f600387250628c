"""What a person sees of a table that is repeated: the list of all, a line while it runs, ours beside the paper's."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table as Grid

from papers.reproduction_marks import POINTS, SYMBOLS, Compared
from papers.result_store import Job, Todo
from papers.table_request import Offer, Wish

SIZES = (
    "times: of runs as long as those in the store, on two cores; ~ where some row has none, and the recipe's guess "
    "stands for it\nmeasured: cells with a run; left: runs that the store lacks, some seeds of measured cells too"
)


def listed(offers: Sequence[Offer]) -> Grid:
    """Everything that can be repeated."""
    grid = Grid(title="fedkin reproduce NAME", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    grid.add_column("name", no_wrap=True)
    grid.add_column("what", overflow="fold")
    for column in ("cells", "measured", "time", "left"):
        grid.add_column(column, justify="right", no_wrap=True)
    for offer in offers:
        mark = "~" if offer.guessed else ""
        times = [mark + duration(seconds) if seconds else "-" for seconds in (offer.seconds, offer.seconds_left)]
        grid.add_row(offer.table.name, _what(offer), str(offer.cells), str(offer.measured), *times)
    grid.caption, grid.caption_justify = SIZES, "left"
    return grid


def _what(offer: Offer) -> str:
    """The title, and what else shows the same runs."""
    table = offer.table
    same = [f"the runs of {table.same_runs}"] if table.same_runs else []
    also = [*same, *(f"also {name}" for name in table.also)]
    return table.title + (f" ({', '.join(also)})" if also else "")


def offer_as_json(offer: Offer) -> dict[str, Any]:
    """A line of the list for machines."""
    table, numbers = offer.table, {k: v for k, v in vars(offer).items() if k != "table"}
    told = {name: getattr(table, name) for name in ("name", "title", "statistic", "rule", "same_runs")}
    return {**told, "also": list(table.also), **numbers}


def duration(seconds: float | int) -> str:
    """In words that one can plan with."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Line:
    """Progress on standard error: a bar on a terminal, a line a run elsewhere. Use as a context."""

    def __init__(self, todo: Todo, seconds: Mapping[str, float]) -> None:
        self._runs = len(todo)
        self._seconds = seconds
        self._left = sum(seconds[job.row] for job, _ in todo)  # expected
        self._done, self._expected, self._began = 0, 0.0, time.monotonic()
        console = Console(file=sys.stderr)
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self._plain = not console.is_terminal
        self._task = self._bar.add_task("", total=self._runs)

    def __enter__(self) -> Line:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, job: Job, seed: int) -> None:
        """A run begins."""
        self._bar.update(self._task, description=f"{job.name}, seed {seed}, {self.left()}")

    def end(self, job: Job, seed: int) -> None:
        """A run is in the store."""
        self._done += 1
        self._expected += self._seconds[job.row]
        self._left -= self._seconds[job.row]
        self._bar.update(self._task, completed=self._done)
        if self._plain:
            print(f"{self._done}/{self._runs}  {job.name}, seed {seed}  {self.left()}", file=sys.stderr, flush=True)

    def left(self) -> str:
        """Time left: what is expected, corrected by the pace so far."""
        took = time.monotonic() - self._began
        pace = took / self._expected if self._expected else 1.0
        return f"{duration(max(0.0, self._left) * pace)} left"


def compared(wish: Wish, numbers: Sequence[Compared]) -> Grid:
    """Ours beside the paper's."""
    table = wish.table
    grid = Grid(title=table.title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    grid.add_column("row", overflow="fold")
    grid.add_column("column", overflow="fold")
    for column in ("ours", "paper", "differ-\nence", "seeds"):
        grid.add_column(column, justify="right", overflow="fold")
    grid.add_column("", overflow="fold")
    for number in numbers:
        gap = "" if number.difference is None else f"{number.difference:{'+.2f' if number.unit == POINTS else '+.3g'}}"
        told = f"{SYMBOLS[number.mark]} {number.mark}".strip() + (f" ({number.aside})" if number.aside else "")
        grid.add_row(number.row, number.column, number.ours, number.published, gap, str(number.seeds), told)
    grid.caption, grid.caption_justify = "\n".join(_explained(wish, numbers)), "left"
    return grid


def _explained(wish: Wish, numbers: Sequence[Compared]) -> list[str]:
    """What the numbers are, when one is reproduced, and how many are."""
    counts = Counter(str(number.mark) for number in numbers if not number.aside)
    told = [f"ours: {wish.table.statistic}", f"reproduced: {wish.table.rule}".replace("*", "")]
    told += [", ".join(f"{count} {mark}" for mark, count in counts.most_common())] if counts else []
    return [*told, f"runs: {wish.store}"]


def as_json(wish: Wish, numbers: Sequence[Compared], ran: int) -> dict[str, Any]:
    """The same for machines."""
    told = {name: getattr(wish.table, name) for name in ("name", "title", "statistic", "rule")}
    return {**told, "store": str(wish.store), "ran": ran, "numbers": [asdict(number) for number in numbers]}
