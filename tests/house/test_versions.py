"""The versions that fedkin allows: the pins lie in them, and the page on installing names them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.conftest import LEVELS, level_of

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {
    name: [Requirement(entry) for entry in entries]
    for name, entries in PROJECT["optional-dependencies"].items()
}
CORE = [Requirement(entry) for entry in PROJECT["dependencies"]]
PAGE = (ROOT / "docs/installing.md").read_text()

# Modules that only an extra brings.
MODULES_OF_EXTRAS = {
    *(
        "cryptography",
        "Crypto",
        "zenoh",
        "dp_accounting",
        "flwr",
        "flwr_datasets",
        "torch",
        "torchax",
    ),
    *(
        "scikit_posthocs",
        "ray",
        "onnx",
        "onnxruntime",
        "onnxscript",
        "datasets",
        "mlflow",
        "wandb",
        "tokenizers",
    ),
}


def pins() -> dict[str, Version]:
    """The versions in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def bounds(requirements: list[Requirement]) -> dict[str, SpecifierSet]:
    """The allowed versions of each package, without fedkin itself."""
    others = [requirement for requirement in requirements if requirement.name != "fedkin"]
    return {canonicalize_name(requirement.name): requirement.specifier for requirement in others}


def table(heading: str) -> list[list[str]]:
    """The cells of the table below a heading of the page, without backquotes; one list for each
    row."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip().replace("`", "") for cell in row] for row in rows]
    return cells[2:]  # the first two are the head and the line below it


@pytest.mark.parametrize("part", ["the core", *EXTRAS])
def test_every_pin_is_allowed(part: str) -> None:
    allowed = bounds(EXTRAS.get(part, CORE))
    assert allowed or part == "bench"
    for name, specifier in allowed.items():
        assert pins()[name] in specifier, name


def test_the_core_refuses_no_newer_release() -> None:
    operators = {specifier.operator for requirement in CORE for specifier in requirement.specifier}
    assert operators == {">="}


def test_no_newer_python_is_refused() -> None:
    assert PROJECT["requires-python"] == ">=3.11"


def test_the_classifiers_are_the_pythons_of_the_page() -> None:
    prefix = "Programming Language :: Python :: 3."
    classifiers = {
        entry.removeprefix(prefix) for entry in PROJECT["classifiers"] if entry.startswith(prefix)
    }
    tested = {re.match(r"3\.(\d+)", row[0]) for row in table("Tested versions")}
    assert classifiers == {match[1] for match in tested if match}


def test_the_page_names_the_bounds_and_the_pins() -> None:
    shown = {
        row[0]: (row[1], SpecifierSet(row[2].replace("any", "")), row[3])
        for row in table("Allowed versions")
    }
    expected = {
        name: ("", specifier, str(pins()[name])) for name, specifier in bounds(CORE).items()
    }
    for extra, requirements in EXTRAS.items():
        capped = {
            name: specifier
            for name, specifier in bounds(requirements).items()
            if is_capped(specifier)
        }
        expected |= {
            name: (extra, specifier, str(pins()[name])) for name, specifier in capped.items()
        }
    assert shown == expected


def is_capped(specifier: SpecifierSet) -> bool:
    """Whether newer releases are refused."""
    return "999999" not in specifier


def test_the_page_tells_only_of_versions_that_are_allowed() -> None:
    head = ["jax", "numpy", "pandas", "pyarrow"]
    columns = bounds(CORE)
    rows = table("Tested versions")
    assert len(rows) >= 3
    for row in rows:
        versions = dict(zip(head, row[1:5], strict=True))
        assert all(version in columns[name] for name, version in versions.items()), row
    assert any(row[1] == str(pins()["jax"]) for row in rows)


def test_the_page_has_every_extra() -> None:
    assert [row[0] for row in table("Add extras")] == list(EXTRAS)


def test_unit_tests_need_no_extra() -> None:
    files = [
        path for path in sorted((ROOT / "tests").rglob("test_*.py")) if level_of(path) == "unit"
    ]
    assert len(files) > 50 and LEVELS["security"] != "unit"
    skips = re.compile(r"pytest\.importorskip\(")
    imports = re.compile(r"^\s*(?:import|from) (\w+)", re.MULTILINE)
    for path in files:
        text = path.read_text()
        assert not skips.search(text), path
        assert not MODULES_OF_EXTRAS & set(imports.findall(text)), path
