"""Every percentage in the papers' text is counted once: as a number of a table, as one that follows
from others, or as no accuracy."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from papers.athena.published import (
    CLUSTERS_PUBLISHED,
    COMBINED_PUBLISHED,
    GAIN_OF_BEST_CLUSTERS,
    GAINS_PUBLISHED,
    LEAST_GAIN_DIRICHLET,
)
from papers.catalogue import PAPERS
from papers.derived_numbers import DERIVED, Cell, Derived, sentence
from papers.inventory import ATHENA, FEDGROUP, FEDSIM, FLEXCFL
from papers.reproduction_marks import POINTS
from papers.results_page import pages
from tests.conftest import SHARED

# Percentages that are no accuracy and no gain.
OTHERS: dict[str, dict[float, str]] = {
    "fedgroup": {
        55: "loss of a network in another paper",
        85: "target of a column",
        80.5: "variance of the discrepancy, relative",
    },
    "flexcfl": {
        55: "loss of a network in another paper",
        85: "target of a column",
        92.5: "variance of the discrepancy, relative",
        20: "data that change, threshold",
        25: "data that are released",
        11.4: "bytes",
    },
    "fedsim": {
        80: "share of the data",
        20: "share of the data",
        94: "rounds with a significant gain",
        95: "variance that is kept",
    },
    "athena": {
        25: "bytes",
        97: "bytes",
        97.37: "bytes",
        75: "bytes",
        95: "confidence",
    },
}
NAMES = {"fedgroup": FEDGROUP, "flexcfl": FLEXCFL, "fedsim": FEDSIM, "athena": ATHENA}


def text(name: str) -> str:
    """A paper's text before its references, from $FEDKIN_PAPERS or the folder next to the checkout.
    FlexCFL's has a formula twice: as text, and as LaTeX behind ``%percent``."""
    path = Path(os.environ.get("FEDKIN_PAPERS", SHARED / "papers")) / f"{name}.txt"
    if not path.is_file():
        pytest.skip(f"there is no {path}; set FEDKIN_PAPERS to the folder of the papers")
    whole = re.split(r"\n#* *(?:REFERENCES|References)\n", path.read_text())[0]
    whole = re.sub(r"%percent\S*?\\%", "%", whole)
    return re.sub(r"\\pm *[\d.]+", "", whole.replace("$", ""))


def percentages(name: str) -> set[float]:
    found = re.findall(r"(\d+(?:\.\d+)?)\s*\)?\s*\\?\s*%", text(name))
    return {float(number) for number in found}


def in_tables(name: str) -> set[float]:
    """The printed numbers of a paper's tables, without their signs."""
    numbers = [n for table in PAPERS[name].tables for n in table.compare([]) if n.unit == POINTS]
    printed = {abs(n.printed) for n in numbers if n.printed is not None}
    if name == "athena":
        printed |= {LEAST_GAIN_DIRICHLET}  # printed as a bound
    return printed


@pytest.mark.parametrize("name", OTHERS)
def test_every_percentage_of_a_text_is_known(name: str) -> None:
    derived = {abs(float(n.printed)) for n in DERIVED if n.paper == NAMES[name]}
    known = in_tables(name) | derived | OTHERS[name].keys()
    assert percentages(name) - known == set()
    assert len(percentages(name)) > 5


@pytest.mark.parametrize("name", OTHERS)
def test_no_percentage_is_left_over(name: str) -> None:
    """What the list excuses, and what follows from tables, is in the text. (Behind an arrow in
    FedGroup's table no sign of percent follows.)"""
    whole = text(name)
    assert percentages(name) >= OTHERS[name].keys()
    for number in (n for n in DERIVED if n.paper == NAMES[name]):
        assert re.search(rf"(?<![\d.]){re.escape(number.printed.lstrip('-'))}(?!\d)", whole), number


def test_numbers_that_follow_from_others() -> None:
    """All but FlexCFL's -1.96, which is FlexCFL's own loss and not FedGroup's."""
    assert [n.printed for n in DERIVED if not n.follows] == ["-1.96"]
    assert "-1.96 (5.3, " in sentence()
    text = sentence()
    assert "prints -1.96" in text and "where its tables give -5.50" in text
    assert "With FlexCFL in FedGroup's place they give -1.97" in text
    assert len(set(DERIVED)) == len(DERIVED) == 52


def test_a_number_that_does_not_follow_is_found() -> None:
    """95.7 - 90.5 is 5.2: 5.1 is one unit off, 5.0 two. A sum is no mean."""
    cells = [Cell("fedgroup-table3", "MNIST-MCLR", column) for column in ("FedGroup", "FedProx")]
    difference = (cells[0], cells[1])

    def derived(printed: str, count: int = 1, is_sum: bool = False) -> Derived:
        return Derived(FEDGROUP, "somewhere", printed, (difference,) * count, is_sum)

    assert derived("5.1").follows and derived("5.3").follows
    assert not derived("5.0").follows and not derived("-5.2").follows
    assert derived("5.2", count=2).follows and derived("10.4", count=2, is_sum=True).follows
    assert not derived("10.4", count=2).follows


def test_a_cell_that_no_table_prints_is_refused() -> None:
    with pytest.raises(KeyError, match="expected one printed number"):
        _ = Cell("fedgroup-table3", "Synthetic(1,1)-MCLR", "RAC").printed


def test_the_page_of_results_counts_them_apart() -> None:
    page = pages({}, {})["results-collective-test.md"]
    assert sentence() in page and "**315** numbers in percentage points" in page


def test_the_number_of_printed_numbers() -> None:
    """Rows x columns of the tables, and what stands in the text alone.

    FedGroup: Table III without an empty cell, two accuracies of Table I. FlexCFL: the same, Table
    IV, and IFCA-MIG's gain (section 5.3). FedSim: Tables 4, 6 and 7. ATHENA-FL: seven clusters and
    two gains; 5 accuracies of detectors, 12 of networks, two gains.
    """
    counted = {
        paper.name: sum(
            sum(number.counts for number in table.compare([])) + sum(table.without_recipe.values())
            for table in paper.tables
        )
        for paper in PAPERS.values()
    }
    expected = {
        "fedgroup": 6 * 6 - 1 + 4 * 2,
        "flexcfl": 8 * 8 - 1 + 8 * 6 * 3 + 4 * 2 + 1,
        "fedsim": (4 + 4 + 6) * 2,
        "athena": 7 + 2 + 5 + 12 + 2,
    }
    assert {name: count for name, count in counted.items() if count} == expected
    assert sum(expected.values()) == 315


def test_the_numbers_of_athenas_text() -> None:
    values = [middle for row in COMBINED_PUBLISHED.values() for middle, _ in row.values()]
    networks = [name for row in COMBINED_PUBLISHED.values() for name in row if "Mobile" in name]
    assert len(networks) == 12 and len(values) == 17
    clusters = [value for row in CLUSTERS_PUBLISHED.values() for value in row]
    gains = [GAIN_OF_BEST_CLUSTERS, LEAST_GAIN_DIRICHLET, *GAINS_PUBLISHED.values()]
    assert len(clusters) == 7 and gains == [16, 14, 10, 10.9]
