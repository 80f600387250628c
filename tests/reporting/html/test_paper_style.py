"""The style of figures for a paper."""

from __future__ import annotations

import matplotlib
import pytest

from fedkin.reporting.html.paper_style import COLUMN, WIDTH, legend
from fedkin.reporting.style import new_figure


@pytest.mark.parametrize("clusters", [1, 6, 9, 12])
def test_a_legend_fits_the_figure(clusters: int) -> None:
    with matplotlib.rc_context(COLUMN):
        figure = new_figure(WIDTH, 2.2)
        axes = figure.subplots()
        for cluster in range(clusters):
            axes.plot([0, 1], [cluster, 1], label=f"{cluster}")
        legend(figure, axes, "cluster")
        figure.draw_without_rendering()
        (drawn,) = figure.legends
        extent = drawn.get_window_extent()
    assert extent.x0 >= 0 and extent.x1 <= figure.bbox.width
    assert len(drawn.get_texts()) == clusters
