"""What a person sees of a run: a live line for each method, and a table at the end."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from fedkin.config.registry import method_title
from fedkin.core.records import Record

INCOMPLETE = "best -: in no round every client had a cluster; run.selection=round_robin gives everybody a turn"
INCOMPLETE_SEED = (
    "best -: some seed has no round in which every client had a cluster; run.selection=round_robin gives "
    "everybody a turn"
)
LINES = 20  # of a run, where the output is no terminal


class Display:
    """Progress on standard error: live bars on a terminal, some twenty plain lines elsewhere.

    Use as a context; call it with the record of every round.
    """

    def __init__(self, rounds: int, seeds: int = 1) -> None:
        self.rounds, self.seeds = rounds, seeds
        self._seed: tuple[int, int] | None = None  # which of the seeds is run, and its number
        self.console = Console(file=sys.stderr)
        self._tasks: dict[str, TaskID] = {}
        self._bars = Progress(
            TextColumn("[bold]{task.fields[method]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("accuracy {task.fields[accuracy]}"),
            TextColumn("clusters {task.fields[sizes]}"),
            _Left(),
            console=self.console,
            disable=not self.console.is_terminal,
        )

    def __enter__(self) -> Display:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begin(self, number: int, seed: int) -> None:
        """The next of several seeds begins."""
        self._seed = (number, seed)

    def __call__(self, record: Record) -> None:
        """Show a round; where there are several seeds and no terminal, only the last one of each."""
        if self.console.is_terminal:
            self._move(record)
        elif self._seed is not None:
            if record["round"] == self.rounds:
                where = f"seed {self._seed[1]} ({self._seed[0] + 1} of {self.seeds})  "
                print(where + plain_line(record, self.rounds), file=sys.stderr, flush=True)
        elif record["round"] % -(-self.rounds // LINES) == 0 or record["round"] == self.rounds:
            print(plain_line(record, self.rounds), file=sys.stderr, flush=True)

    def _move(self, record: Record) -> None:
        name, shown = record["method"], _shown(record)
        completed = record["round"] + (self._seed[0] if self._seed else 0) * self.rounds
        if name not in self._tasks:
            pace = _Pace(completed, time.monotonic())
            start: dict[str, Any] = {"method": method_title(name), "pace": pace, **shown}
            self._tasks[name] = self._bars.add_task("", total=self.rounds * self.seeds, **start)
        fresh: dict[str, Any] = shown if record["accuracy"] is not None else {}  # else what was seen last stays
        self._bars.update(self._tasks[name], completed=completed, **fresh)


@dataclass(frozen=True)
class _Pace:
    """Where and when this process began."""

    round: int
    time: float


class _Left(ProgressColumn):
    """Time left, from the mean pace of this process."""

    def render(self, task: Task) -> Text:
        pace: _Pace = task.fields["pace"]
        done = task.completed - pace.round
        if task.finished or done <= 0:
            return Text("")
        each = (time.monotonic() - pace.time) / done
        minutes, seconds = divmod(round(each * (task.remaining or 0)), 60)
        return Text(f"{minutes}:{seconds:02d} left")


def plain_line(record: Record, rounds: int) -> str:
    """One round in words."""
    shown = _shown(record)
    return (
        f"{method_title(record['method'])}  round {record['round']}/{rounds}  accuracy {shown['accuracy']}  "
        f"clusters {shown['sizes']}"
    )


def table(summaries: list[dict[str, Any]]) -> Table:
    """The closing table: one row per method."""
    first = summaries[0]
    heading = f"{first['data']}, {first['model']}, {first['rounds']} rounds, seed {first['seed']}"
    out = Table(title=heading, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), collapse_padding=True)
    if any(summary["best_accuracy"] is None and summary["final_accuracy"] is not None for summary in summaries):
        out.caption = INCOMPLETE
        out.caption_justify = "left"
    out.add_column("method", no_wrap=True)
    columns = ("best", "round", "final", "worst\ntenth", "clusters", "MB\ndown", "MB\nup", "seconds")
    known = any(summary["ari"] is not None for summary in summaries)
    target = first["target"]
    extra = (["ARI"] if known else []) + ([f"rounds\nto {target:.0%}"] if target else [])
    for column in (*columns, *extra):
        out.add_column(column, justify="right", no_wrap=True)
    for summary in summaries:
        out.add_row(*_row(summary), *_extra(summary, known))
    return out


def seeds_table(summary: dict[str, Any]) -> Table:
    """The closing table of several seeds: one row per method, means and their 95% intervals."""
    seeds = summary["seeds"]
    heading = f"{summary['data']}, {summary['model']}, {summary['rounds']} rounds, {_counted(seeds)}"
    out = Table(title=heading, box=SIMPLE_HEAD, padding=0, show_edge=False)  # as narrow as it can be: 80 columns
    out.add_column("method", no_wrap=True)
    for column in ("final", "best", "mean of\nrounds", "worst\ntenth", "MB\ndown", "MB\nup"):
        out.add_column(column, justify="right", no_wrap=True)
    for row in summary["methods"]:
        names = ("final_accuracy", "best_accuracy", "mean_accuracy", "bottom_decile")
        sent = (f"{row[name] / 1e6:.1f}" for name in ("bytes_down", "bytes_up"))
        out.add_row(method_title(row["method"]), *(_with_interval(row, name) for name in names), *sent)
    out.caption, out.caption_justify = "\n".join(_explained(summary)) or None, "left"
    return out


def _explained(summary: dict[str, Any]) -> list[str]:
    """What the numbers over several seeds are, and why some are not there."""
    rows, told = summary["methods"], []
    if rows[0]["final_accuracy_low"] is not None:
        told.append("means over the seeds, and their 95% intervals")
    if any(row["best_accuracy"] is None and row["final_accuracy"] is not None for row in rows):
        told.append(INCOMPLETE_SEED)
    if len(rows) > 1 and not summary["comparisons"]:
        told.append("no comparison: in fewer than two rounds every run was scored and every client had a cluster")
    return told


def compared(summary: dict[str, Any]) -> Table:
    """What the main method gains over each of the others, in points, and what tests say of it."""
    made = summary["comparisons"]
    out = Table(
        title=f"{method_title(summary['method'])} against", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False
    )
    out.add_column("", no_wrap=True)
    for column in ("mean gain over\nrounds, points", "t-test\np", "Wilcoxon\np", "significant\nin rounds"):
        out.add_column(column, justify="right", no_wrap=True)
    out.add_column("verdict", overflow="fold")
    for row in made:
        share = row["share_significant"]
        out.add_row(
            method_title(row["against"]),
            f"{row['difference']:+.1f}" + ("" if row["low"] is None else f" ({row['low']:.1f} to {row['high']:.1f})"),
            *(_p(row[name]) for name in ("p_t", "p_wilcoxon")),
            "-" if share is None else f"{share:.0%}",
            row["verdict"],
        )
    if made[0]["p_t"] is not None:
        out.caption, out.caption_justify = "\n".join(_small_print(len(made), len(summary["seeds"]))), "left"
    return out


def _small_print(made: int, seeds: int) -> list[str]:
    """What the numbers of a comparison are."""
    several = f", Holm-adjusted for {made} comparisons" if made > 1 else ""
    told = [
        f"p: one-tailed, paired by seed{several}; the verdict is the t-test's",
        "intervals: 95%, bootstrap over seeds",
    ]
    if seeds < 5:
        told[1] += f", {'75' if seeds == 3 else '87.5'}% at best with {seeds}; Wilcoxon needs 5 to get below 0.05"
    return told


def _counted(seeds: list[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"


def _with_interval(row: dict[str, Any], name: str) -> str:
    high = row[f"{name}_high"]
    return percent(row[name]) + ("" if high is None else f" ±{100 * (high - row[name]):.1f}")


def _p(value: float | None) -> str:
    return "-" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def _row(summary: dict[str, Any]) -> list[str]:
    return [
        method_title(summary["method"]),
        percent(summary["best_accuracy"]),
        "-" if summary["best_round"] is None else str(summary["best_round"]),
        percent(summary["final_accuracy"]),
        percent(summary["bottom_decile"]),
        _sizes(summary["cluster_sizes"]),
        f"{summary['bytes_down'] / 1e6:.1f}",
        f"{summary['bytes_up'] / 1e6:.1f}",
        f"{summary['seconds']:.1f}",
    ]


def _extra(summary: dict[str, Any], known: bool) -> list[str]:
    ari = [f"{summary['ari']:.2f}" if summary["ari"] is not None else "-"] if known else []
    reached = summary["rounds_to_target"]
    return ari + ([str(reached) if reached is not None else "-"] if summary["target"] else [])


def percent(value: float | None) -> str:
    """A fraction in per cent; a dash for nothing."""
    return "-" if value is None else f"{value:.1%}"


def _shown(record: Record) -> dict[str, str]:
    partial = " (partial)" if record["partial"] else ""
    return {"accuracy": percent(record["accuracy"]) + partial, "sizes": _sizes(record["cluster_sizes"])}


def _sizes(sizes: list[int] | None) -> str:
    if sizes is None:
        return "-"
    return "/".join(map(str, sizes)) if len(sizes) <= 8 else f"{sum(s > 0 for s in sizes)} of {len(sizes)}"
