"""The authors' mean curves of FedSim's figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from papers.fedsim import authors_curves as authors
from papers.fedsim.figures import FIGURE_9, REAL
from papers.fedsim.network_recipes import FIGURE_6
from papers.recipe import Setting

DRAWN = [*REAL, *FIGURE_6, *FIGURE_9]


# Mean accuracy of the last round, over 35 seeds, from the authors' logs: FedAvg, FedProx, FedSim.
FINAL = {
    "FEMNIST, shared images": (73.2, 75.7, 80.7),
    "MNIST": (81.9, 85.4, 87.1),
    "Fed-MEx, its test part": (91.1, 91.1, 93.6),
    "Fed-MEx": (91.1, 91.1, 93.6),
    "Fed-Goodreads": (60.0, 59.1, 61.8),
    "IID": (88.4, 67.0, 81.9),
    "(0, 0)": (81.6, 84.9, 86.9),
    "(0, 0), the authors' file": (81.6, 84.9, 86.9),
    "(0.25, 0.25)": (73.8, 82.1, 82.1),
    "(0.25, 0.25), the authors' draw": (73.8, 82.1, 82.1),
    "(0.5, 0.5)": (67.7, 75.3, 73.6),
    "(0.75, 0.75)": (67.1, 74.2, 65.5),
    "(1, 1)": (61.4, 67.8, 59.0),
}


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
    """``FINAL``, in percent with one digit, was taken from the same logs before."""
    if row in FINAL:
        last = [100 * curve[-1] for curve in authors.curves_of(row).values()]
        assert last == pytest.approx(FINAL[row], abs=0.06)


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
