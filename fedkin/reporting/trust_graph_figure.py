"""The figure of the trust graph, where clients are peers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from fedkin.config.registry import method_title
from fedkin.reporting.style import COLOURS, DASHES, headline, new_figure, prepare, save_as
from fedkin.run.results import Run
from fedkin.run.trust_graph import trust_over_time

_PANELS = 4


def save(run: Run, folder: Path) -> list[Path]:
    """Write ``topology.png`` and ``topology.svg`` where clients are peers; else nothing."""
    return save_as(lambda: draw(run), folder / "topology") if trust_over_time(run) else []


def draw(run: Run) -> Figure:
    """Peers in a circle, grouped by true cluster (else by their cluster at the end), after some of the rounds; below,
    where true clusters are known, precision and recall of their neighbours."""
    known = "true_cluster" in run.clients
    figure = new_figure(10.5, 5.6 if known else 3.4)
    grid = figure.add_gridspec(1 + known, _PANELS, height_ratios=(1.5, 1)[: 1 + known])
    trust = trust_over_time(run)
    rounds = [r for r in trust if trust[r].any()] or list(trust)
    rounds = sorted({rounds[i] for i in np.linspace(0, len(rounds) - 1, _PANELS).round().astype(int)})
    clusters = run.assignment.copy()
    if known:
        clusters[run.clients["client"]] = run.clients["true_cluster"]
    for column, round in enumerate(rounds):
        axes = figure.add_subplot(grid[0, column])
        draw_circle(axes, trust[round], clusters, known)
        axes.set_title(f"after round {round}", fontsize=10)
    if known:
        _precision_and_recall(figure.add_subplot(grid[1, :]), run.history)
    headline(figure, f"{method_title(run.config['method']['name'])} on {run.config['data']['name']}: trust graph")
    return figure


def _precision_and_recall(axes: Axes, history: pd.DataFrame) -> None:
    """Precision and recall of neighbours over the rounds."""
    prepare(axes, "Neighbours", "precision: neighbours in the same true cluster; recall: share of that cluster found")
    for name, colour, dash in zip(("precision", "recall"), COLOURS, DASHES, strict=False):
        known = history[f"neighbour_{name}"].dropna().astype(float)
        axes.plot(known.index, known, color=colour, ls=dash, lw=1.8, label=name)
    axes.set_ylim(0, 1.04)
    axes.set_xlabel("communication round")
    axes.legend(frameon=False, loc="lower right")


def draw_circle(axes: Axes, trust: Bool[np.ndarray, "N N"], clusters: Int[np.ndarray, "N"], known: bool = True) -> None:
    """Peers in a circle, grouped by cluster, and a line from each to those it trusts.

    Args:
        axes: where to draw.
        trust: row i holds whom peer i trusts.
        clusters: the cluster of each peer.
        known: whether these are true clusters; then lines to another cluster are orange.
    """
    place = np.empty(len(clusters), np.int64)
    place[np.argsort(clusters, kind="stable")] = np.arange(len(clusters))
    angle = 2 * np.pi * place / len(clusters)
    positions = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    source, target = np.nonzero(trust)
    wrong = (clusters[source] != clusters[target]) & known
    for part, colour in ((~wrong, COLOURS[0]), (wrong, COLOURS[1])):
        faint = min(0.7, 12 / max(1, np.sqrt(part.sum())) / 2)
        lines = np.stack([positions[source[part]], positions[target[part]]], axis=1)
        axes.add_collection(LineCollection(list(lines), colors=colour, linewidths=0.5, alpha=faint))
    _, colour = np.unique(clusters, return_inverse=True)
    axes.scatter(*positions.T, s=14, c=colormaps["tab10"](colour % 10), zorder=3)
    axes.set_aspect("equal")
    axes.set_axis_off()
