"""A run on the terminal: a live line for each method, and a table at the end."""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.table import Table
from rich.text import Text

from fedkin.config.registry import method_title
from fedkin.core.progress import in_notebook
from fedkin.core.records import Record
from fedkin.measures.lookup import measures_of
from fedkin.measures.measure import Measure
from fedkin.measures.number_texts import both_ways, percent
from fedkin.measures.table import MEASURES
from fedkin.reporting.terminal import plain_console
from fedkin.run.display import robust_text
from fedkin.run.metrics.partial_rounds import away_text, partial_text

INCOMPLETE = "best -: in no round every client had a cluster; run.selection=round_robin gives every client a turn"
ALWAYS_AWAY = "best -: in every round some client had no cluster or was away; wait for all (federation.wait_for)"
VALIDATED = "best: on test samples, of the round that is best on validation samples"
TRAFFIC_HEAD = "download /\nupload (MB)"
LESS_NEEDED = ("seconds", TRAFFIC_HEAD, "round")  # columns that a narrow terminal has no room for
LINES = 20  # of a run, where the output is no terminal


@contextmanager
def suppress_hangup() -> Iterator[None]:
    """Context in which a terminal may go: what is shown there ends no run."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise


class Display:
    """Progress on standard error: live bars on a terminal and in a notebook, some twenty plain
    lines elsewhere.

    A context manager; called with the record of every round.
    """

    def __init__(self, rounds: int, seeds: int = 1) -> None:
        self.rounds, self.seeds = rounds, seeds
        self._seed: tuple[int, int] | None = (
            None  # number of the current seed (from 0), and the seed
        )
        self.console = plain_console(stderr=True)
        self._tasks: dict[str, TaskID] = {}
        self._bars = Progress(
            TextColumn("{task.fields[method]}", style="bold", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[measure]} {task.fields[accuracy]}", markup=False),
            TextColumn(
                "clusters {task.fields[clusters]}  sizes {task.fields[sizes]}", markup=False
            ),
            _TimeLeft(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._notebook: Any = None  # handle of the output that is drawn anew

    def __enter__(self) -> Display:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress_hangup():
            self._bars.stop()

    def begin(self, number: int, seed: int) -> None:
        """The next of several seeds, and its number (from 0)."""
        self._seed = (number, seed)

    def __call__(self, record: Record) -> None:
        """Show a round; where there are several seeds and no terminal, only the last one of each."""
        if self.console.is_terminal:
            with suppress_hangup():
                self._update_bar(record)
        elif in_notebook():
            self._update_bar(record)
            self._draw_in_notebook()
        elif self._seed is not None:
            if record["round"] == self.rounds:
                where = f"seed {self._seed[1]} ({self._seed[0] + 1} of {self.seeds})  "
                print(where + plain_line(record, self.rounds), file=sys.stderr, flush=True)
        elif record["round"] % -(-self.rounds // LINES) == 0 or record["round"] == self.rounds:
            print(plain_line(record, self.rounds), file=sys.stderr, flush=True)

    def _draw_in_notebook(self) -> None:
        """Draw the bars in the place of those before, without the widgets that rich's own live
        display needs."""
        from IPython.display import display  # there is a notebook, so there is IPython

        bars = self._bars.make_tasks_table(self._bars.tasks)
        if self._notebook is None:
            self._notebook = display(bars, display_id=True)
        else:
            self._notebook.update(bars)

    def _update_bar(self, record: Record) -> None:
        name, shown = record["method"], _shown(record)
        completed = record["round"] + (self._seed[0] if self._seed else 0) * self.rounds
        if name not in self._tasks:
            pace = _Pace(completed, time.monotonic())
            start: dict[str, Any] = {"method": method_title(name), "pace": pace, **shown}
            self._tasks[name] = self._bars.add_task("", total=self.rounds * self.seeds, **start)
        fresh: dict[str, Any] = (
            shown if record["accuracy"] is not None else {}
        )  # else the last accuracy stays
        self._bars.update(self._tasks[name], completed=completed, **fresh)


@dataclass(frozen=True)
class _Pace:
    """Where and when this process began."""

    round: int
    time: float


class _TimeLeft(ProgressColumn):
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
    """One round as a line of text."""
    shown = _shown(record)
    return (
        f"{method_title(record['method'])}  round {record['round']}/{rounds}  {shown['measure']} "
        f"{shown['accuracy']}  "
        f"clusters {shown['clusters']}  sizes {shown['sizes']}"
    )


def table(
    summaries: list[dict[str, Any]], names: Sequence[str] | None = None, own: Sequence[Measure] = ()
) -> Table:
    """The final table: one row per method.

    Args:
        summaries: of the runs.
        names: of all clients, by position; None where they have none.
        own: the runs' measures that have no place among the columns of every run.
    """
    first = summaries[0]
    heading = f"{first['data']}, {first['model']}, {first['rounds']} rounds, seed {first['seed']}"
    out = Table(title=heading, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), collapse_padding=True)
    lines = _incomplete(summaries)
    lines += [VALIDATED] if any("validation_accuracy" in s for s in summaries) else []
    lines += [_stopped(s) for s in summaries if "stopped" in s]
    lines += [f"{method_title(s['method'])}: {text}" for s in summaries if (text := away_text(s))]
    lines += [
        _replies(s)
        for s in summaries
        if s.get("nonfinite") or s.get("missing") or s.get("outliers")
    ]
    lines += [_estimated(s) for s in summaries if "final_interval" in s]
    lines += [_late(s) for s in summaries if "late_used" in s]
    lines += [
        f"{method_title(s['method'])}: failed, as {s['failed']}"
        for s in summaries
        if "failed" in s and "stopped" not in s
    ]
    lines += [_messages(s) for s in summaries if "messages_down" in s]
    lines += [
        f"{method_title(s['method'])}: {privacy_in_words(s['privacy'])}"
        for s in summaries
        if "privacy" in s
    ]
    lines += [
        f"{method_title(s['method'])}: {line}" for s in summaries if (line := robust_text(s, names))
    ]
    lines += [
        f"{method_title(s['method'])}: {secret_in_words(s['secret'])}"
        for s in summaries
        if "secret" in s
    ]
    out.caption, out.caption_justify = "\n".join(lines) or None, "left"
    out.add_column("method", no_wrap=True)
    columns = _columns(summaries, own)
    for column in columns:
        out.add_column(column.head, justify="right", no_wrap=True)
    for summary in summaries:
        out.add_row(method_title(summary["method"]), *(column.cell(summary) for column in columns))
    return out


class _Column(NamedTuple):
    """A column of the final table: its head, and its cell of a run's summary."""

    head: str
    cell: Callable[[dict[str, Any]], str]


def _columns(summaries: Sequence[dict[str, Any]], own: Sequence[Measure]) -> list[_Column]:
    """Those of every run, those that some run has a number for, and those of measures without a
    place among these."""
    target = summaries[0]["target"]
    validated = any("validation_accuracy" in summary for summary in summaries)
    everybody = any(_differs(summary) for summary in summaries)
    agreement = any(summary["ari"] is not None for summary in summaries)
    return [
        *map(
            measure_column,
            measures_of(("best_accuracy", "best_round", "final_accuracy", "bottom_decile")),
        ),
        _Column("clusters:\nsizes", _clusters_and_sizes),
        _Column(
            TRAFFIC_HEAD, lambda summary: both_ways(summary["bytes_down"], summary["bytes_up"])
        ),
        measure_column(MEASURES["seconds"]),
        *([measure_column(MEASURES["validation_accuracy"])] if validated else []),
        *([measure_column(MEASURES["accuracy_all_clients"])] if everybody else []),
        *([measure_column(MEASURES["ari"])] if agreement else []),
        *(
            [_Column(f"rounds\nto {percent(target, digits=0)}", _rounds_to_target)]
            if target
            else []
        ),
        *map(measure_column, own),
    ]


def measure_column(measure: Measure) -> _Column:
    """A measure by its narrow head; of bytes and shares each number has its mark."""
    return _Column(
        folded(measure.narrow), lambda summary: measure.text_with_unit(summary.get(measure.name))
    )


def folded(head: str) -> str:
    """A head of several words on two lines."""
    return "\n".join(head.rsplit(" ", 1))


def _rounds_to_target(summary: dict[str, Any]) -> str:
    reached = summary["rounds_to_target"]
    return "-" if reached is None else str(reached)


def _clusters_and_sizes(summary: dict[str, Any]) -> str:
    return ": ".join(_clusters(summary["cluster_sizes"], summary.get("configured_clusters")))


def _incomplete(summaries: list[dict[str, Any]]) -> list[str]:
    """Why runs have no best round, where some have none."""
    without = [
        s for s in summaries if s["best_accuracy"] is None and s["final_accuracy"] is not None
    ]
    away = [bool(s.get("rounds_with_clients_away")) for s in without]
    lines = [INCOMPLETE] if not all(away) else []
    return lines + ([ALWAYS_AWAY] if any(away) else [])


def _messages(summary: dict[str, Any]) -> str:
    """What the messages of a deployed run weigh, as a line below the table."""
    weight = both_ways(summary["messages_down"], summary["messages_up"])
    title = method_title(summary["method"])
    return f"{title}: messages of {weight} MB, with headers; the table counts arrays, as a simulation does"


def privacy_in_words(statement: dict[str, Any]) -> str:
    """What a run's privacy cost, and what that is true of."""
    epsilon = statement["epsilon"]
    shown = epsilon if isinstance(epsilon, str) else f"{epsilon:.3g}"
    warning = f"; {statement['warning']}" if "warning" in statement else ""
    rounds = statement["rounds"]["released"]
    scores = ""
    if "scores" in statement:
        mean, noise = (
            statement["scores"][name] for name in ("mean_accuracy", "standard_deviation_of_noise")
        )
        scores = f"; released mean accuracy of clients {mean:.3f} (noise {noise:.2g})"
    price = f"epsilon {shown} at delta {statement['delta']:g}, of {statement['unit']}"
    return f"{price} ({rounds:,} released){scores}{warning}"


def secret_in_words(statement: dict[str, Any]) -> str:
    """What came of a run's secret sums."""
    counts = {"lost": statement["lost"], "with clipped numbers": statement["clipped"]}
    words = [f"{statement['sums']:,} sums of {statement['answered']:,} updates"]
    words += [f"{count:,} {name}" for name, count in counts.items() if count]
    clear = f"; in the clear: {', '.join(statement['clear'])}" if statement["clear"] else ""
    return f"secret: {', '.join(words)}{clear}"


def _replies(summary: dict[str, Any]) -> str:
    """How many replies are in no average, as a line below the table."""
    counts = {
        "not finite or not possible": summary["nonfinite"],
        "far longer than others": summary.get("outliers", 0),
        "missing": summary["missing"],
    }
    words = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    return f"{method_title(summary['method'])}: replies left out: {words}"


def _estimated(summary: dict[str, Any]) -> str:
    """That the final accuracy is that of a sample of clients, and what it says of all."""
    low, high = summary["final_interval"]
    return (
        f"{method_title(summary['method'])}: final scores are of a sample of clients; of all, the "
        f"accuracy is between "
        f"{percent(low)} and {percent(high)} (95%)"
    )


def _late(summary: dict[str, Any]) -> str:
    """How many replies came after their round, as a line below the table."""
    used, dropped = summary["late_used"], summary["late_dropped"]
    return f"{method_title(summary['method'])}: replies that came late: {used:,} used in a later round, {dropped:,} not"


def _stopped(summary: dict[str, Any]) -> str:
    """That a run stopped early, as a line below the table."""
    stopped, title = summary["stopped"], method_title(summary["method"])
    return f"{title}: stopped after round {stopped['round']} of {stopped['of']}, as {stopped['reason']}"


def _differs(summary: dict[str, Any]) -> bool:
    """Whether some clients have no cluster at the end, and the accuracy over all clients is another
    one."""
    everybody = summary.get("accuracy_all_clients")
    return everybody is not None and everybody != summary["final_accuracy"]


def _shown(record: Record) -> dict[str, str]:
    partial = f" ({text})" if (text := partial_text(record)) else ""
    clusters, sizes = _clusters(record["cluster_sizes"])
    accuracy = percent(record["accuracy"]) + partial
    return {"measure": measure(record), "accuracy": accuracy, "clusters": clusters, "sizes": sizes}


def measure(record: Record) -> str:
    """What a round's accuracy is called: that of another split than the test samples has its name
    before it."""
    return f"{record['split']} accuracy" if "split" in record else "accuracy"


def _clusters(sizes: list[int] | None, configured: int | None = None) -> tuple[str, str]:
    """The number of clusters that have clients, of those configured (or of all) where these are
    others, and their sizes; of many the smallest and the largest."""
    if not sizes:
        return ("-", "-") if sizes is None else ("0", "-")
    used = [size for size in sizes if size]
    of = len(sizes) if configured is None else configured
    number = str(of) if len(used) == of else f"{len(used)} of {of}"
    return number, "/".join(map(str, sizes)) if len(sizes) <= 8 else f"{min(sizes)} to {max(sizes)}"
