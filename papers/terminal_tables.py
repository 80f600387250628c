"""``fedkin reproduce`` on a terminal: the list of tables, progress while runs are made, our numbers
and the paper's."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich import progress
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.markdown import Markdown
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from papers import claims
from papers.catalogue import NO_PAPERS_NUMBER
from papers.prediction import LEAST_RUNS
from papers.reproduction_marks import POINTS, SYMBOLS, ComparedNumber, Mark
from papers.result_store import Job, JobList
from papers.table_request import TableRequest, TableSummary

CAPTION = (
    "time: of all runs, on two cores, as long as the stored runs took; ~ where the recipe's "
    "estimate stands for some\n"
    "measured: cells with a run; left: the time of the runs that are missing, also seeds of "
    "measured cells\n"
    "a claim has a key, such as fedgroup-1 (docs/results.md): fedkin reproduce fedgroup-1"
)


def overview(summaries: Sequence[TableSummary]) -> Grid:
    """The list of all tables."""
    grid = Grid(
        title="fedkin reproduce NAME", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False
    )
    grid.add_column("name, and what it shows", overflow="fold")
    for column in ("cells", "measured", "time", "left"):
        grid.add_column(column, justify="right", no_wrap=True)
    for summary in summaries:
        mark = "~" if summary.guessed else ""
        times = [
            mark + duration(seconds) if seconds else "-"
            for seconds in (summary.seconds, summary.seconds_left)
        ]
        about = Group(Text(summary.table.name, "bold"), Padding(_content(summary), (0, 0, 0, 2)))
        grid.add_row(about, str(summary.cells), str(summary.measured), *times)
    grid.caption = CAPTION
    grid.caption_justify = "left"
    return grid


def _content(summary: TableSummary) -> str:
    """The title, and other tables that show the same runs."""
    table = summary.table
    same = [f"the runs of {table.same_runs}"] if table.same_runs else []
    also = [*same, *(f"also {name}" for name in table.also)]
    return table.title + (f" ({', '.join(also)})" if also else "")


def summary_as_json(summary: TableSummary) -> dict[str, Any]:
    """A line of the list for machines."""
    table = summary.table
    numbers = {k: v for k, v in vars(summary).items() if k != "table"}
    texts = {
        name: getattr(table, name) for name in ("name", "title", "statistic", "rule", "same_runs")
    }
    return {**texts, "also": list(table.also), **numbers}


def duration(seconds: float | int) -> str:
    """Rounded to a unit that one can plan with."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Progress:
    """Progress on standard error: a bar on a terminal, a line a run elsewhere. Use as a context."""

    def __init__(self, jobs: JobList, seconds: Mapping[str, float]) -> None:
        self._runs = len(jobs)
        self._seconds = seconds
        self._left = sum(seconds[job.row] for job, _ in jobs)  # expected
        self._done = 0
        self._expected = 0.0
        self._start = time.monotonic()
        console = Console(file=sys.stderr)
        self._bar = progress.Progress(
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.description}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._plain = not console.is_terminal
        self._task = self._bar.add_task("", total=self._runs)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def start_run(self, job: Job, seed: int) -> None:
        """A run starts."""
        self._bar.update(self._task, description=f"{job.name}, seed {seed}, {self.left()}")

    def end_run(self, job: Job, seed: int) -> None:
        """A run is in the store."""
        self._done += 1
        self._expected += self._seconds[job.row]
        self._left -= self._seconds[job.row]
        self._bar.update(self._task, completed=self._done)
        if self._plain:
            print(
                f"{self._done}/{self._runs}  {job.name}, seed {seed}  {self.left()}",
                file=sys.stderr,
                flush=True,
            )

    def left(self) -> str:
        """Time left: the expected time, corrected by the pace so far."""
        elapsed = time.monotonic() - self._start
        pace = elapsed / self._expected if self._expected else 1.0
        return f"{duration(max(0.0, self._left) * pace)} left"


def comparison(request: TableRequest, numbers: Sequence[ComparedNumber]) -> Grid:
    """Our numbers and the paper's."""
    grid = Grid(title=request.table.title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    grid.add_column("row", overflow="fold")
    grid.add_column("column", overflow="fold")
    for column in ("ours", "paper", "differ-\nence", "seeds"):
        grid.add_column(column, justify="right", no_wrap=True)
    grid.add_column("", overflow="fold")
    for number in numbers:
        form = "+.2f" if number.unit == POINTS else "+.3g"
        gap = "" if number.difference is None else f"{number.difference:{form}}"
        grid.add_row(
            number.row,
            number.column,
            number.ours,
            number.published,
            gap,
            str(number.seeds),
            _mark(number),
        )
    grid.caption = "\n".join(_legend(request, numbers))
    grid.caption_justify = "left"
    return grid


def claims_of(request: TableRequest) -> list[str]:
    """The claims that a table judges, in sentences of Markdown; none if only some seeds are asked
    for."""
    if request.seeds is not None:
        return []
    names = (request.table.name, *request.table.also)
    runs = request.results() if request.claim else request.selected_runs()
    return claims.of_table({request.paper.name: runs}, names, request.claim)


def claims_below(sentences: Sequence[str]) -> Markdown:
    """The claims of the paper that the table judges, below it."""
    return Markdown(
        "\n".join(["Claims that this table judges:", "", *(f"* {text}" for text in sentences)])
    )


def _mark(number: ComparedNumber) -> str:
    """Whether a number was reproduced, and why it does not count."""
    mark = f"{SYMBOLS[number.mark]} {number.mark}".strip()
    return f"{mark} ({number.deviation})" if number.deviation else mark


def _legend(request: TableRequest, numbers: Sequence[ComparedNumber]) -> list[str]:
    """The meaning of the numbers, the rule for a reproduced one, and how many are reproduced."""
    counts = Counter(str(number.mark) for number in numbers if not number.deviation)
    lines = [f"ours: {request.table.statistic}"]
    rule = request.table.rule
    lines += [rule if rule == NO_PAPERS_NUMBER else f"reproduced: {rule}".replace("*", "")]
    lines += (
        ["; ".join(f"{count} {mark}" for mark, count in counts.most_common())] if counts else []
    )
    few = any(
        number.mark == Mark.NOT_REPRODUCED and 0 < number.seeds < LEAST_RUNS for number in numbers
    )
    if few:
        lines.append(
            f"{SYMBOLS[Mark.NOT_REPRODUCED]} with fewer than {LEAST_RUNS} seeds decides nothing: "
            "there are too few runs for an interval"
        )
    left_out = [f"left out: {words}" for words in request.stored().left_out()]
    return [*lines, f"runs: {request.store}", *left_out]


def numbers_as_json(
    request: TableRequest, numbers: Sequence[ComparedNumber], runs: int
) -> dict[str, Any]:
    """Our numbers and the paper's, for machines.

    Args:
        request: the table.
        numbers: its numbers.
        runs: number of runs that were made for them now.
    """
    texts = {name: getattr(request.table, name) for name in ("name", "title", "statistic", "rule")}
    left_out = request.stored().left_out()
    rows = [asdict(number) for number in numbers]
    return {
        **texts,
        "store": str(request.store),
        "ran": runs,
        "left_out": left_out,
        "numbers": rows,
        "claims": claims_of(request),
    }
