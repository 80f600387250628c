"""Figure of a result of ``fk.advise``: criteria for the number of clusters, and a map of the
clients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import dendrogram, linkage

from fedkin.analysis.advise.advice import Advice
from fedkin.analysis.advise.split_half_stability import THRESHOLD, ClusterCount
from fedkin.core.object_repr import count
from fedkin.reporting.style import (
    COLOURS,
    FADED,
    check_figure,
    headline,
    new_figure,
    prepare,
    save_as,
)


def save(advice: Advice, path: Path) -> list[Path]:
    """Write the figure of a result of ``fk.advise`` as png and svg. The extension of ``path`` is
    ignored.

    Raises StorageError if a file cannot be written.
    """
    check_figure(path)
    return save_as(lambda: draw(advice), path)


def draw(advice: Advice) -> Figure:
    """Draw the figure of a result of ``fk.advise``: split-half stability, dendrogram, spectrum, gap
    statistic, silhouette, and a map of the clients."""
    figure = new_figure(12.5, 7.2)
    found = advice.cluster_count
    panels = figure.subplots(2, 3).ravel()
    numbers = np.arange(1, found.max_clusters + 1)
    _stability(panels[0], found, numbers)
    _dendrogram(panels[1], found)
    _spectrum(panels[2], found)
    _curve(
        axes=panels[3],
        heading="Gap statistic",
        note=f"estimate {found.gap.clusters}: the first within one standard error of the next",
        numbers=numbers,
        values=found.gap.gap,
        estimate=found.estimates["gap statistic"],
    )
    panels[3].fill_between(
        numbers,
        found.gap.gap - found.gap.error,
        found.gap.gap + found.gap.error,
        color=COLOURS[0],
        alpha=0.2,
        lw=0,
    )
    estimate = found.estimates["silhouette"]
    _curve(
        axes=panels[4],
        heading="Silhouette",
        note=f"estimate {estimate} (it cannot be 1)",
        numbers=numbers,
        values=found.silhouette,
        estimate=estimate,
    )
    _map(panels[5], found)
    decides = "Split-half stability decides; the other criteria are for comparison."
    headline(figure, f"{advice.data}: {advice.verdict}: {advice.why}. {decides}\n")
    return figure


def _curve(
    axes: Axes,
    heading: str,
    note: str,
    numbers: np.ndarray,
    values: Float[np.ndarray, "most"],
    estimate: int,
) -> None:
    """Draw a criterion for the number of clusters as a curve over this number. A dashed line marks
    the number that the criterion estimates."""
    prepare(axes, heading, note)
    axes.plot(numbers, values, color=COLOURS[0], marker="o", ms=4, lw=1.8)
    axes.axvline(estimate, color=FADED, ls=(0, (4, 3)))
    axes.set_xlim(0.7, len(numbers) + 0.3)
    axes.set_xlabel("number of clusters")


def _stability(axes: Axes, found: ClusterCount, numbers: np.ndarray) -> None:
    """Draw the split-half stability (share of clients that stay in their cluster with the other
    half of their data) over the number of clusters. Horizontal lines mark its threshold, and the
    stability that chance gives: the largest one in several IID splits of the same data."""
    _curve(
        axes=axes,
        heading=f"Split-half stability: {count(found.clusters, 'cluster')}",
        note="smallest share of a cluster that stays in it with the other half of the data",
        numbers=numbers,
        values=found.stability,
        estimate=found.clusters,
    )
    for height, text, colour in (
        (THRESHOLD, "threshold", COLOURS[2]),
        (found.chance, "IID splits, maximum", COLOURS[1]),
    ):
        axes.axhline(height, color=colour, lw=1.2)
        axes.annotate(
            text,
            (0, height),
            (3, 2),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            fontsize=8.5,
            color=colour,
        )
    axes.set_ylim(0, 1.05)
    axes.set_ylabel("share of clients")


def _dendrogram(axes: Axes, found: ClusterCount) -> None:
    """Draw Ward's dendrogram (tree of merges) of the clients. A dashed line marks the height that
    cuts the tree into the estimated number of clusters."""
    prepare(
        axes,
        "Dendrogram",
        f"Ward; estimate {found.estimates['dendrogram']}, by the largest step (it cannot be 1)",
    )
    tree = linkage(found.points, "ward")
    dendrogram(tree, ax=axes, no_labels=True, color_threshold=0, above_threshold_color=COLOURS[0])
    cut = found.estimates["dendrogram"]
    # Half way between the merge that forms this number of clusters and the next merge.
    axes.axhline(float(found.heights[cut - 2 : cut].mean()), color=FADED, ls=(0, (4, 3)))
    axes.set_xlabel("clients")
    axes.set_ylabel("dissimilarity")


def _spectrum(axes: Axes, found: ClusterCount) -> None:
    """Draw the eigenvalues of the clients' graph Laplacian in ascending order, with a dashed line
    in the largest gap. The number of eigenvalues below the gap estimates the number of clusters."""
    estimate = found.estimates["eigengap"]
    prepare(
        axes,
        "Spectrum",
        f"normalised Laplacian of the cosines; estimate {estimate}, by the largest gap",
    )
    axes.plot(
        np.arange(1, len(found.spectrum) + 1),
        found.spectrum,
        color=COLOURS[0],
        marker="o",
        ms=4,
        lw=0,
    )
    axes.axvline(estimate + 0.5, color=FADED, ls=(0, (4, 3)))
    axes.set_ylim(bottom=-0.02)
    axes.set_xlim(0.5, len(found.spectrum) + 0.5)
    axes.set_xlabel("number of the eigenvalue")
    axes.set_ylabel("eigenvalue")


def _map(axes: Axes, found: ClusterCount) -> None:
    """Draw the clients along the first two principal components of their updates."""
    prepare(axes, "Clients", "first two principal components of their updates")
    points = found.points
    if points.shape[1] < 2:
        # With a single component, all clients are on a line.
        points = np.column_stack([points, 0 * points])
    axes.scatter(points[:, 0], points[:, 1], s=18, color=COLOURS[0], alpha=0.7, lw=0)
    axes.margins(0.08)
    axes.set_xticks([])
    axes.set_yticks([])
