"""Curves of runs over the rounds: the stored values, and the lines of a figure with the mean over
the seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.records import Record
from papers import recipe
from papers.recipe import Cell
from papers.reproduction_marks import Results, figures_of

POINTS = 100  # of a stored curve
# Empty in rounds that the papers leave out.
TESTED = (
    "accuracy",
    "loss",
    "global_accuracy",
    "global_loss",
)
TRAINED = ("train_loss", "discrepancy_sum", "discrepancy_mean")
BY_CLUSTER = ("accuracy_by_cluster", "discrepancy_to_global")


def measure(cell: Cell, seed: int) -> dict[str, Any]:
    """Run a cell from one seed, with the scores of the auxiliary global model too; the curves of
    the run."""
    s = cell.setting
    run = recipe.run(cell, seed, global_model=True)
    line = {
        "table": cell.table,
        "row": s.row,
        "column": cell.column,
        "seed": seed,
        "seconds": round(run.seconds, 1),
    }
    return {**line, **curves_of(run.records)}


def curves_of(records: Sequence[Record]) -> dict[str, Any]:
    """The stored curves of a run: each quantity at up to a hundred of the rounds from 1 on, and the
    number of rounds between them (``every``).

    Quantities by cluster are a curve per cluster. A quantity that a run does not have is left out.
    """
    every = max(1, (len(records) - 1) // POINTS)
    kept = records[1::every]
    curves: dict[str, Any] = {"every": every}
    for name in (*TESTED, *TRAINED):
        curves[name] = [
            None if name in TESTED and r["partial"] else _rounded(r.get(name)) for r in kept
        ]
    for name in BY_CLUSTER:
        rows = [r.get(name) or [] for r in kept]
        if min(map(len, rows)) > 1:
            curves[name] = [
                [_rounded(value) for value in curve] for curve in zip(*rows, strict=True)
            ]
    return {
        name: curve
        for name, curve in curves.items()
        if name == "every" or any(v is not None for v in curve)
    }


def _rounded(value: float | int | None) -> float | None:
    return None if value is None else round(float(value), 4)


def plot(axes: Any, results: Results, cell: Cell, quantity: str, **style: Any) -> None:
    """Add a cell's line, mean over the seeds that were run, with their range as a band.

    Args:
        axes: the panel.
        results: stored runs; without runs of the cell no line is drawn.
        cell: its runs are drawn.
        quantity: the key of the curve in a run.
        style: matplotlib's options of the line.
    """
    curves = figures_of(results, cell, quantity)
    if curves:
        values = np.array([_floats(curve) for curve in curves])
        rounds = 1 + np.arange(values.shape[1]) * figures_of(results, cell, "every")[0]
        style = {"lw": 1.6, **style}
        (line,) = axes.plot(rounds, values.mean(axis=0), **style)
        if len(values) > 1:
            axes.fill_between(
                rounds,
                values.min(axis=0),
                values.max(axis=0),
                color=line.get_color(),
                alpha=0.15,
                lw=0,
            )


def plot_clusters(axes: Any, results: Results, cell: Cell, quantity: str, **style: Any) -> None:
    """Add a line for each cluster in the run from the first seed. Clusters of different seeds do
    not correspond.

    Args:
        axes: the panel.
        results: stored runs.
        cell: whose runs.
        quantity: the key of the curves in a run.
        style: of the lines; only the first of them gets the label.
    """
    label = style.pop("label", None)
    style = {"lw": 0.8, **style}
    for curves in figures_of(results, cell, quantity)[:1]:
        for number, curve in enumerate(curves):
            rounds = 1 + np.arange(len(curve)) * figures_of(results, cell, "every")[0]
            axes.plot(rounds, _floats(curve), **style, label=None if number else label)


def _floats(curve: Sequence[float | None]) -> Float[np.ndarray, "R"]:
    return np.array([np.nan if value is None else value for value in curve], np.float64)


def finish(axes: Any, percent: bool = False, legend: bool = False) -> None:
    """Label the rounds, and where asked for write the other axis in percent and add a legend of the
    lines there are. A panel without lines is hidden."""
    from matplotlib.ticker import PercentFormatter

    axes.set_visible(bool(axes.lines))
    axes.set_xlabel("communication round")
    if percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    if legend and axes.get_legend_handles_labels()[0]:
        # Names stay readable if they are over a line.
        axes.legend(framealpha=0.85, edgecolor="none", fontsize=8, loc="best")
