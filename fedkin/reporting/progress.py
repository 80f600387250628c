"""Display of a run on the terminal: progress bars, and the final table."""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.progress import Progress, TaskID
from rich.table import Table

from fedkin.config.registry import method_title
from fedkin.core.object_repr import count
from fedkin.core.progress import in_notebook
from fedkin.core.records import Record
from fedkin.measures.measure import Measure
from fedkin.measures.number_texts import both_ways
from fedkin.measures.run_scores import ACCURACIES, scores_in
from fedkin.measures.table import MEASURES
from fedkin.reporting.option_notes import (
    buffers_in_words,
    late_in_words,
    monitor_in_words,
    privacy_in_words,
    secret_in_words,
)
from fedkin.reporting.progress_bars import BarStart, bar_columns
from fedkin.reporting.terminal import plain_console
from fedkin.run.metrics.partial_rounds import away_text, partial_text
from fedkin.run.number_notes import number_line, ranking_note
from fedkin.run.run_repr import robust_text

INCOMPLETE = (
    "best -: there was no round in which every client had a cluster; run.selection=round_robin "
    "selects every client early"
)
ALWAYS_AWAY = (
    "best -: in every round some client had no cluster or was absent; wait for all clients "
    "(federation.wait_for)"
)
VALIDATED = "best: test {score} of the round with the best validation {score}"
TRAFFIC_HEAD = "download /\nupload (MB)"
LESS_NEEDED = ("seconds", TRAFFIC_HEAD, "round")  # columns dropped on a narrow terminal
LINES = 20  # lines per run, if the output is not a terminal


@contextmanager
def suppress_hangup() -> Iterator[None]:
    """Context manager that ignores the error of writing to a terminal that was closed, so that the
    run continues."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise


class ProgressDisplay:
    """Progress display of a run on standard error: live bars on a terminal or in a notebook, about
    twenty lines elsewhere.

    It is a context manager, and is called with the record of every round.

    Args:
        rounds: the configured number of rounds.
        seeds: the number of seeds.
        opening: a line that is printed once, when the first seed or round is there; empty: none.
    """

    def __init__(self, rounds: int, seeds: int = 1, opening: str = "") -> None:
        self.rounds = rounds
        self.seeds = seeds
        # The number of the current seed (from 0), and the seed itself.
        self._seed: tuple[int, int] | None = None
        self.console = plain_console(stderr=True)
        self._tasks: dict[str, TaskID] = {}
        self._bars = Progress(
            *bar_columns(), console=self.console, disable=not self.console.is_terminal
        )
        self._opening = opening
        # For each method the line of its newest round, if it is not printed: a run may stop there.
        self._unprinted: dict[str, str] = {}
        self._notebook: Any = None  # handle of the updated output

    def __enter__(self) -> ProgressDisplay:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._print_unprinted()
        with suppress_hangup():
            self._bars.stop()

    def begin(self, number: int, seed: int) -> None:
        """Begin the run of the next seed. ``number`` counts the seeds from 0."""
        self._open()
        self._print_unprinted()
        self._seed = (number, seed)

    def __call__(self, record: Record) -> None:
        """Show the record of a round. If several seeds are run and the output is not a terminal,
        only the last round of each seed is shown."""
        self._open()
        if self.console.is_terminal:
            with suppress_hangup():
                self._update_bar(record)
        elif in_notebook():
            self._update_bar(record)
            self._draw_in_notebook()
        else:
            self._print_some(record)

    def _print_some(self, record: Record) -> None:
        """Print the lines of some rounds, each on its line. Of a single run, about LINES lines; of
        several seeds, the last round of each; and in both cases the round in which a run stops."""
        line = plain_line(record, self.rounds)
        is_shown = record["round"] == self.rounds
        if self._seed is None:
            step = -(-self.rounds // LINES)
            is_shown |= record["round"] % step == 0
        else:
            line = f"seed {self._seed[1]} ({self._seed[0] + 1} of {self.seeds})  {line}"
        self._unprinted[record["method"]] = line
        if is_shown:
            print(self._unprinted.pop(record["method"]), file=sys.stderr, flush=True)

    def _print_unprinted(self) -> None:
        """Print the newest round of each method that stopped in a round without a line."""
        for line in self._unprinted.values():
            print(line, file=sys.stderr, flush=True)
        self._unprinted.clear()

    def _open(self) -> None:
        """Print the opening line, if it is not printed yet. Bad input ends a run before its first
        round, with an error message as the only line."""
        if not self._opening:
            return
        with suppress_hangup():
            self.console.print(self._opening, soft_wrap=True, markup=False, highlight=False)
        self._opening = ""

    def _draw_in_notebook(self) -> None:
        """Redraw the bars in place, without the widgets that rich's live display needs."""
        from IPython.display import display  # a notebook implies IPython

        bars = self._bars.make_tasks_table(self._bars.tasks)
        if self._notebook is None:
            self._notebook = display(bars, display_id=True)
        else:
            self._notebook.update(bars)

    def _update_bar(self, record: Record) -> None:
        """Update the progress bar of the method that a round's record belongs to. The bar is added
        in the method's first round."""
        name = record["method"]
        shown = _shown(record)
        completed = record["round"] + (self._seed[0] if self._seed else 0) * self.rounds
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(
                "",
                total=self.rounds * self.seeds,
                method=method_title(name),
                pace=BarStart(completed, time.monotonic()),
                measure=shown["measure"],
                score=shown["score"],
                clusters=shown["clusters"],
                sizes=shown["sizes"],
            )
        self._bars.update(self._tasks[name], completed=completed)
        # A round without evaluation keeps showing the last score.
        if record[scores_in(record).names.score] is not None:
            self._bars.update(
                self._tasks[name],
                measure=shown["measure"],
                score=shown["score"],
                clusters=shown["clusters"],
                sizes=shown["sizes"],
            )


def plain_line(record: Record, rounds: int) -> str:
    """The record of a round as one line of text."""
    shown = _shown(record)
    return (
        f"{method_title(record['method'])}  round {record['round']}/{rounds}  {shown['measure']} "
        f"{shown['score']}  clusters {shown['clusters']}  sizes {shown['sizes']}"
    )


def table(
    summaries: list[dict[str, Any]], names: Sequence[str] | None = None, own: Sequence[Measure] = ()
) -> Table:
    """The final table of a run, with a row for each method.

    Args:
        summaries: summaries of the runs.
        names: names of all clients by position; None if clients have no names.
        own: the user's measures.
    """
    first = summaries[0]
    rounds = count(first["rounds"], "round")
    heading = f"{first['data']}, {first['model']}, {rounds}, seed {first['seed']}"
    out = Table(title=heading, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), collapse_padding=True)
    out.caption = "\n".join(_table_notes(summaries, names)) or None
    out.caption_justify = "left"
    out.add_column("method", no_wrap=True)
    columns = _columns(summaries, own)
    for column in columns:
        out.add_column(column.head, justify="right", no_wrap=True)
    for summary in summaries:
        out.add_row(method_title(summary["method"]), *(column.cell(summary) for column in columns))
    return out


def _table_notes(summaries: Sequence[dict[str, Any]], names: Sequence[str] | None) -> list[str]:
    """The notes below the final table, ordered by subject and then by method."""
    titles = {id(summary): method_title(summary["method"]) for summary in summaries}

    def lines_of(key: str, text: Callable[[dict[str, Any]], str]) -> list[str]:
        """A note, made by ``text``, for every summary that has the entry ``key``."""
        return [text(summary) for summary in summaries if key in summary]

    def titled(text: Callable[[dict[str, Any]], str]) -> list[str]:
        """A note, made by ``text``, for every summary, beginning with the name of the method. Empty
        notes are left out."""
        texts = [(titles[id(summary)], text(summary)) for summary in summaries]
        return [f"{title}: {line}" for title, line in texts if line]

    lines = _incomplete(summaries)
    scores = scores_in(summaries[0])
    if any(scores.validation.name in summary for summary in summaries):
        lines.append(VALIDATED.format(score=scores.of_round.head))
    lines += titled(number_line)
    lines += [ranking] if (ranking := ranking_note(summaries)) else []
    lines += lines_of("stopped", _stopped)
    lines += titled(away_text)
    lines += [_replies(summary) for summary in summaries if _lacks_replies(summary)]
    lines += lines_of("final_interval", _estimated)
    lines += lines_of("late_used", late_in_words)
    lines += lines_of("replies_used", buffers_in_words)
    lines += titled(monitor_in_words)
    lines += titled(_failure)
    lines += lines_of("messages_down", _messages)
    lines += titled(lambda summary: _in_words(summary, "privacy", privacy_in_words))
    lines += titled(lambda summary: robust_text(summary, names))
    lines += titled(lambda summary: _in_words(summary, "secret", secret_in_words))
    return lines


def _lacks_replies(summary: dict[str, Any]) -> bool:
    """Whether replies of clients were excluded or lost."""
    return any(summary.get(name) for name in ("nonfinite", "missing", "outliers"))


def _failure(summary: dict[str, Any]) -> str:
    """The reason why a run failed. Empty if it did not fail, or if the note about its early stop
    has the reason."""
    if "failed" not in summary or "stopped" in summary:
        return ""
    return f"failed: {summary['failed']}"


def _in_words(summary: dict[str, Any], key: str, words: Callable[[dict[str, Any]], str]) -> str:
    """The entry ``key`` of a run's summary, converted to text by the function ``words``; empty text
    if the summary has no such entry."""
    return words(summary[key]) if key in summary else ""


class _Column(NamedTuple):
    """A column of the final table: its heading, and a function from a run's summary to the cell."""

    head: str
    cell: Callable[[dict[str, Any]], str]


def _columns(summaries: Sequence[dict[str, Any]], own: Sequence[Measure]) -> list[_Column]:
    """The columns of the final table: fixed ones, optional ones with a value in some run, and the
    user's measures."""
    scores = scores_in(summaries[0])
    shown = (scores.best, MEASURES["best_round"], scores.final, scores.worst)
    columns = [measure_column(measure) for measure in shown]
    columns.append(_Column("clusters:\nsizes", _clusters_and_sizes))
    columns.append(_Column(TRAFFIC_HEAD, _traffic))
    columns.append(measure_column(MEASURES["seconds"]))
    if any(scores.validation.name in summary for summary in summaries):
        columns.append(measure_column(scores.validation))
    if any(_differs(summary) for summary in summaries):
        columns.append(measure_column(scores.all_clients))
    if any(summary["ari"] is not None for summary in summaries):
        columns.append(measure_column(MEASURES["ari"]))
    target = summaries[0]["target"]
    if target:
        reached = replace(scores.of_round, digits=0) if scores == ACCURACIES else scores.of_round
        columns.append(_Column(f"rounds\nto {reached.text_with_unit(target)}", _rounds_to_target))
    return columns + [measure_column(measure) for measure in own]


def _traffic(summary: dict[str, Any]) -> str:
    """The downloaded and uploaded bytes of a run, as text."""
    return both_ways(summary["bytes_down"], summary["bytes_up"])


def measure_column(measure: Measure) -> _Column:
    """The column of a measure, with its short heading. Bytes and shares are shown with their
    unit."""
    return _Column(
        last_word_below(measure.narrow),
        lambda summary: measure.text_with_unit(summary.get(measure.name)),
    )


def last_word_below(head: str) -> str:
    """A column heading with its last word on a second line, which makes the column narrower."""
    return "\n".join(head.rsplit(" ", 1))


def _rounds_to_target(summary: dict[str, Any]) -> str:
    """The cell of a run about its target accuracy: the number of rounds until it was reached, or a
    dash if it was not."""
    reached = summary["rounds_to_target"]
    return "-" if reached is None else str(reached)


def _clusters_and_sizes(summary: dict[str, Any]) -> str:
    """The number of clusters and their sizes, as text."""
    return ": ".join(_clusters(summary["cluster_sizes"], summary.get("configured_clusters")))


def _incomplete(summaries: Sequence[dict[str, Any]]) -> list[str]:
    """Notes that say why some runs have no best round."""
    names = scores_in(summaries[0]).names
    without = [s for s in summaries if s[names.best] is None and s[names.final] is not None]
    away = [bool(s.get("rounds_with_clients_away")) for s in without]
    lines = []
    if not all(away):
        lines.append(INCOMPLETE)
    if any(away):
        lines.append(ALWAYS_AWAY)
    return lines


def _messages(summary: dict[str, Any]) -> str:
    """Note with the size of a deployed run's messages."""
    weight = both_ways(summary["messages_down"], summary["messages_up"])
    title = method_title(summary["method"])
    return (
        f"{title}: messages had {weight} MB with headers; the table counts arrays only, as in a "
        "simulation"
    )


def _replies(summary: dict[str, Any]) -> str:
    """Note with the number of clients' replies that are not in averages: excluded or missing
    ones."""
    counts = {
        "not finite or impossible": summary["nonfinite"],
        "with a far larger norm": summary.get("outliers", 0),
        "missing": summary["missing"],
    }
    words = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    return f"{method_title(summary['method'])}: replies left out: {words}"


def _estimated(summary: dict[str, Any]) -> str:
    """Note with the interval of the score over all clients, if only a sample was evaluated."""
    score = scores_in(summary).of_round
    low, high = (score.text_with_unit(end) for end in summary["final_interval"])
    return (
        f"{method_title(summary['method'])}: final scores are from a sample of clients; the "
        f"{score.head} of all clients is between {low} and {high} (95% interval)"
    )


def _stopped(summary: dict[str, Any]) -> str:
    """Note with the round and the reason if a run stopped early."""
    stopped = summary["stopped"]
    title = method_title(summary["method"])
    return (
        f"{title}: stopped after round {stopped['round']} of {stopped['of']}: {stopped['reason']}"
    )


def _differs(summary: dict[str, Any]) -> bool:
    """Whether the score over all clients differs from the final score, because some clients have no
    cluster."""
    names = scores_in(summary).names
    everybody = summary.get(names.all_clients)
    return everybody is not None and everybody != summary[names.final]


def _shown(record: Record) -> dict[str, str]:
    """The texts in a method's progress bar, from the record of its last round."""
    text = partial_text(record)
    partial = f" ({text})" if text else ""
    clusters, sizes = _clusters(record["cluster_sizes"])
    value = score_value(record) + partial
    return {"measure": measure(record), "score": value, "clusters": clusters, "sizes": sizes}


def measure(record: Record) -> str:
    """The name of the score in a round's record, such as accuracy. If rounds are not evaluated on
    test samples, it includes the name of the split."""
    head = scores_in(record).of_round.head
    return f"{record['split']} {head}" if "split" in record else head


def score_value(record: Record) -> str:
    """The score in a round's record as text with its unit; a dash without evaluation."""
    score = scores_in(record).of_round
    return score.text_with_unit(record[score.name])


def _clusters(sizes: list[int] | None, configured: int | None = None) -> tuple[str, str]:
    """The number of nonempty clusters and the cluster sizes, as two texts.

    The configured (or total) number of clusters is added if it differs. For many clusters, only the
    smallest and largest sizes are shown.
    """
    if not sizes:
        return ("-", "-") if sizes is None else ("0", "-")
    used = [size for size in sizes if size]
    of = len(sizes) if configured is None else configured
    number = str(of) if len(used) == of else f"{len(used)} of {of}"
    if len(sizes) <= 8:
        return number, "/".join(map(str, sizes))
    low = min(sizes)
    high = max(sizes)
    return number, f"{low} to {high}" if low < high else f"{low} each"
