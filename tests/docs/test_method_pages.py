"""The page of each method: formulas that browsers draw, commands that work, costs as measured, and
options in words."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("latex2mathml", reason="the site needs pip install 'fedkin[docs]'")

from fedkin.config import key_meanings
from fedkin.methods import METHODS
from tests.docs.code_blocks import ROOT, run_command
from tests.docs.command_checks import check
from tests.docs.readability import LONGEST, lengths
from tests.docs.shell_words import simple_commands

DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))
formulas = importlib.import_module("formulas")
method_costs = importlib.import_module("method_costs")
method_pages = importlib.import_module("method_pages")
method_schemes = importlib.import_module("method_schemes")

MODULES = sorted({method.__module__.rsplit(".", 1)[1] for method in METHODS.values()})
# The five papers, and the baselines that are used most.
WITH_ALL_FORMULAS = {
    "fedgroup": 3,
    "flexcfl": 3,
    "hierarchical": 3,
    "athena": 3,
    "panm": 3,
    "fedsim": 3,
    "fedavg": 2,
    "fedprox": 3,
    "ifca": 3,
    "fesem": 3,
    "sattler": 3,
    "flhc": 3,
    "ditto": 3,
    "pfedme": 3,
    "fedper": 3,
}
# Methods without a paper, or whose papers have no address that we know.
WITHOUT_LINK = {"private_clusters", "gossip", "given", "oracle", "hierarchical", "athena"}
# Commands with a data set, a model or a scenario that no other test runs with this method.
RUN = ("fedper", "feddrift", "oracle")
each_module = pytest.mark.parametrize("module", MODULES)


def methods_of(module: str) -> dict[str, type]:
    return {
        name: method for name, method in METHODS.items() if method.__module__.endswith(f".{module}")
    }


def page_of(module: str) -> str:
    return method_pages.page(f"fedkin.methods.{module}", methods_of(module))


def test_every_module_has_its_file_and_no_other_has_one() -> None:
    assert sorted(path.stem for path in (DOCS / "methods").glob("*.toml")) == MODULES


@each_module
def test_its_formulas_become_mathml(module: str) -> None:
    told = method_pages.words(module)
    assert len(told.formulas) >= WITH_ALL_FORMULAS.get(module, 1)
    block = formulas.block(told.formulas)
    # TeX that is not known would stay as it is.
    assert "\\" not in block and "\\" not in formulas.paragraph(told.symbols)
    cells = ElementTree.fromstring(block).findall(".//{http://www.w3.org/1998/Math/MathML}math")
    assert len(cells) == 2 * len(told.formulas)
    assert all(note for _, _, note in told.formulas)


@each_module
def test_its_text_is_short_and_plain(module: str) -> None:
    told = method_pages.words(module)
    assert 15 <= len(told.use.split()) <= 80
    assert max(lengths(told.use)) <= LONGEST


@each_module
def test_its_commands_name_its_methods_and_are_valid(module: str) -> None:
    told = method_pages.words(module)
    named = set()
    for words in simple_commands("\n".join(told.commands)):
        check(words)
        named |= {word.partition("=")[2] for word in words if word.startswith("method.name=")}
    # Athena needs a model that the reader writes, so its command draws the picture.
    assert named <= set(methods_of(module)) and (named or module == "athena")


@pytest.mark.parametrize("module", RUN)
def test_a_command_of_a_page_runs(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = method_pages.words(module).commands[0].replace("run.rounds=20", "run.rounds=1")
    (words,) = simple_commands(f"{command} run.against=[]")
    run_command(words)


@each_module
def test_its_page_has_all_parts_in_their_order(module: str) -> None:
    page = page_of(module)
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    first = ["The idea in one picture", "Formulas", "When to use it", "Try it", "Cost"]
    assert headings[:5] == first and headings[-1] == "The code"
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page)
    drawn = (DOCS / "methods" / picture).resolve().exists()
    schemes = method_pages.schemes({f"fedkin.methods.{module}": methods_of(module)})
    assert drawn or f"methods/{picture}" in schemes
    links = re.findall(r"\[Read the paper\]\((https://[^)]+)\)", page)
    assert len(links) == (module not in WITHOUT_LINK)


def test_a_paper_is_linked_by_the_number_in_the_docstring() -> None:
    assert "(https://arxiv.org/abs/2006.04088)" in page_of("ifca")
    assert "(https://doi.org/10.1016/j.neucom.2021.08.141)" in page_of("fedsim")


@pytest.mark.parametrize("name", METHODS)
def test_its_options_are_described_in_words(name: str) -> None:
    method = METHODS[name]
    for field in dataclasses.fields(method):
        home = next(
            kind for kind in method.__mro__ if field.name in vars(kind).get("__annotations__", {})
        )
        _, comment = key_meanings.field_source(home, field.name)
        # "m, the number of groups" begins with a symbol, "number of clusters (m)" with words.
        assert re.match(r'[A-Za-z-]{3,}|"', comment), f"{name}.{field.name}: {comment}"
    table = method_pages.options(method)
    assert "Literal" not in table and "None |" not in table


def test_the_number_of_clusters_is_said_in_words() -> None:
    row = "| `clusters` | Number of clusters (m in the paper) | integer | `3` |"
    assert row in method_pages.options(METHODS["flexcfl"])


# --- schemes


@pytest.mark.parametrize("name", METHODS)
def test_a_scheme_keeps_its_texts_within_its_frame(name: str) -> None:
    drawing = method_schemes.scheme(METHODS[name](), "A summary of a few words.")
    root = ElementTree.fromstring(drawing)
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        size = float(text.get("font-size", "15"))
        wide = 0.56 * size * len("".join(text.itertext()))  # the mean width of a letter
        left = float(text.get("x", "0")) - (wide / 2 if text.get("text-anchor") else 0)
        assert left >= 0 and left + wide <= method_schemes.WIDTH, "".join(text.itertext())


@pytest.mark.parametrize(
    ("name", "marks"),
    [("fedavg", 0), ("fedgroup", 1), ("ifca", 10), ("cflgp", 3), ("sattler", 2)],
)
def test_a_scheme_marks_the_rounds_in_which_clusters_change(name: str, marks: int) -> None:
    drawing = method_schemes.scheme(METHODS[name](), "A summary.")
    assert drawing.count("l9,12 l-9,12 l-9,-12 z") == marks


@pytest.mark.parametrize("name", METHODS)
def test_a_scheme_knows_the_words_of_a_method(name: str) -> None:
    """A new text of ``about.when`` needs an entry, or its timeline would have no mark."""
    about = METHODS[name].about
    known = [words for words in method_schemes.MOMENTS if words in about.when]
    assert bool(known) == (about.when != "-")


# --- costs


def test_every_method_that_runs_on_the_data_has_its_bytes() -> None:
    stored = method_costs.stored()
    assert set(METHODS) - set(stored) == {"athena", "oracle", "given"}
    assert set(stored) <= set(METHODS)
    assert stored["fedavg"].round == stored["fedavg"].total == (1.0, 1.0)


@pytest.mark.parametrize(
    ("name", "down", "up"),
    [
        ("scaffold", 2.0, 2.0),  # a control variate with each model
        ("ifca", 3.0, 1.0),  # three models down, one up
        ("fedsim", 1.0, 2.0),  # a gradient with each update
        ("local", 0.0, 0.0),
    ],
)
def test_stored_bytes_are_as_the_methods_send(name: str, down: float, up: float) -> None:
    assert method_costs.stored()[name].round == pytest.approx((down, up), abs=0.001)


def test_stored_bytes_are_measured_again() -> None:
    names = ["flexcfl", "fedper"]
    again = method_costs.traffic(names)
    stored = method_costs.stored()
    for name in names:
        assert again[name].round == pytest.approx(stored[name].round, abs=0.001)
        assert again[name].total == pytest.approx(stored[name].total, abs=0.001)


def test_times_are_read_from_the_page_of_benchmarks() -> None:
    times = method_costs.times()
    page = (DOCS / "benchmarks-methods.md").read_text()
    assert f"| x {times['ifca']} |" in page
    assert set(METHODS) - set(times) == {"athena", "oracle", "given"}


def test_a_method_without_numbers_has_dashes() -> None:
    table = method_costs.table(["athena"], method_costs.stored(), method_costs.times())
    assert table.endswith("| `athena` | - | - | - | - | - |\n")


def test_the_header_of_a_file_is_split() -> None:
    docstring = inspect.getdoc(sys.modules["fedkin.methods.ifca"]) or ""
    first, paper, details = method_pages.header(docstring, "")
    assert first.startswith("IFCA: ") and paper.startswith("A. Ghosh") and "Notation" in details
