"""Why a number differs: each cause by hand, their order, and how near is near."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean
from typing import Any

import pytest

from papers.catalogue import Table, tables
from papers.causes import Evidence, explained, prediction_interval
from papers.flexcfl.recipes import MNIST
from papers.reproduction_marks import Cause, ComparedNumber, Mark, compare_number
from papers.results_page import differences

PRINTED = 90.0
AUTHORS = Evidence(authors={("row", "FedAvg"): (85.0, "their code, 100 rounds")})


def number(
    *runs: float, row: str = "row", column: str = "FedAvg", **options: Any
) -> ComparedNumber:
    """A published 90, compared with the mean of these runs."""
    options = {"seeds": len(runs), "runs": runs, **options}
    return compare_number(row, column, PRINTED, mean(runs) if runs else None, **options)


def variant(*runs: float, of: str = "FedAvg", row: str = "row") -> ComparedNumber:
    return number(*runs, row=row, column="as coded", variant_of=of, deviation=f"a variant of {of}")


def reading(*runs: float, column: str = "FedAvg", row: str = "other reading") -> ComparedNumber:
    return number(*runs, row=row, column=column, deviation="another reading")


def first(*numbers: ComparedNumber, evidence: Evidence | None = None) -> ComparedNumber:
    """The first of the numbers, explained together with the others."""
    return explained(numbers, evidence or Evidence())[0]


READ = Evidence(readings={"row": ("other reading", "third reading")})
# mean 84, s = 2: with t = 2.776 and sqrt(1.2) one more of five runs is within 84 +- 6.08 in 19 of
# 20 cases
FIVE_RUNS = (82.0, 82.0, 84.0, 86.0, 86.0)
# mean 83, s = 2: within 83 +- 6.08, which does not hold 90
LOWER_RUNS = tuple(run - 1 for run in FIVE_RUNS)


def test_the_interval_for_one_more_run() -> None:
    """By hand, with Student's t of 4 degrees of freedom from a table; the interval of the mean
    would be +- 2.48."""
    assert prediction_interval(FIVE_RUNS) == pytest.approx((84 - 6.083, 84 + 6.083), abs=0.002)
    assert prediction_interval([run + 12 for run in FIVE_RUNS])[1] == 100  # no accuracy is beyond


def test_the_spread_of_our_runs() -> None:
    found = first(number(*FIVE_RUNS))
    assert (found.mark, found.cause) == (Mark.NOT_CONTRADICTED, Cause.SPREAD)
    assert found.shown_by == "one more run: 77.9 to 90.1 (5 runs)" and "no run shows" in found.mark
    # 76.9 to 89.1, although 1.5 points would reach 90.
    assert first(number(*LOWER_RUNS)).cause == Cause.UNKNOWN


def test_fewer_than_five_runs_show_no_spread() -> None:
    """Nor do runs whose spread is not known, as of seeds that share one draw."""
    assert first(number(80.0, 84.0, 88.0, 92.0)).cause == Cause.UNKNOWN
    assert first(replace(number(*FIVE_RUNS), runs=())).cause == Cause.UNKNOWN


def test_more_runs_narrow_the_interval() -> None:
    """A range would only grow with more runs."""
    assert first(number(*FIVE_RUNS)).cause == Cause.SPREAD
    assert first(number(*FIVE_RUNS * 4)).cause == Cause.UNKNOWN  # 84 +- 3.9


def test_the_authors_code_as_a_cause() -> None:
    found = first(number(85.0), variant(91.0, 92.0))
    assert (found.mark, found.cause, found.shown_by) == (
        Mark.EXPLAINED,
        Cause.CODE,
        "as coded: 91.5 (2 runs)",
    )
    assert found.source == variant(91.0, 92.0)
    # It is counted as different, with a cause.
    assert found.difference == pytest.approx(-5) and found.counts


def with_a_column_that_the_variant_explains(ours: ComparedNumber, *runs: float) -> ComparedNumber:
    """The number, and a variant with these runs. The variant explains the column, as it gives two
    other rows."""
    others = [number(70.0, row=row) for row in ("second", "third")]
    given = [variant(90.0, row=row) for row in ("second", "third")]
    return explained([ours, *others, variant(*runs), *given], Evidence())[0]


def test_the_spread_of_the_variant_that_explains_the_column() -> None:
    """Its mean of 84 is not within 1.5 points of 90, which its interval, 77.9 to 90.1, holds: that
    shows no cause."""
    found = with_a_column_that_the_variant_explains(number(70.0), *FIVE_RUNS)
    assert (found.mark, found.cause) == (Mark.NOT_CONTRADICTED, Cause.SPREAD)
    shown_by = "as coded, one more run: 77.9 to 90.1 (5 runs); tried: as coded: 84.0 (5 runs)"
    assert found.shown_by == shown_by and found.source == variant(*FIVE_RUNS)
    assert with_a_column_that_the_variant_explains(number(70.0), *LOWER_RUNS).cause == Cause.UNKNOWN
    assert (
        with_a_column_that_the_variant_explains(number(70.0), *FIVE_RUNS[:4]).cause == Cause.UNKNOWN
    )
    assert first(number(70.0), variant(*FIVE_RUNS)).cause == Cause.UNKNOWN  # it explains no column


def test_our_own_spread_counts_only_where_no_variant_contradicts_it() -> None:
    """The authors had one code: where the variant that explains the column has enough runs, they
    decide."""
    ours = number(*FIVE_RUNS)
    assert with_a_column_that_the_variant_explains(ours, *LOWER_RUNS).cause == Cause.UNKNOWN
    few = with_a_column_that_the_variant_explains(ours, *LOWER_RUNS[:4])
    assert (few.cause, few.shown_by) == (
        Cause.SPREAD,
        "one more run: 77.9 to 90.1 (5 runs); tried: as coded: 82.5 (4 runs)",
    )


def test_one_variant_explains_a_column_that_which_gives_most_of_it() -> None:
    """The authors had one code: the other variant's number in another row shows nothing."""
    rows = [number(85.0, row=row) for row in ("row", "second", "third")]
    slip = [replace(variant(90.0, row=row), column="slip") for row in ("row", "second")]
    weights = [replace(variant(90.0, row=row), column="weights") for row in ("third",)]
    found = explained([*rows, *weights, *slip], Evidence())[:3]
    given = "slip: 90.0 (1 run)"
    assert [n.shown_by for n in found] == [given, given, "tried: weights: 90.0 (1 run)"]
    assert found[2].cause == Cause.UNKNOWN


def test_rows_that_are_not_counted_do_not_choose_the_variant() -> None:
    rows = [
        number(85.0, row="row"),
        *(number(85.0, row=row, deviation="other data") for row in ("second", "third")),
    ]
    slip = [replace(variant(90.0, row=row), column="slip") for row in ("second", "third")]
    weights = [replace(variant(90.0, row="row"), column="weights")]
    assert explained([*rows, *slip, *weights], Evidence())[0].shown_by == "weights: 90.0 (1 run)"


@pytest.mark.parametrize("given", [1, 2, 3])
def test_a_variant_that_gives_no_more_of_its_column_than_ours_shows_nothing(given: int) -> None:
    """Ours gives two of five rows: a variant that misses these has to give three others."""
    rows = [
        number(*runs, row=f"{i}")
        for i, runs in enumerate([(90.0,), (90.0,), (85.0,), (85.0,), (85.0,)])
    ]
    slip = [variant(90.0 if 2 <= i < 2 + given else 80.0, row=f"{i}") for i in range(5)]
    expected = Cause.CODE if given == 3 else Cause.UNKNOWN
    assert explained([*rows, *slip], Evidence())[2].cause == expected
    # It was not run where ours agrees.
    assert explained([*rows, *slip[2:]], Evidence())[2].cause == Cause.CODE


@pytest.mark.parametrize("given", [1, 2])
def test_a_reading_that_gives_no_more_of_its_row_than_ours_shows_nothing(given: int) -> None:
    columns = ("FedAvg", "FedProx", "IFCA")
    cells = [number(85.0 if i < 2 else 90.0, column=column) for i, column in enumerate(columns)]
    other = [
        reading(90.0 if i < given else 80.0, column=column) for i, column in enumerate(columns)
    ]
    expected = Cause.DATA if given == 2 else Cause.UNKNOWN
    assert explained([*cells, *other], READ)[0].cause == expected


@pytest.mark.parametrize(
    "other", [variant(90.0, of="IFCA"), variant(90.0, row="another"), variant()]
)
def test_a_variant_of_another_cell_or_without_a_run_shows_nothing(other: ComparedNumber) -> None:
    assert first(number(85.0), other).cause == Cause.UNKNOWN


def test_another_reading_of_the_data() -> None:
    found = first(number(85.0), reading(91.0, 92.0), evidence=READ)
    assert (found.mark, found.cause, found.shown_by) == (
        Mark.EXPLAINED,
        Cause.DATA,
        "other reading: 91.5 (2 runs)",
    )


def test_one_reading_explains_a_row_that_which_gives_most_of_it() -> None:
    """The authors had one file."""
    cells = [number(85.0, column=column) for column in ("FedAvg", "FedProx", "IFCA")]
    other = [reading(90.0, column=column) for column in ("FedAvg", "FedProx")]
    third = [reading(90.0, column="IFCA", row="third reading")]
    found = explained([*cells, *third, *other], READ)[:3]
    assert [n.cause for n in found] == [Cause.DATA, Cause.DATA, Cause.UNKNOWN]


@pytest.mark.parametrize(
    "other",
    [
        reading(90.0, column="FedProx"),  # of another column
        reading(90.0, row="a fourth reading"),  # not named as a reading of this row
        reading(95.0),  # the published number lies between, and neither gives it
        reading(),  # not run
    ],
)
def test_readings_that_show_nothing(other: ComparedNumber) -> None:
    assert first(number(85.0, 86.0), other, evidence=READ).cause == Cause.UNKNOWN


def test_the_authors_own_code() -> None:
    found = first(number(84.0, 85.0), evidence=AUTHORS)
    assert (found.mark, found.cause) == (Mark.EXPLAINED, Cause.AUTHORS)
    assert found.shown_by == "85.0 (their code, 100 rounds)"
    assert first(number(82.0, 82.0), evidence=AUTHORS).cause == Cause.UNKNOWN  # theirs is not ours
    assert first(number(85.0, 85.0, column="IFCA"), evidence=AUTHORS).cause == Cause.UNKNOWN


def printed_twice(
    first_kind: float = 90.2, second_kind: float = 89.1, ours: float = 90.0
) -> list[ComparedNumber]:
    """A column of two rows under two shifts: the second row's numbers, which ours agree with, stand
    in the first."""
    cells = {
        "row: part": (90.2, 80.0),
        "row: whole": (89.1, 73.0),
        "other: part": (first_kind, ours),
    }
    cells["other: whole"] = (second_kind, 89.5)
    return [
        compare_number(row, "FlexCFL", p, v, seeds=1, runs=(v,)) for row, (p, v) in cells.items()
    ]


def test_the_authors_own_code_comes_before_a_copy() -> None:
    """Our number of the first row is 80, and so is their code's."""
    evidence = Evidence(authors={("row: part", "FlexCFL"): (80.5, "their code")})
    assert [n.cause for n in explained(printed_twice(), evidence)[:2]] == [
        Cause.AUTHORS,
        Cause.COPY,
    ]


def test_numbers_that_are_printed_in_two_rows() -> None:
    part, whole = explained(printed_twice(), Evidence())[:2]
    assert (part.mark, part.cause) == (
        Mark.NOT_CONTRADICTED,
        Cause.COPY,
    ) and whole.cause == Cause.COPY
    assert part.shown_by == "other: 90.0; the same under part and whole"


@pytest.mark.parametrize(
    "numbers",
    [
        printed_twice(second_kind=89.2),  # one number alone may be equal by chance
        printed_twice(ours=87.0),  # ours do not agree with the other row either
        [replace(n, column="IFCA") if n.row == "other: whole" else n for n in printed_twice()],
        [replace(n, row=n.row.replace("other: part", "other: all")) for n in printed_twice()],
    ],
)
def test_numbers_of_which_nothing_shows_a_copy(numbers: list[ComparedNumber]) -> None:
    assert explained(numbers, Evidence())[0].cause == Cause.UNKNOWN


def test_authors_code_that_gives_the_papers_number_too_shows_nothing() -> None:
    """Ours 88, theirs 89.3, printed 90: near both."""
    evidence = Evidence(authors={("row", "FedAvg"): (89.3, "their code")})
    assert first(number(88.0, 88.0), evidence=evidence).cause == Cause.UNKNOWN


def test_causes_are_looked_for_in_their_order() -> None:
    """All four are shown; then one after the other is taken away. The weakest, spread,
    comes last."""
    ours = number(*FIVE_RUNS)
    authors = {("row", "FedAvg"): (mean(FIVE_RUNS), "their code")}
    evidence = Evidence(READ.readings, authors)
    assert first(ours, variant(90.0), reading(90.0), evidence=evidence).cause == Cause.CODE
    assert first(ours, reading(90.0), evidence=evidence).cause == Cause.DATA
    assert first(ours, evidence=evidence).cause == Cause.AUTHORS
    assert first(ours).cause == Cause.SPREAD
    assert first(number(84.0)).cause == Cause.UNKNOWN


EDGES = [  # 1.5 points are near, a hundredth more is not
    ("code", [number(80.0), variant(91.5)], True),
    ("code", [number(80.0), variant(91.51)], False),
    ("code", [number(80.0), variant(88.5)], True),
    ("code", [number(80.0), variant(88.49)], False),
    ("data", [number(80.0), reading(88.5)], True),
    ("data", [number(80.0), reading(88.49)], False),
    ("authors", [number(86.5)], True),
    ("authors", [number(86.51)], False),
    ("authors", [number(83.5)], True),
    ("authors", [number(83.49)], False),
]


@pytest.mark.parametrize(("cause", "numbers", "shown"), EDGES)
def test_near_is_within_one_and_a_half_points(
    cause: str, numbers: list[ComparedNumber], shown: bool
) -> None:
    evidence = AUTHORS if cause == "authors" else READ
    assert first(*numbers, evidence=evidence).cause == (Cause(cause) if shown else Cause.UNKNOWN)


def test_a_number_that_is_near_enough_needs_no_cause() -> None:
    """At the edge too; the mean over the seeds counts, not the single runs."""
    for near in (number(91.5), number(88.5), number(84.0, 96.0)):
        found = first(near, variant(90.0), reading(90.0), evidence=READ)
        assert (found.mark, found.cause, found.shown_by) == (Mark.REPRODUCED, None, "")


WITHOUT_CAUSE = {
    "other data, or fewer rounds": number(80.0, 92.0, deviation="50 rounds"),
    "a variant": variant(80.0, 92.0),
    "another unit": compare_number(
        "row", "FedAvg", 14.0, 30.0, margin=5.0, unit="rounds", runs=(10.0, 50.0)
    ),
    "not run": number(),
    "no published number": compare_number("row", "FedAvg", None, 80.0, runs=(70.0, 90.0)),
}


@pytest.mark.parametrize("other", WITHOUT_CAUSE.values(), ids=WITHOUT_CAUSE)
def test_numbers_that_are_not_counted_get_no_cause(other: ComparedNumber) -> None:
    assert explained([other], AUTHORS) == [other] and other.cause is None


def test_an_unknown_cause_is_stated_and_the_number_stays() -> None:
    found = first(number(80.0))
    assert (found.mark, found.cause, found.shown_by) == (Mark.NOT_REPRODUCED, Cause.UNKNOWN, "")
    assert found.symbol == "≠ unknown" and first(number(*FIVE_RUNS)).symbol == "≠ spread"


def test_a_spread_names_the_tried_variants() -> None:
    # Nothing was.
    assert first(number(*FIVE_RUNS)).shown_by == "one more run: 77.9 to 90.1 (5 runs)"
    with_reading = first(number(*FIVE_RUNS), reading(83.0), evidence=READ)
    assert (
        with_reading.shown_by
        == "one more run: 77.9 to 90.1 (5 runs); tried: other reading: 83.0 (1 run)"
    )


def test_an_unknown_cause_names_the_tried_variants() -> None:
    """Variants and readings of this number alone, those that were run; and where one more run would
    be."""
    explained = first(
        number(80.0),
        variant(84.0, 85.0),
        variant(82.0, row="another"),
        variant(81.0, of="IFCA"),
        variant(),
        reading(83.0),
        reading(83.5, column="FedProx"),
        reading(82.5, row="a fourth reading"),
        evidence=READ,
    )
    tried = "tried: as coded: 84.5 (2 runs); other reading: 83.0 (1 run)"
    assert explained.shown_by == tried
    assert first(number(*LOWER_RUNS)).shown_by == "tried: one more run: 76.9 to 89.1 (5 runs)"
    on_draws = first(replace(number(*LOWER_RUNS), seeds=35))
    assert on_draws.shown_by == "tried: one more run: 76.9 to 89.1 (35 runs on 5 draws)"


def test_an_unknown_cause_shows_the_interval_that_decided() -> None:
    """Our interval holds 90. The interval of the variant that explains the column does not."""
    unknown = with_a_column_that_the_variant_explains(number(*FIVE_RUNS), *LOWER_RUNS)
    assert unknown.source == variant(*LOWER_RUNS)
    assert (
        unknown.shown_by
        == "tried: as coded: 83.0 (5 runs); as coded, one more run: 76.9 to 89.1 (5 runs)"
    )


# --- on the page


def test_every_number_that_differs_stands_below_its_table_with_its_cause_and_evidence() -> None:
    """FlexCFL's Table III prints 89.4, 90.9 and 94.2 for FedAvg, FedProx and IFCA on MNIST-MCLR."""
    accuracies: dict[str, tuple[float, ...]] = {
        "FedAvg": (0.894,),
        "FedProx": (0.95,),
        "IFCA": (0.962,),
        "IFCA, first client": (0.945,),
    }
    accuracies["RCC"] = (0.89, 0.894, 0.908, 0.92, 0.928)  # for 93.4; mean 90.8, s = 1.65
    results = [
        {
            "table": "III",
            "row": MNIST.row,
            "column": column,
            "seed": seed,
            "best": best,
            "seconds": 8.0,
        }
        for column, values in accuracies.items()
        for seed, best in enumerate(values)
    ]
    title, head, _, *lines = filter(
        None, differences(tables()["flexcfl-table3"][1], results).splitlines()
    )
    assert title == "### flexcfl-table3: what differs, and why" and "cause | shown by" in head
    assert lines == [
        "| MNIST-MCLR | FedProx | 95.00 | 90.9 | +4.1 | unknown | - |",
        "| MNIST-MCLR | IFCA | 96.20 | 94.2 | +2.0 | code | IFCA, first client: 94.5 (1 run) |",
        "| MNIST-MCLR | RCC | 90.80 | 93.4 | -2.6 | spread | one more run: 85.8 to 95.8 (5 runs) |",
    ]
    assert differences(tables()["flexcfl-table3"][1], results[:1]) == ""


# --- the evidence in the catalogue

WITH_EVIDENCE = [table for _, table in tables().values() if table.evidence != Evidence()]


@pytest.mark.parametrize("table", WITH_EVIDENCE, ids=lambda table: table.name)
def test_evidence_names_rows_and_columns_that_are_there(table: Table) -> None:
    """A row by another name would silently explain nothing."""
    rows = {number.row for number in table.compare([])}
    cells = {(number.row, number.column) for number in table.compare([])}
    readings = table.evidence.readings
    assert {*readings} <= rows
    assert {row for of_row in readings.values() for row in of_row} <= rows
    assert set(table.evidence.authors) <= cells
