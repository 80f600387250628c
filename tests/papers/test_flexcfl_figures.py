"""FlexCFL's Figures 3 and 4, drawn from invented runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papers.catalogue import PAPERS, tables
from papers.flexcfl import figures
from papers.flexcfl.recipes import MNIST, TABLE_III, TABLE_IV
from papers.results_page import page


def line(table: str, row: str, column: str, seed: int, curve: list[float | None]) -> dict[str, Any]:
    return {"table": table, "row": row, "column": column, "seed": seed, "curve": curve}


def test_a_curve_is_the_mean_over_the_seeds_in_rounds_that_all_have_complete() -> None:
    runs = [
        line(table="III", row=MNIST.row, column="FlexCFL", seed=0, curve=[None, 0.8, 0.9]),
        line(table="III", row=MNIST.row, column="FlexCFL", seed=1, curve=[None, None, 0.7]),
        # Not in the figure.
        line(table="III", row=MNIST.row, column="RAC", seed=0, curve=[0.1, 0.1, 0.1]),
    ]
    panel = figures.without_shift(runs).axes[0]
    drawn = {each.get_label(): each for each in panel.lines}
    assert tuple(drawn) == figures.METHODS_3
    x, y = drawn["FlexCFL"].get_data()
    assert x.tolist() == [1, 4, 7]  # every third of 300 rounds is stored, from the first on
    assert np.isnan(y[:2]).all() and y[2] == pytest.approx(0.8)
    assert "mean of 2 seeds" in panel.texts[0].get_text()


def test_each_panel_is_a_kind_of_shift() -> None:
    panels = figures.under_shift(
        [line(table="IV", row=f"{MNIST.row}: swap part", column="IFCA", seed=0, curve=[0.6, 0.7])]
    ).axes
    assert [panel.get_title(loc="left") for panel in panels] == [
        "Swap all",
        "Swap part",
        "Incremental",
    ]
    assert ["one seed" in panel.texts[0].get_text() for panel in panels] == [False, True, False]


def test_every_method_of_a_figure_is_a_column_of_its_table() -> None:
    assert set(figures.METHODS_3) <= {cell.column for cell in TABLE_III}
    assert set(figures.METHODS_4) <= {cell.column for cell in TABLE_IV}


def test_figures_of_nothing_are_written(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    figures.draw([], tmp_path)
    assert (tmp_path / figures.NO_SHIFT).is_file() and (tmp_path / figures.SHIFTED).is_file()


def test_the_drawn_figures_are_the_shown_figures(tmp_path: Path) -> None:
    """Figures 3 and 4 are offered with the tables whose runs they have."""
    (tmp_path / "images").mkdir()
    figures.draw([], tmp_path)
    shown = re.findall(r"\((images/[\w.-]+)\)", page(PAPERS["flexcfl"], []))
    assert sorted(shown) == sorted(
        f"images/{path.name}" for path in (tmp_path / "images").iterdir()
    )
    for number in (3, 4):
        assert f"flexcfl-figure{number}" in tables()[f"flexcfl-table{number}"][1].also
