"""Fig. 1 of FedGroup and of FlexCFL: accuracy and discrepancy of FedAvg, by the number of classes
that a client has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from papers.curves import finish, plot
from papers.recipe import Cell
from papers.reproduction_marks import Results

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class ClassesFigure:
    """The figure of one paper.

    ``quantity``: the key of its discrepancy in a run, FedGroup's sum over the cohort (eq. 4) or
    FlexCFL's mean (eq. 3); ``label``: that in words.
    """

    paper: str
    cells: Sequence[Cell]
    quantity: str
    label: str

    @property
    def picture(self) -> str:
        """The path in the folder of documents."""
        return f"images/{self.paper}-figure1.svg"

    def draw(self, results: Results, docs: Path) -> None:
        """Write it: a panel for each number of classes, accuracy on the left axis and discrepancy
        on the right."""
        import matplotlib

        from fedkin.reporting.style import STYLE, new_figure, write

        with matplotlib.rc_context(STYLE):
            figure = new_figure(4.2 * len(self.cells), 3.6)
            panels = figure.subplots(1, len(self.cells), squeeze=False)[0]
            right = [
                self._panel(axes, results, cell)
                for axes, cell in zip(panels, self.cells, strict=True)
            ]
            highest = max(axes.get_ylim()[1] for axes in right)
            for axes in right:
                axes.set_ylim(0, highest)  # one scale: the paper compares the panels
            write(figure, docs / self.picture)

    def _panel(self, axes: Any, results: Results, cell: Cell) -> Any:
        """Draw it; the right axis."""
        from fedkin.reporting.style import COLOURS, prepare

        prepare(
            axes,
            f"classes per client: {cell.setting.row}",
            "accuracy; dotted, right axis: discrepancy",
        )
        right = axes.twinx()
        plot(axes, results, cell, "accuracy", color=COLOURS[0])
        plot(right, results, cell, self.quantity, color=COLOURS[1], ls=":", lw=1.2)
        right.margins(x=0)
        axes.set_ylim(0, 1)
        finish(axes, percent=True)
        right.set_visible(bool(axes.lines))
        return right


def cells_of(table_i: Sequence[Cell]) -> list[Cell]:
    """The runs of the figure: the runs of Table I, with their curves.

    Args:
        table_i: its cells of FedAvg.
    """
    return [
        replace(cell, table="Fig. 1", setting=replace(cell.setting, seeds=SEEDS), published=None)
        for cell in table_i
    ]
