"""IFCA's rounds, worked by hand from Algorithm 1 of the paper. Steps shared with other methods are
in ``test_ifca_policies``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import FedkinError
from fedkin.core.method import UNASSIGNED
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.ifca import IFCA
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.losses import Losses
from tests.methods.ifca_clients import (
    CLIENTS,
    EVERYBODY,
    MODELS,
    NEAREST,
    STREAM,
    RecordingWorld,
    after,
    given,
    simulated,
    world,
)

# --- start


def test_clusters_start_from_different_random_models_without_clients() -> None:
    state = IFCA(clusters=3).init(world(), Stream(3))
    assert len({model.tobytes() for model in state.models}) == 3
    np.testing.assert_array_equal(state.assignment, [UNASSIGNED] * 5)


def test_a_cluster_starts_the_same_with_any_number_of_clusters() -> None:
    few, many = (IFCA(clusters=k).init(world(), Stream(3)).models for k in (2, 4))
    np.testing.assert_array_equal(few, many[:2])


# --- a round (Algorithm 1)


def test_every_client_takes_the_model_of_its_lowest_loss() -> None:
    np.testing.assert_array_equal(after().assignment, NEAREST)


def test_all_models_are_offered_to_the_whole_cohort_at_once() -> None:
    w = world()
    after([0, 3], w)
    assert [(clients, model_index) for clients, model_index, _ in w.trained] == [([0, 3], None)]


def test_a_cluster_is_the_simple_mean_of_its_clients_solutions() -> None:
    """Half the way to (2,0), (0,2), (1,1) from 0: mean (0.5, 0.5). To (8,4), (10,0) from (8,0):
    mean (8.5, 1)."""
    np.testing.assert_allclose(after().models[:2], [[0.5, 0.5], [8.5, 1]], rtol=1e-6)


def test_a_cluster_that_no_client_chose_keeps_its_model() -> None:
    assert after().models[2].tobytes() == MODELS[2].tobytes()
    assert after([3]).models[[0, 2]].tobytes() == MODELS[[0, 2]].tobytes()


def test_a_tie_goes_to_the_first_model() -> None:
    w = world(np.array([[4, 0]], np.float32))
    np.testing.assert_array_equal(after([0], w, given([1])).assignment, [0])


def test_clients_choose_again_in_every_round() -> None:
    state = after(state=given([1, 1, 1, 0, 0]))
    np.testing.assert_array_equal(state.assignment, NEAREST)
    moved = replace(state, models=np.array([[90, 0], [60, 0], [1, 1]], np.float32))
    np.testing.assert_array_equal(after(state=moved).assignment, [2, 2, 2, 2, 2])


def test_clients_outside_the_cohort_keep_their_cluster() -> None:
    np.testing.assert_array_equal(
        after([0, 3], state=given([2, 2, UNASSIGNED, 2, 2])).assignment, [0, 2, UNASSIGNED, 1, 2]
    )


# --- weights


def test_the_mean_by_examples() -> None:
    """Solutions (1,0), (0,1), (.5,.5) by 10, 20, 30; and (8,2), (9,0) by 40, 60."""
    expected = [[25 / 60, 35 / 60], [8.6, 0.8]]
    np.testing.assert_allclose(after(weighting="examples").models[:2], expected, rtol=1e-6)


def test_the_first_client_as_coded() -> None:
    """In each cluster one of its clients' solutions, (1,0), (0,1), (.5,.5) and (8,2), (9,0), in
    every round another."""
    state = given()
    method = IFCA(weighting="first_client")
    models = [
        method.round(world(), state, EVERYBODY, STREAM.at(r)).models.tolist() for r in range(1, 40)
    ]
    assert {tuple(first) for first, *_ in models} == {(1, 0), (0, 1), (0.5, 0.5)}
    assert {tuple(second) for _, second, _ in models} == {(8, 2), (9, 0)}


def test_the_first_client_of_those_that_answered() -> None:
    alone = after(w=world(silent=frozenset({0, 2, 3})), weighting="first_client")
    np.testing.assert_allclose(alone.models[:2], [[0, 1], [9, 0]], rtol=1e-6)


# --- averaging of gradients


def test_gradients_are_divided_by_all_clients_of_the_round() -> None:
    """theta_j - lr/M sum of gradients: lr 0.5, M 5, sums (-3, -3) and (-2, -4)."""
    expected = [[0.3, 0.3], [8.2, 0.4], [40, 0]]
    np.testing.assert_allclose(after(averaging="gradients").models, expected, rtol=1e-6)


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_gradients_are_divided_by_those_that_answered(how: str) -> None:
    """Without clients 1 and 4: M 3, sums (-3, -1) and (0, -4)."""
    lost = world(**{how: frozenset({1, 4})})
    expected = [[0.5, 1 / 6], [8, 2 / 3], [40, 0]]
    np.testing.assert_allclose(after(w=lost, averaging="gradients").models, expected, rtol=1e-6)


def test_a_gradient_is_one_plain_step_on_all_samples() -> None:
    w = world()
    w.work = LocalTraining(7, batch_size=3, lr=0.25, optimizer="adam", mu=1.0, steps=9)
    after(w=w, averaging="gradients")
    [(_, _, work)] = w.trained
    assert (
        work == LocalTraining(1, batch_size=work.batch_size, lr=0.25) and work.batch_size >= 10**9
    )


def test_a_gradient_has_the_runs_decay_and_clipping() -> None:
    w = world()
    w.work = LocalTraining(7, lr=0.25, weight_decay=0.5, clip_norm=2.0)
    after(w=w, averaging="gradients")
    assert w.trained[0][2].weight_decay == 0.5 and w.trained[0][2].clip_norm == 2.0


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"optimizer": "adam"}, "optimizer"),
        ({"momentum": 0.9}, "momentum"),
        ({"step_schedule": "linear"}, "step_"),
    ],
)
def test_a_gradient_with_the_memory_of_steps_is_refused(options: dict[str, Any], name: str) -> None:
    w = world()
    w.work = LocalTraining.from_settings(options)
    with pytest.raises(FedkinError, match=f"one step of plain SGD, without local.{name}"):
        IFCA(averaging="gradients").init(w, Stream(3))
    IFCA().init(w, Stream(3))


def test_the_work_of_the_run_is_done_where_models_are_averaged() -> None:
    w = world()
    after(w=w)
    assert w.trained[0][2] == w.work


def test_gradient_averaging_in_the_simulator() -> None:
    """The same as asking for gradients and stepping by hand, though the run's work is mini-batches
    of Adam."""
    w = simulated(LocalTraining(epochs=3, batch_size=4, lr=0.05, optimizer="adam"))
    state = IFCA(clusters=2).init(w, Stream(3))
    everybody = np.arange(CLIENTS)
    model_index = np.argmin(w.run(Losses(state.models), everybody).losses, axis=1)
    gradient = w.run(Gradients(state.models, model_index), everybody).gradients
    expected = state.models.astype(float)
    np.add.at(expected, model_index, -0.05 / CLIENTS * gradient)
    result = IFCA(clusters=2, averaging="gradients").round(w, state, everybody, STREAM)
    np.testing.assert_allclose(result.models, expected, rtol=1e-5, atol=1e-6)
    assert np.any(result.models != state.models)


# --- a shared base


def with_head(w: RecordingWorld, head: slice | None = slice(1, 2)) -> RecordingWorld:
    w.spec = ModelSpec(2, head=head)
    return w


def test_a_shared_base_is_one_from_the_start() -> None:
    models = IFCA(clusters=3, shared_base=True).init(with_head(world()), Stream(3)).models
    assert len(set(models[:, 0].tolist())) == 1 and len(set(models[:, 1].tolist())) == 3


# A base of one number, 4, and heads 0, 8, 40.
BASED = np.array([[4, 0], [4, 8], [4, 40]], np.float32)
BASED_TARGET = np.array([[6, 0], [0, 2], [4, 1], [8, 8], [4, 10]], np.float32)


@pytest.mark.parametrize("averaging", ["models", "gradients"])
def test_a_shared_base_learns_from_everybody(averaging: Any) -> None:
    """Half the way to 6, 0, 4, 8, 4 from 4, over five clients: 4 + 0.5 * 2 / 5 = 4.2, in every
    model. Heads: 0.5 * 3 to cluster 0 and 0.5 * 2 to cluster 1, over its own clients (models) or
    all (gradients)."""
    w = with_head(world(BASED_TARGET))
    result = after(w=w, state=given(models=BASED), shared_base=True, averaging=averaging).models
    heads = {"models": [0.5, 8.5, 40], "gradients": [0.3, 8.2, 40]}[averaging]
    np.testing.assert_allclose(result, np.stack([[4.2] * 3, heads], axis=1), rtol=1e-6)


def test_a_shared_base_needs_a_last_layer() -> None:
    with pytest.raises(FedkinError, match="last layer"):
        IFCA(shared_base=True).init(with_head(world(), None), Stream(3))


def test_a_base_is_shared_in_the_simulator() -> None:
    w = simulated()
    method = IFCA(clusters=2, shared_base=True)
    before = method.init(w, Stream(3))
    result = method.round(w, before, np.arange(CLIENTS), STREAM).models
    assert w.spec.head is not None
    base, heads = np.split(result, [w.spec.head.start], axis=1)
    assert base[0].tobytes() == base[1].tobytes() and np.any(
        base[0] != before.models[0, : base.shape[1]]
    )
    assert np.any(heads[0] != heads[1])


# --- missing replies


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_a_client_that_does_not_answer_keeps_its_cluster(how: str) -> None:
    result = after(w=world(**{how: frozenset({1, 4})}), state=given([2, 2, 2, 2, UNASSIGNED]))
    np.testing.assert_array_equal(result.assignment, [0, 2, 0, 1, UNASSIGNED])
    np.testing.assert_allclose(result.models[:2], [[0.75, 0.25], [8, 2]], rtol=1e-6)


@pytest.mark.parametrize("averaging", ["models", "gradients"])
@pytest.mark.parametrize("cohort", [[], [0, 1]])
def test_without_any_answer_nothing_changes(cohort: Any, averaging: Any) -> None:
    w = world(silent=frozenset(range(5)))
    result = after(np.array(cohort, np.int64), w, averaging=averaging, weighting="examples")
    assert result.models.tobytes() == MODELS.tobytes()
    np.testing.assert_array_equal(result.assignment, [UNASSIGNED] * 5)


@pytest.mark.parametrize("migration", ["none", "label_blind"])
def test_a_client_without_a_finite_loss_is_left_out(migration: Any) -> None:
    w = simulated()
    w.data.x[w.data.train[2]] = np.nan
    method = IFCA(clusters=2, migration=migration)
    state = method.init(w, Stream(3))
    result = method.round(w, state, np.array([1, 2, 3]), STREAM)
    without = method.round(w, state, np.array([1, 3]), STREAM)
    assert result.assignment[2] == UNASSIGNED and np.isfinite(result.models).all()
    np.testing.assert_allclose(result.models, without.models, rtol=1e-6)


@pytest.mark.parametrize("cohort", [[], [4]])
def test_a_cohort_of_one_or_none_in_the_simulator(cohort: Any) -> None:
    w = simulated()
    method = IFCA(clusters=2)
    state = method.init(w, Stream(3))
    result = method.round(w, state, np.array(cohort, np.int64), STREAM)
    assert np.sum(np.any(result.models != state.models, axis=1)) == len(cohort)
    assert np.isfinite(result.models).all()
