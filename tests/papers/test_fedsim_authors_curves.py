"""The authors' mean curves of FedSim's figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from papers.fedsim import authors_curves as authors
from papers.fedsim.figures import FIGURE_9, REAL
from papers.fedsim.network_recipes import FIGURE_6
from papers.fedsim.recipes import FINAL_PUBLISHED
from papers.recipe import Setting

DRAWN = [*REAL, *FIGURE_6, *FIGURE_9]


@pytest.mark.parametrize("setting", DRAWN, ids=lambda setting: setting.row)
def test_every_panel_has_a_curve_of_each_method_over_its_rounds(setting: Setting) -> None:
    curves = authors.curves_of(setting.row)
    assert list(curves) == ["FedAvg", "FedProx", "FedSim"]
    assert {len(curve) for curve in curves.values()} == {setting.rounds + 1}
    assert all(0 <= value <= 1 for curve in curves.values() for value in curve)


def test_no_other_numbers_of_the_authors_are_stored() -> None:
    stored = json.loads(authors.FILE.read_text())
    assert set(stored["curves"]) == {setting.row for setting in DRAWN}
    assert "github.com/chamathpali/FedSim" in stored["source"]
    values = [v for row in stored["curves"].values() for curve in row.values() for v in curve]
    assert all(value == round(value, 4) for value in values)


@pytest.mark.parametrize("row", authors.FILES)
def test_the_last_round_agrees_with_the_authors_logs(row: str) -> None:
    """FINAL_PUBLISHED, in percent with one digit, was taken from the same logs before."""
    if row in FINAL_PUBLISHED:
        last = [100 * curve[-1] for curve in authors.curves_of(row).values()]
        assert last == pytest.approx(FINAL_PUBLISHED[row], abs=0.06)


def test_a_row_without_published_curves_has_none() -> None:
    assert authors.curves_of("MNIST, draw 0") == {}


def test_a_checkout_is_read_by_its_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns stand in another order than the methods, and numbers are rounded to four
    digits."""
    (tmp_path / "results").mkdir()
    file = tmp_path / "results" / "a.csv"
    file.write_text("round,sim,avg,prox\n0,0.3,0.1,0.2\n1,0.33336,0.11111,0.2\n")
    monkeypatch.setattr(authors, "FILES", {"a row": "a.csv"})
    curves = authors.read(tmp_path)
    assert curves == {
        "a row": {"FedAvg": [0.1, 0.1111], "FedProx": [0.2, 0.2], "FedSim": [0.3, 0.3334]}
    }
    assert json.loads(authors.text(curves))["curves"] == curves
    file.write_text("round,sim,avg,prox\n1,0.3,0.1,0.2\n")
    with pytest.raises(ValueError, match=r"a\.csv: expected one line for each of the rounds"):
        authors.read(tmp_path)
