"""The style of figures for a paper: fonts, legends, and colours of clusters."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedkin.reporting.html.json_values import Json
from fedkin.reporting.html.page import PALETTE
from fedkin.reporting.style import STYLE

WIDTH = 3.3  # inches
COLUMN: Any = {
    **STYLE,
    "font.size": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # store text as letters, not as shapes
}
_GREY = "#9AA3AD"


def legend(figure: Figure, axes: Axes, title: str | None = None) -> None:
    """Write the legend of a panel below it, in up to six columns that fit the figure.

    Args:
        figure: the figure.
        axes: the panel.
        title: heading of the legend; default: none.
    """
    handles, names = axes.get_legend_handles_labels()
    columns = min(3 if any(len(name) > 4 for name in names) else 6, max(1, len(names)))
    renderer = FigureCanvasAgg(figure).get_renderer()
    while True:
        drawn = figure.legend(
            handles,
            names,
            title=title if names else None,
            loc="outside lower center",
            ncols=columns,
            handlelength=3,  # the longest dashes twice
        )
        if columns == 1 or drawn.get_window_extent(renderer).width <= figure.bbox.width:
            return
        drawn.remove()
        columns -= 1


def hue(run: Json, cluster: int) -> int:
    """Index of a cluster's colour: its number, or its rank by size if the number is too large."""
    largest = run["largest_clusters"]
    if all(k < len(PALETTE) for k in largest):
        return cluster
    return largest.index(cluster) if cluster in largest else 0


def cluster_colour(run: Json, cluster: int) -> str:
    """The colour of a cluster; grey if it has no colour because others are larger."""
    return PALETTE[hue(run, cluster)] if cluster in run["largest_clusters"] else _GREY
