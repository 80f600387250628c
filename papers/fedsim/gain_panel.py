"""A panel as in FedSim's Figure 5: the gain of a method, grey if it is not significant against all
others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from fedkin.analysis.statistics import LEAST_SEEDS
from fedkin.reporting.method_styles import method_styles
from fedkin.reporting.style import FADED, label_ends, prepare
from papers.fedsim.paired_comparison import PairedComparison


def differences(
    axes: Axes,
    curves: Mapping[str, Float[np.ndarray, "S R"]],
    comparisons: Sequence[PairedComparison],
    heading: str | None = None,
) -> None:
    """Draw the gain of a method over each other method; grey if it is not significantly better than
    all of them (FedSim, Fig. 5).

    Args:
        axes: the panel.
        curves: accuracies [S, R] by method.
        comparisons: of one method with each of the others.
        heading: of the panel; by default "Gain of METHOD".
    """
    styles = method_styles(curves)
    ours = comparisons[0].method
    tested = comparisons[0].seeds >= LEAST_SEEDS
    shade = "grey: not significantly better than all" if tested else "too few seeds to test"
    prepare(
        axes,
        heading or f"Gain of {ours}",
        f"{'gain of ' + ours + ' in ' if heading else ''}points; {shade}",
    )
    ends = []
    for comparison in comparisons:
        other = comparison.against
        colour, dash = styles[other].line
        # The same seeds in every round.
        gain = 100 * (curves[ours] - curves[other])[:, comparison.scored].mean(axis=0)
        axes.plot(comparison.scored, gain, color=colour, ls=dash, lw=1.8)
        ends.append((float(gain[-1]), f"over {other}", colour))
    axes.axhline(0, color=FADED, lw=0.8)
    if tested:
        doubtful = ~np.all([comparison.significant for comparison in comparisons], axis=0)
        scored = comparisons[0].scored
        edges = np.concatenate(
            [[scored[0] - 0.5], (scored[1:] + scored[:-1]) / 2, [scored[-1] + 0.5]]
        )
        for k in np.flatnonzero(doubtful):
            axes.axvspan(edges[k], edges[k + 1], color="#E4E4E4", lw=0, zorder=0)
    low, high = axes.get_ylim()
    if high - low < 1:  # of a point: smaller differences are not enlarged
        axes.set_ylim((low + high - 1) / 2, (low + high + 1) / 2)
    axes.set_xlim(0, len(next(iter(curves.values()))[0]) - 1)
    axes.set_xlabel("communication round")
    label_ends(axes, ends, "{:+.1f}".format)
