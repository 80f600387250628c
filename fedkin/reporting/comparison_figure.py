"""Figure of a comparison: a panel for each setting (data set and configuration), a curve for each
method."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from fedkin.core.object_repr import count
from fedkin.reporting.seeds_figure import accuracies
from fedkin.reporting.style import headline, new_figure

if TYPE_CHECKING:
    from fedkin.analysis.compare.comparison import Comparison
    from fedkin.run.run import Run

PANELS = 12  # largest number of panels; a report shows more


def draw(comparison: Comparison) -> Figure:
    """Draw the mean score (such as the accuracy) over the rounds with intervals, for all methods
    with a finished run. Each setting (data set and configuration) has a panel; at most PANELS
    settings are drawn."""
    shown = [setting for setting in comparison.settings if comparison.curves(setting)][:PANELS]
    # The longest label at the right of a panel: a method's name with its number of clusters.
    names = max(map(len, comparison.methods)) + len(" (K = 3)")
    across = min(3 if names <= 16 else 2, len(shown))
    down = math.ceil(len(shown) / across)
    heights = max(3.6, 0.45 * len(comparison.methods))
    score = comparison.run_scores.of_round
    figure = new_figure(1.2 + (4.6 + 0.1 * names) * across, 0.6 + heights * down)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes, setting in zip(panels, shown, strict=False):
        runs = [run for (label, *_), run in comparison.finished.items() if label == setting]
        split = runs[0].scored_split
        whole = comparison.curves(setting)
        every = comparison.curves(setting, partial=True)
        labels = {name: _label(comparison.runs(setting, name)[0], name) for name in whole}
        accuracies(
            axes,
            {labels[name]: curve for name, curve in whole.items()},
            heading=setting or f"{split.capitalize()} {score.head}",
            incomplete={labels[name]: curve for name, curve in every.items()},
            score=score,
        )
        axes.set_ylabel(f"{split} {score.head}" if setting else "")
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    methods = len(comparison.methods)
    title = " / ".join(comparison.methods) if methods <= 4 else f"{methods} methods"
    heading = f"{title}: {count(len(comparison.seeds), 'seed')}"
    with_curves = [setting for setting in comparison.settings if comparison.curves(setting)]
    if len(with_curves) > len(shown):
        heading += f"; {len(with_curves) - len(shown)} more settings in the tables"
    headline(figure, f"{heading}\n")
    return figure


def _label(run: Run, name: str) -> str:
    """A method's label in the figure of a comparison, with the number of clusters if the label does
    not contain it."""
    clusters = run.config.clusters
    if clusters is None or "clusters" in name or "K = " in name:
        return name
    return f"{name} (K = {clusters})"
