"""The inventory has everything that the papers print, each once, and the recipes of the
catalogue."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from papers.catalogue import PAPERS, Table, tables
from papers.inventory import (
    ATHENA,
    ENTRIES,
    FEDGROUP,
    FEDSIM,
    FLEXCFL,
    SBRC,
    Entry,
    at_full_size,
    sentence,
)
from papers.inventory import without_recipe as without
from tests.conftest import SHARED

# Tables and figures, counted in the captions. SBRC's: in the paper's PDF (AiramL/ATHENA-FL,
# src/app/papers/artigo.pdf).
PRINTED = {FEDGROUP: (3, 5), FLEXCFL: (4, 6), FEDSIM: (7, 10), SBRC: (4, 5), ATHENA: (1, 4)}
# Panels with separate captions: FlexCFL's.
PANELS = {
    "Fig. 3": "abcd",
    "Fig. 4": "abc",
    "Fig. 5": "ab",
    "Fig. 6": "abc",
}
CAPTIONS = {  # file of the text, beginning of a caption
    FEDGROUP: ("fedgroup", r"(TABLE [IVX]+)$|(Fig\. \d+)\. "),
    FLEXCFL: ("flexcfl", r"(TABLE [IVX]+):|(Figure \d+):"),
    FEDSIM: ("fedsim", r"(Table \d+):|(Figure \d+):"),
    ATHENA: ("athena", r"(Table \d+):|(Figure \d+):"),
}
# PANM's poster prints nothing to reproduce.
REPRODUCING = (
    "fedgroup",
    "flexcfl",
    "fedsim",
    "athena",
)


def of(paper: str) -> list[Entry]:
    return [entry for entry in ENTRIES if entry.paper == paper]


def text(name: str) -> list[str]:
    """The lines of a paper's text, from $FEDKIN_PAPERS or the folder next to the checkout."""
    path = Path(os.environ.get("FEDKIN_PAPERS", SHARED / "papers")) / f"{name}.txt"
    if not path.is_file():
        pytest.skip(f"there is no {path}; set FEDKIN_PAPERS to the folder of the papers")
    return path.read_text().splitlines()


def test_each_table_and_figure_is_there_once() -> None:
    assert set(Counter((entry.paper, entry.number) for entry in ENTRIES).values()) == {1}
    assert {entry.paper for entry in ENTRIES} == PRINTED.keys()
    assert all(entry.shows for entry in ENTRIES)


@pytest.mark.parametrize("paper", PRINTED)
def test_there_are_as_many_as_are_printed(paper: str) -> None:
    whole = {entry.whole for entry in of(paper)}
    kinds = Counter(name.split()[0] for name in whole)
    assert (kinds["Table"], kinds["Fig."]) == PRINTED[paper] and len(whole) == sum(PRINTED[paper])


def test_only_panels_are_parts_of_a_figure_and_no_table_has_parts() -> None:
    """Rows of a table were counted as separate entries, next to the whole table."""
    parts = [entry.number for entry in ENTRIES if entry.number != entry.whole]
    assert not [number for number in parts if number.startswith("Table")]
    assert len(ENTRIES) == 57


def test_each_panel_with_a_caption_is_an_entry() -> None:
    found: dict[str, str] = {}
    for entry in of(FLEXCFL):
        if match := re.fullmatch(r"(Fig\. \d+)\((\w)\)", entry.number):
            found[match[1]] = found.get(match[1], "") + match[2]
    assert found == PANELS


@pytest.mark.parametrize("paper", CAPTIONS)
def test_the_numbers_are_those_of_the_captions(paper: str) -> None:
    name, caption = CAPTIONS[paper]
    printed = {match[1] or match[2] for line in text(name) if (match := re.match(caption, line))}
    printed = {each.replace("TABLE", "Table").replace("Figure", "Fig.") for each in printed}
    assert {entry.whole for entry in of(paper)} == printed


def test_pages_without_captions_have_no_entry() -> None:
    assert not [line for line in text("panm") if re.match(r"(?i)(table|fig\.|figure) ?\d", line)]


def test_panels_are_read_again_from_the_text() -> None:
    """FlexCFL's panels stand above the caption of their figure."""
    panels = {}
    above = ""
    for line in text("flexcfl"):
        if panel := re.match(r"\(([a-d])\) (?:MNIST|FEMNIST|FeshionMNIST|FashionMNIST)", line):
            above += panel[1]
        elif (caption := re.match(r"Figure (\d+):", line)) and above:
            panels[f"Fig. {caption[1]}"] = above
            above = ""
    assert panels == PANELS


def test_every_recipe_is_in_the_catalogue() -> None:
    names = {name for _, table in tables().values() for name in (table.name, *table.also)}
    assert {entry.recipe for entry in ENTRIES if entry.recipe} <= names


@pytest.mark.parametrize("paper", REPRODUCING)
def test_every_name_in_the_catalogue_is_the_recipe_of_an_entry(paper: str) -> None:
    recipes = {entry.recipe for entry in ENTRIES}
    names = {name for t in PAPERS[paper].tables for name in (t.name, *t.also)}
    names.discard("fedgroup-femnist-candidates")  # readings of ours of a printed row
    names.discard("flexcfl-hypotheses")  # variants of ours of printed rows
    names.discard("fedsim-objectives")  # equations, neither a table nor a figure
    assert names <= recipes, (
        "papers/inventory.py: name the recipe in the entry of its table or figure"
    )


@pytest.mark.parametrize("given", [{}, {"recipe": "flexcfl-table3", "reason": "a diagram"}])
def test_an_entry_has_a_recipe_or_a_reason(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="a recipe or a reason"):
        Entry("FlexCFL", "Table III", "accuracies", **given)


def test_the_sentence_names_each_without_a_recipe_and_counts_the_others() -> None:
    said = sentence({})
    with_recipe = sum(bool(entry.recipe) for entry in ENTRIES)
    assert said.startswith(f"{with_recipe} of the papers' {len(ENTRIES)} tables and figures")
    for entry in without():
        assert entry.number in said and entry.reason in said and entry.paper in said
    diagrams = (
        f"\n* FedGroup Fig. 2, FlexCFL Fig. 2, FedSim Fig. 2, {SBRC} Fig. 1, Fig. 2 (a diagram, no "
        "result)\n"
    )
    assert diagrams in said


def test_an_entry_has_a_full_size_run_if_one_of_its_rows_has_one() -> None:
    """Fig. 6 has a panel for each row of one recipe; a shortened run counts for no entry."""
    assert at_full_size({}) == () and "and 0 a run of at least one number" in sentence({})
    line = run_of("flexcfl-figure6", "FEMNIST, swap part")
    shortened = run_of("athena-figure1", "IID, CIFAR-10")
    (entry,) = at_full_size({"flexcfl": [line], "athena": [shortened]})
    assert (entry.paper, entry.number) == (FLEXCFL, "Fig. 6(b)")


def run_of(table: str, row: str) -> dict[str, Any]:
    """A run, without figures, of the first job of a row."""
    job = next(job for job in tables()[table][1].jobs if job.row == row)
    return {**job.key, "seed": job.seeds[0], "setting": job.setting(job.seeds[0])}


@pytest.mark.parametrize(
    "table", [t for p in PAPERS.values() for t in p.tables], ids=lambda table: table.name
)
def test_no_table_prints_empty(table: Table) -> None:
    """``fedkin reproduce`` shows a number, or a place for one, for each table that has runs."""
    assert table.numbers([])
