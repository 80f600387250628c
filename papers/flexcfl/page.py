"""Parts of FlexCFL's page, docs/results-flexcfl.md."""

from __future__ import annotations

from statistics import mean

from papers.accuracy_numbers import best_accuracies
from papers.flexcfl import cnn_recipes
from papers.flexcfl.communication import bytes_of, gain_of_ifca_mig, relative_bytes
from papers.flexcfl.recipes import COUNTED, FIGURE_6, TABLE_III, TABLE_IV
from papers.reproduction_marks import ComparedNumber, Results, values_of
from papers.tables_markdown import markdown

CELLS_III = [*TABLE_III, *cnn_recipes.TABLE_III]
CELLS_IV = [*TABLE_IV, *cnn_recipes.TABLE_IV]


def numbers_iv(results: Results) -> list[ComparedNumber]:
    """Table IV's accuracies, and a gain that the text prints."""
    return [*best_accuracies(results, CELLS_IV), gain_of_ifca_mig(results)]


def detected(results: Results) -> str:
    """The share of swaps that clients detected with the label-blind and the label-aware test, in
    percent, and the number of migrations: means over the runs."""
    rows = [
        cell.setting.row
        for cell in TABLE_IV
        if cell.setting.row.endswith("swap all") and not cell.setting.deviation
    ]
    lines = []
    for row in dict.fromkeys(rows):
        for column in ("FlexCFL", "FlexCFL, label-aware", "IFCA-MIG"):
            shares = [
                _mean(results, row, column, figure, factor=100, form=".1f")
                for figure in ("moves_noticed", "shift_recall", "shift_precision")
            ]
            migrations = _mean(results, row, column, "migrations", factor=1, form=",.0f")
            lines.append([row, column, *shares, migrations])
    head = ["", "method", "detected (%)", "recall at the end (%)", "precision (%)", "migrations"]
    return markdown(head, lines)


def _mean(results: Results, row: str, column: str, figure: str, factor: int, form: str) -> str:
    """The mean of a figure of Table IV over the runs."""
    values = values_of(results=results, table="IV", row=row, column=column, figure=figure)
    return f"{factor * mean(values):{form}}" if values else "not run"


def communication(results: Results) -> str:
    """Bytes of every method over FedAvg's: between server and clients, with the exchange between
    servers, and with the first model of a newcomer as a download."""
    printed = {(n.row, n.column): n for n in relative_bytes(results)}
    lines = []
    for row in dict.fromkeys(c.setting.row for c in FIGURE_6):
        base = bytes_of(results, row, "FedAvg")
        for column in COUNTED:
            ours = bytes_of(results, row, column)
            number = printed[row, column]
            lines.append(
                [
                    row,
                    column,
                    _times(ours.clients, base.clients),
                    _times(ours.servers, base.servers),
                    _times(ours.first_models, base.first_models),
                    f"{number.published} {number.symbol}".strip(),
                ]
            )
    head = ["", "method", "with clients", "and between servers", "and first models", "paper"]
    return markdown(head, lines)


def _times(ours: float, base: float) -> str:
    return f"{ours / base:.4g}" if base and ours else "not run"
