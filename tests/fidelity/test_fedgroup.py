"""FedGroup against vectors from the authors' code, one function at a time and through the method's
own steps.

A quadratic client whose target is w_0 + 2 D sends the update D after one epoch of lr 0.5; so the
published update matrix goes through the method like any clients' answers.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from fedkin.aggregation import inter_cluster_aggregation
from fedkin.clustering.kmeans import kmeans
from fedkin.core.randomness import Stream
from fedkin.measures.cosine import dissimilarity
from fedkin.measures.ternary import base_directions, ternary_similarity
from fedkin.methods.fedgroup import FedGroup, FedGroupState
from fedkin.simulation.fake_world import FakeWorld

Oracle = Callable[[str], dict[str, Any]]
STREAM = Stream(0, 0, "init")


def flat(layers: Any) -> np.ndarray:
    """A model given layer by layer as one vector, in order."""
    return np.concatenate([np.ravel(np.asarray(layer, float)) for layer in layers])


@pytest.fixture
def cold(oracle: Oracle) -> dict[str, Any]:
    return oracle("fedgroup_v1")["group_cold_start_v1"]


@pytest.fixture
def updates(oracle: Oracle) -> np.ndarray:
    return np.array(oracle("flexcfl")["edc_madc"]["update_matrix_n_by_d"])


@pytest.fixture
def w0(oracle: Oracle) -> np.ndarray:
    return np.array(oracle("flexcfl")["edc_madc"]["w0_flat"])


def world(w0: np.ndarray, updates: np.ndarray) -> FakeWorld:
    return FakeWorld(
        (w0 + 2 * updates).astype(np.float32), np.ones(len(updates), int), start=lambda _: w0
    )


def same_partition(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The renaming of b's clusters that makes it a, or a failure."""
    for names in permutations(range(3)):
        if np.array_equal(np.array(names)[b], a):
            return np.array(names)
    raise AssertionError(f"{a} and {b} are different partitions")


def test_base_directions(cold: dict[str, Any], updates: np.ndarray) -> None:
    expected = np.array(cold["base_directions_d_by_3"]).T
    result = base_directions(updates)
    signs = np.sign(np.sum(result * expected, axis=1, keepdims=True))
    np.testing.assert_allclose(signs * result, expected, rtol=1e-9, atol=1e-9)


def test_ternary_matrix(cold: dict[str, Any], updates: np.ndarray) -> None:
    directions = np.array(cold["base_directions_d_by_3"]).T
    np.testing.assert_allclose(
        ternary_similarity(updates, directions), cold["ternary_matrix_n_by_3"], atol=1e-5
    )


def test_ternary_matrix_from_float32_updates(cold: dict[str, Any], updates: np.ndarray) -> None:
    u = updates.astype(np.float32)
    result = ternary_similarity(u, base_directions(u))
    expected = np.array(cold["ternary_matrix_n_by_3"])
    flipped = np.abs(result - expected).max(axis=0) > np.abs(1 - result - expected).max(axis=0)
    np.testing.assert_allclose(np.where(flipped, 1 - result, result), expected, atol=1e-5)


def test_labels(cold: dict[str, Any]) -> None:
    result = kmeans(np.array(cold["ternary_matrix_n_by_3"]), 3, seed=cold["seed"])
    same_partition(np.array(cold["labels"]), result)


def test_group_cold_start(cold: dict[str, Any], updates: np.ndarray, w0: np.ndarray) -> None:
    state = FedGroup(clusters=3).init(world(w0, updates), STREAM)
    names = same_partition(state.assignment, np.array(cold["labels"]))
    for theirs, ours in enumerate(names):
        np.testing.assert_allclose(
            state.models[ours], cold["group_model_flat"][str(theirs)], atol=1e-5
        )
        np.testing.assert_allclose(
            state.directions[ours], cold["group_update_flat"][str(theirs)], atol=1e-5
        )


def test_difference_of_a_client_to_the_groups(cold: dict[str, Any], updates: np.ndarray) -> None:
    groups = np.array([cold["group_update_flat"][str(g)] for g in range(3)])
    expected = [cold["measure_difference_client0_to_groups"]]
    np.testing.assert_allclose(dissimilarity(updates[:1], groups), expected, atol=1e-9)


def test_client_cold_start(oracle: Oracle, w0: np.ndarray) -> None:
    case = oracle("flexcfl")["client_cold_start"]
    groups = np.array(case["group_opt_updates_flat"])
    update = np.array([case["newcomer_update_flat"]])
    np.testing.assert_allclose(dissimilarity(update, groups), [case["dissimilarity"]], atol=1e-9)
    state = FedGroupState(
        models=(w0 + groups).astype(np.float32),
        assignment=np.array([-1]),
        start=w0.astype(np.float32),
        directions=groups.astype(np.float32),
        pretrained=np.array([False]),
    )
    placed = FedGroup(clusters=3).place(world(w0, update), state, np.array([0]), STREAM)
    assert placed.assignment[0] == case["assigned"]


def groups_before(oracle: Oracle) -> np.ndarray:
    return np.stack(
        [flat(g) for g in oracle("flexcfl")["inter_group_aggregation"]["groups_before"]]
    )


@pytest.mark.parametrize("case", [0, 1])
def test_inter_group_aggregation(oracle: Oracle, case: int) -> None:
    expected = oracle("flexcfl")["inter_group_aggregation"]["cases"][case]
    before = groups_before(oracle)
    eta = expected["eta"]
    normalised = np.stack([flat(g) for g in expected["code_normalised"]])
    np.testing.assert_allclose(inter_cluster_aggregation(before, eta), normalised, atol=1e-9)
    unnormalised = inter_cluster_aggregation(before, eta, normalize=False)
    np.testing.assert_allclose(unnormalised, expected["paper_unnormalised_flat"], atol=1e-9)


def test_inter_group_aggregation_in_a_round(oracle: Oracle) -> None:
    """Clients that are already at their targets: a round is then nothing but the aggregation
    between groups."""
    [case] = oracle("fedgroup_v1")["aggregate_groups_v1"]["cases"]
    before = groups_before(oracle).astype(np.float32)
    state = FedGroupState(
        models=before,
        assignment=np.arange(3),
        start=np.zeros(before.shape[1], np.float32),
        directions=np.ones_like(before),
        pretrained=np.ones(3, bool),
    )
    method = FedGroup(clusters=3, eta_g=case["eta"])
    after = method.round(FakeWorld(before, np.ones(3, int)), state, np.arange(3), STREAM)
    np.testing.assert_allclose(after.models, np.stack([flat(g) for g in case["after"]]), atol=1e-6)
    np.testing.assert_allclose(after.global_model, flat(case["global_model"]), atol=1e-6)
