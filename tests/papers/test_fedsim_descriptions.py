"""What FedSim's paper describes without a printed number: Figure 1."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fedkin as fk
from papers.fedsim import similarity_recipes as similarity
from papers.recipe import Cell, Setting

TINY = Setting(
    row="tiny",
    data="digits",
    data_options=(("clients", 12),),
    model="mclr",
    model_options=(),
    lr=0.1,
    clusters=2,
    epochs=1,
    rounds=2,
    cohort=4,
    seeds=(0, 1),
)

# --- Figure 1


def test_similarities_are_stored_once_for_each_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "CLIENTS", 4)
    cell = Cell(
        table="Fig. 1",
        setting=TINY,
        column="similarity",
        method=lambda m: fk.FedSim(clusters=m),
        published=None,
    )
    line = json.loads(json.dumps(similarity.measure(cell, 0)))
    assert [len(row) for row in line["similarity"]] == [1, 2, 3]
    expected = fk.ks_similarity(fk.data.digits(clients=12, seed=0), range(4))
    np.fill_diagonal(expected, np.nan)
    np.testing.assert_allclose(similarity.matrix(line), expected, atol=5.1e-4)
    mean = np.nanmean(expected)
    assert similarity.mean_of_pairs(line) == pytest.approx(mean, abs=5.1e-4)


def test_the_mean_of_the_pairs_is_no_number_of_the_paper() -> None:
    job = similarity.TABLE.jobs[0]
    line = {**job.key, "seed": 0, "setting": job.setting(0), "similarity": [[0.5], [0.25, 0.0]]}
    first, *others = similarity.TABLE.numbers([line])
    assert (first.ours, first.unit, first.counts) == ("0.25", "similarity", False)
    assert {number.ours for number in others} == {""}


def test_a_panel_is_drawn_for_each_stored_row() -> None:
    cell = similarity.CELLS[1]
    line = {"table": cell.table, "row": cell.setting.row, "similarity": [[0.5]]}
    assert similarity.stored_line([line], cell) is line
    assert similarity.stored_line([line], similarity.CELLS[0]) is None
    assert similarity.stored_line([{**line, "table": "Fig. 8"}], cell) is None
