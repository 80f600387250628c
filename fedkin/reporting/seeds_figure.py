"""The figure of several seeds: mean curves with their intervals, and the gain of a method over the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedkin.analysis.paired_comparison import PairedComparison
from fedkin.analysis.statistics import LEAST_SEEDS, interval
from fedkin.config.registry import method_title
from fedkin.reporting.style import (
    COLOURS,
    DASHES,
    FADED,
    headline,
    label_ends,
    line_style,
    new_figure,
    prepare,
    save_as,
)

if TYPE_CHECKING:
    from fedkin.analysis.repeated_runs import RepeatedRuns

Curves = Mapping[str, Float[np.ndarray, "S R"]]  # by method


def save(repeated: RepeatedRuns, folder: Path) -> None:
    """Write ``figure.png`` and ``figure.svg`` into a folder.

    Raises StorageError where it cannot be written.
    """
    save_as(lambda: draw(repeated), folder / "figure")


def draw(repeated: RepeatedRuns) -> Figure:
    """Mean accuracy of every method; beside it, where there are several, the gain of the first over the others."""
    curves, compared = repeated.curves(), repeated.comparisons()
    named = {method_title(name): curve for name, curve in curves.items()}
    figure = new_figure(10.5, 4.6)
    panels = figure.subplots(1, 2 if compared else 1, squeeze=False)[0]
    accuracies(panels[0], named)
    if compared:
        differences(panels[1], named, compared)
    run, seeds = repeated.runs[0], len(repeated.seeds)
    headline(
        figure,
        f"{' / '.join(named)} on {run.config['data']['name']}: {len(run.assignment):,} clients, "
        f"{run.config['run']['cohort']} a round, {seeds} seed{'s' if seeds > 1 else ''}\n",
    )
    return figure


def accuracies(axes: Axes, curves: Curves, heading: str = "Test accuracy") -> None:
    """Draw each method's mean accuracy over the seeds and its 95% interval, in the rounds that every seed has.

    Args:
        axes: the panel.
        curves: accuracies [S, R] by method.
        heading: of the panel.
    """
    least, seeds = min(map(len, curves.values())), max(map(len, curves.values()))
    mean = f"mean of {seeds if least == seeds else f'{least} to {seeds}'} seeds" if seeds > 1 else "one seed"
    never = [name for name, curve in curves.items() if not np.isfinite(curve).all(axis=0).any()]
    lacking = f"; never complete in all seeds: {', '.join(never)}" if never else ""
    prepare(axes, heading, (f"{mean}; band: its 95% interval" if seeds >= LEAST_SEEDS else mean) + lacking)
    ends = []
    for number, (name, curve) in enumerate(curves.items()):
        colour, dash = line_style(number)
        scored = np.flatnonzero(np.isfinite(curve).all(axis=0))
        band = interval(curve[:, scored])
        if len(curve) >= LEAST_SEEDS:
            axes.fill_between(scored, band.low.clip(0, 1), band.high.clip(0, 1), color=colour, alpha=0.18, lw=0)
        axes.plot(scored, band.mean, color=colour, ls=dash, lw=1.8)
        if len(scored):
            ends.append((float(band.mean[-1]), name, colour))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel("communication round")
    low, high = axes.get_ylim()
    label_ends(axes, ends, gap=0.11 * (high - low))


def differences(
    axes: Axes, curves: Curves, comparisons: Sequence[PairedComparison], heading: str | None = None
) -> None:
    """Draw the gain of a method over each of the others; grey where it is not significantly better than all of them
    (FedSim, Fig. 5).

    Args:
        axes: the panel.
        curves: accuracies [S, R] by method.
        comparisons: of one method with each of the others.
        heading: of the panel; "Gain of METHOD" where nothing is said.
    """
    names = list(curves)
    ours = comparisons[0].method if comparisons[0].method in curves else method_title(comparisons[0].method)
    tested = comparisons[0].seeds >= LEAST_SEEDS
    shade = "grey: not significantly better than all" if tested else "too few seeds to test"
    prepare(axes, heading or f"Gain of {ours}", f"{'gain of ' + ours + ' in ' if heading else ''}points; {shade}")
    ends = []
    for comparison in comparisons:
        other = comparison.against if comparison.against in curves else method_title(comparison.against)
        colour, dash = COLOURS[names.index(other)], DASHES[names.index(other)]
        gain = 100 * (curves[ours] - curves[other])[:, comparison.scored].mean(axis=0)  # the same seeds in every round
        axes.plot(comparison.scored, gain, color=colour, ls=dash, lw=1.8)
        ends.append((float(gain[-1]), f"over {other}", colour))
    axes.axhline(0, color=FADED, lw=0.8)
    if tested:
        doubtful = ~np.all([comparison.significant for comparison in comparisons], axis=0)
        scored = comparisons[0].scored
        edges = np.concatenate([[scored[0] - 0.5], (scored[1:] + scored[:-1]) / 2, [scored[-1] + 0.5]])
        for k in np.flatnonzero(doubtful):
            axes.axvspan(edges[k], edges[k + 1], color="#E4E4E4", lw=0, zorder=0)
    low, high = axes.get_ylim()
    if high - low < 1:  # of a point: nothing to make mountains of
        axes.set_ylim((low + high - 1) / 2, (low + high + 1) / 2)
    axes.set_xlim(0, len(next(iter(curves.values()))[0]) - 1)
    axes.set_xlabel("communication round")
    low, high = axes.get_ylim()
    label_ends(axes, ends, gap=0.11 * (high - low), template="{:+.1f}")
