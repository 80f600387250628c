"""ATHENA-FL's Figures 2 to 4: the paper's baselines, its printed accuracies, and the clusters that
DBSCAN finds."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedkin.data.federated import FederatedData, Ragged
from fedkin.methods import FedAvg, Hierarchical
from papers import recipe
from papers.athena import recipes as athena
from papers.athena.found_clusters import FoundClusters, find_clusters
from papers.athena.published import COMBINED_PUBLISHED, PRINTED_COMBINED
from papers.athena.recipes import (
    ATHENA,
    COMBINED,
    EPS,
    FIGURE_2,
    MOBILENET,
    MOBILENET_V2,
    SMALL_CNN,
    WORK,
)
from papers.recipe import Cell
from papers.setting_digest import digest
from tests.conftest import SHARED
from tests.papers.test_athena import TINY


def test_every_number_of_figures_2_to_4_has_a_cell_of_its_column() -> None:
    """12 accuracies of the two networks, 5 of the detectors, 2 gains."""
    printed = [cell for cell in FIGURE_2 if cell.published is not None and not cell.variant_of]
    by_column = {name: [c for c in printed if c.column == name] for name in (ATHENA, MOBILENET)}
    assert [len(cells) for cells in by_column.values()] == [5, 6]
    assert len(printed) == 5 + 12 == PRINTED_COMBINED - 2
    assert COMBINED_PUBLISHED["mnist", "IID"]["MobileNetV2"] == (7.69, 0.01)


def test_the_printed_accuracies_are_in_the_papers_text() -> None:
    """Each as (middle +- half)."""
    text = paper_text("athena").replace(" ", "")
    values = [pair for row in COMBINED_PUBLISHED.values() for pair in row.values()]
    for middle, half in values:
        numbers = rf"\({number(middle)}\\pm{number(half)}\)"
        assert re.search(numbers, text), (middle, half)
    assert (
        "10%higheraccuracycomparedtotheMobileNet" in text
        and "10.9%higheraccuracyintheMNIST" in text
    )


def number(value: float) -> str:
    """A number as the paper prints it: with or without a zero behind the point."""
    return re.escape(f"{value:g}") + (r"(\.0)?" if value == int(value) else "")


def paper_text(name: str) -> str:
    """A paper's text, from $FEDKIN_PAPERS or the folder next to the checkout."""
    path = Path(os.environ.get("FEDKIN_PAPERS", SHARED / "papers")) / f"{name}.txt"
    if not path.is_file():
        pytest.skip(f"there is no {path}; set FEDKIN_PAPERS to the folder of the papers")
    return path.read_text()


def test_baselines_are_the_authors_networks_and_train_half_of_the_clients() -> None:
    cells = {(c.setting.row, c.column): c for c in FIGURE_2}
    for (data, split), setting in COMBINED.items():
        small = cells[setting.row, SMALL_CNN]
        for column, model in ((MOBILENET, "mobilenet"), (MOBILENET_V2, "mobilenet_v2")):
            cell = cells[setting.row, column]
            assert isinstance(cell.method(0), FedAvg)
            s = cell.setting
            assert (s.model, s.cohort, s.rounds, s.work) == (model, 10, 100, WORK), (data, split)
            assert s.data_options == small.setting.data_options
            assert "100 rounds, 200 images a client" in s.deviation
    assert {cells[COMBINED[key].row, MOBILENET].setting.model_options for key in COMBINED} == {
        (("dropout", 0.3),),
        (("dropout", 0.1),),
    }


def test_clusters_are_found_with_the_papers_network_eps_and_epochs() -> None:
    """As in SBRC 2022: MobileNetV2, ten local epochs of 1,000 images, eps 0.0279."""
    found = [cell for cell in FIGURE_2 if isinstance(cell, FoundClusters)]
    assert {cell.column for cell in found} == {ATHENA} and len(found) == 9
    for cell in found:
        clustering = cell.found_by
        method = clustering.method(0)
        assert isinstance(method, Hierarchical)
        assert (method.algorithm, method.eps, method.pretraining) == ("dbscan", EPS, 10)
        options = dict(clustering.setting.data_options)
        assert clustering.setting.model == "mobilenet_v2" and options["clients"] == 20
        assert options["samples"] * options["train_fraction"] / 20 == pytest.approx(1000)
        # Another clustering round is another setting.
        other = replace(cell, found_by=replace(clustering, method=lambda m: Hierarchical(eps=0.1)))
        assert digest(other.description(0)) != digest(cell.description(0))


CLIENTS = 4


def few_images(seed: int) -> FederatedData:
    """Four clients with eight images to train and four to test; two of five classes each."""
    random = np.random.default_rng(seed)
    owners = np.repeat(np.arange(CLIENTS), 12)
    y = 5 * (owners // 2) + np.tile(np.arange(12) % 5, CLIENTS)
    rows = np.arange(12 * CLIENTS).reshape(CLIENTS, 12)
    return FederatedData(
        name="few",
        x=random.random((len(y), 32, 32), np.float32),
        y=y,
        classes=10,
        train=Ragged.of(list(rows[:, :8])),
        test=Ragged.of(list(rows[:, 8:])),
    )


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(recipe.PAPER_DATA, "few", few_images)


def small_cell(cell: Cell) -> Cell:
    """A recipe with two rounds of one epoch on few images."""
    setting = replace(
        cell.setting,
        data="few",
        data_options=(),
        rounds=min(2, cell.setting.rounds),
        cohort=min(CLIENTS, cell.setting.cohort),
        work=replace(WORK, epochs=1),
    )
    return replace(cell, setting=setting)


@pytest.mark.parametrize("column", [MOBILENET, MOBILENET_V2])
@pytest.mark.usefixtures("few")
def test_a_baseline_runs(column: str) -> None:
    (cell,) = [
        c for c in FIGURE_2 if (c.setting.row, c.column) == (COMBINED["mnist", "IID"].row, column)
    ]
    run = athena.measure(small_cell(cell), 0)
    json.dumps(run, allow_nan=False)
    assert run["column"] == column
    assert len(run["curve"]) == 3 and len(run["clients"]) == CLIENTS
    # A grey image has 576 weights fewer in the first window than one in colour.
    assert run["parameters"] == {MOBILENET: 3_239_114, MOBILENET_V2: 2_270_794}[column] - 576


@pytest.mark.usefixtures("few")
def test_detectors_of_found_clusters_run() -> None:
    """The clusters are those of the clustering round, and not those that the detectors' own last
    layers would give."""
    (cell,) = [
        c
        for c in FIGURE_2
        if (c.setting.row, c.column) == (COMBINED["mnist", "5 classes"].row, ATHENA)
    ]
    assert isinstance(cell, FoundClusters)
    clustering = small_cell(cell.found_by)
    clustering = replace(
        clustering,
        setting=replace(clustering.setting, model="mclr"),
        method=lambda m: Hierarchical(eps=0.02, pretraining=20),
    )
    run = athena.measure(replace(small_cell(cell), found_by=clustering), 0)
    json.dumps(run, allow_nan=False)
    assert run["found"] == [0, 0, 1, 1] and run["sizes"] == [2, 2]
    assert len(run["curve"]) == 3 and run["parameters"] == 130_945


@pytest.mark.parametrize("eps", [1e-9, 0.02, 1.0])
def test_found_clusters_are_those_of_the_hierarchical_method(eps: float) -> None:
    """Its own run clusters in the same round with the same eps."""
    cell = Cell(
        table="Fig. 2-4",
        setting=replace(TINY, rounds=1),
        column="clustering round",
        method=lambda m: Hierarchical(eps=eps, pretraining=3),
        published=None,
    )
    assignment = find_clusters(cell, 0)
    assert list(assignment) == recipe.run(cell, 0).assignment.tolist()
    assert {1e-9: 10, 1.0: 1}.get(eps, len(set(assignment))) == len(set(assignment))
