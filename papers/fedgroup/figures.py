"""FedGroup's Figs. 1 and 3 to 5 from stored runs, and curves that the paper describes without
showing them: the auxiliary global model, training losses, and the distances of the groups to the
global model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from papers.classes_figure import ClassesFigure
from papers.curves import finish, plot, plot_clusters
from papers.fedgroup.figure_recipes import (
    FIGURE_1,
    FIGURE_3,
    FIGURE_4,
    FIGURE_5,
    SETTINGS_3,
    SETTINGS_4,
)
from papers.recipe import Cell, Setting
from papers.reproduction_marks import Results

BY_CLASSES = ClassesFigure(
    "fedgroup", FIGURE_1, "discrepancy_sum", "discrepancy, summed over the cohort (eq. 4)"
)
GROUPED = ("FedGroup", "FedGrouProx")


def draw(results: Results, docs: Path) -> None:
    """Write every figure into ``docs/images``."""
    import matplotlib

    from fedkin.reporting.style import STYLE, write

    with matplotlib.rc_context(STYLE):
        for name, figure in {
            "figure3": _accuracies(results, FIGURE_3, SETTINGS_3),
            "figure4": _accuracies(results, FIGURE_4, SETTINGS_4),
            "figure5": _pairs(results),
            "global": _losses_and_distances(results),
        }.items():
            write(figure, docs / "images" / f"fedgroup-{name}.svg")
    BY_CLASSES.draw(results, docs)


def _cell(cells: Sequence[Cell], setting: Setting, column: str) -> Cell:
    return next(cell for cell in cells if (cell.setting, cell.column) == (setting, column))


def _accuracies(results: Results, cells: Sequence[Cell], settings: Sequence[Setting]) -> Any:
    """One model, FedGroup, FedGrouProx: below each other for each setting, side by side for a
    single one."""
    from fedkin.reporting.style import new_figure

    alone = len(settings) == 1
    figure = new_figure(13.0, 3.8) if alone else new_figure(10.5, 9.0)
    panels = figure.subplots(*((1, 3) if alone else (3, len(settings))), squeeze=False)
    for setting, column in zip(settings, panels.reshape(3, -1).T, strict=True):
        _one_model(column[0], results, cells, setting)
        for axes, method in zip(column[1:], GROUPED, strict=True):
            _groups(axes, results, _cell(cells, setting, method))
    return figure


def _one_model(axes: Any, results: Results, cells: Sequence[Cell], setting: Setting) -> None:
    """Accuracy, and on the right axis discrepancy, of FedAvg and FedProx."""
    from fedkin.reporting.method_styles import method_style
    from fedkin.reporting.style import prepare

    prepare(
        axes,
        f"FedAvg and FedProx, {setting.row}",
        "accuracy; dotted, right axis: discrepancy, summed over clients",
    )
    right = axes.twinx()
    for column in ("FedAvg", "FedProx"):
        colour = method_style(column).light
        plot(axes, results, _cell(cells, setting, column), "accuracy", color=colour, label=column)
        plot(
            right,
            results,
            _cell(cells, setting, column),
            "discrepancy_sum",
            color=colour,
            ls=":",
            lw=1.2,
        )
    right.margins(x=0)
    right.set_ylim(bottom=0)
    axes.set_ylim(0, 1)
    finish(axes, percent=True)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, loc="lower right")


def _groups(axes: Any, results: Results, cell: Cell) -> None:
    """Accuracy of all clients, of each group's, and of the global model."""
    from fedkin.reporting.style import COLOURS, FADED, prepare

    prepare(
        axes,
        f"{cell.column}, {cell.setting.row}",
        "accuracy of all clients, each on its group's model",
    )
    plot_clusters(axes, results, cell, "accuracy_by_cluster", color=FADED, label="each group")
    plot(
        axes,
        results,
        cell,
        "global_accuracy",
        color=COLOURS[1],
        ls="--",
        label="all, on the global model",
    )
    plot(axes, results, cell, "accuracy", color=COLOURS[0], label="all, on their group's")
    axes.set_ylim(0, 1)
    finish(axes, percent=True, legend=True)


def _losses_and_distances(results: Results) -> Any:
    """For each setting the training loss of every method, and below it each group's distance to the
    global model."""
    from fedkin.reporting.method_styles import method_styles
    from fedkin.reporting.style import new_figure, prepare

    settings = [*SETTINGS_3, *SETTINGS_4]
    figure = new_figure(4.6 * len(settings), 6.6)
    for setting, (above, below) in zip(
        settings, figure.subplots(2, len(settings), squeeze=False).T, strict=True
    ):
        cells = [cell for cell in (*FIGURE_3, *FIGURE_4) if cell.setting == setting]
        prepare(above, setting.row, "training loss of the cohort, last local epoch")
        prepare(below, setting.row, "distance of each group's model to their mean, first seed")
        styles = method_styles(cell.column for cell in cells)
        for cell in cells:
            colour, dash = styles[cell.column].line
            plot(above, results, cell, "train_loss", color=colour, ls=dash, label=cell.column)
            plot_clusters(
                below,
                results,
                cell,
                "discrepancy_to_global",
                color=colour,
                ls=dash,
                label=cell.column,
            )
        for axes in (above, below):
            axes.set_ylim(bottom=0)
            finish(axes, legend=True)
    return figure


def _pairs(results: Results) -> Any:
    """Fig. 5: distances of pairs of clients in M over those in M', and a line through all pairs."""
    from fedkin.reporting.style import COLOURS, new_figure, prepare

    figure = new_figure(11.0, 6.6)
    panels = figure.subplots(2, 3).ravel()
    for axes in panels[len(FIGURE_5) :]:
        axes.set_axis_off()
    for axes, cell in zip(panels, FIGURE_5, strict=False):
        place = cell.table, cell.setting.row, cell.setting.seeds[0]
        runs = [r for r in results if (r["table"], r["row"], r["seed"]) == place]
        prepare(
            axes,
            cell.setting.row,
            f"correlation {runs[0]['correlation']:.3f}" if runs else "not run",
        )
        for run in runs:
            full, ternary = np.array(run["pairs"])
            axes.scatter(full, ternary, s=6, color=COLOURS[0], alpha=0.6, lw=0)
            ends = np.array([full.min(), full.max()])
            axes.plot(ends, run["offset"] + run["slope"] * ends, color=COLOURS[1], lw=1.4)
        axes.set_xlabel("distance in M'")
        axes.set_ylabel("distance in M")
    return figure
