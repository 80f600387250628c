"""FedLEASE: distances and numbers of clusters of the oracle, and the steps on quadratic clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.clustering.agglomerative import best_silhouette, silhouettes_of_cuts
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.measures.factor_distances import mean_cosine_distances
from fedkin.methods.fedlease import FedLEASE
from tests.methods.adapter_world import adapter_world

Oracle = Callable[[str], dict[str, Any]]
# A and the last layer say something else than B: clients 0, 2, 4 have one B, 1, 3, 5 the other.
UPDATES = [
    [9, 0, 1, 0, 1, 1],
    [9, 1, 0, 1, 1, 1],
    [0, 9, 2, 0, 1, 1],
    [1, 9, 0, 2, 1, 1],
    [9, 9, 3, 0, 1, 1],
    [9, 8, 0, 3, 1, 1],
]


def begun(updates: Any = UPDATES, **options: Any) -> Any:
    world = adapter_world(updates)
    return FedLEASE(warm_up=1, **options).init(world, Stream(1, 0, "method/init"))


@pytest.mark.parametrize("number", [0, 1])
def test_distances_and_clusters_are_the_oracles(number: int, oracle: Oracle) -> None:
    case = oracle("adapters")["fedlease_clusters"][number]
    factors = np.array(case["B"])
    flat = factors.reshape(len(factors), -1)
    size = factors[0, 0].size
    matrices = [slice(size * m, size * (m + 1)) for m in range(factors.shape[1])]
    distances = mean_cosine_distances(flat, matrices)
    np.testing.assert_allclose(distances, case["distance"], atol=1e-9)
    cuts, silhouettes = silhouettes_of_cuts(distances, "average", 4)
    for column, (clusters, silhouette) in enumerate(case["silhouette"].items()):
        assert silhouettes[column] == pytest.approx(silhouette, abs=1e-9)
        assert same_partition(cuts[:, column], case["labels"][clusters])
    found = best_silhouette(distances, most=4, floor=0.15, largest=2.0)
    assert same_partition(found, case["labels_chosen"])


def same_partition(one: Any, other: Any) -> bool:
    pairs = set(zip(np.asarray(one).tolist(), np.asarray(other).tolist(), strict=True))
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def test_a_matrix_counts_the_same_whatever_its_norm() -> None:
    updates = np.array([[1e3, 0, 1, 0], [1e3, 0, 0, 1]], np.float32)
    distances = mean_cosine_distances(updates, [slice(0, 2), slice(2, 4)])
    assert distances[0, 1] == pytest.approx(0.5)
    assert mean_cosine_distances(np.zeros((2, 2)), [slice(0, 2)])[0, 1] == 1


def test_b_decides() -> None:
    state = begun()
    assert state.assignment.tolist() == [0, 1, 0, 1, 0, 1]
    # Each cluster starts from the mean of its clients, whole, weighted by 10, 30 and 50 examples.
    weights = np.array([10, 30, 50]) / 90
    np.testing.assert_allclose(state.models[0], weights @ np.array(UPDATES)[::2], rtol=1e-6)


def test_the_warm_up_is_as_long_as_its_rounds() -> None:
    world = adapter_world(UPDATES)
    state = FedLEASE(warm_up=2).init(world, Stream(1, 0, "method/init"))
    # Two epochs go three quarters of the way to the target, which is twice the update.
    weights = np.array([10, 30, 50]) / 90
    np.testing.assert_allclose(state.models[0], 1.5 * weights @ np.array(UPDATES)[::2], rtol=1e-6)


def test_clients_that_are_alike_share_one_model() -> None:
    rng = np.random.default_rng(0)
    updates = 1 + rng.normal(size=(8, 2 + 200 + 2))
    assert set(begun(updates).assignment.tolist()) == {0}
    # Without the floor, they are split: the highest silhouette is above 0.
    assert len(begun(updates, floor=0.0).models) > 1


def test_at_most_so_many_clusters() -> None:
    assert len(begun(most=2).models) == 2
    assert len(begun(most=1).models) == 1


def test_then_each_cluster_averages() -> None:
    world = adapter_world(UPDATES)
    method = FedLEASE(warm_up=1)
    state = method.init(world, Stream(1, 0, "method/init"))
    after = method.round(world, state, np.array([0, 2]), Stream(1, 1, "method"))
    # Half of the way from the model to the targets, which are twice the updates.
    steps = np.array([10, 30]) / 40 @ (np.array(UPDATES)[[0, 2]] - state.models[0] / 2)
    np.testing.assert_allclose(after.models[0], state.models[0] + steps, rtol=1e-5)
    np.testing.assert_array_equal(after.models[1], state.models[1])


def test_clients_that_are_silent_in_the_warm_up_join_later() -> None:
    world = adapter_world(UPDATES, silent=frozenset({5}))
    method = FedLEASE(warm_up=1)
    state = method.init(world, Stream(1, 0, "method/init"))
    assert state.assignment[5] == UNASSIGNED
    world.silent = frozenset()
    placed = method.place(world, state, np.array([5]), Stream(1, 1, "method"))
    assert placed.assignment[5] in (0, 1)


def test_no_client_replies() -> None:
    world = adapter_world(UPDATES, silent=frozenset(range(6)))
    with pytest.raises(MethodError, match="0 of 6 clients sent an update"):
        FedLEASE().init(world, Stream(1, 0, "method/init"))


@pytest.mark.parametrize(
    "options", [{"most": 0}, {"warm_up": 0}, {"floor": -1}, {"newcomers": "nearest"}]
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(MethodError):
        FedLEASE(**options)
