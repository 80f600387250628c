"""Figures of client similarity for a paper: map, similarity matrix, and labels by cluster."""

from __future__ import annotations

import base64
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from fedkin.reporting.html.json_values import Json
from fedkin.reporting.html.paper_style import cluster_colour, hue, legend

_MARKERS = "osD^PXv*ph"


def draw_map(figure: Figure, run: Json, similarity: Json) -> None:
    """Draw each client at the principal components of its update, coloured by cluster.

    Args:
        figure: the empty figure.
        run: the charts of the run.
        similarity: the similarity of its clients.
    """
    axes = figure.subplots()
    clusters = np.array(run["assignment"])
    # Outliers are drawn at the edge, hollow.
    x = np.clip(similarity["x"], *similarity["x_range"])
    y = np.clip(similarity["y"], *similarity["y_range"])
    outlying = (x != similarity["x"]) | (y != similarity["y"])
    for k in np.unique(clusters).tolist():
        marker = "."
        name = "no cluster" if k < 0 else None
        if k in run["largest_clusters"]:
            marker = _MARKERS[hue(run, k) % len(_MARKERS)]
            name = f"cluster {k}"
        colour = cluster_colour(run, k)
        usual = (clusters == k) & ~outlying
        axes.scatter(
            x[usual], y[usual], s=12, color=colour, marker=marker, lw=0, alpha=0.85, label=name
        )
        hollow = (clusters == k) & outlying
        axes.scatter(
            x[hollow], y[hollow], s=12, facecolors="none", edgecolors=colour, marker=marker, lw=0.7
        )
    first, second = similarity["explained"]
    axes.set(
        xlabel=f"first principal component ({first:.0%})",
        ylabel=f"second principal component ({second:.0%})",
        xticks=[],
        yticks=[],
    )
    legend(figure, axes)


def draw_similarity(figure: Figure, run: Json, similarity: Json) -> None:
    """Draw the matrix of cosines between the updates of clients, with the tree on its left.

    Args:
        figure: the empty figure.
        run: the charts of the run.
        similarity: the similarity of its clients.
    """
    left, right = figure.subplots(1, 2, width_ratios=(0.38, 1))
    tree = run["tree"]
    n = len(similarity["ids"])
    low, high = similarity["range"]
    steps = np.frombuffer(base64.b64decode(similarity["cosines"]), np.uint8).reshape(n, n)
    matrix = (low + (high - low) * steps / 255)[np.ix_(tree["order"], tree["order"])]
    off_diagonal = matrix[~np.eye(n, dtype=bool)] if n > 1 else matrix.ravel()
    least, most = np.quantile(off_diagonal, [0.02, 0.98])
    # This aspect makes the matrix as high as the tree on its left.
    image = right.imshow(
        matrix,
        aspect="auto",
        interpolation="nearest",
        vmin=float(least),
        vmax=float(max(most, least + 1e-6)),
        cmap="cividis",
    )
    figure.colorbar(image, ax=right, label="cosine", shrink=0.8, aspect=25)
    _mark_clusters(right, np.array(run["assignment"])[tree["order"]])
    _tree(left, tree, n)


def _mark_clusters(axes: Axes, clusters: np.ndarray) -> None:
    """Draw lines between the clusters of a matrix, with their names if there are few."""
    n = len(clusters)
    edges = [0, *(np.flatnonzero(np.diff(clusters)) + 1).tolist(), n]
    axes.set_xticks([])
    if len(edges) > 13:
        axes.set_ylabel("clients, by cluster")
        axes.set_yticks([], [])
        return
    for edge in edges[1:-1]:
        axes.axhline(edge - 0.5, color="white", lw=0.7)
        axes.axvline(edge - 0.5, color="white", lw=0.7)
    middles = [(start + end - 1) / 2 for start, end in pairwise(edges)]
    names = [str(clusters[start]) if clusters[start] >= 0 else "none" for start in edges[:-1]]
    axes.set_ylabel("cluster")
    axes.set_yticks(middles, names)


def _tree(axes: Axes, tree: Json, n: int) -> None:
    """Draw the tree of n clients, aligned with the rows of the matrix."""
    lines = [np.array(line) for line in tree["lines"]]
    axes.add_collection(LineCollection(lines, colors="#222222", lw=0.5))
    heights = [height for line in tree["lines"] for height, _ in line] or [0, 1]
    if tree["kind"] == "splits":
        ends = (0, max(heights) * 1.03)
        label = "round"
    else:
        ends = (max(heights) * 1.03 or 1, 0)
        label = "dissimilarity"
    axes.set(xlim=ends, ylim=(n - 0.5, -0.5), yticks=[])
    axes.set_xlabel(label, fontsize=7)
    axes.xaxis.set_major_locator(MaxNLocator(2))
    axes.spines["left"].set_visible(False)


def draw_labels(figure: Figure, run: Json) -> None:
    """Draw the share of each class in each cluster's samples, a row per cluster."""
    axes = figure.subplots()
    labels = run["labels"]
    counts = np.array(labels["counts"], np.float64)
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    image = axes.imshow(shares, cmap="cividis", aspect="auto", vmin=0, interpolation="nearest")
    axes.set_yticks(np.arange(len(shares)), labels["names"])
    every = max(1, -(-len(labels["classes"]) // 12))
    axes.set_xticks(
        np.arange(0, len(labels["classes"]), every), [str(c) for c in labels["classes"][::every]]
    )
    axes.set_xlabel("class")
    figure.colorbar(image, ax=axes, format=PercentFormatter(1, decimals=0), aspect=15)
