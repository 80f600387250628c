"""FedSim's Fed-MEx: which row has the paper's data, and which data each row loads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedkin.data.federated import FederatedData
from papers import recipe
from papers.catalogue import tables
from papers.fedsim.network_recipes import MEX_MLP, MEX_MLP_PUBLISHED
from papers.fedsim.recipes import MEX, MEX_PUBLISHED, MEX_RECORDED, SEEDS
from papers.recipe import Setting
from papers.reproduction_marks import Mark


@pytest.mark.parametrize("name", ["fedsim-table4", "fedsim-table6"])
def test_the_row_of_the_published_files_counts_and_no_other(name: str) -> None:
    """Not run here: there is no network. Nothing else of the table is without a recipe."""
    table = tables()[name][1]
    numbers = [n for n in table.compare([]) if n.row.startswith("Fed-MEx")]
    counted = {(n.row, n.column): n.mark for n in numbers if n.counts}
    row = MEX_PUBLISHED.row if name == "fedsim-table4" else MEX_MLP_PUBLISHED.row
    assert counted == {
        (row, "over FedAvg"): Mark.NOT_RUN,
        (row, "over FedProx"): Mark.NOT_RUN,
    }
    assert len(numbers) > len(counted) and not table.without_recipe


def test_each_row_trains_alike() -> None:
    for setting in (MEX_PUBLISHED, MEX_RECORDED):
        assert setting.training == MEX.training and setting.model == MEX.model
        assert (setting.rounds, setting.cohort, setting.clusters) == (200, 10, 3)
        assert setting.seeds == SEEDS and setting.needs
    assert MEX_MLP_PUBLISHED.model_options == MEX_MLP.model_options
    # Draws from the recordings: the authors' seeds, and four others.
    assert {MEX_RECORDED.draw(seed) for seed in SEEDS} == set(range(5))
    assert "only the authors' order of files is unknown" in MEX_RECORDED.deviation


def test_a_row_loads_its_own_form_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where both the published files and their test part exist."""
    monkeypatch.setenv("FEDKIN_DATA", str(tmp_path))
    folder = tmp_path / "FedMEx"
    folder.mkdir()
    user = {"f_30": {"x": [[0.5] * 1280] * 2, "y": [6.0] * 2}}
    for name in ("train", "test"):
        content = {"users": ["f_30"], "user_data": user, "num_samples": [2]}
        (folder / f"{name}.json").write_text(json.dumps(content))
    np.savez(
        folder / "fed_mex_TESTONLY.npz",
        x=np.full((2, 1280), 0.5),
        y=np.array([6, 6]),
        client_id=np.array([0, 0]),
        split=np.array([1, 1]),
        users=np.array(["f_30"]),
    )
    recipe.load.cache_clear()
    assert loaded(MEX).name == "mex (test part)"
    assert loaded(MEX_PUBLISHED).name == loaded(MEX_MLP_PUBLISHED).name == "mex"
    recipe.load.cache_clear()


def loaded(setting: Setting) -> FederatedData:
    return recipe.load(setting.data, setting.data_options, setting.draw(0))
