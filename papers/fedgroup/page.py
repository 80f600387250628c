"""Parts of FedGroup's page, docs/results-fedgroup.md."""

from __future__ import annotations

from statistics import mean

from papers import femnist_label_swaps
from papers.fedgroup import sent140_recipes
from papers.fedgroup.figure_recipes import FIGURE_5
from papers.fedgroup.recipes import TABLE_I_PUBLISHED, TABLE_III
from papers.reproduction_marks import Results
from papers.tables_markdown import markdown

CELLS_III = [*TABLE_III, *sent140_recipes.CELLS]
PUBLISHED_I = {str(classes): numbers for classes, numbers in TABLE_I_PUBLISHED.items()}


def labels(results: Results) -> str:
    """The evidence that the authors' file has three labels a client."""
    swaps = femnist_label_swaps.swaps()
    own_labels = femnist_label_swaps.own_labels(swaps)
    in_a_row = femnist_label_swaps.in_a_row(own_labels, 3)
    all_three = sum(len(of_client) == 3 for of_client in own_labels.values())
    return (
        f"FlexCFL's authors published the log of a run under swap part ({len(swaps):,} swaps). In "
        f"it {in_a_row} of {len(own_labels)} clients give away no original label other than u, "
        f"u + 1 and u + 2, and {all_three} give away all three."
    )


def linearity(results: Results) -> str:
    """R^2 of a line through the distances of all pairs of clients (Fig. 5): the squared
    correlation, mean over the seeds, lowest and highest."""
    lines = []
    for cell in FIGURE_5:
        squares = [
            run["correlation"] ** 2
            for run in results
            if (run["table"], run["row"], run["column"])
            == (cell.table, cell.setting.row, cell.column)
        ]
        if squares:
            ends = f"{min(squares):.2f} to {max(squares):.2f}"
            lines.append([cell.setting.row, f"{mean(squares):.2f}", ends, str(len(squares))])
    return markdown(["", "R²", "over the seeds", "seeds"], lines) if lines else "not run"


# Parts of the page by their names in its text.
PARTS = {"fedgroup-labels": labels, "fedgroup-linearity": linearity}
