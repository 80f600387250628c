"""What a person sees of a comparison: how far it is, how far the run at work is, and the tables at the end."""

from __future__ import annotations

import sys
import time
from collections import defaultdict

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.compare.comparison_folder import Cell
from fedkin.config.comparison_grid import Grid
from fedkin.core.records import Record
from fedkin.reporting.comparison_tables import HEADS, cells_in_words, strong_rows
from fedkin.reporting.progress import percent


class Display:
    """Progress on standard error: two live bars on a terminal (the runs of the grid, the rounds of the one at work), a
    plain line for every run elsewhere. Use as a context; it is told of every cell and every round."""

    def __init__(self, grid: Grid) -> None:
        self.console = Console(file=sys.stderr)
        self._rounds = {(s.label, m.label): s.config(m).run.rounds for s, m in grid.cells}
        self._cells = [key for key in self._rounds for _ in grid.seeds]
        self._pace = Pace()
        self._at: Cell | None = None
        self._begun = 0
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._all = self._bars.add_task("[bold]runs", total=len(self._cells), note="")
        self._one = self._bars.add_task("", total=None, note="")

    def __enter__(self) -> Display:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def cell(self, cell: Cell, finished: bool) -> None:
        """The next run; ``finished`` if it is there already."""
        self._at = cell
        rounds = self._rounds[cell.setting.label, cell.method.label]
        self._bars.update(self._all, completed=self._begun, note=self._left(0))
        self._bars.update(
            self._one, description=escape(_name(cell)), total=rounds, completed=rounds * finished, note=""
        )
        self._cells.remove((cell.setting.label, cell.method.label))
        self._begun += 1
        self._pace.begin()
        if finished and not self.console.is_terminal:
            print(f"{self._place()}  finished before", file=sys.stderr, flush=True)

    def round(self, record: Record) -> None:
        """A round of the run at work."""
        assert self._at is not None
        method, rounds = self._at.method.label, self._rounds[self._at.setting.label, self._at.method.label]
        self._pace.lap(method)
        shown = f"accuracy {percent(record['accuracy'])}"
        self._bars.update(self._one, completed=record["round"], note=shown)
        left = self._left(rounds - record["round"])
        self._bars.update(self._all, note=left)
        if not self.console.is_terminal and record["round"] == rounds:
            print(f"{self._place()}  {shown}  {left}", file=sys.stderr, flush=True)

    def _place(self) -> str:
        assert self._at is not None
        return f"{self._begun} of {self._begun + len(self._cells)}  {_name(self._at)}"

    def _left(self, rounds: int) -> str:
        """Time left: rounds to come of each method, at its own pace."""
        wanted: dict[str, int] = defaultdict(int)
        if self._at is not None:
            wanted[self._at.method.label] += rounds
        for setting, method in self._cells:
            wanted[method] += self._rounds[setting, method]
        seconds = self._pace.left(wanted)
        return "" if seconds is None else f"{seconds // 3600:d}:{seconds // 60 % 60:02d}:{seconds % 60:02d} left"


class Pace:
    """Seconds a round takes, by method; the first of every run, which compiles, counts as the others do."""

    def __init__(self) -> None:
        self._spent: dict[str, tuple[float, int]] = {}
        self._last = time.monotonic()

    def begin(self) -> None:
        self._last = time.monotonic()

    def lap(self, method: str) -> None:
        now = time.monotonic()
        seconds, rounds = self._spent.get(method, (0.0, 0))
        self._spent[method] = (seconds + now - self._last, rounds + 1)
        self._last = now

    def left(self, wanted: dict[str, int]) -> int | None:
        """Seconds for so many rounds; of a method that was not seen yet at the mean pace. None where nothing was."""
        if not self._spent:
            return None
        mean = sum(s for s, _ in self._spent.values()) / sum(n for _, n in self._spent.values())
        each = {method: seconds / rounds for method, (seconds, rounds) in self._spent.items()}
        return round(sum(rounds * each.get(method, mean) for method, rounds in wanted.items()))


def tables(comparison: Comparison, measure: str | None = None) -> list[Table]:
    """The closing table, one for every setting."""
    return [_table(comparison, setting, measure) for setting in comparison.settings]


def _table(comparison: Comparison, setting: str, measure: str | None) -> Table:
    """As narrow as it can be: seeds have a column where they differ from row to row, else they are in the heading."""
    rows = [(row, strong) for row, strong in strong_rows(comparison, measure) if row["setting"] == setting]
    seeds = sorted({row["seeds"] for row, _ in rows})
    alike = f"{seeds[0]} seed{'' if seeds[0] == 1 else 's'}" if len(seeds) == 1 else ""
    heading = ", ".join(part for part in (escape(setting), alike) if part)
    out = Table(title=heading or None, box=SIMPLE_HEAD, padding=0, show_edge=False)
    out.add_column("method", overflow="fold")
    for head in ([] if alike else ["seeds"]) + list(HEADS):
        shown = head.replace(" (", "\n(").replace(" to ", "\nto ").replace(" down", "\ndown")
        out.add_column(shown, justify="right", no_wrap=True)
    for row, strong in rows:
        style = "bold" if row["method"] in strong else None
        told = [] if alike else [str(row["seeds"])]
        out.add_row(escape(row["method"]), *told, *cells_in_words(row), style=style)
    return out


def _name(cell: Cell) -> str:
    return ", ".join([*([cell.setting.label] if cell.setting.label else []), cell.method.label, f"seed {cell.seed}"])
