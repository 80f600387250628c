"""Parts of FlexCFL's page, docs/results-flexcfl.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean, stdev

from papers.accuracy_numbers import best_accuracies
from papers.flexcfl import cnn_recipes, hypothesis_recipes
from papers.flexcfl.communication import bytes_of, gain_of_ifca_mig, relative_bytes
from papers.flexcfl.recipes import COUNTED, FIGURE_6, SHIFTS, TABLE_III, TABLE_IV
from papers.number_table import number_table
from papers.recipe import Cell
from papers.reproduction_marks import ComparedNumber, Results, figures_by_seed, values_of
from papers.tables_markdown import markdown

CELLS_III = [*TABLE_III, *cnn_recipes.TABLE_III]
CELLS_IV = [*TABLE_IV, *cnn_recipes.TABLE_IV]
LEAST_SEEDS = 3  # for a verdict on a hypothesis


def numbers_iv(results: Results) -> list[ComparedNumber]:
    """Table IV's accuracies, and a gain that the text prints."""
    return [*best_accuracies(results, CELLS_IV), gain_of_ifca_mig(results)]


def of_shift(kind: str, results: Results) -> str:
    """Table IV under one kind of shift, which its rows do not repeat."""
    ending = f": {kind}"
    return number_table(
        [
            replace(number, row=number.row.removesuffix(ending))
            for number in numbers_iv(results)
            if number.row.endswith(ending)
        ]
    )


OF_SHIFTS: dict[str, Callable[[Results], str]] = {
    f"flexcfl-{kind.replace(' ', '-')}": partial(of_shift, kind) for kind in SHIFTS
}


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
        for column in ("FlexCFL", "FlexCFL, label-aware"):
            shares = [
                _mean(results, row, column, figure, factor=100, form=".1f")
                for figure in ("moves_noticed", "shift_recall", "shift_precision")
            ]
            migrations = _mean(results, row, column, "migrations", factor=1, form=",.0f")
            name = row.removesuffix(": swap all") if column == "FlexCFL" else ""
            lines.append([name, column, *shares, migrations])
    head = ["", "method", "detected (%)", "recall at the end (%)", "precision (%)", "migrations"]
    return markdown(head, lines)


def _mean(results: Results, row: str, column: str, figure: str, factor: int, form: str) -> str:
    """The mean of a figure of Table IV over the runs."""
    values = values_of(results=results, table="IV", row=row, column=column, figure=figure)
    return f"{factor * mean(values):{form}}" if values else "not run"


def hypotheses(results: Results) -> str:
    """Each number under a hypothesis, next to the number of the main table: means over the seeds
    that both have. A sentence says how many have no run."""
    lines = []
    before = ("", "")
    for hypothesis, cells in hypothesis_recipes.BY_HYPOTHESIS.items():
        for cell in cells:
            row = cell.setting.row
            pairs = _pairs(results, cell)
            if not pairs or cell.published is None:
                continue
            names = ["" if hypothesis == before[0] else hypothesis]
            names.append("" if (hypothesis, row) == before else row)
            before = (hypothesis, row)
            ours = [f"{mean(of_cell):.1f}" for of_cell in zip(*pairs, strict=True)]
            verdict = change(cell.published, pairs)
            numbers = [f"{cell.published:g}", *ours, str(len(pairs)), verdict]
            lines.append([*names, cell.variant_of, *numbers])
    head = ["hypothesis", "", "", "paper", "main table", "under it", "seeds", "verdict"]
    without_run = len(hypothesis_recipes.CELLS) - len(lines)
    parts = [markdown(head, lines)] if lines else []
    parts += [f"Not run: {without_run} numbers of this table."] if without_run else []
    return "\n\n".join(parts)


def _pairs(results: Results, tested: Cell) -> list[tuple[float, float]]:
    """The best accuracy of each seed without and with a hypothesis, in percent, of the seeds that
    both have."""
    main = hypothesis_recipes.MAIN[tested.setting.row, tested.variant_of]
    without, under = (
        figures_by_seed(results, cell.table, cell.setting.row, cell.column, figure="best")
        for cell in (main, tested)
    )
    shared = sorted(without.keys() & under.keys())
    return [(100 * without[seed], 100 * under[seed]) for seed in shared]


def change(printed: float, pairs: Sequence[tuple[float, float]]) -> str:
    """Whether a hypothesis brings our mean nearer to a printed number: by more than the standard
    deviation, over the seeds, of the difference that the hypothesis makes.
    Fewer than ``LEAST_SEEDS`` seeds are too few.

    Args:
        printed: the paper's number.
        pairs: ours of each seed, without and with the hypothesis.
    """
    if len(pairs) < LEAST_SEEDS:
        return "too few"
    without = abs(mean(a for a, _ in pairs) - printed)
    under = abs(mean(b for _, b in pairs) - printed)
    spread = stdev(b - a for a, b in pairs)
    if abs(without - under) <= spread:
        return "same"
    return "nearer" if under < without else "farther"


def communication(results: Results) -> str:
    """Bytes of every method over FedAvg's: between server and clients, with the exchange between
    servers, and with the first model of a newcomer as a download."""
    printed = {(n.row, n.column): n for n in relative_bytes(results)}
    lines = []
    for row in dict.fromkeys(c.setting.row for c in FIGURE_6):
        base = bytes_of(results, row, "FedAvg")
        others = [column for column in COUNTED if column != "FedAvg"]
        for column in others:
            ours = bytes_of(results, row, column)
            number = printed[row, column]
            lines.append(
                [
                    row if column == others[0] else "",
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
