"""The figure of a run: accuracy, discrepancy and cluster sizes over the rounds, all methods overlaid."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from fedkin.config import registry
from fedkin.core.storage import write_atomic

if TYPE_CHECKING:
    from fedkin.run.results import Run

# Okabe and Ito's colours, told apart by every kind of colour vision; line styles tell them apart in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", (0, (5, 2)), (0, (1, 1)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (2, 2)))
INK, FADED, FAINT = "#222222", "#888888", "#D9D9D9"
STYLE: Any = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.edgecolor": FADED,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "fedkin",  # the same run gives the same file
}


def save(run: Run, folder: Path) -> None:
    """Write ``figure.png`` and ``figure.svg`` into a folder.

    Raises StorageError where it cannot be written.
    """
    save_as(lambda: draw(run), folder / "figure")


def save_as(drawn: Callable[[], Figure], path: Path) -> list[Path]:
    """What ``drawn`` draws, in the common style, as ``path``.png and .svg.

    Raises StorageError where it cannot be written.
    """
    base = path.with_suffix("") if path.suffix in (".png", ".svg") else path
    paths = [base.with_name(base.name + ending) for ending in (".png", ".svg")]
    with matplotlib.rc_context(STYLE):
        figure = drawn()
        for one in paths:
            write(figure, one)
    return paths


def write(figure: Figure, path: Path) -> None:
    """A figure as the kind of file that its name says (png or svg); the same figure gives the same bytes."""
    kind, picture = path.suffix[1:], io.BytesIO()
    figure.savefig(picture, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    write_atomic(path, picture.getvalue())


def draw(run: Run) -> Figure:
    """Accuracy on the left; discrepancy above cluster sizes on the right."""
    figure = Figure(figsize=(10.5, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 2, width_ratios=(1.45, 1), hspace=0.08, wspace=0.06)
    runs = {run.config["method"]["name"]: run, **run.against}
    histories = {name: one.history for name, one in runs.items()}
    accuracy = figure.add_subplot(grid[:, 0])
    _accuracy(accuracy, histories)
    _upheavals(accuracy, run)
    sizes = figure.add_subplot(grid[1, 1])
    (_neighbours if "neighbours" in run.history else _sizes)(sizes, *next(iter(histories.items())))
    _discrepancy(figure.add_subplot(grid[0, 1], sharex=sizes), histories)
    data, clients = run.config["data"]["name"], len(run.assignment)
    cohort, seed = run.config["run"]["cohort"], run.config["run"]["seed"]
    figure.suptitle(
        f"{' / '.join(map(title, runs))} on {data}: {clients:,} clients, {cohort} a round, seed {seed}\n",
        x=0.008,
        ha="left",
        fontsize=13,
        fontweight="bold",
    )
    return figure


def title(name: str) -> str:
    """A method's name as its class spells it."""
    kind = registry.methods().get(name)
    return kind.__name__ if kind else name


def _accuracy(axes: Axes, histories: dict[str, pd.DataFrame]) -> None:
    """Test accuracy of all clients (strong) and of the worst tenth of them (faint); partial rounds are pale."""
    partial = any(history["partial"].fillna(False).astype(bool).any() for history in histories.values())
    pale = "; pale: some clients have no cluster yet" if partial else ""
    prepare(axes, "Test accuracy", f"all clients together; thin: the worst-served tenth of them{pale}")
    ends = []
    for (name, history), colour, dash in zip(histories.items(), COLOURS, DASHES, strict=False):
        scored = history.dropna(subset=["accuracy"])
        if scored.empty:  # nobody has test samples
            continue
        accuracy, partial = scored["accuracy"].astype(float), scored["partial"].astype(bool)
        pale = accuracy.where(partial | partial.shift(1, fill_value=False))
        axes.plot(scored.index, pale, color=colour, alpha=0.35, lw=2.2)
        axes.plot(scored.index, accuracy.where(~partial), color=colour, ls=dash, lw=2.2)
        axes.plot(scored.index, scored["bottom_decile"].astype(float), color=colour, ls=dash, lw=0.9, alpha=0.75)
        ends.append((float(scored["accuracy"].iloc[-1]), title(name), colour))
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel("communication round")
    label_ends(axes, ends, gap=0.1)


def _upheavals(axes: Axes, run: Run) -> None:
    """An upright line at every round in which the data of more than a quarter of the clients moved at once, where that
    is the exception."""
    rounds = [r["round"] for r in run.records if 4 * (r["data_shifts"] or 0) > len(run.assignment)]
    rounds = rounds if 4 * len(rounds) <= len(run.records) else []
    for round in rounds:
        axes.axvline(round, color=FADED, lw=0.8, zorder=0.5)
    for round in rounds[:1]:  # one is told what they mean
        axes.annotate("data moved", (round, 0.015), (3, 0), textcoords="offset points", fontsize=8, color="#666")


def _discrepancy(axes: Axes, histories: dict[str, pd.DataFrame]) -> None:
    """Mean distance between a client's local solution and its cluster's model."""
    prepare(axes, "Discrepancy", "mean distance of local solutions to the model that came of them")
    for (_, history), colour, dash in zip(histories.items(), COLOURS, DASHES, strict=False):
        known = history["discrepancy_mean"].dropna().astype(float)
        axes.plot(known.index, known, color=colour, ls=dash, lw=1.6)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelbottom=False)


def _sizes(axes: Axes, name: str, history: pd.DataFrame) -> None:
    """How many clients each of the first method's clusters has, stacked."""
    prepare(axes, "Cluster sizes", f"clients in each cluster of {title(name)}")
    known = history["cluster_sizes"].dropna()
    sizes = np.array(list(zip_longest(*known, fillvalue=0)), float)  # [K, rounds]; a cluster to come has no clients
    shades = matplotlib.colormaps["Blues"](np.linspace(0.75, 0.25, len(sizes)))
    axes.stackplot(known.index, sizes, colors=shades, edgecolor="white", linewidth=0.8, step="post")
    middle = np.cumsum(sizes[:, -1]) - sizes[:, -1] / 2
    for height, size in zip(middle, sizes[:, -1], strict=True):
        if len(sizes) <= 12 and size > 0.04 * sizes[:, -1].sum():
            at = (1.01, height)
            axes.annotate(f"{int(size)}", at, xycoords=axes.get_yaxis_transform(), va="center", fontsize=9, color=INK)
    axes.set_ylim(0, max(1.0, float(sizes.sum(axis=0).max())))
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_xlabel("communication round")


def _neighbours(axes: Axes, name: str, history: pd.DataFrame) -> None:
    """How many others a peer trusts."""
    prepare(axes, "Neighbours", f"how many others a peer of {title(name)} trusts, mean")
    axes.plot(history.index, history["neighbours"].astype(float), color=COLOURS[0], lw=1.6)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("communication round")


def look(number: int) -> tuple[str, Any]:
    """Colour and dashes of a line; no two alike among the first 49."""
    return COLOURS[number % len(COLOURS)], DASHES[(number + number // len(COLOURS)) % len(DASHES)]


def prepare(axes: Axes, heading: str, note: str) -> None:
    """A panel's heading, what it shows in small print, and its grid."""
    axes.set_title(heading, loc="left", fontsize=11, fontweight="bold", pad=18)
    axes.annotate(
        note, (0, 1), (0, 5), xycoords="axes fraction", textcoords="offset points", fontsize=8.5, color="#666"
    )
    axes.grid(axis="y", color=FAINT, lw=0.7)
    axes.margins(x=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def label_ends(axes: Axes, ends: list[tuple[float, str, str]], gap: float, form: str = "{:.1%}") -> None:
    """Names and values at the ends of the lines, pushed apart where they would overlap."""
    heights = _apart([value for value, _, _ in sorted(ends)], gap)
    for (value, name, colour), height in zip(sorted(ends), heights, strict=True):
        axes.annotate(
            f"{name}\n{form.format(value)}",
            (1.01, height),
            xycoords=axes.get_yaxis_transform(),
            color=colour,
            fontweight="bold",
            va="center",
        )


def _apart(wanted: list[float], gap: float) -> list[float]:
    """Ascending heights at least a gap apart, each pair that is too close pushed out from its middle."""
    heights = list(wanted)
    for _ in heights:  # one pass per label is enough: a pass settles at least one pair for good
        for low in range(len(heights) - 1):
            lack = gap - (heights[low + 1] - heights[low])
            if lack > 0:
                heights[low] -= lack / 2
                heights[low + 1] += lack / 2
    return heights
