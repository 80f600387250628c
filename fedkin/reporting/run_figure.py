"""The figure of a run: accuracy, discrepancy and cluster sizes over the rounds, all methods overlaid."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from fedkin.config.registry import method_title
from fedkin.reporting.style import COLOURS, DASHES, FADED, INK, headline, label_ends, new_figure, prepare, save_as

if TYPE_CHECKING:
    from fedkin.run.results import Run


def save(run: Run, folder: Path) -> None:
    """Write ``figure.png`` and ``figure.svg`` into a folder.

    Raises StorageError where it cannot be written.
    """
    save_as(lambda: draw(run), folder / "figure")


def draw(run: Run) -> Figure:
    """Accuracy on the left; discrepancy above cluster sizes on the right."""
    figure = new_figure(10.5, 5.2)
    grid = figure.add_gridspec(2, 2, width_ratios=(1.45, 1), hspace=0.08, wspace=0.06)
    runs = {run.config["method"]["name"]: run, **run.against}
    histories = {name: one.history for name, one in runs.items()}
    accuracy = figure.add_subplot(grid[:, 0])
    _accuracy(accuracy, histories)
    _mark_shifts(accuracy, run)
    sizes = figure.add_subplot(grid[1, 1])
    (_neighbours if "neighbours" in run.history else _sizes)(sizes, *next(iter(histories.items())))
    _discrepancy(figure.add_subplot(grid[0, 1], sharex=sizes), histories)
    data, clients = run.config["data"]["name"], len(run.assignment)
    cohort, seed = run.config["run"]["cohort"], run.config["run"]["seed"]
    names = " / ".join(map(method_title, runs))
    headline(figure, f"{names} on {data}: {clients:,} clients, {cohort} a round, seed {seed}\n")
    return figure


def _accuracy(axes: Axes, histories: dict[str, pd.DataFrame]) -> None:
    """Test accuracy of all clients (bold) and of the bottom 10% of clients (thin); partial rounds are pale."""
    partial = any(history["partial"].fillna(False).astype(bool).any() for history in histories.values())
    pale = "; pale: some clients have no cluster yet" if partial else ""
    prepare(axes, "Test accuracy", f"all clients together; thin: bottom 10% of clients{pale}")
    ends = []
    for (name, history), colour, dash in zip(histories.items(), COLOURS, DASHES, strict=False):
        scored = history.dropna(subset=["accuracy"])
        if scored.empty:  # no client has test samples
            continue
        accuracy, partial = scored["accuracy"].astype(float), scored["partial"].astype(bool)
        pale = accuracy.where(partial | partial.shift(1, fill_value=False))
        axes.plot(scored.index, pale, color=colour, alpha=0.35, lw=2.2)
        axes.plot(scored.index, accuracy.where(~partial), color=colour, ls=dash, lw=2.2)
        axes.plot(scored.index, scored["bottom_decile"].astype(float), color=colour, ls=dash, lw=0.9, alpha=0.75)
        ends.append((float(scored["accuracy"].iloc[-1]), method_title(name), colour))
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel("communication round")
    label_ends(axes, ends, gap=0.1)


def _mark_shifts(axes: Axes, run: Run) -> None:
    """A vertical line at every round in which the data of more than a quarter of the clients shifted, where such rounds
    are rare."""
    rounds = [r["round"] for r in run.records if 4 * (r["data_shifts"] or 0) > len(run.assignment)]
    rounds = rounds if 4 * len(rounds) <= len(run.records) else []
    for round in rounds:
        axes.axvline(round, color=FADED, lw=0.8, zorder=0.5)
    for round in rounds[:1]:  # the first has a label
        axes.annotate("data shift", (round, 0.015), (3, 0), textcoords="offset points", fontsize=8, color="#666")


def _discrepancy(axes: Axes, histories: dict[str, pd.DataFrame]) -> None:
    """Mean distance of client models to their aggregate."""
    prepare(axes, "Discrepancy", "mean distance of client models to their aggregate")
    for (_, history), colour, dash in zip(histories.items(), COLOURS, DASHES, strict=False):
        known = history["discrepancy_mean"].dropna().astype(float)
        axes.plot(known.index, known, color=colour, ls=dash, lw=1.6)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelbottom=False)


def _sizes(axes: Axes, name: str, history: pd.DataFrame) -> None:
    """Clients in each cluster of the first method, stacked."""
    prepare(axes, "Cluster sizes", f"clients in each cluster of {method_title(name)}")
    known = history["cluster_sizes"].dropna()
    sizes = np.array(list(zip_longest(*known, fillvalue=0)), float)  # [K, rounds]; a later cluster has no clients yet
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
    """The mean number of peers that a peer trusts."""
    prepare(axes, "Neighbours", f"mean number of peers that a peer of {method_title(name)} trusts")
    axes.plot(history.index, history["neighbours"].astype(float), color=COLOURS[0], lw=1.6)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("communication round")
