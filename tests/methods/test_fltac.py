"""FL-TAC: means of the oracle, and clusters that are found in every round on quadratic clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.clustering.kmeans import kmeans
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.methods.fltac import FLTAC
from tests.methods.adapter_world import adapter_world
from tests.methods.test_fedlease import same_partition

Oracle = Callable[[str], dict[str, Any]]
UPDATES = [[8, 0, 0, 0, 0, 0], [0, 8, 0, 0, 0, 0], [9, 0, 0, 0, 0, 0], [0, 9, 0, 0, 0, 0]]


def after(cohorts: list[list[int]], updates: Any = UPDATES, **options: Any) -> tuple[Any, Any]:
    world = adapter_world(updates)
    method = FLTAC(clusters=2, **options)
    state = method.init(world, Stream(1, 0, "method/init"))
    for number, cohort in enumerate(cohorts, 1):
        cohort = np.array(cohort)
        new = cohort[state.assignment[cohort] == UNASSIGNED]
        state = method.place(world, state, new, Stream(1, number, "place"))
        state = method.round(world, state, cohort, Stream(1, number, "method"))
    return world, state


def test_labels_and_means_are_the_oracles(oracle: Oracle) -> None:
    case = oracle("adapters")["fltac"]
    adapters = np.array(case["adapters"])
    assert same_partition(kmeans(adapters, 3, seed=0), case["labels"])
    # Client i sends its adapter after one epoch from zeros, and its number of examples is its
    # weight.
    world = adapter_world(adapters)
    world.examples = np.array(case["sizes"]).astype(np.int64)
    method = FLTAC(clusters=3)
    state = method.init(world, Stream(1, 0, "method/init"))
    state = method.place(world, state, np.arange(7), Stream(1, 1, "place"))
    state = method.round(world, state, np.arange(7), Stream(1, 1, "method"))
    assert same_partition(state.assignment, case["labels"])
    served = state.models[state.assignment]
    np.testing.assert_allclose(served, np.array(case["means"])[case["labels"]], rtol=1e-5)


def test_the_first_round_starts_from_one_model() -> None:
    world = adapter_world(UPDATES)
    method = FLTAC(clusters=2)
    state = method.init(world, Stream(1, 0, "method/init"))
    assert not state.models.any()
    state = method.place(world, state, np.arange(4), Stream(1, 1, "place"))
    assert set(state.assignment.tolist()) == {0}


def test_clusters_follow_from_the_trained_models() -> None:
    _, state = after([[0, 1, 2, 3]])
    assert same_partition(state.assignment, [0, 1, 0, 1])
    # Examples 10 and 30: the mean of 8 and 9 is 8.75.
    assert state.models[state.assignment[0], 0] == pytest.approx(8.75)


def test_clusters_keep_their_numbers_and_absent_clients_their_clusters() -> None:
    _, first = after([[0, 1, 2, 3]])
    _, second = after([[0, 1, 2, 3], [0, 2]])
    np.testing.assert_array_equal(second.assignment, first.assignment)
    # No client of the other cluster was selected, so its model stays.
    other = first.assignment[1]
    np.testing.assert_array_equal(second.models[other], first.models[other])
    # Half of the way from 8.75 to 16 and 18, weighted by 10 and 30.
    own = first.assignment[0]
    assert second.models[own, 0] == pytest.approx(0.25 * 12.375 + 0.75 * 13.375)


def after_one_round(
    updates: np.ndarray, second: float, before: list[int], cohort: list[int]
) -> Any:
    """The state after a round of two clusters whose models are 0 and ``second``, and whose clients
    have all trained before."""
    world = adapter_world(updates)
    method = FLTAC(clusters=2)
    state = method.init(world, Stream(1, 0, "method/init"))
    models = np.zeros((2, 6), np.float32)
    models[1, 0] = second
    trained = np.ones(len(before), bool)
    state = replace(state, models=models, assignment=np.array(before), trained=trained)
    return method.round(world, state, np.array(cohort), Stream(1, 1, "method"))


def test_a_cluster_without_selected_clients_keeps_the_model_of_its_clients() -> None:
    # Half of the way, clients 1 to 3 train from 0 to 50, and client 4 from 100 to 60. So clusters
    # 0 and 1 exchange their numbers: most clients of 50 and 60 were in cluster 0.
    updates = np.zeros((5, 6))
    updates[:, 0] = [0, 50, 50, 50, 10]
    state = after_one_round(updates, 100, before=[0, 0, 0, 0, 1], cohort=[1, 2, 3, 4])
    assert state.assignment.tolist() == [1, 0, 0, 0, 0]
    # Client 0 was not selected, and keeps the model that it had, 0: not 100, as cluster 1 was.
    assert state.models[1, 0] == 0
    # Weights 20, 30, 40 and 50.
    assert state.models[0, 0] == pytest.approx((90 * 50 + 50 * 60) / 140)


def test_former_models_in_one_cluster_are_averaged_by_their_clients() -> None:
    # Client 3 trains from 0 to 50; the models 0 and 1 of clients 0, 1 and 2 are near each other.
    updates = np.zeros((4, 6))
    updates[3, 0] = 50
    state = after_one_round(updates, 3, before=[0, 0, 1, 0], cohort=[3])
    assert same_partition(state.assignment, [0, 0, 0, 1])
    assert state.models[state.assignment[0], 0] == pytest.approx(1)


def test_a_client_that_never_trained_is_not_clustered() -> None:
    _, state = after([[0, 1]])
    assert state.assignment.tolist()[2:] == [UNASSIGNED, UNASSIGNED]
    assert state.trained.tolist() == [True, True, False, False]


def test_equal_clients_are_one_cluster() -> None:
    _, state = after([[0, 1, 2, 3]], updates=[[1, 0, 0, 0, 0, 0]] * 4)
    assert len(set(state.assignment.tolist())) == 1


@pytest.mark.parametrize("options", [{"clusters": 0}, {"newcomers": "nearest"}])
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(MethodError):
        FLTAC(**options)
