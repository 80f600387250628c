"""Which eps gives which clusters: the oracle's biases, and the clusters of a run with that eps."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.analysis import eps_study
from fedkin.analysis.eps_study import EpsStudy, of_world, study_eps
from fedkin.clustering.density import dbscan
from fedkin.core.errors import ConfigError
from fedkin.core.training import LocalTraining
from fedkin.methods import FedAvg, Hierarchical
from fedkin.simulation.fake_world import FakeWorld

METHOD = Hierarchical(eps=0.4, pretraining=3)
LOCAL = fk.Adam(batch_size=10)


def federation() -> Any:
    return fk.data.digits(clients=10, partition="blocks", classes_per_client=2)


def of_biases(biases: list[list[float]], **options: Any) -> EpsStudy:
    """Clients whose last layers become these biases, from a start at zero."""
    target = np.array(biases)
    world = FakeWorld(
        target,
        np.ones(len(target), np.int64),
        LocalTraining(lr=1.0 - 1e-9),
        start=lambda _: np.zeros(target.shape[1]),
    )
    return of_world(Hierarchical(pretraining=1, **options), world, 0)


@pytest.mark.parametrize(("case", "clusters"), [("pairs", 5), ("iid", 1)])
def test_the_suggested_eps_finds_the_clusters_of_the_oracle(
    oracle: Callable[[str], dict[str, Any]], case: str, clusters: int
) -> None:
    found = of_biases(oracle("others")["hier_clustering"][case]["bias"])
    assert len(np.unique(dbscan(found.layers, found.suggested, 2))) == clusters
    (marked,) = [row for row in found.table().itertuples(index=False) if row[5] == "suggested"]
    assert marked[2] == str(clusters) and marked[3] == "0"


def test_ranges_of_four_clients_by_hand() -> None:
    """On a line at 0, 1, 10 and 12: pairs at 1 and at 2, everybody at 9."""
    found = of_biases([[0.0], [1.0], [10.0], [12.0]])
    told = [(one.low, one.high, one.clusters, one.noise) for one in found.ranges]
    expected = [(0, 1, 0, 4), (1, 2, 1, 2), (2, 9, 2, 0), (9, np.inf, 1, 0)]
    np.testing.assert_allclose(told, expected, atol=1e-5)
    np.testing.assert_allclose(found.curve, [1, 1, 2, 2], atol=1e-5)
    # The middle of 2 .. 9 on a logarithmic scale.
    assert found.suggested == pytest.approx(18**0.5, rel=1e-4)


def test_a_run_finds_the_clusters_of_the_study() -> None:
    data = federation()
    model = fk.models.mclr(data)
    study = study_eps(METHOD, data, model, local=LOCAL, seed=3)
    several = [one for one in study.ranges if one.clusters > 1 and not one.noise]
    for one in several[:2]:
        middle = (one.low + one.high) / 2
        kin = Hierarchical(eps=middle, pretraining=3)
        run = fk.simulate(kin, data, model, rounds=1, cohort=10, local=LOCAL, seed=3)
        assert run.summary()["clusters"] == one.clusters
    assert several and np.isfinite(study.layers).all() and study.layers.shape == (10, 10)


def test_summary_is_json_and_has_every_range() -> None:
    found = of_biases([[0.0], [1.0], [10.0], [12.0]])
    told = json.loads(json.dumps(found.summary(), allow_nan=False))
    assert told["clients"] == 4 and told["min_samples"] == 2 and len(told["ranges"]) == 4
    assert told["ranges"][-1]["high"] is None and told["suggested"] == found.suggested


def test_suspicious_clients_are_left_out() -> None:
    far = of_biases([[0.0], [1.0], [10.0], [11.0], [500.0]], suspicious=50.0)
    assert far.clients.tolist() == [0, 1, 2, 3]


def test_the_table_has_a_row_for_every_number_of_clusters_and_not_many() -> None:
    rng = np.random.default_rng(0)
    many = of_biases(rng.normal(size=(60, 2)).tolist())
    assert len(many.ranges) > 30 and len(many.table()) <= eps_study._ROWS
    lows = [float(text) for text in many.table()["eps from"]]
    assert lows == sorted(lows)


@pytest.mark.parametrize("seed", range(40))
def test_one_row_is_always_the_suggested(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = of_biases((rng.normal(size=(12, 3)) + 6 * rng.integers(0, 3, (12, 1))).tolist())
    assert found.table()[""].tolist().count("suggested") == 1


def test_other_methods_and_models_are_refused() -> None:
    data = federation()
    with pytest.raises(ConfigError, match="hierarchical or athena, got the class FedAvg"):
        study_eps(FedAvg(), data, fk.models.mclr(data))
    large = fk.data.digits(clients=10, size=32)
    with pytest.raises(
        ConfigError, match="Hierarchical trains a model with a score for every class"
    ):
        study_eps(METHOD, large, fk.models.detector(large))
