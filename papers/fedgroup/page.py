"""Parts of FedGroup's page, docs/results-fedgroup.md."""

from __future__ import annotations

from statistics import mean

from papers import femnist_label_swaps
from papers.fedgroup import sent140_recipes
from papers.fedgroup.figure_recipes import FIGURE_5
from papers.fedgroup.recipes import (
    FEMNIST,
    FEMNIST_BY_WRITER,
    FEMNIST_FIVE,
    FEMNIST_MLP,
    FEMNIST_MLP_OWN,
    FEMNIST_OWN,
    TABLE_I_PUBLISHED,
    TABLE_III,
)
from papers.recipe import Setting
from papers.reproduction_marks import Results, values_of
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


READINGS: dict[Setting, str] = {
    FEMNIST: "three labels a client, shared images (the row of Table III)",
    FEMNIST_FIVE: "five labels a client, shared images",
    FEMNIST_BY_WRITER: "the same, images in the order of the writers",
    FEMNIST_OWN: "five labels a client, no image twice",
    FEMNIST_MLP: "three labels a client, shared images (the row of Table III)",
    FEMNIST_MLP_OWN: "five labels a client, no image twice",
}
COMPARED = ("FedAvg", "FedProx", "FedGroup")


def readings(results: Results) -> str:
    """FedGroup's gain over the better baseline by the reading of FEMNIST."""
    printed = {cell.column: cell.published for cell in TABLE_III if cell.setting == FEMNIST}
    printed_mlp = {cell.column: cell.published for cell in TABLE_III if cell.setting == FEMNIST_MLP}
    lines = []
    for setting, words in READINGS.items():
        runs = {
            name: values_of(
                results=results, table="III", row=setting.row, column=name, figure="best"
            )
            for name in COMPARED
        }
        if not all(runs.values()):
            continue
        best = {name: 100 * mean(values) for name, values in runs.items()}
        gain = best["FedGroup"] - max(best["FedAvg"], best["FedProx"])
        model = "MLP" if setting.model == "mlp" else "MCLR"
        of_paper = printed_mlp if model == "MLP" else printed
        theirs = (of_paper["FedGroup"] or 0) - max(
            of_paper["FedAvg"] or 0, of_paper["FedProx"] or 0
        )
        accuracies = [f"{best[name]:.1f}" for name in COMPARED]
        seeds = str(min(map(len, runs.values())))
        lines.append([model, words, *accuracies, f"{gain:+.1f}", f"{theirs:+.1f}", seeds])
    head = ["", "reading", *COMPARED, "gain", "printed gain", "seeds"]
    return markdown(head, lines) if lines else "not run"


# Parts of the page by their names in its text.
PARTS = {
    "fedgroup-readings": readings,
    "fedgroup-labels": labels,
    "fedgroup-linearity": linearity,
}
