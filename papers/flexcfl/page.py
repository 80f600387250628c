"""FlexCFL's page, docs/results-flexcfl.md."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from papers.accuracy_numbers import best_accuracies
from papers.flexcfl import cnn_recipes, weightings
from papers.flexcfl.communication import bytes_of, gain_of_ifca_mig, relative_bytes
from papers.flexcfl.figures import NO_SHIFT, SHIFTED
from papers.flexcfl.recipes import (
    COUNTED,
    FIGURE_6,
    PRINTED_6,
    TABLE_I_PUBLISHED,
    TABLE_III,
    TABLE_IV,
    WITH_L2,
)
from papers.recipe import Cell
from papers.reproduction_marks import ComparedNumber
from papers.tables_markdown import (
    Results,
    accuracies,
    by_classes,
    markdown,
    mean_and_range,
    percent,
    share,
    values_of,
)

CELLS_III = [*TABLE_III, *cnn_recipes.TABLE_III]
CELLS_IV = [*TABLE_IV, *cnn_recipes.TABLE_IV]


def numbers_iv(results: Results) -> list[ComparedNumber]:
    """Table IV's accuracies, and a gain that the text prints."""
    return [*best_accuracies(results, CELLS_IV), gain_of_ifca_mig(results)]


def table_iii(results: Results) -> str:
    """No shift: best accuracies and the paper's, and the last ones."""
    printed = [c for c in CELLS_III if not c.setting.deviation and not c.variant_of]
    return "\n\n".join(
        [
            "## Table III, no shift: best accuracy of a complete round (%)",
            f"Without the shortened runs, {share(results, printed)} The runs have 300 rounds. "
            "Rounds do not count while some client has no cluster.",
            accuracies(results, CELLS_III, "best"),
            "## The same runs: accuracy in the last round (%)",
            accuracies(results, CELLS_III, "final", with_paper=False),
            f"![Fig. 3: accuracy over the rounds without a shift]({NO_SHIFT})",
        ]
    )


def table_iv(results: Results) -> str:
    """Shifting data: best accuracies and the last ones, the curves, and detected shifts."""
    printed = [c for c in CELLS_IV if not c.setting.deviation and not c.variant_of]
    return "\n\n".join(
        [
            "## Table IV, shifting data: best accuracy of a complete round (%)",
            share(results, printed),
            accuracies(results, CELLS_IV, "best"),
            printed_alike(printed),
            "## The same runs: accuracy in the last round (%)",
            accuracies(results, CELLS_IV, "final", with_paper=False),
            f"![Fig. 4: accuracy over the rounds, MNIST-MCLR, three kinds of shift]({SHIFTED})",
            "## Shifts detected (swap all)",
            "| column | meaning |\n| --- | --- |\n"
            "| data shifts detected | detections of clients with shifted data, divided by all "
            "shifts of clients that have a cluster |\n"
            "| recall at the end | the same, but several shifts of a client before a detection "
            "count as one: an overlooked shift counts as detected with the client's next one |\n"
            "| precision | share of detections that were caused by a shift |",
            detected(results),
            "## Which mean gives the published numbers of IFCA and FeSEM",
            weightings.ABOUT,
            weightings.table(results),
        ]
    )


def printed_alike(cells: Iterable[Cell]) -> str:
    """The rows of different data, or models, that the paper gives the same numbers of a method
    under several shifts.

    Args:
        cells: of the paper's rows, named after data and shift.
    """
    numbers: dict[tuple[str, str], dict[str, float]] = {}
    for cell in cells:
        row, _, kind = cell.setting.row.partition(": ")
        if cell.published is not None:
            numbers.setdefault((cell.column, row), {})[kind] = cell.published
    lines = []
    for ((column, a), of_a), ((other, b), of_b) in combinations(numbers.items(), 2):
        equal = {kind: value for kind, value in of_a.items() if of_b.get(kind) == value}
        if column == other and len(equal) > 1:
            listed = ", ".join(f"{value} ({kind})" for kind, value in equal.items())
            lines.append(
                f"The paper prints the same numbers of {column} for {a} and for {b}: {listed}."
            )
    end = "No other two rows have more than one number of a method in common."
    return " ".join([*lines, end]) if lines else ""


def figure_6(results: Results) -> str:
    """Bytes of every method over FedAvg's."""
    return (
        f"## Fig. 6: communication of 300 rounds, "
        f"as a multiple of FedAvg's\n\n{communication(results)}"
    )


def table_i(results: Results) -> str:
    """FedAvg's clients with more and more classes."""
    heading = "## Table I: FedAvg on MNIST-MCLR by classes per client"
    with_l2 = by_classes(results, TABLE_I_PUBLISHED, "distance", WITH_L2)
    return "\n\n".join(
        [
            heading,
            "Without the L2 term that the code has elsewhere. The first printed distance, 0.767, "
            "is FedGroup's 15.33 divided by the 20 clients of a cohort.",
            by_classes(results, TABLE_I_PUBLISHED, "distance"),
            "With the L2 term:",
            with_l2,
        ]
    )


def detected(results: Results) -> str:
    """The share of swaps that clients detected with the label-blind and the label-aware test."""
    lines = []
    for row in dict.fromkeys(c.setting.row for c in TABLE_IV if c.setting.row.endswith("swap all")):
        for column in ("FlexCFL", "FlexCFL, label-aware", "IFCA-MIG"):
            names = ("moves_noticed", "shift_recall", "shift_precision")
            shares = [
                percent(values_of(results=results, table="IV", row=row, column=column, figure=name))
                for name in names
            ]
            lines.append(
                [
                    row,
                    column,
                    *shares,
                    mean_and_range(
                        values_of(
                            results=results, table="IV", row=row, column=column, figure="migrations"
                        )
                    ),
                ]
            )
    head = [
        "",
        "method",
        "data shifts detected (%)",
        "recall at the end (%)",
        "precision (%)",
        "migrations",
    ]
    return markdown(head, lines)


def communication(results: Results) -> str:
    """Bytes of every method over FedAvg's: between server and clients, and with the exchange
    between servers."""
    marks = {(n.row, n.column): n.symbol for n in relative_bytes(results)}
    lines = []
    for row in dict.fromkeys(c.setting.row for c in FIGURE_6):
        base = bytes_of(results, row, "FedAvg")
        for column in COUNTED:
            ours = bytes_of(results, row, column)
            printed = PRINTED_6.get((row, column))
            shown = [
                f"**{b / a:.4g}**" if a else "not run" for a, b in zip(base, ours, strict=True)
            ]
            lines.append(
                [
                    row,
                    column,
                    *shown,
                    f"*{printed}* {marks[row, column]}".rstrip() if printed else "",
                ]
            )
    return markdown(["", "method", "with clients", "and between servers", "paper"], lines)
