"""OCFL's temperature and clusters, against the vectors of ``production.json``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from fedkin.clustering.one_shot import clusters_of
from fedkin.measures.temperature import (
    cosine_distances,
    rises,
    separation,
    separation_p_value,
    temperature,
)

Oracle = Callable[[str], dict[str, Any]]


def test_temperatures_are_the_oracles(oracle: Oracle) -> None:
    for case in oracle("production")["ocfl"]["temperature"]:
        distances = cosine_distances(np.array(case["updates"]))
        if "cosine_distance" in case:
            np.testing.assert_allclose(distances, case["cosine_distance"], atol=1e-12)
        assert temperature(distances) == pytest.approx(case["temperature"], abs=1e-12)
        for order, expected in case.get("any_p", {}).items():
            assert temperature(distances, float(order)) == pytest.approx(expected, abs=1e-12)
    assert temperature(np.zeros((1, 1))) == 0


def test_the_first_strict_rise_fires_as_the_oracle_and_the_authors_logs(oracle: Oracle) -> None:
    vectors = oracle("production")["ocfl"]
    for case in vectors["trigger"] + vectors["committed_logs"]:
        series = [np.inf, *case["temperatures"]]
        fired = [t for t in range(1, len(series)) if rises(series[t], series[t - 1])]
        assert (fired[0] - 1 if fired else None) == case["clustering_in_round"]


def test_clusters_are_the_oracles(oracle: Oracle) -> None:
    for case in oracle("production")["ocfl"]["clustering"]:
        distances = cosine_distances(np.array(case["updates"]))
        pairs = (
            (clusters_of(distances, "hdbscan", noise="own"), case["hdbscan_min_3"]),
            (clusters_of(distances, "mean_shift"), case["mean_shift_on_rows"]),
            (
                clusters_of(distances, "kmeans", clusters=len(case["sizes"])),
                case["kmeans_on_rows"],
            ),
        )
        for found, expected in pairs:
            assert adjusted_rand_score(found, expected) == 1


def test_clients_that_hdbscan_leaves_out_join_the_nearest_cluster(oracle: Oracle) -> None:
    case = oracle("production")["ocfl"]["clustering"][-1]
    noise = np.array(case["hdbscan_min_3"]) == -1
    assert noise.any()
    labels = clusters_of(cosine_distances(np.array(case["updates"])), "hdbscan")
    assert labels.max() == 1
    # Points that are all outliers are one cluster.
    assert not clusters_of(1.0 - np.eye(2), "hdbscan").any()


def test_a_whole_run_is_the_oracles(oracle: Oracle) -> None:
    (run,) = oracle("production")["ocfl"]["one_shot"]
    before = np.inf
    fired = None
    for number, round in enumerate(run["rounds"]):
        distances = cosine_distances(np.array(round["updates"]))
        now = temperature(distances)
        assert now == pytest.approx(round["temperature"], abs=1e-12)
        if fired is None and rises(now, before):
            fired = number
            labels = clusters_of(distances, "hdbscan")
            assert adjusted_rand_score(labels, round["partition"]) == 1
        before = now
    assert fired == run["fires_in_round"]


def test_the_separation_is_the_oracles(oracle: Oracle) -> None:
    case = oracle("production")["given_clusters"]
    distances = cosine_distances(np.array(case["updates"]))
    labels = np.array(case["labels"])
    observed = separation(distances, labels)
    assert observed == pytest.approx(case["statistic"], abs=1e-12)
    # All relabellings with the same sizes.
    drawn = {tuple(order) for order in permutations(case["labels"])}
    assert len(drawn) == case["relabellings"]
    as_good = [separation(distances, np.array(order)) >= observed - 1e-12 for order in drawn]
    assert np.mean(as_good) == pytest.approx(case["p_value"])
    # Random relabellings come near it.
    p_value = separation_p_value(distances, labels, np.random.default_rng(0))
    assert p_value == pytest.approx(case["p_value"], abs=0.05)
    assert separation(distances, np.zeros(6, np.int64)) == 0


def test_clusters_of_noise_are_not_confirmed_by_other_noise() -> None:
    """Clusters separate the updates that they were made from, and not those of another round."""
    rng = np.random.default_rng(5)
    first, second = (cosine_distances(rng.standard_normal((12, 30))) for _ in range(2))
    labels = clusters_of(first, "kmeans", clusters=3)
    assert separation_p_value(first, labels, rng) < 0.01
    assert separation_p_value(second, labels, rng) > 0.05
