"""Figure of the trust graph: which peers (clients of a method without a server) trust which
others."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from fedkin.config.registry import method_title
from fedkin.reporting.style import (
    COLOURS,
    DASHES,
    FADED,
    INK,
    headline,
    label_ends,
    new_figure,
    prepare,
    save_as,
    share_axis,
)
from fedkin.run.metrics.trust_graph import trust_over_time
from fedkin.run.run import Run

_PANELS = 4
MISTAKE = INK  # trust in a peer of another cluster; no cluster has this colour
OTHERS = "#999999"  # peers whose cluster has no colour
# Black is left out, since it looks like a mistake.
_CLUSTERS = (*COLOURS[:-1], "#882255", "#44AA99", "#AA4499")


def save(run: Run, folder: Path) -> list[Path]:
    """Write ``topology.png`` and ``topology.svg`` if clients are peers. Returns the paths."""
    if not trust_over_time(run.records, len(run.assignment)):
        return []
    return save_as(lambda: draw(run), folder / "topology")


def draw(run: Run) -> Figure:
    """Draw the trust graph of a run as it is after each of several rounds, with the peers in a
    circle. Peers are grouped by true cluster if known, otherwise by final cluster.

    If true clusters are known, two curves are drawn below: the share of trusted peers that are of
    the same cluster (precision), and the share of the cluster that a peer trusts (recall).
    """
    known = "true_cluster" in run.clients
    trust = trust_over_time(run.records, len(run.assignment))
    # Rounds before any peer trusts another one have nothing to draw.
    rounds = [r for r in trust if trust[r].any()] or list(trust)
    rounds = sorted(
        {rounds[i] for i in np.linspace(0, len(rounds) - 1, _PANELS).round().astype(int)}
    )
    figure = new_figure(max(6.4, 2.6 * len(rounds)), 6.0 if known else 3.6)
    grid = figure.add_gridspec(1 + known, len(rounds), height_ratios=(1.5, 1)[: 1 + known])
    clusters = run.assignment.copy()
    if known:
        clusters[run.clients["client"]] = run.clients["true_cluster"]
    for column, round in enumerate(rounds):
        axes = figure.add_subplot(grid[0, column])
        draw_circle(axes, trust[round], clusters, known)
        axes.set_title(f"after round {round}", fontsize=10)
    if known:
        _precision_and_recall(figure.add_subplot(grid[1, :]), run.history)
    _caption(figure, known, OTHERS in cluster_colours(clusters))
    headline(
        figure, f"{method_title(run.config.method_name)} on {run.config.data_title}: trust graph"
    )
    return figure


def _caption(figure: Figure, known: bool, others: bool) -> None:
    """Write an explanation of the circles and arrows below them. ``others`` says whether some peers
    are grey."""
    where = (
        "true cluster (black and dashed: trust in a peer of another cluster)"
        if known
        else "final cluster"
    )
    grey = "; grey: single peers and small clusters" if others else ""
    arrows = (
        "An arrow points from a peer to a peer that it trusts; a line without a head is mutual "
        "trust."
    )
    lines = textwrap.wrap(f"Colours: {where}{grey}. {arrows}", int(14 * figure.get_figwidth()))
    figure.supxlabel("\n".join(lines), fontsize=8.5, color="#666", x=0.008, ha="left")


def _precision_and_recall(axes: Axes, history: pd.DataFrame) -> None:
    """Draw the precision and recall of the peers' trusted peers (neighbours) over the rounds."""
    prepare(
        axes,
        "Neighbours",
        "precision: share of neighbours in the same true cluster; recall: share of that cluster "
        "among the neighbours",
    )
    ends = []
    # The colours of methods and clusters would mislead here.
    for name, colour, dash in (("precision", INK, DASHES[0]), ("recall", FADED, DASHES[1])):
        known = history[f"neighbour_{name}"].dropna().astype(float)
        axes.plot(known.index, known, color=colour, ls=dash, lw=1.8)
        if len(known):
            ends.append((float(known.iloc[-1]), name, colour))
    share_axis(axes)
    axes.set_xlabel("communication round")
    label_ends(axes, ends)


def draw_circle(
    axes: Axes, trust: Bool[np.ndarray, "N N"], clusters: Int[np.ndarray, "N"], known: bool = True
) -> None:
    """Draw peers in a circle, grouped by cluster. An arrow points to each trusted peer; mutual
    trust is a line.

    Args:
        axes: the axes to draw on.
        trust: row i marks the peers that peer i trusts.
        clusters: the cluster of each peer.
        known: whether these are true clusters. Trust in a peer of another true cluster is dashed
            and black. All other lines have the colour of the cluster of the peer that trusts.
    """
    # Position of each peer on the circle: peers of a cluster are neighbours.
    place = np.empty(len(clusters), np.int64)
    place[np.argsort(clusters, kind="stable")] = np.arange(len(clusters))
    angle = 2 * np.pi * place / len(clusters)
    positions = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    colours = cluster_colours(clusters)
    source, target = np.nonzero(trust)
    wrong = (clusters[source] != clusters[target]) & known
    one_way = ~trust[target, source]
    for mistaken, dash in ((False, "solid"), (True, (0, (3, 2)))):
        part = wrong == mistaken
        # The more lines there are, the paler they must be.
        faint = min(0.7, 12 / max(1, np.sqrt(part.sum())) / 2)
        lines = np.stack([positions[source[part]], positions[target[part]]], axis=1)
        of_lines = [MISTAKE if mistaken else colours[peer] for peer in source[part]]
        axes.add_collection(
            LineCollection(
                list(lines), colors=of_lines, linewidths=0.6, linestyles=[dash], alpha=faint
            )
        )
        heads = part & one_way
        _arrowheads(
            axes=axes,
            start=positions[source[heads]],
            end=positions[target[heads]],
            colours=[MISTAKE if mistaken else colours[peer] for peer in source[heads]],
            alpha=max(0.35, faint),
        )
    axes.scatter(*positions.T, s=14, c=colours, zorder=3)
    axes.set_aspect("equal")
    axes.set_axis_off()


def cluster_colours(clusters: Int[np.ndarray, "N"]) -> list[str]:
    """The colour of each peer, by its cluster. With more clusters than colours, the largest ones
    are coloured. All other peers are grey, and so are peers that are alone in their cluster.

    Args:
        clusters: the cluster of each peer.
    """
    numbers, sizes = np.unique(clusters, return_counts=True)
    by_size = np.argsort(-sizes, kind="stable")
    largest = numbers[by_size][sizes[by_size] > 1][: len(_CLUSTERS)]
    colours = dict(zip(sorted(largest.tolist()), _CLUSTERS, strict=False))
    return [colours.get(int(cluster), OTHERS) for cluster in clusters]


def _arrowheads(
    axes: Axes,
    start: Float[np.ndarray, "e 2"],
    end: Float[np.ndarray, "e 2"],
    colours: list[str],
    alpha: float,
) -> None:
    """Draw arrowheads just before the dots at the arrows' ends.

    Args:
        axes: the axes to draw on.
        start: start points of the arrows.
        end: end points of the arrows.
        colours: colour of each arrowhead.
        alpha: opacity of the arrowheads.
    """
    if not len(start):
        return
    # Unit vectors along the arrows; two peers in one place give zeros instead of NaN.
    way = (end - start) / np.maximum(np.linalg.norm(end - start, axis=1, keepdims=True), 1e-9)
    tail = end - 0.09 * way
    axes.quiver(
        *tail.T,
        *(0.05 * way).T,
        angles="xy",
        scale_units="xy",
        scale=1,
        color=colours,
        alpha=alpha,
        width=0.004,
        headwidth=6,
        headlength=8,
        headaxislength=8,
        minlength=0,
    )
