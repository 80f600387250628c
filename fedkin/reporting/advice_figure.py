"""The picture of an advice: the five ways of asking how many, side by side, and the dendrogram."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import dendrogram, linkage

from fedkin.analysis.advise.advice import Advice
from fedkin.analysis.advise.split_half_stability import HOLDS, Kinds
from fedkin.reporting.style import COLOURS, FADED, headline, new_figure, prepare, save_as


def save(advice: Advice, path: Path) -> list[Path]:
    """The picture as png and svg, whatever the ending of ``path``.

    Raises StorageError where it cannot be written.
    """
    return save_as(lambda: draw(advice), path)


def draw(advice: Advice) -> Figure:
    """Who comes back, the dendrogram and the spectrum; gap, silhouette and a map of the clients."""
    figure = new_figure(12.5, 7.2)
    kinds, panels = advice.kinds, figure.subplots(2, 3).ravel()
    numbers = np.arange(1, kinds.most + 1)
    _returning(panels[0], kinds, numbers)
    _dendrogram(panels[1], kinds)
    _spectrum(panels[2], kinds)
    note = f"says {kinds.gap.clusters}: the first that is within an error of the next"
    _curve(panels[3], "Gap statistic", note, numbers, kinds.gap.gap, kinds.votes["gap statistic"])
    panels[3].fill_between(
        numbers, kinds.gap.gap - kinds.gap.error, kinds.gap.gap + kinds.gap.error, color=COLOURS[0], alpha=0.2, lw=0
    )
    says = kinds.votes["silhouette"]
    _curve(panels[4], "Silhouette", f"says {says}; it cannot say 1", numbers, kinds.silhouette, says)
    _map(panels[5], kinds)
    headline(figure, f"{advice.data}: {advice.verdict}\n")
    return figure


def _curve(
    axes: Axes, heading: str, note: str, numbers: np.ndarray, values: Float[np.ndarray, "most"], says: int
) -> None:
    prepare(axes, heading, note)
    axes.plot(numbers, values, color=COLOURS[0], marker="o", ms=4, lw=1.8)
    axes.axvline(says, color=FADED, ls=(0, (4, 3)))
    axes.set_xlim(0.7, len(numbers) + 0.3)
    axes.set_xlabel("clusters")


def _returning(axes: Axes, kinds: Kinds, numbers: np.ndarray) -> None:
    """The share that decides, what it must be, and what chance gives."""
    note = "least share of a cluster whose other half of data says the same"
    _curve(axes, f"Clients return: {kinds.clusters}", note, numbers, kinds.returned, kinds.clusters)
    for height, text, colour in ((HOLDS, "needed", COLOURS[2]), (kinds.chance, "by chance, at most", COLOURS[1])):
        axes.axhline(height, color=colour, lw=1.2)
        axes.annotate(
            text, (1, height), (-2, 2), xycoords=axes.get_yaxis_transform(), textcoords="offset points", ha="right",
            fontsize=8.5, color=colour,
        )  # fmt: skip
    axes.set_ylim(0, 1.05)


def _dendrogram(axes: Axes, kinds: Kinds) -> None:
    prepare(axes, "Dendrogram", f"Ward; the largest step says {kinds.votes['dendrogram']}; it cannot say 1")
    tree = linkage(kinds.points, "ward")
    dendrogram(tree, ax=axes, no_labels=True, color_threshold=0, above_threshold_color=COLOURS[0])
    cut = kinds.votes["dendrogram"]
    axes.axhline(float(kinds.heights[cut - 2 : cut].mean()), color=FADED, ls=(0, (4, 3)))
    axes.set_xlabel("clients")


def _spectrum(axes: Axes, kinds: Kinds) -> None:
    says = kinds.votes["eigengap"]
    prepare(axes, "Spectrum", f"of the normalised Laplacian of the cosines; the largest gap says {says}")
    axes.plot(np.arange(1, len(kinds.spectrum) + 1), kinds.spectrum, color=COLOURS[0], marker="o", ms=4, lw=0)
    axes.axvline(says + 0.5, color=FADED, ls=(0, (4, 3)))
    axes.set_ylim(bottom=-0.02)
    axes.set_xlim(0.5, len(kinds.spectrum) + 0.5)
    axes.set_xlabel("eigenvalue")


def _map(axes: Axes, kinds: Kinds) -> None:
    prepare(axes, "Clients", "first two principal directions of their updates")
    points = kinds.points if kinds.points.shape[1] > 1 else np.column_stack([kinds.points, 0 * kinds.points])
    axes.scatter(points[:, 0], points[:, 1], s=18, color=COLOURS[0], alpha=0.7, lw=0)
    axes.margins(0.08)
    axes.set_xticks([])
    axes.set_yticks([])
