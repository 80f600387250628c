"""The picture of a comparison: a panel for every setting, a curve for every method."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedkin.experiment.seeds_figure import accuracies

if TYPE_CHECKING:
    from fedkin.experiment.compare.comparison import Comparison

MOST = 12  # panels; more of them are a report's matter


def draw(comparison: Comparison) -> Figure:
    """Mean accuracy over the rounds with its interval, of all methods that have a run; the first MOST settings."""
    shown = [setting for setting in comparison.settings if comparison.curves(setting)][:MOST]
    across = min(3, len(shown))
    down = math.ceil(len(shown) / across)
    figure = Figure(figsize=(1.2 + 5.4 * across, 0.6 + 3.6 * down), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes, setting in zip(panels, shown, strict=False):
        accuracies(axes, comparison.curves(setting), setting or "Test accuracy")
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    left = len([s for s in comparison.settings if comparison.curves(s)]) - len(shown)
    names, seeds = " / ".join(comparison.methods), len(comparison.seeds)
    more = f"; {left} more settings in the tables" if left else ""
    heading = f"{names}: {seeds} seed{'s' if seeds > 1 else ''}{more}\n"
    figure.suptitle(heading, x=0.008, ha="left", fontsize=13, fontweight="bold")
    return figure
