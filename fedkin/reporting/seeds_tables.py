"""Several seeds on the terminal: the table over all of them, and the methods compared."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from fedkin.config.registry import method_title
from fedkin.reporting.progress import percent

INCOMPLETE_SEED = (
    "best -: some seed has no round in which every client had a cluster; run.selection=round_robin gives "
    "every client a turn"
)


def seeds_table(summary: dict[str, Any]) -> Table:
    """The final table of several seeds: one row per method, means and their 95% intervals."""
    from fedkin.analysis.tables import clusters_text  # with pandas and scipy, which no round needs

    seeds = summary["seeds"]
    heading = f"{summary['data']}, {summary['model']}, {summary['rounds']} rounds, {_counted(seeds)}"
    out = Table(title=heading, box=SIMPLE_HEAD, padding=0, show_edge=False)  # as narrow as it can be: 80 columns
    out.add_column("method", no_wrap=True)
    for column in ("final", "best", "mean of\nrounds", "bottom\n10%", "download\n(MB)", "upload\n(MB)"):
        out.add_column(column, justify="right", no_wrap=True)
    for row in summary["methods"]:
        names = ("final_accuracy", "best_accuracy", "mean_accuracy", "bottom_decile")
        traffic = (f"{row[name] / 1e6:.1f}" for name in ("bytes_down", "bytes_up"))
        title = f"{method_title(row['method'])}\nK {clusters_text(row)}"  # below it: 80 columns have no room beside
        out.add_row(title, *(_with_interval(row, name) for name in names), *traffic)
    out.caption, out.caption_justify = "\n".join(_notes(summary)) or None, "left"
    return out


def _notes(summary: dict[str, Any]) -> list[str]:
    """How to read the table, and why numbers are missing."""
    rows, lines = summary["methods"], []
    if rows[0]["final_accuracy_low"] is not None:
        lines.append("means over the seeds, and their 95% intervals; K: clusters with clients at the end")
    if any(row["best_accuracy"] is None and row["final_accuracy"] is not None for row in rows):
        lines.append(INCOMPLETE_SEED)
    return lines + list(summary.get("privacy_notes", ()))


def compared(summary: dict[str, Any]) -> Table:
    """The gain of the main method over each of the others in final accuracy, in percentage points, and its
    significance."""
    comparisons = summary["comparisons"]
    out = Table(
        title=f"{method_title(summary['method'])} against", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False
    )
    out.add_column("", no_wrap=True)
    for column in ("final accuracy,\npoints", "seeds", "p"):
        out.add_column(column, justify="right", no_wrap=True)
    out.add_column("difference", overflow="fold")
    for row in comparisons:
        out.add_row(method_title(row["against"]), _points(row), str(row["seeds"]), _p(row["p"]), row["verdict"])
    out.caption, out.caption_justify = "\n".join(_test_notes(comparisons)) or None, "left"
    return out


def _points(row: dict[str, Any]) -> str:
    """A difference with its interval; a dash where there is none."""
    gain, low, high = (None if row[name] is None else 100 * row[name] for name in ("difference", "low", "high"))
    return "-" if gain is None else f"{gain:+.1f}" + ("" if low is None else f" ({low:.1f} to {high:.1f})")


def _test_notes(comparisons: list[dict[str, Any]]) -> list[str]:
    """How to read the tests, and which seeds are left out of them."""
    tested = sum(row["p"] is not None for row in comparisons)
    lines = ["p: two-sided paired t-test over seeds", "intervals: 95%, Student's t"] if tested else []
    lines += [f"Holm-adjusted for {tested} comparisons"] if tested > 1 else []
    return lines + list(dict.fromkeys(f"left out: {row['why']}" for row in comparisons if row["why"]))


def _counted(seeds: list[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"


def _with_interval(row: dict[str, Any], name: str) -> str:
    high = row[f"{name}_high"]
    return percent(row[name]) + ("" if high is None else f" ±{100 * (high - row[name]):.1f}")


def _p(value: float | None) -> str:
    return "-" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
