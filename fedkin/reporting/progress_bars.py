"""The columns of a method's progress bar on a terminal, among them the time left."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn
from rich.text import Text


def bar_columns() -> list[ProgressColumn]:
    """The columns of a method's progress bar, from left to right."""
    return [
        TextColumn("{task.fields[method]}", style="bold", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[measure]} {task.fields[score]}", markup=False),
        TextColumn("clusters {task.fields[clusters]}  sizes {task.fields[sizes]}", markup=False),
        _TimeLeft(),
    ]


@dataclass(frozen=True)
class BarStart:
    """The round and the time at which this process began a run, which it may have resumed."""

    round: int
    time: float


class _TimeLeft(ProgressColumn):
    """Column with the time left, estimated from the mean seconds per round in this process."""

    def render(self, task: Task) -> Text:
        """The time left for one method's bar; empty before its first round and after its last."""
        pace: BarStart = task.fields["pace"]
        done = task.completed - pace.round
        if task.finished or done <= 0:
            return Text("")
        each = (time.monotonic() - pace.time) / done
        minutes, seconds = divmod(round(each * (task.remaining or 0)), 60)
        return Text(f"{minutes}:{seconds:02d} left")
