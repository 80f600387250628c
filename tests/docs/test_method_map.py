"""The tables of all methods, and the methods' own words for them."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from docs import tables as chart
from fedkin.config.registry import method_rows
from fedkin.core.requirements import requirements_of
from fedkin.data import DATASETS
from fedkin.methods import METHODS
from fedkin.methods.about import NOTHING
from fedkin.scenarios.shifts import SHIFTS

DOCS = Path(__file__).resolve().parents[2] / "docs"
TABLES = ["data sets", "forget", "methods", "privacy", "secret sums", "shifts"]


def test_every_method_has_a_row() -> None:
    tables = [
        chart.page(METHODS),
        chart.table_of_papers(lambda name: f"{name}.md"),
    ]
    assert all(f"| `{name}` |" in table for name in METHODS for table in tables)
    answers = [chart.privacy_table(METHODS), chart.secret_table(METHODS)]
    assert all(
        f"| `{method.__name__}` |" in table for method in METHODS.values() for table in answers
    )


def test_a_page_has_a_place_for_each_table() -> None:
    # test_book.py reads the tables of configurations.
    pages = [page for page in DOCS.glob("*.md") if page.name != "reference-configuration.md"]
    written = "\n".join(page.read_text() for page in pages)
    assert (
        sorted(re.findall(r"<!-- table: ([\w ]+) -->\n[^\n]+\n<!-- /table -->\n", written))
        == TABLES
    )


@pytest.mark.parametrize(
    ("name", "private", "secret"),
    [
        ("FedAvg", "yes", "yes"),
        (
            "Hierarchical",
            "no: reads single updates, which no noise on sums covers",
            "no: needs single updates, but secret sums reveal only sums",
        ),
        (
            "IFCA(weighting='examples')",
            "yes",
            "yes, with `hide_choice`: its clients choose as they train",
        ),
        (
            "PrivateClusters",
            "yes",
            "no: begins with sums of sketches of updates, but secret sums add up updates only",
        ),
        (
            "FedEM",
            "no: needs shares of clusters from each client, which no noise covers",
            "no: needs shares of clusters from each client, but secret sums reveal only sums",
        ),
        (
            "Gossip",
            "no: has no server that could be trusted: its peers see each other's models",
            "no: has no server that could add up updates: its peers see each other's models",
        ),
    ],
)
def test_tasks_that_privacy_and_secret_sums_allow(name: str, private: str, secret: str) -> None:
    assert f"| `{name}` | {private} |\n" in chart.privacy_table(METHODS)
    assert f"| `{name}` | {secret} |\n" in chart.secret_table(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_row_agrees_with_the_method(name: str) -> None:
    method = METHODS[name]
    about = method.about
    fields = {field.name for field in dataclasses.fields(method)}
    if about.count == "given" and name not in ("oracle", "given"):
        assert fields & {"clusters", "components"}, (
            "K is said to be given, and there is no such option"
        )
    if about.count == "-":
        assert "clusters" not in fields
    if "peers" in about.decides:
        assert requirements_of(method()).peers
    if about.compares == NOTHING:
        assert about.membership == "-" and about.count == "-"


@pytest.mark.parametrize("name", METHODS)
def test_the_first_sentence_of_a_class_is_a_cell_of_a_table(name: str) -> None:
    (summary,) = [row.summary for row in method_rows() if row.name == name]
    assert summary.endswith(".") and 20 < len(summary) <= 120


def test_every_option_of_a_shift_has_its_default_and_is_described() -> None:
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in chart.table_of_shifts().splitlines()[2:]
    ]
    options = [field for shift in SHIFTS.values() for field in dataclasses.fields(shift)]
    assert [row[2] for row in rows] == [f"`{option.name}`" for option in options]
    assert all(len(row[4]) > 15 for row in rows)
    assert [row[0] for row in rows if row[0]] == [f"`{name}`" for name in SHIFTS]
    assert [row[3] for row in rows if row[2] == "`releases`"] == ["`[0.25, 0.5, 0.75, 1.0]`"]


def test_every_data_set_has_a_description() -> None:
    rows = chart.table_of_data_sets().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(DATASETS)
    assert "| `mnist` | 1,000 | 70,000 | handwritten digits 28x28 |" in rows


def test_what_a_removal_trains_again() -> None:
    table = chart.forget_table(METHODS)
    assert "| `fedgroup` | everything | `eta_g = 0.0`: the client's clusters |\n" in table
    assert "| `pacfl` | the client's clusters |  |\n" in table
    assert "| `ifca` | the client's clusters, if the models of all rounds are stored | " in table
    assert all(f"`{name}`" in table for name in METHODS)
