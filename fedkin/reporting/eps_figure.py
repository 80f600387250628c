"""Figure of an eps study: clusters and noise over eps, and the k-distance curve."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from fedkin.analysis.eps_study import EpsStudy
from fedkin.reporting.style import COLOURS, FADED, check_figure, new_figure, prepare, save_as


def save(study: EpsStudy, path: Path) -> list[Path]:
    """Write the figure of an eps study as png and svg. The extension of ``path`` is ignored.

    Raises StorageError if a file cannot be written.
    """
    check_figure(path)
    return save_as(lambda: draw(study), path)


def draw(study: EpsStudy) -> Figure:
    """Draw the numbers of clusters and noise clients over eps, and the k-distance curve."""
    figure = new_figure(10.5, 4.4)
    left, right = figure.subplots(1, 2, width_ratios=(1.4, 1))
    _clusters(left, study)
    _k_distances(right, study)
    return figure


def _clusters(axes: Axes, study: EpsStudy) -> None:
    """Draw the numbers of clusters and of noise clients over eps, as steps."""
    prepare(
        axes,
        "Clusters found by DBSCAN",
        f"min_samples = {study.min_samples}; dashed: suggested, {study.suggested:.3g}",
    )
    # The axis is logarithmic, so it cannot show 0, at which the first range starts.
    lows = np.array([one.low for one in study.ranges])
    known = lows[lows > 0]
    ends = (
        (known.min() / 1.5, known.max() * 1.5)
        if len(known)
        else (study.suggested / 2, study.suggested * 2)
    )
    edges = np.concatenate([[ends[0]], lows[lows > ends[0]], [ends[1]]])
    inside = [
        next(one for one in study.ranges if one.low <= edge < one.high) for edge in edges[:-1]
    ]
    for column, label, colour in (
        ("clusters", "clusters", COLOURS[0]),
        ("noise", "clients that are noise", COLOURS[1]),
    ):
        axes.stairs(
            [getattr(one, column) for one in inside],
            edges,
            color=colour,
            lw=2,
            baseline=None,
            label=label,
        )
    axes.axvline(study.suggested, color=FADED, ls=(0, (4, 3)))
    axes.set_xscale("log")
    axes.set_ylim(bottom=-0.2)
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xlabel("eps, logarithmic")
    axes.set_ylabel("number of clusters or clients")
    axes.xaxis.set_major_locator(LogLocator(10, (1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(frameon=False)


def _k_distances(axes: Axes, study: EpsStudy) -> None:
    """Draw the k-distance curve, with a dashed line at its knee."""
    prepare(
        axes,
        "k-distance curve",
        f"smallest eps at which each client is a core point; knee: {study.knee:.3g}",
    )
    axes.plot(
        np.arange(1, len(study.curve) + 1),
        study.curve,
        color=COLOURS[0],
        marker="o",
        ms=3,
        lw=1.6,
        clip_on=False,
    )
    axes.axhline(study.knee, color=FADED, ls=(0, (4, 3)))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("clients, by distance")
    axes.set_ylabel("eps")
