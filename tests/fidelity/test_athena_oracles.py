"""ATHENA-FL and its hierarchical clustering against vectors: clusters of biases, epochs, and the
bytes of Table 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.clustering.dbscan_eps import eps_ranges, suggest_eps, useful_range
from fedkin.clustering.density import (
    dbscan,
    euclidean,
    nearest_neighbour_distance,
    optics,
    same_partition,
)
from fedkin.measures.convergence import convergence_epoch, economy, transmitted_mib

Oracle = Callable[[str], dict[str, Any]]
# The middle of 0.0083 and 0.0475, the range of 10 local epochs that suits 2 and 5 classes per
# client.
EPS = 0.0279
CASES = ("pairs", "iid")

# Table 1 as it is printed: MiB of ATHENA-FL and of FedAvg with MobileNet, and the economy in per
# cent.
TABLE_1 = {
    ("CIFAR-10", "IID"): ("37.635", "378.106", "90.05"),
    ("CIFAR-10", "Non-IID 5"): ("64.517", "289.881", "77.74"),
    ("CIFAR-10", "Non-IID 2"): ("75.270", "100.828", "25.35"),
    ("MNIST", "IID"): ("21.506", "88.225", "75.62"),
    ("MNIST", "Non-IID 5"): ("129.034", "731.005", "82.35"),
    ("MNIST", "Non-IID 2"): ("21.506", "819.230", "97.37"),
    ("FMNIST", "IID"): ("26.88", "554.56", "95.15"),
    ("FMNIST", "Non-IID 5"): ("435.49", "1903.1", "77.12"),
    ("FMNIST", "Non-IID 2"): ("112.91", "1008.3", "88.8"),
}


def printed(number: float, like: str) -> str:
    """The number with as many decimals as another that is printed."""
    return f"{number:.{len(like.partition('.')[2])}f}"


def biases(oracle: Oracle, case: str) -> tuple[np.ndarray, dict[str, Any]]:
    vector = oracle("others")["hier_clustering"][case]
    return np.array(vector["bias"]), vector


@pytest.mark.parametrize("case", CASES)
def test_dbscan(oracle: Oracle, case: str) -> None:
    points, vector = biases(oracle, case)
    np.testing.assert_array_equal(dbscan(points, EPS, 2), vector["dbscan_eps_0_0279_min2"])


@pytest.mark.parametrize("case", CASES)
def test_optics(oracle: Oracle, case: str) -> None:
    points, vector = biases(oracle, case)
    assert same_partition(optics(points, 2), np.array(vector["optics_min2"]))


@pytest.mark.parametrize("case", CASES)
def test_distances(oracle: Oracle, case: str) -> None:
    points, vector = biases(oracle, case)
    assert euclidean(points).max() == pytest.approx(vector["max_dist"], rel=1e-12)
    assert nearest_neighbour_distance(points).min() == pytest.approx(vector["min_dist"], rel=1e-12)
    assert useful_range(points, 2)[0] == pytest.approx(vector["min_dist"], rel=1e-12)


@pytest.mark.parametrize(("case", "clusters"), [("pairs", 5), ("iid", 1)])
def test_the_suggested_eps_finds_the_clusters_of_the_authors_eps(
    oracle: Oracle, case: str, clusters: int
) -> None:
    points, vector = biases(oracle, case)
    labels = dbscan(points, suggest_eps(eps_ranges(points, 2)), 2)
    assert labels.max() + 1 == clusters
    np.testing.assert_array_equal(labels, vector["dbscan_eps_0_0279_min2"])


def test_the_authors_eps_is_in_the_range_of_five_clusters(oracle: Oracle) -> None:
    points, _ = biases(oracle, "pairs")
    assert [(r.clusters, r.noise) for r in eps_ranges(points, 2) if r.low <= EPS < r.high] == [
        (5, 0)
    ]


def test_convergence_epoch(oracle: Oracle) -> None:
    vector = oracle("others")["convergence_epoch"]
    assert convergence_epoch(np.array(vector["acc"]), vector["tol"]) == vector["epoch_1_based"]


def test_bytes_per_epoch(oracle: Oracle) -> None:
    vector = oracle("others")["athena_tdt"]
    sizes = vector["bytes"]
    assert transmitted_mib(1, 10, sizes["detector_file"]) == vector["per_epoch_MiB"]["athena"]
    assert (
        transmitted_mib(1, 1, sizes["mobilenet_file"])
        == vector["per_epoch_MiB"]["fedavg_mobilenet"]
    )


@pytest.mark.parametrize("cell", range(9))
def test_table_1(oracle: Oracle, cell: int) -> None:
    vector = oracle("others")["athena_tdt"]
    row = vector["rows"][cell]
    athena = transmitted_mib(row["E_athena"], 10, vector["bytes"]["detector_file"])
    fedavg = transmitted_mib(row["E_fedavg"], 1, vector["bytes"]["mobilenet_file"])
    saved = 100 * economy(athena, fedavg)
    result = (athena, fedavg, saved)
    assert result == pytest.approx(
        (row["tdt_athena"], row["tdt_fedavg"], row["economy_percent"]), rel=1e-12
    )
    expected = TABLE_1[row["dataset"], row["setting"]]
    assert tuple(map(printed, result, expected)) == expected
