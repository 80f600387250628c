"""FEROMA: mixes of clients' solutions by the distances of their profiles, and newcomers without labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData
from fedkin.methods.fedavg import FedAvg
from fedkin.methods.feroma import FEROMA, FEROMAState
from fedkin.methods.projected_model import with_projection
from fedkin.models import mlp
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.score_moments import ScoreMoments

LOCAL = fk.SGD(epochs=2, batch_size=10, lr=0.1)
ALL = np.arange(6)


@pytest.fixture(scope="module")
def data() -> FederatedData:
    return fk.planted("digits", "rotation", clusters=3, clients=6, samples=200, test_samples=20, seed=0)


def world(data: FederatedData) -> SimulatedWorld:
    return SimulatedWorld(data, mlp(data, 16), LOCAL)


def rounds(method: FEROMA, w: SimulatedWorld, cohorts: list[Any]) -> FEROMAState:
    state = method.init(w, Stream(1, 0, "init"))
    for r, cohort in enumerate(cohorts, start=1):
        state = method.round(w, state, np.asarray(cohort), Stream(1, r, "method"))
    return state


def test_mixes_are_by_the_weights_of_the_authors_code(oracle: Callable[[str], dict[str, Any]]) -> None:
    """Profiles of eight clients and where they have moved; models that name their client, of unequal sizes."""
    for case in oracle("methods2")["flux"]:
        profiles, current = np.array(case["scaled"]), np.array(case["feroma_current_profiles"])
        n = len(profiles)
        sizes, theta = 1 + np.arange(n), np.eye(n, dtype=np.float32)
        models = np.concatenate([np.zeros((1, n), np.float32), theta])
        unused = (np.array(np.nan), theta[0], np.zeros((2, 1)))
        state = FEROMAState(models, np.arange(n), *unused, profiles, sizes, np.array(True))
        expected = np.array(case["feroma_weights"]) * sizes
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(FEROMA()._mixes(state, current), expected, atol=1e-6)


def test_a_client_without_a_solution_is_in_no_mix(data: FederatedData) -> None:
    """Clients 0 and 1 have solutions; client 5 gets a mix of them, by hand from its profile and their numbers."""
    w, method = world(data), FEROMA(latest=0)
    state = rounds(method, w, [[0, 1]])
    np.testing.assert_array_equal(state.assignment, [1, 2, 0, 0, 0, 0])
    np.testing.assert_array_equal(state.examples > 0, [True, True, False, False, False, False])
    reply = w.run(ScoreMoments(with_projection(state.models[0], w.spec)), np.array([5]))
    profile = np.concatenate([reply.overall[0].ravel(), reply.by_class[0].ravel()]).reshape(-1, 10)
    low, high = state.ranges[:, :, None]
    profile = ((profile - low) / np.where(high > low, high - low, 1)).ravel()
    near = 1 / (np.linalg.norm(state.profiles[:2] - profile, axis=1) + 1e-8) * data.train.sizes[:2]
    mix = near @ state.models[1:3] / near.sum()
    np.testing.assert_allclose(method._mixes(state, profile[None])[0], mix, atol=1e-6)
    assert not np.allclose(mix, state.models[0])


def test_who_has_not_changed_goes_on_from_its_own_solution(data: FederatedData) -> None:
    method = FEROMA(latest=0)
    state = rounds(method, world(data), [ALL, ALL])
    np.testing.assert_allclose(method._mixes(state, state.profiles), state.models[1:], atol=1e-5)


def test_the_first_phase_is_fedavg(data: FederatedData) -> None:
    method, w, plain = FEROMA(latest=2, accuracy=2.0), world(data), FedAvg()
    state, expected = rounds(method, w, [ALL, ALL]), plain.init(w, Stream(1, 0, "init"))
    for r in (1, 2):
        expected = plain.round(w, expected, ALL, Stream(1, r, "method"))
    np.testing.assert_array_equal(state.models, expected.models)
    assert not state.mixing and 0 < state.accuracy <= 1
    after = method.round(w, state, ALL, Stream(1, 3, "method"))
    assert after.mixing and len(after.models) == 7
    np.testing.assert_array_equal(after.models[0], state.models[0])  # the joint model stays


@pytest.mark.parametrize(("accuracy", "mixing"), [(0.79, False), (0.8, True), (0.81, True)])
def test_the_accuracy_ends_it(data: FederatedData, accuracy: float, mixing: bool) -> None:
    w, method = world(data), FEROMA(latest=99)
    state = replace(method.init(w, Stream(1, 0, "init")), accuracy=np.array(accuracy))
    assert bool(method.round(w, state, ALL, Stream(1, 3, "method")).mixing) == mixing


def test_a_run_serves_each_client_and_places_newcomers_without_labels(data: FederatedData) -> None:
    """Data of one rotation are nearer to each other than to the other's: placed by its own samples without labels, each
    client gets a solution of its rotation."""
    run = fk.simulate(FEROMA(latest=3), data, mlp(data, 64), rounds=6, cohort=6, local=LOCAL)
    assert data.true_clusters is not None
    for client in range(6):
        placed = run.place(data.x[data.train[client]], resamples=1)
        assert data.true_clusters[placed.cluster - 1] == data.true_clusters[client]


def test_a_silent_client_keeps_its_solution(data: FederatedData) -> None:
    method, w = FEROMA(latest=0), world(data)
    state = rounds(method, w, [ALL])
    after = method.round(w, state, np.array([1, 2]), Stream(1, 2, "method"))
    np.testing.assert_array_equal(after.models[[0, 1, 4, 5, 6]], state.models[[0, 1, 4, 5, 6]])
    assert not np.array_equal(after.models[2], state.models[2])


@pytest.mark.parametrize("bad", [{"accuracy": -0.1}, {"latest": -1}])
def test_bad_options(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        FEROMA(**bad)
