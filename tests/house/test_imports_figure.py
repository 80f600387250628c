"""The figure of the packages shows the import table as it is."""

from __future__ import annotations

from tests.house.imports_figure import ABOUT, FILE, arrows, below, levels, svg
from tests.house.test_imports import PACKAGES


def test_every_package_is_shown() -> None:
    assert ABOUT.keys() == PACKAGES.keys() - {""}


def test_packages_stand_above_their_imports() -> None:
    level = levels(below())
    assert all(
        level[package] > level[other] for package, others in below().items() for other in others
    )
    assert ("cli", "core") not in arrows(below()) and ("measures", "core") in arrows(below())


def test_the_stored_figure_is_the_table_s() -> None:
    assert FILE.read_text() == svg(), "draw it again: python -m tests.house.imports_figure"
