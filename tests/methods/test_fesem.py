"""FeSEM's rounds, worked by hand from Algorithm 1 of the paper. Steps shared with other methods are
in ``test_fesem_policies``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import FedkinError
from fedkin.core.method import UNASSIGNED
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.methods.fesem import FeSEM
from fedkin.simulation.fake_world import FakeWorld
from tests.methods.fesem_clients import (
    CLIENTS,
    EVERYBODY,
    LOCAL,
    MODELS,
    NEAREST,
    NO_CLIENTS,
    STREAM,
    TARGET,
    after,
    given,
    simulated,
    world,
)

# --- start


def test_clusters_start_apart_and_clients_together() -> None:
    state = FeSEM(clusters=3).init(world(), Stream(3))
    assert len({model.tobytes() for model in [*state.models, state.local[0]]}) == 4
    np.testing.assert_array_equal(state.local, np.tile(state.local[0], (5, 1)))
    np.testing.assert_array_equal(state.assignment, [UNASSIGNED] * 5)


def test_all_newcomers_are_nearest_to_one_cluster() -> None:
    """The collapse: whatever their data, they hold one and the same model."""
    for seed in range(6):
        w = world()
        state = FeSEM(clusters=3).init(w, Stream(seed))
        nearest = np.argmin(np.linalg.norm(state.models - state.local[0], axis=1))
        placed = FeSEM(clusters=3).place(w, state, EVERYBODY, STREAM)
        np.testing.assert_array_equal(placed.assignment, [nearest] * 5)


def test_a_collapse_lasts_where_steps_are_small() -> None:
    """Updates far shorter than the way between random models never lead anybody to another
    cluster."""
    w = simulated()
    method = FeSEM(clusters=3)
    state = method.init(w, Stream(3))
    for r in range(1, 6):
        state = method.round(w, state, np.arange(r % 2, CLIENTS, 2), Stream(3, r))
    assert len(set(state.assignment.tolist())) == 1
    assert np.sum(np.any(state.models != method.init(w, Stream(3)).models, axis=1)) == 1


# --- a round (Algorithm 1)


def test_every_client_goes_to_the_model_nearest_to_its_last_solution() -> None:
    np.testing.assert_array_equal(after().assignment, NEAREST)


def test_a_tie_goes_to_the_first_model() -> None:
    local = np.array([[4, 7]], np.float32)
    result = after([0], world(TARGET[:1]), given([1], local=local))
    np.testing.assert_array_equal(result.assignment, [0])


def test_a_cluster_is_the_simple_mean_of_its_clients_solutions() -> None:
    """From (0,0) half the way to (40,0), (0,2), (8,2); from (8,0) to (0,4), (40,0)."""
    np.testing.assert_allclose(after().models[:2], [[8, 2 / 3], [14, 1]], rtol=1e-6)


def test_clients_train_from_the_cluster_and_their_solution_is_kept() -> None:
    expected = [[20, 0], [0, 1], [4, 1], [4, 2], [24, 0]]
    np.testing.assert_allclose(after().local, expected, rtol=1e-6)


def test_the_next_round_measures_from_the_new_solutions() -> None:
    """To centers (8, 2/3), (14, 1), (40, 0): (20,0) and (24,0) are nearest to the second, the rest
    to the first."""
    np.testing.assert_array_equal(after(state=after()).assignment, [1, 0, 0, 0, 1])


def test_a_cluster_without_clients_keeps_its_model() -> None:
    assert after().models[2].tobytes() == MODELS[2].tobytes()
    assert after([3]).models[[0, 2]].tobytes() == MODELS[[0, 2]].tobytes()


def test_clients_outside_the_cohort_keep_all_they_have() -> None:
    result = after([0, 3], state=given([2, 2, UNASSIGNED, 2, 2]))
    np.testing.assert_array_equal(result.assignment, [0, 2, UNASSIGNED, 1, 2])
    np.testing.assert_array_equal(result.local[[1, 2, 4]], LOCAL[[1, 2, 4]])


def test_the_mean_by_examples() -> None:
    expected = [[(200 + 120) / 60, (20 + 30) / 60], [(160 + 1440) / 100, 80 / 100]]
    np.testing.assert_allclose(after(weighting="examples").models[:2], expected, rtol=1e-6)


def test_the_first_client_as_coded() -> None:
    """In each cluster one of its clients' solutions, in every round another; all solutions are
    kept."""
    method = FeSEM(weighting="first_client")
    results = [method.round(world(), given(), EVERYBODY, STREAM.at(r)) for r in range(1, 40)]
    assert {tuple(result.models[0].tolist()) for result in results} == {(20, 0), (0, 1), (4, 1)}
    assert {tuple(result.models[1].tolist()) for result in results} == {(4, 2), (24, 0)}
    np.testing.assert_allclose(results[0].local, after().local, rtol=1e-6)


# --- distances


def layered(kernel: slice, bias: slice | None) -> FakeWorld:
    """Four parameters: a hidden one, then a last layer; two clients."""
    w = world(np.zeros((2, 4), np.float32))
    w.spec = ModelSpec(4, head=slice(1, 4), head_bias=bias)
    return w


FOUR = np.array([[0, 0, 0, 0], [9, 5, 5, 9]], np.float32)


@pytest.mark.parametrize(("bias", "width"), [(slice(3, 4), 2), (slice(1, 2), 2), (None, 3)])
def test_the_head_is_the_weights_of_the_last_layer(bias: slice | None, width: int) -> None:
    w = layered(slice(1, 4), bias)
    state = FeSEM(clusters=2, part="head").init(w, Stream(3))
    kept = [i for i in (1, 2, 3) if bias is None or i not in range(4)[bias]]
    assert state.local.shape == (2, width)
    whole = np.asarray(FeSEM(clusters=2).init(w, Stream(3)).local)
    np.testing.assert_array_equal(state.local, whole[:, kept])


def test_by_the_head_the_rest_does_not_count() -> None:
    """(., 4, 4, .) is nearest to the head (5, 5) and, with the two numbers that stand for dots, to
    the zeros."""
    w = layered(slice(1, 4), slice(3, 4))
    whole = np.array([[0, 4, 4, 0], [0, 0, 0, 0]], np.float32)
    by_all = after([0], w, given([UNASSIGNED] * 2, FOUR, whole), clusters=2)
    by_head = after([0], w, given([UNASSIGNED] * 2, FOUR, whole[:, 1:3]), clusters=2, part="head")
    assert (by_all.assignment[0], by_head.assignment[0]) == (0, 1)
    np.testing.assert_allclose(by_head.local, [[2.5, 2.5], [0, 0]])
    np.testing.assert_allclose(by_head.models, [FOUR[0], FOUR[1] / 2])


def test_the_head_needs_a_last_layer() -> None:
    headless = world()
    headless.spec = replace(headless.spec, head=None)
    with pytest.raises(FedkinError, match="last layer"):
        FeSEM(part="head").init(headless, Stream(3))


def test_the_head_in_the_simulator() -> None:
    w = simulated()
    method = FeSEM(clusters=2, part="head")
    state = method.round(w, method.init(w, Stream(3)), np.arange(CLIENTS), STREAM)
    assert state.local.shape == (CLIENTS, 3 * 3) and state.local.dtype == np.float32
    kernel = state.models[:, w.spec.slices[list(w.spec.slices)[-2]]]
    cluster = state.assignment[0]  # all are in one: its model is the mean of their solutions
    np.testing.assert_allclose(np.mean(state.local, axis=0), kernel[cluster], rtol=1e-4, atol=1e-6)


def test_a_state_of_arrays_goes_on_as_the_one_that_was_stored() -> None:
    """A checkpoint has an array of the solutions; equal ones are shared again, and a round copies
    none of the rest."""
    w = simulated()
    method = FeSEM(clusters=2)
    state = method.round(w, method.init(w, Stream(3)), np.arange(4), STREAM)
    loaded = replace(state, local=np.asarray(state.local))
    # Of four clients that trained, and the start.
    assert len(loaded.solutions.distinct(np.arange(CLIENTS))[0]) == 5
    one, other = (method.round(w, s, np.arange(2, 7), Stream(3, 3)) for s in (state, loaded))
    assert np.asarray(one.local).tobytes() == np.asarray(other.local).tobytes()
    assert one.models.tobytes() == other.models.tobytes()
    assert other.local[0] is loaded.local[0]


# --- missing replies


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_a_client_that_does_not_answer_keeps_its_solution(how: str) -> None:
    result = after(w=world(**{how: frozenset({0, 4})}))
    np.testing.assert_array_equal(result.local[[0, 4]], LOCAL[[0, 4]])
    np.testing.assert_allclose(result.models[:2], [[2, 1], [4, 2]], rtol=1e-6)


@pytest.mark.parametrize("weighting", ["simple", "examples", "first_client"])
@pytest.mark.parametrize("cohort", [NO_CLIENTS, np.array([0, 1])])
def test_without_any_answer_no_model_changes(cohort: np.ndarray, weighting: Any) -> None:
    result = after(cohort, world(silent=frozenset(range(5))), weighting=weighting)
    assert (
        result.models.tobytes() == MODELS.tobytes()
        and np.asarray(result.local).tobytes() == LOCAL.tobytes()
    )


@pytest.mark.parametrize("migration", ["none", "label_blind"])
def test_nonfinite_data_stay_with_their_client(migration: Any) -> None:
    w = simulated()
    w.data.x[w.data.train[2]] = np.nan
    method = FeSEM(clusters=2, newcomers="loss", migration=migration)
    before = method.init(w, Stream(3))
    state = method.place(w, before, np.array([1, 2, 3]), STREAM)
    assert state.assignment[2] == UNASSIGNED and np.all(state.assignment[[1, 3]] != UNASSIGNED)
    np.testing.assert_array_equal(state.local[2], before.local[2])
    result = method.round(w, state, np.array([1, 2, 3]), STREAM)
    assert np.isfinite(result.models).all() and np.isfinite(result.local).all()


@pytest.mark.parametrize("cohort", [[], [4]])
def test_a_cohort_of_one_or_none_in_the_simulator(cohort: Any) -> None:
    w = simulated()
    method = FeSEM(clusters=2)
    state = method.init(w, Stream(3))
    result = method.round(w, state, np.array(cohort, np.int64), STREAM)
    assert np.sum(np.any(result.models != state.models, axis=1)) == len(cohort)
    assert np.isfinite(result.models).all()
