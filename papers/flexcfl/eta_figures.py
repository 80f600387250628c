"""FlexCFL's Fig. 3, with losses and discrepancies, and Fig. 5, from stored runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.curves import finish, plot
from papers.flexcfl.figure_recipes import (
    BASELINES_3,
    FIGURE_3,
    FIGURE_5,
    SWEEP_3,
    SWEEP_3_MLP,
    SWEEP_5,
    SWEEP_5_MLP,
    eta_column,
)
from papers.recipe import Cell
from papers.reproduction_marks import Results
from papers.tables_markdown import global_models

QUANTITIES = {
    "accuracy": "accuracy of complete rounds",
    "train_loss": "training loss of the cohort, last local epoch",
    "discrepancy_mean": "discrepancy, mean over the cohort",
    "global_accuracy": "accuracy of the mean of the group models",
}
FIVE = ("accuracy", "train_loss", "global_accuracy")
COMPARED = (*BASELINES_3, *(cell for cell in SWEEP_3 if cell.column in (eta_column(0), eta_column(0.1))))


def draw(results: Results, docs: Path) -> None:
    """Write both figures into ``docs/images``."""
    import matplotlib

    from fedkin.reporting.style import STYLE, write

    compared = {"MNIST-MCLR": COMPARED, "MNIST-MLP, by eta_g": SWEEP_3_MLP, "MNIST-MCLR, by eta_g": SWEEP_3}
    swept = {cells[0].setting.row: cells for cells in (SWEEP_5_MLP, SWEEP_5)}
    with matplotlib.rc_context(STYLE):
        for name, figure in {
            "figure3": _grid(results, compared, tuple(QUANTITIES)),
            "figure5": _grid(results, swept, FIVE),
        }.items():
            write(figure, docs / "images" / f"flexcfl-{name}-curves.svg")


def figure_3(results: Results) -> str:
    """Fig. 3 on the page."""
    return (
        "### Fig. 3: accuracy, training loss and discrepancy without a shift\n\n"
        "Mean of the seeds, their range as a band. The mean of the group models is never sent to a client. "
        "The paper's sweep over eta_g trains an MLP; logistic regression stands beside it.\n\n"
        f"{global_models(results, FIGURE_3)}\n\n"
        "![Fig. 3: methods and inter-group learning rates on MNIST](images/flexcfl-figure3-curves.svg)"
    )


def figure_5(results: Results) -> str:
    """Fig. 5 on the page."""
    return (
        "### Fig. 5: inter-group learning rates, part of the labels swapped\n\n"
        "The paper trains an MLP; logistic regression stands beside it.\n\n"
        f"{global_models(results, FIGURE_5)}\n\n"
        "![Fig. 5: accuracy and training loss by inter-group learning rate](images/flexcfl-figure5-curves.svg)"
    )


def _grid(results: Results, columns: Mapping[str, Sequence[Cell]], quantities: Sequence[str]) -> Any:
    """Quantities below each other, a line a cell."""
    from fedkin.reporting.style import line_style, new_figure, prepare

    figure = new_figure(4.6 * len(columns), 3.4 * len(quantities))
    panels = figure.subplots(len(quantities), len(columns), squeeze=False)
    for quantity, row in zip(quantities, panels, strict=True):
        for (heading, cells), axes in zip(columns.items(), row, strict=True):
            prepare(axes, heading, QUANTITIES[quantity])
            for number, cell in enumerate(cells):
                colour, dash = line_style(number)
                plot(axes, results, cell, quantity, color=colour, ls=dash, label=cell.column)
            finish(axes, percent="accuracy" in quantity, legend=quantity == quantities[0])
    return figure
