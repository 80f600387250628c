"""Why a number differs: each cause by hand, their order, and how near is near."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean
from typing import Any

import pytest

from papers.catalogue import Table, tables
from papers.causes import Evidence, explained
from papers.flexcfl.recipes import MNIST
from papers.reproduction_marks import Cause, ComparedNumber, Mark, compare_number
from papers.results_page import differences

PRINTED = 90.0
AUTHORS = Evidence(authors={("row", "FedAvg"): (85.0, "their code, 100 rounds")})


def number(*runs: float, row: str = "row", column: str = "FedAvg", **options: Any) -> ComparedNumber:
    """A published 90 beside the mean of these runs."""
    options = {"seeds": len(runs), "runs": runs, **options}
    return compare_number(row, column, PRINTED, mean(runs) if runs else None, **options)


def variant(*runs: float, of: str = "FedAvg", row: str = "row") -> ComparedNumber:
    return number(*runs, row=row, column="as coded", variant_of=of, deviation=f"a variant of {of}")


def reading(*runs: float, column: str = "FedAvg", row: str = "other draws") -> ComparedNumber:
    return number(*runs, row=row, column=column, deviation="another draw")


def first(*numbers: ComparedNumber, evidence: Evidence | None = None) -> ComparedNumber:
    """The first of the numbers, explained beside the others."""
    return explained(numbers, evidence or Evidence())[0]


READ = Evidence(readings={"row": ("other draws",)})


def test_what_the_authors_code_does() -> None:
    found = first(number(85.0), variant(91.0, 92.0))
    assert (found.mark, found.cause, found.shown_by) == (Mark.EXPLAINED, Cause.CODE, "as coded: 91.5")
    assert found.difference == pytest.approx(-5) and found.counts  # it is counted as different, with a cause


def test_all_variants_that_give_the_number_are_named_and_no_other() -> None:
    numbers = [replace(variant(value), column=name) for name, value in {"a": 91.0, "b": 94.0, "c": 89.0}.items()]
    assert first(number(85.0), *numbers).shown_by == "a: 91.0; c: 89.0"


@pytest.mark.parametrize("other", [variant(90.0, of="IFCA"), variant(90.0, row="another"), variant()])
def test_a_variant_of_another_cell_or_without_a_run_shows_nothing(other: ComparedNumber) -> None:
    assert first(number(85.0), other).cause == Cause.UNKNOWN


def test_the_spread_of_our_runs() -> None:
    found = first(number(84.0, 86.0, 91.0))
    assert (found.mark, found.cause, found.shown_by) == (Mark.EXPLAINED, Cause.SPREAD, "our 3 runs: 84.0 to 91.0")


def test_one_run_shows_no_spread() -> None:
    """Nor do runs whose range is not known, as of seeds that share one draw."""
    assert first(number(88.0)).cause == Cause.UNKNOWN
    assert first(replace(number(84.0, 92.0), runs=())).cause == Cause.UNKNOWN


def test_runs_on_draws_of_their_own_differ_in_their_data() -> None:
    found = first(number(84.0, 91.0), evidence=Evidence(draws=frozenset({"row"})))
    assert (found.cause, found.shown_by) == (Cause.DATA, "our 2 runs: 84.0 to 91.0")
    assert first(number(84.0, 91.0), evidence=Evidence(draws=frozenset({"another"}))).cause == Cause.SPREAD


def test_other_readings_of_the_data() -> None:
    """The published number lies between the two readings; neither has it alone."""
    found = first(number(85.0, 86.0), reading(94.0), evidence=READ)
    assert (found.mark, found.cause) == (Mark.EXPLAINED, Cause.DATA)
    assert found.shown_by == "row: 85.0 to 86.0; other draws: 94.0"


@pytest.mark.parametrize(
    "other",
    [
        reading(94.0, column="FedProx"),  # of another column
        reading(94.0, row="a third row"),  # not named as a reading of this row
        reading(80.0),  # on the same side
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


def test_authors_code_that_gives_the_papers_number_too_shows_nothing() -> None:
    """Ours 88, theirs 89.3, printed 90: near both."""
    evidence = Evidence(authors={("row", "FedAvg"): (89.3, "their code")})
    assert first(number(88.0, 88.0), evidence=evidence).cause == Cause.UNKNOWN


def test_causes_are_looked_for_in_their_order() -> None:
    """All four are shown; then one after the other is taken away."""
    evidence = replace(AUTHORS, readings=READ.readings)
    all_runs, few = number(83.0, 87.0, 88.5), number(84.0, 86.0)
    assert first(all_runs, variant(90.0), reading(94.0), evidence=evidence).cause == Cause.CODE
    assert first(all_runs, reading(94.0), evidence=evidence).cause == Cause.SPREAD
    assert first(few, reading(94.0), evidence=evidence).cause == Cause.DATA
    assert first(few, evidence=evidence).cause == Cause.AUTHORS
    assert first(few).cause == Cause.UNKNOWN


EDGES = [  # 1.5 points are near, a hundredth more is not
    ("code", [number(80.0), variant(91.5)], True),
    ("code", [number(80.0), variant(91.51)], False),
    ("code", [number(80.0), variant(88.5)], True),
    ("code", [number(80.0), variant(88.49)], False),
    ("spread", [number(80.0, 88.5)], True),
    ("spread", [number(80.0, 88.49)], False),
    ("spread", [number(91.5, 99.0)], True),
    ("spread", [number(91.51, 99.0)], False),
    ("data", [number(80.0), reading(88.5)], True),
    ("data", [number(80.0), reading(88.49)], False),
    ("authors", [number(86.5)], True),
    ("authors", [number(86.51)], False),
    ("authors", [number(83.5)], True),
    ("authors", [number(83.49)], False),
]


@pytest.mark.parametrize(("cause", "numbers", "shown"), EDGES)
def test_near_is_within_one_and_a_half_points(cause: str, numbers: list[ComparedNumber], shown: bool) -> None:
    evidence = AUTHORS if cause == "authors" else READ
    assert first(*numbers, evidence=evidence).cause == (Cause(cause) if shown else Cause.UNKNOWN)


def test_what_is_near_enough_needs_no_cause() -> None:
    """At the edge too; the mean over the seeds counts, not the single runs."""
    for near in (number(91.5), number(88.5), number(84.0, 96.0)):
        found = first(near, variant(90.0), reading(90.0), evidence=READ)
        assert (found.mark, found.cause, found.shown_by) == (Mark.REPRODUCED, None, "")


WITHOUT_CAUSE = {
    "other data, or fewer rounds": number(80.0, 92.0, deviation="50 rounds"),
    "a variant": variant(80.0, 92.0),
    "another unit": compare_number("row", "FedAvg", 14.0, 30.0, margin=5.0, unit="rounds", runs=(10.0, 50.0)),
    "not run": number(),
    "no published number": compare_number("row", "FedAvg", None, 80.0, runs=(70.0, 90.0)),
}


@pytest.mark.parametrize("other", WITHOUT_CAUSE.values(), ids=WITHOUT_CAUSE)
def test_numbers_that_are_not_counted_get_no_cause(other: ComparedNumber) -> None:
    assert explained([other], AUTHORS) == [other] and other.cause is None


def test_an_unknown_cause_is_said_and_the_number_stays_as_it_was() -> None:
    found = first(number(80.0))
    assert (found.mark, found.cause, found.shown_by) == (Mark.NOT_REPRODUCED, Cause.UNKNOWN, "")
    assert found.symbol == "≠ unknown" and first(number(84.0, 92.0)).symbol == "≠ spread"


# --- on the page


def test_every_number_that_differs_stands_below_its_table_with_its_cause_and_what_shows_it() -> None:
    """FlexCFL's Table III prints 89.4, 90.9 and 94.2 for FedAvg, FedProx and IFCA on MNIST-MCLR."""
    accuracies: dict[str, tuple[float, ...]] = {
        "FedAvg": (0.894,),
        "FedProx": (0.95,),
        "IFCA": (0.962,),
        "IFCA, first client": (0.945,),
    }
    accuracies["RCC"] = (0.89, 0.926)  # for 93.4
    results = [
        {"table": "III", "row": MNIST.row, "column": column, "seed": seed, "best": best, "seconds": 8.0}
        for column, values in accuracies.items()
        for seed, best in enumerate(values)
    ]
    title, head, _, *lines = filter(None, differences(tables()["flexcfl-table3"][1], results).splitlines())
    assert title == "#### flexcfl-table3: what differs, and why" and "cause | shown by" in head
    assert lines == [
        "| MNIST-MCLR | FedProx | 95.00 | 90.9 | +4.1 | unknown | - |",
        "| MNIST-MCLR | IFCA | 96.20 | 94.2 | +2.0 | code | IFCA, first client: 94.5 |",
        "| MNIST-MCLR | RCC | 90.80 | 93.4 | -2.6 | spread | our 2 runs: 89.0 to 92.6 |",
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
    assert {*readings, *table.evidence.draws} <= rows
    assert not readings or rows & {row for of_row in readings.values() for row in of_row}
    assert set(table.evidence.authors) <= cells


@pytest.mark.parametrize("table", [table for _, table in tables().values()], ids=lambda table: table.name)
def test_rows_on_several_draws_are_those_whose_runs_differ_in_their_data(table: Table) -> None:
    """Else "spread" would stand where the data differ too, or "data" where they are the same."""
    counted = {number.row for number in table.compare([]) if number.counts}
    draws = {job.row: len({job.setting(seed) for seed in job.seeds}) for job in table.jobs if job.published}
    assert {row for row, count in draws.items() if count > 1 and row in counted} == table.evidence.draws & counted
