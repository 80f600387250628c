"""Display of several seeds on the terminal: the table of means, and the comparison of methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from fedkin.config.registry import method_title
from fedkin.core.object_repr import count
from fedkin.measures.lookup import measures_of
from fedkin.measures.measure import Measure
from fedkin.measures.run_scores import RunScores, scores_in
from fedkin.reporting.progress import last_word_below
from fedkin.run.number_notes import number_notes

INCOMPLETE_SEED = (
    "best -: some seed has no round in which every client had a cluster; "
    "run.selection=round_robin selects every client early"
)


def seeds_table(summary: dict[str, Any], own: Sequence[Measure] = ()) -> Table:
    """The final table of several seeds, with a row for each method: means and 95% intervals.

    Args:
        summary: summary of the repeated runs.
        own: the user's measures.
    """
    from fedkin.analysis.tables import clusters_text  # imports pandas and scipy, unused in rounds

    seeds = summary["seeds"]
    rounds = count(summary["rounds"], "round")
    heading = f"{summary['data']}, {summary['model']}, {rounds}, {_counted(seeds)}"
    # The table is as narrow as possible, to fit a terminal of 80 columns.
    out = Table(title=heading, box=SIMPLE_HEAD, padding=0, show_edge=False)
    out.add_column("method", no_wrap=True)
    scores = _scores(summary)
    averaged = (scores.final, scores.best, scores.mean, scores.worst)
    if scores.further:
        # Numbers are longer, and the mean of the rounds says little about them.
        averaged = (scores.final, scores.best, scores.worst)
    traffic = measures_of(("bytes_down", "bytes_up"))
    heads = [
        *(measure.narrow for measure in averaged),
        *(measure.head_with_unit for measure in traffic),
    ]
    for head in (*heads, *(measure.narrow for measure in own)):
        out.add_column(last_word_below(head), justify="right", no_wrap=True)
    for row in summary["methods"]:
        # The number of clusters is below the name, because 80 columns have no room for it.
        title = f"{method_title(row['method'])}\nK {clusters_text(row)}"
        means = (_with_interval(row, measure) for measure in averaged)
        sent = (measure.text(row[measure.name]) for measure in traffic)
        out.add_row(title, *means, *sent, *(_with_interval(row, measure) for measure in own))
    out.caption = "\n".join(_notes(summary)) or None
    out.caption_justify = "left"
    return out


def _scores(summary: dict[str, Any]) -> RunScores:
    """The measures of several seeds, from their summary."""
    return scores_in(summary["methods"][0] | summary)


def _notes(summary: dict[str, Any]) -> list[str]:
    """Notes below the final table of several seeds: how to read it, and why numbers are missing."""
    rows = summary["methods"]
    scores = _scores(summary)
    lines = []
    if rows[0][f"{scores.final.name}_low"] is not None:
        lines.append(
            "means over the seeds with 95% intervals; K: number of nonempty clusters at the end"
        )
    final = scores.final.name
    if any(row[scores.best.name] is None and row[final] is not None for row in rows):
        lines.append(INCOMPLETE_SEED)
    lines += [line for row in rows if (line := _further_line(row, scores))]
    lines += number_notes([rows[0] | summary])
    return lines + list(summary.get("privacy_notes", ()))


def _further_line(row: dict[str, Any], scores: RunScores) -> str:
    """A line with the means of a method's further measures, such as per client; empty for
    accuracies."""
    parts = [f"{one.head} {_with_interval(row, one)}" for one in scores.further]
    return f"{method_title(row['method'])}: {', '.join(parts)}" if parts else ""


def compared(summary: dict[str, Any]) -> Table:
    """The table of tests: the difference of the main method's final score from each other method's;
    of accuracies, in percentage points."""
    final = _scores(summary).final
    comparisons = summary["comparisons"]
    out = Table(
        title=f"{method_title(summary['method'])} against",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    out.add_column("", no_wrap=True)
    unit = ",\npoints" if final.points else f",\n{final.direction} is better"
    for column in (f"{final.label}{unit}", "seeds", "p"):
        out.add_column(column, justify="right", no_wrap=True)
    out.add_column("difference", overflow="fold")
    for row in comparisons:
        out.add_row(
            method_title(row["against"]),
            _difference(row, final),
            str(row["seeds"]),
            _p(row["p"]),
            row["verdict"],
        )
    out.caption = "\n".join(_test_notes(comparisons)) or None
    out.caption_justify = "left"
    return out


def _difference(row: dict[str, Any], final: Measure) -> str:
    """A difference of two methods, with its interval, as text; a dash if there is no difference."""
    if row["difference"] is None:
        return "-"
    gain = final.gain_text(row["difference"])
    if row["low"] is None:
        return gain
    return f"{gain} ({final.end_text(row['low'])} to {final.end_text(row['high'])})"


def _test_notes(comparisons: list[dict[str, Any]]) -> list[str]:
    """Notes below the table of tests: how to read it, and the seeds that are left out."""
    tested = sum(row["p"] is not None for row in comparisons)
    lines = []
    if tested:
        lines += ["p: two-sided paired t-test over seeds", "intervals: 95%, Student's t"]
    if tested > 1:
        lines.append(f"Holm-adjusted for {tested} comparisons")
    left_out = [f"left out: {row['why']}" for row in comparisons if row["why"]]
    return lines + list(dict.fromkeys(left_out))


def _counted(seeds: list[int]) -> str:
    """Seeds as text: a single seed by its number, several by their count and range."""
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    return f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"


def _with_interval(row: dict[str, Any], measure: Measure) -> str:
    """The mean of a measure as text, with half of its interval if there is one."""
    mean = row[measure.name]
    high = row[f"{measure.name}_high"]
    text = measure.text_with_unit(mean)
    if high is None:
        return text
    half = measure.text_with_half(mean, high).partition("± ")[2]
    return f"{text} ±{half}"


def _p(value: float | None) -> str:
    """The p of a test as text; a dash if methods were not tested."""
    if value is None:
        return "-"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
