"""What FedSim's paper describes without a printed number: Figure 1, equations 5 to 12,
and the search of section 4.2."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.randomness import Stream
from fedkin.simulation.fake_world import FakeWorld
from papers.fedsim import objective_recipes as objectives
from papers.fedsim import search_recipes as search
from papers.fedsim import similarity_recipes as similarity
from papers.recipe import Cell, Setting
from papers.reproduction_marks import Mark

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


# --- equations 5 to 12


def quadratic_world() -> FakeWorld:
    """Targets 0, 2 and 8. A client trains half the way to its target; its loss is the squared
    distance."""
    return FakeWorld(np.array([[0.0], [2.0], [8.0]]), np.array([3, 1, 1]))


def test_each_cluster_is_scored_with_its_model() -> None:
    """From w = 0 the clients come to 0, 1 and 4. By samples (3 and 1) the first cluster has the
    model 1/4 and the losses 1/16 and 49/16; the second one has 4 and 16. FedAvg's model is 1, with
    losses 1, 1 and 49."""
    objective = objectives.of_cluster_models(
        quadratic_world(), np.zeros(1), np.arange(3), Stream(0, 1, "train")
    )
    assert objective(np.array([0, 0, 1])) == pytest.approx((25 / 16 + 16) / 2)
    assert objective(np.array([0, 0, 0])) == pytest.approx(51 / 3)


def test_the_figures_of_a_cohort() -> None:
    """Losses 1, 3 and 8: F_O = 4, F_G = (2 + 8) / 2, F_R = (1 + 5.5) / 2."""
    figures = objectives.compared(
        partial(objectives.with_clusters, np.array([1.0, 3.0, 8.0])),
        labels=np.array([0, 0, 1]),
        dealt=np.array([0, 1, 1]),
    )
    assert figures == (4, 5, 3.25, -1, 0)
    assert len(figures) == len(objectives.FIGURES)


def test_a_run_measures_both_models_with_both_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objectives, "COHORTS", 3)
    cell = replace(objectives.CELLS[0], setting=TINY)
    line = json.loads(json.dumps(objectives.measure(cell, 0)))
    for model in objectives.MODELS_OF_RUN:
        assert list(line[model]) == list(objectives.READINGS)
        for without, clustered, _, regularisation, share in line[model].values():
            assert regularisation == pytest.approx(without - clustered, abs=2e-5)
            assert 0 <= share <= 1
    assert line["initial"]["global"][0] > line["trained"]["global"][0]


def test_the_statement_is_of_lambda_at_the_trained_model() -> None:
    """Lambda is 0.5 and -0.25 in two seeds with the global model: 0.125; with the cluster models it
    is -1 in both."""
    cell = objectives.CELLS[0]
    lines = []
    for seed, regularisation in enumerate((0.5, -0.25)):
        both = {"global": [1, 1, 1, regularisation, 0.5], "own": [1, 2, 1, -1, 0]}
        names = {"table": "eq. 11", "row": cell.setting.row, "column": "FedSim", "seed": seed}
        lines.append({**names, "initial": both, "trained": both})
    numbers = {n.column: n for n in objectives.compared_numbers(lines) if n.row == names["row"]}
    stated = {column: n.mark for column, n in numbers.items() if n.published}
    assert stated == {
        "trained, global model: lambda": Mark.REPRODUCED,
        "trained, cluster models: lambda": Mark.FAILED,
    }
    found = numbers["initial, global model: lambda"]
    assert (found.ours, found.mark, found.seeds, found.draws) == ("0.125", Mark.NO_NUMBER, 2, 2)
    assert {n.mark for n in objectives.compared_numbers([])} == {Mark.NO_NUMBER, Mark.NOT_RUN}


# --- the search


def test_the_search_has_the_papers_settings() -> None:
    """Section 4.2, without 11 clusters of ten clients."""
    tried = {(c.setting.cohort, c.setting.clusters) for c in search.CELLS}
    five_clusters = {(clients, 5) for clients in (10, 20, 30)}
    by_clusters = {(clients, m) for clients in (10, 20) for m in (3, 5, 7, 9, 11)}
    assert tried == (five_clusters | by_clusters) - {(10, 11)}
    assert len(search.CELLS) == len(tried) == 10
    for cell in search.CELLS:
        assert cell.method(cell.setting.clusters) == fk.FedSim(clusters=cell.setting.clusters)
        assert f"{cell.setting.cohort} clients" in cell.setting.row
        assert cell.setting.deviation and cell.setting.rounds == 30


def tries(best: tuple[int, int]) -> list[dict]:
    """Runs with 80 of 100 right samples in the last round, and one more in the best try."""
    return [
        {
            "table": "search",
            "row": cell.setting.row,
            "column": cell.column,
            "seed": seed,
            "tested": 100,
            "right": [99, 80 + (tried == best)],
        }
        for tried, cell in zip(search.TRIED, search.CELLS, strict=True)
        for seed in cell.setting.seeds
    ]


@pytest.mark.parametrize(("best", "mark"), [((20, 5), Mark.REPRODUCED), ((10, 9), Mark.FAILED)])
def test_the_best_try_is_compared_with_table_2(best: tuple[int, int], mark: Mark) -> None:
    *accuracies, found = search.compared_numbers(tries(best))
    assert (found.published, found.ours, found.mark) == ("20, 5", "{}, {}".format(*best), mark)
    assert sorted(number.ours for number in accuracies) == ["80"] * 9 + ["81"]
    assert not any(number.counts for number in (*accuracies, found))


def test_a_search_that_is_not_complete_has_no_best_try() -> None:
    *_, found = search.compared_numbers(tries((20, 5))[:-1])
    assert (found.ours, found.mark, found.seeds) == ("", Mark.NOT_RUN, 4)
