"""CFL-GP: its spectral step by the authors' code, the mean over queries by hand, one criterion
model for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import fedkin as fk
from fedkin.clustering.matching import match_labels
from fedkin.clustering.spectral import count_by_silhouette, spectral_clusters, spectrum
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.measures.gram import gram
from fedkin.methods.cflgp import CFLGP, CFLGPState
from fedkin.models import mclr
from fedkin.simulation.fake_world import FakeWorld

TARGET = np.array([[8, 0, 1], [8, 1, 0], [0, 9, 1], [1, 9, 0]], np.float32)
EVERYBODY = np.arange(4)


def world(target: Any = TARGET, **options: Any) -> FakeWorld:
    """Quadratic clients: the gradient at w is w - target,
    and a round of lr 0.5 goes half the way."""
    target = np.asarray(target, np.float32)
    start = lambda _: np.zeros(target.shape[1])  # noqa: E731
    return FakeWorld(
        target, np.full(len(target), 10), LocalTraining(lr=0.5), start=start, **options
    )


def rounds(
    method: CFLGP, w: FakeWorld, count: int, state: CFLGPState | None = None, first: int = 1
) -> CFLGPState:
    state = method.init(w, Stream(1, 0, "init")) if state is None else state
    for r in range(first, count + 1):
        state = method.round(w, state, EVERYBODY, Stream(1, r, "method"))
    return state


# --- the spectral step


def test_oracle(oracle: Callable[[str], dict[str, Any]]) -> None:
    """Singular values, projections up to sign, clusters with their numbers, and K by the
    silhouette."""
    for case in oracle("methods2")["cflgp"]:
        before = np.full(len(case["truth"]), UNASSIGNED)
        for number, step in enumerate(case["steps"]):
            columns = np.array(step["profile_block"]).T  # a row for each client
            found = spectrum(gram(columns))
            np.testing.assert_allclose(
                found.values[: len(step["singular_values"])], step["singular_values"], atol=1e-7
            )
            reduced = np.abs(found.projected(case["K"]).T)
            np.testing.assert_allclose(reduced, step["abs_reduced"], atol=case["tolerance"])
            labels = match_labels(spectral_clusters(found, case["K"], 42), before, case["K"])
            assert adjusted_rand_score(labels, step["labels"]) == 1
            if number:
                np.testing.assert_array_equal(labels, step["labels"])
            assert (
                count_by_silhouette(found, case["K"] + 2, 42) == step["proposed_k_up_to_K_plus_2"]
            )
            before = np.array(step["labels"])


def test_the_mean_as_coded_forgets_the_first_queries(
    oracle: Callable[[str], dict[str, Any]],
) -> None:
    """The profiles of the oracle, from the method, with clients that have the gradients of the
    case."""
    for case in oracle("methods2")["cflgp"]:
        method = CFLGP(clusters=case["K"], period=case["period"], weighting="as_coded")
        gradients = np.array(case["gradients"])
        state = method.init(world(gradients[0]), Stream(1, 0, "init"))
        for query, (now, step) in enumerate(zip(gradients, case["steps"], strict=True)):
            state = method._answers(world(-now), state, query, np.arange(len(now)))
            np.testing.assert_allclose(state.profiles.T, step["profile_block"], atol=1e-5)


@pytest.mark.parametrize(
    ("weighting", "expected"), [("mean", [1, 1 / 2, 1 / 3]), ("as_coded", [1, 1, 1 / 2])]
)
def test_weights_of_queries_by_hand(weighting: Any, expected: list[float]) -> None:
    """t = 0, 2, 4 with K p = 4: floor((t + 1) / 4) + 1 is 1, 1, 2."""
    method = CFLGP(clusters=2, weighting=weighting)
    w = world()
    state = method.init(w, Stream(1, 0, "init"))
    for query, beta in enumerate(expected):
        np.testing.assert_allclose(method._beta(state, query, np.array([0])), beta)
        state = method._answers(w, state, query, np.array([0]))


def test_projections_of_others_are_those_of_the_same_directions() -> None:
    rng = np.random.default_rng(0)
    known = rng.normal(size=(7, 30))
    others = rng.normal(size=(3, 30))
    left = np.linalg.svd(known.T, full_matrices=False)[0][:, :4]
    found = spectrum(gram(known))
    np.testing.assert_allclose(
        np.abs(found.project(others @ known.T, 4)), np.abs(others @ left), atol=1e-9
    )
    np.testing.assert_allclose(found.project(known @ known.T, 4), found.projected(4), atol=1e-9)


def test_numbers_of_clusters_that_cannot_be_found() -> None:
    with pytest.raises(MethodError, match=r"at least 3 rows .* got 2"):
        count_by_silhouette(spectrum(np.eye(2)), 4, 0)
    with pytest.raises(MethodError, match=r"all 5 rows .* are equal"):
        count_by_silhouette(spectrum(np.zeros((5, 5))), 4, 0)


# --- the method


def test_everybody_is_asked_at_the_model_of_cluster_0() -> None:
    """In round 3 the clusters' models differ; the gradients of all are at the first (the code: each
    at its own)."""
    w = world()
    method = CFLGP(clusters=2)
    state = rounds(method, w, 2)
    assert adjusted_rand_score(state.assignment, [0, 0, 1, 1]) == 1
    after = rounds(method, w, 3, state, first=3)
    first = -TARGET
    second = state.models[0] - TARGET
    np.testing.assert_allclose(after.profiles, (first + second) / 2, rtol=1e-6)
    np.testing.assert_array_equal(after.criteria[:2], [np.zeros(3), state.models[0]])
    assert (
        after.asked.tolist() == [True, True, False, False, False]
        and after.answers.tolist() == [2] * 4
    )


def test_queries_come_every_period_and_end() -> None:
    w = world()
    method = CFLGP(clusters=2, period=3, last_query=4)
    asked = []
    for r in range(1, 9):
        state = rounds(method, w, r, None if r == 1 else state, first=r)
        asked.append(int(state.answers[0]))
    assert asked == [1, 1, 1, 2, 2, 2, 2, 2]


def test_half_a_round_is_no_warm_up() -> None:
    """Queries would fall between two rounds, so there would never be one."""
    with pytest.raises(MethodError, match=r"warm_up must be an integer from 0 up, got 0\.5"):
        CFLGP(warm_up=0.5)  # pyright: ignore


def test_before_the_first_query_there_is_one_model() -> None:
    w = world()
    method = CFLGP(clusters=2, warm_up=2)
    state = rounds(method, w, 2)
    np.testing.assert_allclose(state.models, [0.75 * TARGET.mean(axis=0)], rtol=1e-6)
    after = rounds(method, w, 3, state, first=3)
    own = np.stack([TARGET[:2].mean(axis=0), TARGET[2:].mean(axis=0)])
    np.testing.assert_allclose(
        after.models[after.assignment[[0, 2]]], (state.models + own) / 2, rtol=1e-6
    )


def test_the_number_of_clusters_is_found_and_kept() -> None:
    rng = np.random.default_rng(0)
    centres = 10 * np.eye(5)[:3]
    w = world(centres[np.arange(15) % 3] + rng.normal(scale=0.3, size=(15, 5)))
    method = CFLGP(clusters=None, max_clusters=6)
    state = method.init(w, Stream(1, 0, "init"))
    for r in (1, 2, 3):
        state = method.round(w, state, np.arange(15), Stream(1, r, "method"))
        assert (
            len(state.models) == 3 and adjusted_rand_score(state.assignment, np.arange(15) % 3) == 1
        )


def test_a_newcomer_answers_all_queries() -> None:
    """Its profile is the same as if it had been there. Client 3 joins client 2, which has similar
    gradients."""
    w = world()
    method = CFLGP(clusters=2)
    state = rounds(method, w, 4)
    cold = replace(
        state,
        assignment=np.where(EVERYBODY == 3, UNASSIGNED, state.assignment),
        answers=np.where(EVERYBODY == 3, 0, state.answers),
        profiles=np.where(EVERYBODY[:, None] == 3, np.nan, state.profiles).astype(np.float32),
    )
    placed = method.place(w, cold, np.array([3]), Stream(1, 5, "place"))
    np.testing.assert_array_equal(placed.assignment, state.assignment)
    np.testing.assert_allclose(placed.profiles, state.profiles, rtol=1e-6)


def test_a_client_that_missed_the_first_query_uses_its_own_mean() -> None:
    method = CFLGP(clusters=2)
    state = rounds(method, world(silent=frozenset([3])), 2)
    assert state.assignment[3] == UNASSIGNED and state.answers.tolist() == [1, 1, 1, 0]
    after = rounds(method, world(), 3, state, first=3)
    np.testing.assert_allclose(after.profiles[3], state.models[0] - TARGET[3], rtol=1e-6)
    assert after.assignment[3] == after.assignment[2]


def test_too_few_replies_make_no_clusters_yet() -> None:
    method = CFLGP(clusters=3)
    state = rounds(method, world(silent=frozenset([2, 3])), 1)
    assert len(state.models) == 1 and not state.assignment.any()


def test_a_run_places_a_newcomer() -> None:
    data = fk.planted("digits", "rotation", clusters=2, clients=8, samples=60, seed=0)
    local = LocalTraining(steps=5, batch_size=20, lr=0.1)
    run = fk.simulate(CFLGP(clusters=2), data, mclr(data), rounds=3, cohort=8, local=local)
    assert run.summary()["ari"] == 1
    rows = data.train[5]
    assert run.place(data.x[rows], data.y[rows], resamples=2).cluster == run.assignment[5]
