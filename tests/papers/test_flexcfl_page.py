"""FlexCFL's part of the page: which printed numbers are alike."""

from __future__ import annotations

from dataclasses import replace

from fedkin.methods import FedAvg
from papers.flexcfl.page import printed_alike, table_i
from papers.flexcfl.recipes import MNIST, TABLE_IV, WITH_L2
from papers.recipe import Cell


def cells(data: str, numbers: dict[str, float | None], column: str = "FedAvg") -> list[Cell]:
    """A row's printed numbers of a method, by the kind of shift."""
    return [
        Cell(
            table="IV",
            setting=replace(MNIST, row=f"{data}: {kind}"),
            column=column,
            method=lambda m: FedAvg(),
            published=value,
        )
        for kind, value in numbers.items()
    ]


def test_two_equal_numbers_of_a_method_are_named_with_their_rows() -> None:
    text = printed_alike(
        [
            *cells("A", {"all": 1.5, "part": 2.5, "slow": 3.5}),
            *cells("B", {"all": 9, "part": 2.5, "slow": 3.5}),
        ]
    )
    assert text.startswith(
        "The paper prints the same numbers of FedAvg for A and for B: 2.5 (part), 3.5 (slow)."
    )


def test_one_number_another_shift_another_method_and_none_printed_are_nothing() -> None:
    row = cells("A", {"all": 1.5, "part": 2.5, "slow": None})
    assert printed_alike([*row, *cells("B", {"all": 1.5, "part": 2, "slow": None})]) == ""
    assert printed_alike([*row, *cells("B", {"all": 2.5, "part": 1.5})]) == ""
    assert printed_alike([*row, *cells("B", {"all": 1.5, "part": 2.5}, "IFCA")]) == ""


def test_the_paper_has_one_such_pair_of_rows() -> None:
    text = printed_alike(c for c in TABLE_IV if not c.setting.deviation and not c.variant_of)
    assert (
        text.count("The paper prints") == 1 and "FlexCFL, eta_g 5" in text and "MNIST-MCLR" in text
    )
    assert "90.2 (swap part), 89.1 (incremental)" in text


def test_table_i_is_that_without_l2_and_that_with_it_stands_below() -> None:
    best = {"FedAvg": 0.861, WITH_L2: 0.502}
    runs = [
        {"table": "I", "row": "1", "column": name, "seed": 0, "best": value}
        for name, value in best.items()
    ]
    without, with_l2 = table_i(runs).split("With the L2 term:")
    assert "**86.1**" in without and "**50.2**" not in without
    assert "**50.2**" in with_l2 and "**86.1**" not in with_l2
