"""Hierarchical clustering against vectors: the biases of ten clients after ten epochs of one model,
and the clusters that three algorithms make of them.

A quadratic client whose target is its bias vector moves from zeros right there in one epoch of lr
1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.clustering.density import same_partition
from fedkin.methods.hierarchical import Hierarchical
from fedkin.methods.last_layer_clustering import LastLayerState
from tests.methods.last_layer_clients import INIT, world

Oracle = Callable[[str], dict[str, Any]]
CASES = ("pairs", "iid")
each_case = pytest.mark.parametrize("case", CASES)


def clustered(oracle: Oracle, case: str, **options: Any) -> tuple[LastLayerState, dict[str, Any]]:
    vector = oracle("others")["hier_clustering"][case]
    w = world(vector["bias"])
    return Hierarchical(**options).init(w, INIT), vector


@each_case
def test_the_update_is_the_bias_vector(oracle: Oracle, case: str) -> None:
    state, vector = clustered(oracle, case)
    np.testing.assert_array_equal(state.layers, np.array(vector["bias"], np.float32))


@each_case
def test_dbscan_with_the_authors_settings(oracle: Oracle, case: str) -> None:
    """eps = 0.0279 and two samples are the defaults."""
    state, vector = clustered(oracle, case)
    np.testing.assert_array_equal(state.assignment, vector["dbscan_eps_0_0279_min2"])
    assert state.clusters == {"pairs": 5, "iid": 1}[case]


@each_case
def test_optics(oracle: Oracle, case: str) -> None:
    state, vector = clustered(oracle, case, algorithm="optics")
    assert same_partition(state.assignment, np.array(vector["optics_min2"]))


@pytest.mark.parametrize("clusters", [2, 3, 5])
def test_kmeans(oracle: Oracle, clusters: int) -> None:
    state, vector = clustered(oracle, "pairs", algorithm="kmeans", clusters=clusters)
    assert same_partition(state.assignment, np.array(vector["kmeans"][str(clusters)]))
    assert state.clusters == clusters


@each_case
def test_outside_its_range_the_authors_eps_is_remarked_on(oracle: Oracle, case: str) -> None:
    """It tells the pairs apart and makes one cluster of the others. The distances come from the
    vectors."""
    state, vector = clustered(oracle, case)
    said = Hierarchical().remarks(state)
    assert len(said) == (case == "iid")
    if said:
        assert (
            "all clients into one cluster" in said[0]
            and f"from {vector['min_dist']:.3g} to" in said[0]
        )
