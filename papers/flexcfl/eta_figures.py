"""FlexCFL's Fig. 3, with losses and discrepancies, and Fig. 5, from stored runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.curves import BY_CLUSTER, finish, plot, plot_clusters
from papers.flexcfl.figure_recipes import (
    BASELINES_3,
    BASELINES_3_MLP,
    SWEEP_3,
    SWEEP_3_MLP,
    SWEEP_5,
    SWEEP_5_MLP,
    eta_column,
)
from papers.recipe import Cell
from papers.reproduction_marks import Results

QUANTITIES = {
    "accuracy": "accuracy of complete rounds",
    "train_loss": "training loss of the cohort, last local epoch",
    "discrepancy_mean": "discrepancy, mean over the cohort",
    "discrepancy_to_global": "distance of each group's model to their mean, first seed",
    "global_accuracy": "accuracy of the mean of the group models",
}
FIVE = ("accuracy", "train_loss", "global_accuracy")
ETAS_COMPARED = (eta_column(0), eta_column(0.1))
COMPARED, COMPARED_MLP = (
    [*baselines, *(cell for cell in sweep if cell.column in ETAS_COMPARED)]
    for baselines, sweep in ((BASELINES_3, SWEEP_3), (BASELINES_3_MLP, SWEEP_3_MLP))
)


def draw(results: Results, docs: Path) -> None:
    """Write both figures into ``docs/images``."""
    import matplotlib

    from fedkin.reporting.style import STYLE, write

    compared, swept_3, swept_5 = (
        {cells[0].setting.row: cells for cells in pair}
        for pair in ((COMPARED, COMPARED_MLP), (SWEEP_3, SWEEP_3_MLP), (SWEEP_5_MLP, SWEEP_5))
    )
    with matplotlib.rc_context(STYLE):
        for name, figure in {
            "figure3": _grid(results, compared, tuple(QUANTITIES)),
            "figure3-eta": _grid(results, swept_3, tuple(QUANTITIES)),
            "figure5": _grid(results, swept_5, FIVE),
        }.items():
            write(figure, docs / "images" / f"flexcfl-{name}-curves.svg")


def _grid(
    results: Results, columns: Mapping[str, Sequence[Cell]], quantities: Sequence[str]
) -> Any:
    """Quantities below each other, a line a cell."""
    from fedkin.reporting.style import line_style, new_figure, prepare

    figure = new_figure(4.6 * len(columns), 3.4 * len(quantities))
    panels = figure.subplots(len(quantities), len(columns), squeeze=False)
    for quantity, row in zip(quantities, panels, strict=True):
        for (heading, cells), axes in zip(columns.items(), row, strict=True):
            prepare(axes, heading, QUANTITIES[quantity])
            for number, cell in enumerate(cells):
                colour, dash = line_style(number)
                draw_line = plot_clusters if quantity in BY_CLUSTER else plot
                draw_line(axes, results, cell, quantity, color=colour, ls=dash, label=cell.column)
            finish(axes, percent="accuracy" in quantity)
    handles = {
        name: handle
        for axes in panels.ravel()
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(3 * len(columns), 6),
        frameon=False,
    )
    return figure
