"""The section of docs/results.md on the collective test, and on the cells that stay outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from papers import derived_numbers, inventory
from papers.catalogue import PAPERS, Paper
from papers.collective_test import CollectiveTest, collective_test, is_outside, testable
from papers.flexcfl.recipes import VARIANTS
from papers.prediction import LEAST_RUNS, LEVEL, prediction_interval
from papers.reproduction_marks import POINTS, ComparedNumber, Mark, Results
from papers.tables_markdown import markdown

TWO = ("IFCA", "FeSEM")
AS_CODED = "all methods, as their authors' code does them"
SLIP = "first client"
BY_SAMPLES = "by samples"


def numbers_of(results: Mapping[str, Results]) -> list[ComparedNumber]:
    """The numbers of all tables in percentage points, ours and the papers'.

    Args:
        results: stored runs, by paper.
    """
    return [
        number
        for paper in PAPERS.values()
        for table in paper.tables
        for number in table.numbers(results.get(paper.name, []))
        if number.unit == POINTS
    ]


def counted(numbers: Sequence[ComparedNumber]) -> list[ComparedNumber]:
    """The numbers that the papers print and that are run at their size."""
    return [number for number in numbers if number.counts]


def section(results: Mapping[str, Results]) -> str:
    """How many numbers were attempted, the collective test by group, and the numbers outside."""
    numbers = numbers_of(results)
    groups = tests(numbers)
    return "\n\n".join(
        [
            "## The collective test",
            attempted(numbers),
            "A printed number is one run. If it came from the same experiment, it lies inside the "
            "95% interval of one more run of ours with a probability of 95%. One number says "
            f"little; all numbers with at least {LEAST_RUNS} runs say much:",
            _table(groups),
            _verdict(groups),
            "### Numbers that stay outside their interval",
            _outside(numbers),
        ]
    )


def headline(results: Mapping[str, Results]) -> str:
    """What the collective test says, in two sentences for the top of the page.

    Args:
        results: stored runs, by paper.
    """
    groups = tests(numbers_of(results))
    of_all = groups.get(AS_CODED, groups.get("all methods"))
    if of_all is None:
        return f"No number has {LEAST_RUNS} runs yet."
    rejected = [name for name, test in groups.items() if test.rejected]
    head = (
        f"Of {of_all.numbers} printed numbers with at least {LEAST_RUNS} runs of ours, "
        f"{of_all.outside} lie outside their 95% interval ({of_all.expected:.1f} expected, "
        f"p = {of_all.binomial_p:.2g})"
    )
    if AS_CODED in groups:
        head += ", if each method does what its authors' code does"
    return f"{head}. " + (
        f"**Not reproduced: {'; '.join(rejected)}.**" if rejected else "No method is rejected."
    )


def attempted(numbers: Sequence[ComparedNumber]) -> str:
    """How many of the printed numbers were run at the paper's size, and how many agree."""
    printed = counted(numbers)
    ran = [number for number in printed if number.mark != Mark.NOT_RUN]
    close = sum(number.mark == Mark.REPRODUCED for number in ran)
    without = sum(
        sum(table.without_recipe.values()) for paper in PAPERS.values() for table in paper.tables
    )
    return (
        f"The papers print **{len(printed) + without}** numbers in percentage points. "
        f"**{len(ran)}** were run at the paper's size, and {close} of these are within 1.5 points. "
        f"{derived_numbers.sentence()} {inventory.sentence()}"
    )


def verdict(paper: Paper, results: Results) -> str:
    """The collective test of one paper's numbers, in a sentence or two.

    Args:
        paper: whose numbers.
        results: its stored runs.
    """
    numbers = [n for table in paper.tables for n in table.numbers(results) if n.unit == POINTS]
    printed = counted(numbers)
    ran = sum(number.mark != Mark.NOT_RUN for number in printed)
    without = sum(sum(table.without_recipe.values()) for table in paper.tables)
    total = len(printed) + without
    head = f"**{ran} of {total} printed numbers (percentage points) were run at the paper's size.**"
    of_groups = [
        f"{name}: {test.outside} of {test.numbers} outside their interval ({test.expected:.1f} "
        f"expected, p = {test.binomial_p:.2g}), so {_outcome(test)}."
        for name, test in tests(numbers).items()
        if BY_SAMPLES not in name and (len(paper.tables) and test.numbers)
    ]
    if not of_groups:
        return head
    return "\n".join([head, "", *(f"* {text[0].upper()}{text[1:]}" for text in of_groups)])


def _outcome(test: CollectiveTest) -> str:
    """What a test says about its group."""
    return "**not reproduced**" if test.rejected else "nothing speaks against a reproduction"


def tests(numbers: Sequence[ComparedNumber]) -> dict[str, CollectiveTest]:
    """The collective test of each group, by its name."""
    printed = counted(numbers)
    rows = {(number.row, number.column) for number in printed}

    def of(column: str, variant: str) -> list[ComparedNumber]:
        name = f"{column}, {variant}"
        return [n for n in numbers if n.column == name and (n.row, column) in rows]

    others = [number for number in printed if number.column not in TWO]
    if len(others) == len(printed):
        test = collective_test(printed)
        return {"all methods": test} if test is not None else {}
    groups = {"all methods except IFCA and FeSEM": others}
    for column in TWO:
        groups[f"{column}, as the text describes it"] = [n for n in printed if n.column == column]
        groups[f"{column}, as the published code does it"] = of(column, SLIP)
        groups[f"{column}, weighted by samples"] = of(column, BY_SAMPLES)
    slip = [number for column in TWO for number in of(column, SLIP)]
    groups[AS_CODED] = [*others, *slip]
    found = {name: collective_test(group) for name, group in groups.items()}
    return {name: test for name, test in found.items() if test is not None}


def _table(groups: Mapping[str, CollectiveTest]) -> str:
    head = ["", "numbers", "outside", "expected", "binomial p", "uniform p (KS)", "mean shift"]
    lines = [
        [
            f"**{name}**" if test.rejected else name,
            str(test.numbers),
            str(test.outside),
            f"{test.expected:.1f}",
            f"{test.binomial_p:.2g}",
            f"{test.uniform_p:.2g}",
            f"{test.shift:+.1f}",
        ]
        for name, test in groups.items()
    ]
    return markdown(head, lines)


def _verdict(groups: Mapping[str, CollectiveTest]) -> str:
    """What the tests say, in a sentence or two."""
    rejected = [name for name, test in groups.items() if test.rejected]
    level = f"{100 * LEVEL:.0f}%"
    if not rejected:
        return f"The test rejects no group at {level}."
    return (
        f"Groups in bold are rejected at {level}: their printed numbers are no runs of what we "
        "ran. The published code of IFCA and FeSEM averages the first client of each cluster, "
        "which the text does not say ([FlexCFL](results-flexcfl.md))."
    )


def _outside(numbers: Sequence[ComparedNumber]) -> str:
    """The counted numbers outside their interval, except those that a variant explains."""
    variants = {
        (n.row, n.variant_of): n
        for n in testable(numbers)
        if n.column in VARIANTS and not is_outside(n)
    }
    lines = [
        [
            number.row,
            number.column,
            number.published,
            f"{number.exact:.1f}",
            "{:.1f} to {:.1f}".format(*prediction_interval(number.runs)),
            f"{number.seeds} / {number.draws}",
            _tried(number, numbers),
        ]
        for number in testable(counted(numbers))
        if is_outside(number) and (number.row, number.column) not in variants
    ]
    if not lines:
        return "None."
    head = ["", "", "paper", "ours", "interval", "seeds / draws", "tried"]
    note = (
        "IFCA's and FeSEM's numbers are left out where the published code's mean puts them inside. "
        "Where nothing tried comes near, the cause is unknown."
    )
    return f"{note}\n\n{markdown(head, lines)}"


def _tried(number: ComparedNumber, numbers: Sequence[ComparedNumber]) -> str:
    """The variants of a number, hypotheses among them, and their results."""
    found = [
        n
        for n in numbers
        if (n.row, n.variant_of) == (number.row, number.column) and n.value is not None
    ]
    return "; ".join(f"{n.column.removeprefix(f'{n.variant_of}, ')}: {n.exact:.1f}" for n in found)
