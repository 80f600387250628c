"""Display of a comparison on the terminal: progress bars, and the final tables."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text, TextType

from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.compare.comparison_folder import Cell
from fedkin.analysis.compare.harm import WORSE, local_label
from fedkin.analysis.tables import Column
from fedkin.config.comparison_grid import ComparisonGrid
from fedkin.core.object_repr import count
from fedkin.core.records import Record
from fedkin.measures.table import MEASURES
from fedkin.reporting.comparison_tables import (
    best_rows,
    cells,
    columns,
    further_tables,
    not_run,
    table_notes,
)
from fedkin.reporting.narrow_tables import fits, left_out_line
from fedkin.reporting.progress import measure, score_value, suppress_hangup
from fedkin.reporting.sweep_tables import candidate_table
from fedkin.reporting.terminal import plain_console
from fedkin.reporting.text_table import folded

MOST_SETTINGS = 2  # of a sweep whose settings have a table each
_LEAST = 4  # columns that are always in the first table
_LEAST_OF_NUMBERS = 2  # the same for scores of numbers, which are longer


class ComparisonDisplay:
    """Progress display of a comparison on standard error.

    On a terminal, one live bar counts the runs of the comparison (one for each setting, method and
    seed), and another one the rounds of the current run. Elsewhere, each run prints a plain line.
    The display is a context manager. The comparison calls the method ``cell`` before each run, and
    ``round`` after each round.

    Args:
        grid: the grid of the comparison.
        several: whether several runs are executed in parallel.
        opening: a line that is printed once, before the first run; empty: none.
    """

    def __init__(self, grid: ComparisonGrid, several: bool = False, opening: str = "") -> None:
        self._opening = opening
        # With parallel runs the time left cannot be estimated, because several runs end together.
        self._timed = not several
        self.console = plain_console(stderr=True)
        self._rounds = {(s.label, m.label): s.config(m).run.rounds for s, m in grid.cells}
        self._cells = [key for key in self._rounds for _ in grid.seeds]
        self._pace = Pace()
        self._current: Cell | None = None
        self._started = 0
        self._stopped = ""  # the line of a run that has not had its last round, for a log
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._all = self._bars.add_task("runs", total=len(self._cells), note="")
        self._one = self._bars.add_task("", total=None, note="")

    def __enter__(self) -> ComparisonDisplay:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._print_stopped()
        with suppress_hangup():
            self._bars.stop()

    def cell(self, cell: Cell, finished: bool) -> None:
        """Show the next run of the comparison. ``finished`` says that it was finished in an earlier
        session."""
        self._open()
        self._print_stopped()
        self._current = cell
        rounds = self._rounds[cell.setting.label, cell.method.label]
        self._bars.update(self._all, completed=self._started, note=self._time_left(0))
        self._bars.update(
            self._one, description=_name(cell), total=rounds, completed=rounds * finished, note=""
        )
        self._cells.remove((cell.setting.label, cell.method.label))
        self._started += 1
        self._pace.begin()
        if finished and not self.console.is_terminal:
            print(f"{self._position()}  finished before", file=sys.stderr, flush=True)

    def _open(self) -> None:
        """Print the opening line, if it is not printed yet. Bad input ends a comparison before its
        first run, with an error message as the only line."""
        if self._opening:
            with suppress_hangup():
                self.console.print(self._opening, soft_wrap=True, markup=False, highlight=False)
        self._opening = ""

    def leave_out(self, cell: Cell) -> None:
        """Subtract a run that cannot be executed from the displayed number of runs."""
        self._cells.remove((cell.setting.label, cell.method.label))
        self._bars.update(self._all, total=len(self._cells))

    def round(self, record: Record) -> None:
        """Show a finished round of the current run."""
        assert self._current is not None
        method = self._current.method.label
        rounds = self._rounds[self._current.setting.label, method]
        self._pace.lap(method)
        shown = f"{measure(record)} {score_value(record)}"
        self._bars.update(self._one, completed=record["round"], note=shown)
        time_left = self._time_left(rounds - record["round"])
        self._bars.update(self._all, note=time_left)
        if self.console.is_terminal:
            return
        line = f"{self._position()}  {shown}"
        self._stopped = f"{line}  stopped after round {record['round']} of {rounds}"
        if record["round"] == rounds:
            self._stopped = ""
            print(f"{line}  {time_left}", file=sys.stderr, flush=True)

    def _print_stopped(self) -> None:
        """Print the line of the current run if it ended before its last round."""
        if self._stopped:
            print(self._stopped, file=sys.stderr, flush=True)
        self._stopped = ""

    def _position(self) -> str:
        """The current run as text: its number, the number of all runs, and its name."""
        assert self._current is not None
        return f"{self._started} of {self._started + len(self._cells)}  {_name(self._current)}"

    def _time_left(self, rounds: int) -> str:
        """The time left as text, estimated from the remaining rounds and the seconds per round of
        each method."""
        # Remaining rounds by method, since methods differ in their seconds per round.
        remaining: dict[str, int] = defaultdict(int)
        if self._current is not None:
            remaining[self._current.method.label] += rounds
        for setting, method in self._cells:
            remaining[method] += self._rounds[setting, method]
        seconds = self._pace.seconds_left(remaining) if self._timed else None
        if seconds is None:
            return ""
        return f"{seconds // 3600:d}:{seconds // 60 % 60:02d}:{seconds % 60:02d} left"


class Pace:
    """Measures the seconds per round of each method, including compilation in the first round."""

    def __init__(self) -> None:
        self._spent: dict[str, tuple[float, int]] = {}
        self._last = time.monotonic()

    def begin(self) -> None:
        """Start timing a run."""
        self._last = time.monotonic()

    def lap(self, method: str) -> None:
        """Record that a method has finished a round."""
        now = time.monotonic()
        seconds, rounds = self._spent.get(method, (0.0, 0))
        self._spent[method] = (seconds + now - self._last, rounds + 1)
        self._last = now

    def seconds_left(self, remaining: dict[str, int]) -> int | None:
        """Estimated seconds for the remaining rounds; None before the first round.

        Methods without a finished round are estimated at the mean pace.
        """
        if not self._spent:
            return None
        mean = sum(s for s, _ in self._spent.values()) / sum(n for _, n in self._spent.values())
        each = {method: seconds / rounds for method, (seconds, rounds) in self._spent.items()}
        return round(sum(rounds * each.get(method, mean) for method, rounds in remaining.items()))


def has_results(comparison: Comparison) -> bool:
    """Whether ``tables`` has a table of results for each setting, and not only the candidates of a
    sweep."""
    return len(comparison.settings) <= MOST_SETTINGS or candidate_table(comparison) is None


def has_means(comparison: Comparison) -> bool:
    """Whether ``tables`` has methods x settings. The candidates of a search or of one method
    already have a row for each setting and method."""
    one_row_each = bool(comparison.grid.trials) or len(comparison.methods) == 1
    return not one_row_each or candidate_table(comparison) is None


def notes(comparison: Comparison) -> list[str]:
    """The notes on the tables that ``tables`` shows."""
    results = has_results(comparison)
    return table_notes(comparison, results=results, means=results or has_means(comparison))


def tables(
    comparison: Comparison,
    measure: str | None = None,
    console: Console | None = None,
    unfinished: bool = False,
) -> list[Table]:
    """The final tables: one for each setting, or the candidates of a sweep if it has more than
    MOST_SETTINGS settings; then methods x settings, and how much each option mattered.

    Args:
        comparison: the comparison.
        measure: the measure by which methods are compared; default: the comparison's measure.
        console: console to print on. If a table does not fit, it has no seconds, and no column of
            dashes; columns that still do not fit go into a second table.
        unfinished: whether the comparison was interrupted: there are only tables of settings, and
            none of a setting without a finished run.
    """
    settings = [
        setting
        for setting in comparison.settings
        if not unfinished or any(comparison.runs(setting, m) for m in comparison.methods)
    ]
    further = further_tables(comparison, measure, shortened=True)
    if not has_means(comparison):
        further.pop("means", None)
    # What bold type means in methods x settings is said in the notes of the comparison.
    following = [table.rich(console, name != "means") for name, table in further.items()]
    if unfinished:
        following = []
    if not has_results(comparison):
        return following
    every = columns(comparison)
    of_settings = _SettingTables(comparison, settings, measure, console)
    fitting = _without_optional(of_settings, every) or _in_parts(of_settings, every)
    return [*fitting, *following]


class _SettingTables(NamedTuple):
    """Makes the tables of a comparison's settings, with the same columns."""

    comparison: Comparison
    settings: Sequence[str]
    measure: str | None
    console: Console | None

    def with_columns(self, shown: Sequence[Column]) -> list[Table]:
        """One table for each setting, with the columns ``shown``."""
        return [_table(self.comparison, one, self.measure, shown) for one in self.settings]

    def fit(self, shown: Sequence[Table]) -> bool:
        """Whether all tables fit on the console."""
        return self.console is None or all(fits(table, self.console) for table in shown)


def _without_optional(of_settings: _SettingTables, every: Sequence[Column]) -> list[Table] | None:
    """One table for each setting, without as many optional columns as the console needs; None if
    the tables do not fit even without all of them."""
    tables = of_settings.with_columns(every)
    left_out: list[Column] = []
    for name in _optional(of_settings.comparison):
        if of_settings.fit(tables):
            break
        left_out += [column for column in every if column.measure == name]
        tables = of_settings.with_columns([one for one in every if one not in left_out])
    if not of_settings.fit(tables):
        return None
    if left_out:
        line = left_out_line(MEASURES[column.measure].head for column in left_out)
        tables[-1].caption = _with_line(tables[-1].caption, line)
        tables[-1].caption_justify = "left"
    return tables


def _in_parts(of_settings: _SettingTables, every: Sequence[Column]) -> list[Table]:
    """Two or more tables for each setting, one below the other, each with some of the columns."""
    least = _LEAST_OF_NUMBERS if of_settings.comparison.run_scores.further else _LEAST
    parts: list[list[Table]] = []
    rest = every
    while rest:
        shown = len(rest)
        while shown > least and not of_settings.fit(of_settings.with_columns(rest[:shown])):
            shown -= 1
        parts.append(of_settings.with_columns(rest[:shown]))
        rest = rest[shown:]
        least = 1
    # Only the first table has the title, because the others may be too narrow for it.
    for table in (table for part in parts[1:] for table in part):
        table.title = None
    return [table for tables in zip(*parts, strict=True) for table in tables]


def _optional(comparison: Comparison) -> list[str]:
    """The measures whose columns a narrow terminal leaves out, because a second table for them
    would be more to read than they are worth: the seconds, and a column of dashes."""
    return ["seconds"] if local_label(comparison.grid) else ["seconds", WORSE]


def _with_line(caption: TextType | None, line: str) -> Text:
    """A table's caption with one more line."""
    lines = [str(caption)] if caption else []
    return Text("\n".join([*lines, line]), "table.caption")


def _table(
    comparison: Comparison, setting: str, measure: str | None, shown: Sequence[Column]
) -> Table:
    """The table of results in a setting (data set and configuration) with the columns ``shown``, as
    narrow as possible.

    The number of seeds is a column if methods (rows) differ in this number; otherwise it is in the
    heading.
    """
    rows = [
        (row, best) for row, best in best_rows(comparison, measure) if row["setting"] == setting
    ]
    seeds = sorted({row["seeds"] for row, _ in rows})
    same_seeds = count(seeds[0], "seed") if len(seeds) == 1 else ""
    heading = ", ".join(part for part in (setting, same_seeds) if part)
    title = Text(heading, "table.title") if heading else None
    out = Table(title=title, box=SIMPLE_HEAD, padding=0, show_edge=False)
    out.add_column("method", overflow="fold")
    if not same_seeds:
        out.add_column("seeds", justify="right", no_wrap=True)
    for column in shown:
        justify = "left" if column.text else "right"
        out.add_column(folded(column.head), justify=justify, no_wrap=True)
    for row, best in rows:
        style = "bold" if row["method"] in best else None
        own_seeds = [] if same_seeds else [str(row["seeds"])]
        numbers = cells(row, shown) if not_run(row) is None else ["not run"] * len(shown)
        out.add_row(Text(row["method"]), *own_seeds, *numbers, style=style)
    reasons = [f"{row['method']}: {reason}" for row, _ in rows if (reason := not_run(row))]
    if reasons and shown[0].measure == comparison.run_scores.final.name:
        out.caption = Text("\n".join(reasons), "table.caption")
        out.caption_justify = "left"
    return out


def _name(cell: Cell) -> str:
    """The name of a run: setting (if there are several), method and seed."""
    name = f"{cell.method.label}, seed {cell.seed}"
    return f"{cell.setting.label}, {name}" if cell.setting.label else name
