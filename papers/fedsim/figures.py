"""FedSim's Figures 1 and 3 to 10, from the stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.analysis.statistics import LEAST_SEEDS
from fedkin.core.randomness import Stream
from papers.fedsim import authors_curves, similarity_recipes
from papers.fedsim.network_recipes import FIGURE_6, TABLE
from papers.fedsim.numbers import indices, paired_curves, unit_of
from papers.fedsim.paired_comparison import compare
from papers.fedsim.recipes import (
    ALPHAS,
    BETAS,
    FEMNIST,
    FIGURE_4,
    FIGURE_8,
    GOODREADS,
    MEX,
    MNIST,
    OF_AUTHORS,
    PLANE_CLUSTERS,
    SYNTHETIC,
    THREE,
    shares_cohorts,
)
from papers.recipe import Setting
from papers.reproduction_marks import Results, values_of

REAL = (MNIST, FEMNIST, MEX, GOODREADS)
# On the authors' data where they are known.
FIGURE_9 = [OF_AUTHORS.get(name, setting) for name, setting in SYNTHETIC.items()]


def draw(results: Results, docs: Path) -> None:
    """Write every figure into ``docs/images``."""
    import matplotlib

    from fedkin.reporting.style import STYLE, fit, write

    with matplotlib.rc_context(STYLE):
        for name, figure in {
            "similarity": _similarity(results),
            "real": _curves(results, REAL, 2),
            "networks": _curves(results, FIGURE_6, 2, TABLE),
            "gain": _gains(results, REAL),
            "synthetic": _curves(results, FIGURE_9, 2),
            "random": _random(results),
            "plane": _plane(results),
            "components-pni": _components_and_pni(results),
        }.items():
            # No empty picture: hours a run.
            if name != "networks" or any(axes.get_visible() for axes in figure.axes):
                fit(figure)
                write(figure, docs / "images" / f"fedsim-{name}.svg")


def _panels(rows: int, columns: int, height: float = 3.6) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False).ravel()


def _curves(results: Results, settings: Sequence[Setting], columns: int, table: str = "") -> Any:
    """Figures 3, 6 and 9: mean accuracy of the three methods, and the authors' mean curves, a panel
    for each setting that was run. ``table``: of the settings, where not 4 or 7."""
    from fedkin.reporting.seeds_figure import accuracies

    curves = {s: paired_curves(results, s, list(THREE), table) for s in settings}
    available = {setting: of_row for setting, of_row in curves.items() if of_row}
    figure, panels = _panels(-(-len(available) // columns) or 1, columns)
    for axes, (setting, of_row) in zip(panels, available.items(), strict=False):
        shown, sample = of_row, unit_of(setting)
        if shares_cohorts(setting):  # the mean alone
            seeds = len(next(iter(of_row.values())))
            sample = f"mean of {seeds} seeds that share cohorts; no band"
            shown = {name: curve.mean(axis=0, keepdims=True) for name, curve in of_row.items()}
        accuracies(axes, shown, setting.row, sample=sample)
        _authors_curves(axes, setting.row, list(of_row))
    for axes in panels[len(available) :]:
        axes.set_visible(False)
    return figure


def _authors_curves(axes: Any, row: str, methods: Sequence[str]) -> None:
    """Add the authors' mean curves of a row below ours: thin dotted lines in the colours of the
    methods."""
    from fedkin.reporting.method_styles import method_styles
    from fedkin.reporting.style import FADED

    published = authors_curves.curves_of(row)
    if not published:
        return
    look = {"ls": ":", "lw": 1.0, "zorder": 1.5}
    styles = method_styles(methods)
    for method in methods:
        colour, _ = styles[method].line
        axes.plot(published[method], color=colour, **look)
    axes.plot([], color=FADED, label="the authors' mean of 35 seeds", **look)
    axes.legend(loc="lower right", frameon=False, fontsize=8.5)


def _similarity(results: Results) -> Any:
    """Figure 1: the similarity of all pairs of clients, each panel with a scale for its values."""
    from fedkin.reporting.style import prepare

    figure, panels = _panels(1, len(similarity_recipes.CELLS))
    for axes, cell in zip(panels, similarity_recipes.CELLS, strict=True):
        line = similarity_recipes.stored_line(results, cell)
        axes.set_visible(line is not None)
        if line is not None:
            prepare(axes, cell.setting.row, "a cell: the similarity of two clients' features")
            axes.grid(False)
            shown = axes.imshow(similarity_recipes.matrix(line), cmap="viridis")
            figure.colorbar(shown, ax=axes, shrink=0.7)
            axes.set_xlabel("client")
    return figure


def _gains(results: Results, settings: Sequence[Setting]) -> Any:
    """Figure 5: FedSim's gains, grey if they are not significant against both."""
    from papers.fedsim.gain_panel import differences

    figure, panels = _panels(2, 2)
    for axes, setting in zip(panels, settings, strict=True):
        curves = paired_curves(results, setting, list(THREE))
        axes.set_visible(len(curves) == len(THREE))
        if len(curves) == len(THREE):
            differences(axes, curves, compare(curves, "FedSim", Stream(0).rng()), setting.row)
    return figure


def _random(results: Results) -> Any:
    """Figure 7, also for Synthetic(1, 1), where the paper says that random clusters do better."""
    from fedkin.reporting.seeds_figure import accuracies

    figure, panels = _panels(1, 2)
    for axes, setting in zip(panels, (FEMNIST, SYNTHETIC["(1, 1)"]), strict=True):
        curves = paired_curves(results, setting, ["FedSim, round robin", "FedAvg", "FedSim"])
        shown = {
            new: curves[old]
            for old, new in {
                "FedSim": "similarity",
                "FedSim, round robin": "round robin",
                "FedAvg": "FedAvg",
            }.items()
            if old in curves
        }
        axes.set_visible(bool(shown))
        if shown:
            accuracies(axes, shown, setting.row, sample=unit_of(setting))
    return figure


def _plane(results: Results) -> Any:
    """Figure 4: all clients' gradients on two principal components, in ten clusters."""
    from fedkin.reporting.style import COLOURS, prepare

    figure, panels = _panels(2, 2)
    for axes, cell in zip(panels, FIGURE_4, strict=True):
        runs = [m for m in results if m["table"] == "Fig. 4" and m["row"] == cell.setting.row]
        axes.set_visible(bool(runs))
        if runs:
            prepare(
                axes,
                cell.setting.row,
                f"{len(runs[0]['points'])} clients' gradients after ten rounds",
            )
            points = np.array(runs[0]["points"])
            clusters = np.array(runs[0]["clusters"])
            for k in range(PLANE_CLUSTERS):
                marker = "o^"[k // len(COLOURS)]
                axes.scatter(
                    *points[clusters == k].T,
                    color=COLOURS[k % len(COLOURS)],
                    marker=marker,
                    s=11,
                    lw=0,
                )
            axes.set_xlabel("first component")
            axes.set_xlim(-1.05, 1.05)
    return figure


def _components_and_pni(results: Results) -> Any:
    """Figure 8: variance of the gradients by number of components. Figure 10: PNI of
    Synthetic(alpha, beta)."""
    from fedkin.reporting.style import COLOURS, DASHES, FADED, prepare

    figure, (left, right) = _panels(1, 2)
    prepare(
        left,
        "Variance kept by principal components",
        "gradients of a cohort after ten rounds, mean over seeds",
    )
    for cell, colour, dash in zip(FIGURE_8, COLOURS, DASHES, strict=False):
        shares = values_of(
            results=results,
            table="Fig. 8",
            row=cell.setting.row,
            column=cell.column,
            figure="explained",
        )
        if shares:
            kept = np.cumsum(np.mean(shares, axis=0))
            left.plot(
                np.arange(1, len(kept) + 1),
                kept,
                color=colour,
                ls=dash,
                lw=1.8,
                label=cell.setting.row,
            )
    left.axhline(0.95, color=FADED, lw=0.8, ls=":")
    left.set_xlabel("components")
    if left.get_legend_handles_labels()[0]:
        left.legend(loc="lower right", frameon=False, fontsize=8.5)
    _draw_indices(right, results)
    return figure


def _draw_indices(axes: Any, results: Results) -> None:
    """Figure 10: PNI of Synthetic(alpha, beta), over the seeds that all cells have."""
    from matplotlib.ticker import AutoLocator

    from fedkin.reporting.style import COLOURS, DASHES, label_ends, prepare

    values = indices(results, ALPHAS)
    draws = len(values[ALPHAS[0], BETAS[0]])
    note = f"30 clients; mean of {draws} draws, each with its own model; band: its 95% interval"
    prepare(axes, "Non-IID index of Synthetic(alpha, beta)", note)
    ends = []
    for beta, colour, dash in zip(BETAS, COLOURS, DASHES, strict=False):
        if draws < LEAST_SEEDS:
            continue
        of_beta = np.array([values[alpha, beta] for alpha in ALPHAS])
        means = of_beta.mean(axis=1)
        error = 1.96 * of_beta.std(axis=1, ddof=1) / np.sqrt(draws)
        axes.plot(ALPHAS, means, color=colour, ls=dash, lw=1.8)
        ends.append((float(means[-1]), f"beta {beta:g}", colour))
        axes.fill_between(ALPHAS, means - error, means + error, color=colour, alpha=0.18, lw=0)
    axes.set_xlabel("alpha")
    label_ends(axes, ends, "{:.2f}".format)
    axes.xaxis.set_major_locator(AutoLocator())
