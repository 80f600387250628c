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

from fedkin.experiment.figure import title
from fedkin.experiment.metrics import Record

INCOMPLETE = "best -: in no round every client had a cluster; run.selection=round_robin gives everybody a turn"
LINES = 20  # of a run, where the output is no terminal


class Display:
    """Progress on standard error: live bars on a terminal, some twenty plain lines elsewhere.

    Use as a context; call it with the record of every round.
    """

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
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

    def __call__(self, record: Record) -> None:
        """Show a round."""
        if self.console.is_terminal:
            self._move(record)
        elif record["round"] % -(-self.rounds // LINES) == 0 or record["round"] == self.rounds:
            print(plain_line(record, self.rounds), file=sys.stderr, flush=True)

    def _move(self, record: Record) -> None:
        name, shown = record["method"], _shown(record)
        if name not in self._tasks:
            pace = _Pace(record["round"], time.monotonic())
            start: dict[str, Any] = {"method": title(name), "pace": pace, **shown}
            self._tasks[name] = self._bars.add_task("", total=self.rounds, **start)
        fresh: dict[str, Any] = shown if record["accuracy"] is not None else {}  # else what was seen last stays
        self._bars.update(self._tasks[name], completed=record["round"], **fresh)


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
        f"{title(record['method'])}  round {record['round']}/{rounds}  accuracy {shown['accuracy']}  "
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


def _row(summary: dict[str, Any]) -> list[str]:
    return [
        title(summary["method"]),
        percent(summary["best_accuracy"]),
        "-" if summary["best_round"] is None else str(summary["best_round"]),
        percent(summary["final_accuracy"]),
        percent(summary["worst_decile"]),
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
