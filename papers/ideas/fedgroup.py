"""FedGroup's idea: first updates of clients with similar labels point in similar directions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator

import fedkin as fk
from fedkin.measures.cosine import cosine
from fedkin.measures.ternary import base_directions, ternary_similarity
from fedkin.reporting.style import COLOURS, INK, new_figure, prepare
from fedkin.simulation.engine import SimulatedWorld
from papers.ideas.rounds import START, first_updates, image_panel, one_epoch


class ColdStart(NamedTuple):
    """FedGroup's cold start of clients with two digits each."""

    cosine: Float[np.ndarray, "N N"]  # of the clients' first updates
    ternary: Float[np.ndarray, "N 3"]  # M
    group: Int[np.ndarray, "N"]
    pretrained: Bool[np.ndarray, "N"]  # clustered; all others are newcomers
    labels: Int[np.ndarray, "N C"]  # training samples of each digit


def measure(clients: int = 60, alpha: int = 10) -> ColdStart:
    """The cold start of three groups.

    Args:
        clients: number of clients; client u has the digits u mod 10 and u + 1 mod 10.
        alpha: pre-trained clients of each group.
    """
    data = fk.data.digits(clients=clients, classes_per_client=2, seed=0)
    work = fk.SGD(epochs=1, batch_size=10, lr=0.05)
    world = SimulatedWorld(data, fk.models.mclr(data), work)
    state = fk.FedGroup(clusters=3, alpha=alpha).init(world, START)
    updates = first_updates(world, state.start, one_epoch(work))
    directions = base_directions(updates[state.pretrained], 3)
    return ColdStart(
        cosine=cosine(updates, updates),
        ternary=ternary_similarity(updates, directions),
        group=state.assignment,
        pretrained=state.pretrained,
        labels=data.label_counts(),
    )


def draw(cold: ColdStart) -> Figure:
    """Three panels: cosines, the plane of two base directions, and the digits of each group."""
    figure = new_figure(11.0, 4.0)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1.25, 1))
    _cosines(left, cold)
    _plane(middle, cold)
    _digits(right, cold)
    return figure


def _pairs(labels: Int[np.ndarray, "N C"]) -> list[str]:
    """The digits of each client, as text."""
    return [" ".join(map(str, np.flatnonzero(row))) for row in labels]


def _cosines(axes: Axes, cold: ColdStart) -> None:
    image_panel(axes, "Cosines of the first updates", "clients by group and digits")
    pairs = np.unique(_pairs(cold.labels), return_inverse=True)[1]
    order = np.lexsort((pairs, cold.group))
    shown = axes.imshow(
        cold.cosine[np.ix_(order, order)], cmap="Blues", vmin=0, vmax=1, aspect="auto"
    )
    axes.figure.colorbar(shown, ax=axes, shrink=0.6, pad=0.02)
    for border in np.flatnonzero(np.diff(cold.group[order])) + 0.5:
        axes.axhline(border, color=INK, lw=0.8)
        axes.axvline(border, color=INK, lw=0.8)
    axes.set_xlabel("client")
    axes.set_ylabel("client")


def _plane(axes: Axes, cold: ColdStart) -> None:
    prepare(
        axes,
        "Two of the three numbers of a client",
        "filled: clustered by K-means; hollow: newcomers",
    )
    axes.grid(False)
    axes.margins(0.12)
    axes.xaxis.set_major_locator(AutoLocator())
    for group in np.unique(cold.group):
        colour = COLOURS[group]
        for trained in (True, False):
            rows = (cold.group == group) & (cold.pretrained == trained)
            axes.scatter(
                cold.ternary[rows, 1],
                cold.ternary[rows, 2],
                s=34,
                edgecolor=colour,
                facecolor=colour if trained else "white",
            )
    pairs = np.array(_pairs(cold.labels))
    for pair in np.unique(pairs):
        x, y = cold.ternary[pairs == pair, 1:].mean(axis=0)
        box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75}
        axes.text(x, y, pair, ha="center", va="center", fontsize=9, bbox=box)
    axes.set_xlabel("M[i, 2] = (1 - cos(update, v2)) / 2")
    axes.set_ylabel("M[i, 3] = (1 - cos(update, v3)) / 2")


def _digits(axes: Axes, cold: ColdStart) -> None:
    image_panel(axes, "Digits of each group", "clients that have the digit")
    groups = int(cold.group.max()) + 1
    counts = np.stack([(cold.labels[cold.group == g] > 0).sum(axis=0) for g in range(groups)])
    axes.imshow(counts.T, cmap="Greys", vmin=0, vmax=2 * counts.max(), aspect="auto")
    for group in range(groups):
        for digit, count in enumerate(counts[group]):
            if count:
                axes.text(group, digit, count, ha="center", va="center", color=INK)
    axes.set_xticks(range(groups), [f"group {g}" for g in range(groups)])
    axes.set_yticks(range(counts.shape[1]))
    axes.set_ylabel("digit")
