"""FEROMA: mixes of clients' solutions by the distances of their profiles, and newcomers without
labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.plan import Plan
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.methods.fedavg import FedAvg
from fedkin.methods.feroma import FEROMA, FEROMAState
from fedkin.methods.random_head import with_projection
from fedkin.models import mlp
from fedkin.run import loop
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.score_moments import ScoreMoments

LOCAL = fk.SGD(epochs=2, batch_size=10, lr=0.1)
ALL = np.arange(6)


@pytest.fixture(scope="module")
def data() -> FederatedData:
    return fk.planted(
        "digits", "rotation", clusters=3, clients=6, samples=200, test_samples=20, seed=0
    )


def world(data: FederatedData) -> SimulatedWorld:
    return SimulatedWorld(data, mlp(data, 16), LOCAL)


def rounds(method: FEROMA, w: SimulatedWorld, cohorts: list[Any]) -> FEROMAState:
    state = method.init(w, Stream(1, 0, "init"))
    for r, cohort in enumerate(cohorts, start=1):
        state = method.round(w, state, np.asarray(cohort), Stream(1, r, "method"))
    return state


def test_mixes_are_by_the_weights_of_the_authors_code(
    oracle: Callable[[str], dict[str, Any]],
) -> None:
    """Profiles of eight clients and where they have moved; models that name their client, of
    unequal sizes."""
    for case in oracle("methods2")["flux"]:
        profiles = np.array(case["scaled"])
        current = np.array(case["feroma_current_profiles"])
        n = len(profiles)
        sizes = 1 + np.arange(n)
        theta = np.eye(n, dtype=np.float32)
        models = np.concatenate([np.zeros((1, n), np.float32), theta])
        informed = np.ones(n, bool)
        state = FEROMAState(
            models=models,
            assignment=np.arange(n),
            accuracy=np.array(np.nan),
            extractor=theta[0],
            ranges=np.zeros((2, 1)),
            profiles=profiles,
            examples=sizes,
            solution=1 + np.arange(n),
            informed=informed,
            mixing=np.array(True),
        )
        expected = np.array(case["feroma_weights"]) * sizes
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(FEROMA()._mixes(state, current), expected, atol=1e-6)


def test_a_client_without_a_solution_is_in_no_mix(data: FederatedData) -> None:
    """Clients 0 and 1 have solutions; client 5 gets a mix of them, by hand from its profile and
    their numbers."""
    w = world(data)
    method = FEROMA(latest=0)
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


def test_an_unchanged_client_goes_on_from_its_own_solution(data: FederatedData) -> None:
    """A round with next to no training, from profiles that are measured again, leaves the solutions
    where they were."""
    method = FEROMA(latest=0)
    state = rounds(method, world(data), [ALL, ALL])
    still = SimulatedWorld(data, mlp(data, 16), replace(LOCAL, lr=1e-9))
    after = method.round(still, state, ALL, Stream(1, 3, "method"))
    np.testing.assert_allclose(after.models, state.models, atol=1e-5)
    assert np.abs(state.models[1] - state.models[2]).max() > 1e-2


def test_a_changed_client_goes_on_from_solutions_of_data_like_its_new_ones(
    data: FederatedData,
) -> None:
    """Client 0 gets the samples of a client of another cluster, and its solution."""
    method = FEROMA(latest=0)
    truth = data.true_clusters
    state = rounds(method, world(data), [ALL, ALL])
    assert truth is not None
    other = int(np.flatnonzero(truth != truth[0])[0])
    train = Ragged.of([data.train[other if c == 0 else c] for c in range(6)])
    moved = SimulatedWorld(data.with_rows(train, data.test), mlp(data, 16), replace(LOCAL, lr=1e-9))
    after = method.round(moved, state, ALL, Stream(1, 3, "method"))
    np.testing.assert_allclose(after.models[1], state.models[other + 1], atol=1e-5)


def test_the_first_phase_is_fedavg(data: FederatedData) -> None:
    method = FEROMA(latest=2, accuracy=2.0)
    w = world(data)
    plain = FedAvg()
    state = rounds(method, w, [ALL, ALL])
    expected = plain.init(w, Stream(1, 0, "init"))
    for r in (1, 2):
        expected = plain.round(w, expected, ALL, Stream(1, r, "method"))
    np.testing.assert_array_equal(state.models, expected.models)
    assert not state.mixing and 0 < state.accuracy <= 1
    after = method.round(w, state, ALL, Stream(1, 3, "method"))
    assert after.mixing and len(after.models) == 7
    np.testing.assert_array_equal(after.models[0], state.models[0])  # the joint model stays


@pytest.mark.parametrize(("accuracy", "mixing"), [(0.79, False), (0.8, True), (0.81, True)])
def test_the_accuracy_ends_it(data: FederatedData, accuracy: float, mixing: bool) -> None:
    w = world(data)
    method = FEROMA(latest=99)
    state = replace(method.init(w, Stream(1, 0, "init")), accuracy=np.array(accuracy))
    assert bool(method.round(w, state, ALL, Stream(1, 3, "method")).mixing) == mixing


def test_a_run_serves_each_client_and_places_newcomers_without_labels() -> None:
    """Data of one rotation are nearer to each other than to the others. Three clients take no part
    and have no labels. By their own samples they get a solution of their rotation."""
    whole = fk.planted(
        "digits", "rotation", clusters=3, clients=9, samples=100, test_samples=20, seed=0
    )
    truth = whole.true_clusters
    assert truth is not None and set(truth[:6]) == {0, 1, 2}
    train, test = (Ragged.of([part[c] for c in range(6)]) for part in (whole.train, whole.test))
    data = whole.with_rows(train, test, truth[:6])
    run = fk.simulate(FEROMA(latest=3), data, mlp(data, 64), rounds=6, cohort=6, local=LOCAL)
    for client in (6, 7, 8):
        placed = run.place(whole.x[whole.train[client]], resamples=1)
        assert truth[placed.cluster - 1] == truth[client]


@pytest.mark.parametrize("arrival", [3, 5], ids=["when the mixing begins", "after it"])
def test_a_client_that_comes_after_the_mixing_began_is_a_newcomer(
    data: FederatedData, arrival: int
) -> None:
    """Client 5 comes in round 3, in which the mixing begins, or later: there it is served the joint
    model until it has trained, here it is placed by its profile, before it trains and without
    labels."""
    method = FEROMA(latest=2, accuracy=2.0)
    late = Population(arrivals={arrival: 1})
    w = SimulatedWorld(data, mlp(data, 64), LOCAL, population=late)
    state = rounds(method, w, [ALL[:5]] * 4)
    assert state.assignment.tolist() == [1, 2, 3, 4, 5, 0 if arrival == 3 else UNASSIGNED]
    if arrival == 3:
        return
    down = sum(w.ledger.down.values())
    placed = method.place(w, state, np.array([5]), Stream(1, 5, "place"))
    assert data.true_clusters is not None
    assert (
        data.true_clusters[placed.assignment[5] - 1] == data.true_clusters[5]
        and placed.assignment[5] != 6
    )
    # The model that describes, and no solution.
    assert sum(w.ledger.down.values()) - down == 4 * w.spec.parameters
    assert method.round(w, placed, ALL, Stream(1, 5, "method")).assignment[5] == 6


def test_newcomers_past_the_last_round_are_placed(data: FederatedData) -> None:
    """The loop asks ``place`` for all clients without a cluster: none of those that come has the
    joint model."""
    plan = Plan(4, 5, 1)
    late = Population(arrivals={5: 1})
    ended = loop.run(
        SimulatedWorld(data, mlp(data, 64), LOCAL, population=late), FEROMA(latest=2), plan
    )
    assert ended.state.assignment[5] == UNASSIGNED and (ended.state.assignment[:5] > 0).all()


def test_the_model_that_describes_is_sent_once(data: FederatedData) -> None:
    w = world(data)
    method = FEROMA(latest=0)
    rounds(method, w, [ALL[:4], ALL, ALL])
    sent = {"describing_model": 6, "score_moments": 0, "train": 4 + 6 + 6}
    assert w.ledger.down == {name: count * 4 * w.spec.parameters for name, count in sent.items()}


def test_a_client_outside_the_cohort_keeps_its_solution(data: FederatedData) -> None:
    method = FEROMA(latest=0)
    w = world(data)
    state = rounds(method, w, [ALL])
    after = method.round(w, state, np.array([1, 2]), Stream(1, 2, "method"))
    np.testing.assert_array_equal(after.models[[0, 1, 4, 5, 6]], state.models[[0, 1, 4, 5, 6]])
    assert not np.array_equal(after.models[2], state.models[2])


def test_silent_clients_keep_their_state(data: FederatedData) -> None:
    """In the round in which the mixing begins they have the joint model; later their last solution
    and its profile."""
    w = SimulatedWorld(data, mlp(data, 16), LOCAL, population=Population(dropout=0.5))
    method = FEROMA(latest=0)
    state = method.init(w, Stream(1, 0, "init"))
    for r in (1, 2, 3):
        w.begin(Stream(1, r, "scenario"))
        replied = w.run(ScoreMoments(state.extractor), ALL).arrived
        assert 0 < replied.sum() < 6
        after = method.round(w, state, ALL, Stream(1, r, "method"))
        kept = state.solution[~replied]
        np.testing.assert_array_equal(after.solution[~replied], kept)
        np.testing.assert_array_equal(after.models[kept], state.models[kept])
        np.testing.assert_array_equal(
            after.assignment, np.where(replied, after.solution, state.assignment)
        )
        assert sorted(after.solution[after.solution > 0]) == list(range(1, len(after.models)))
        np.testing.assert_array_equal(after.profiles[~replied], state.profiles[~replied])
        np.testing.assert_array_equal(after.informed, state.informed | replied)
        state = after


def test_there_are_as_many_models_as_clients_that_have_trained(data: FederatedData) -> None:
    """The first comes first: clients 4 and 5 have models 1 and 2,
    and the next mix is of these two."""
    method = FEROMA(latest=0)
    w = world(data)
    state = rounds(method, w, [[4, 5]])
    assert state.solution.tolist() == [0, 0, 0, 0, 1, 2] and len(state.models) == 3
    near = (
        1
        / (np.linalg.norm(state.profiles[4:] - state.profiles[5], axis=1) + 1e-8)
        * data.train.sizes[4:]
    )
    mix = near @ state.models[1:] / near.sum()
    np.testing.assert_allclose(method._mixes(state, state.profiles[5:])[0], mix, atol=1e-6)
    after = method.round(w, state, np.array([0, 5]), Stream(1, 2, "method"))
    assert after.solution.tolist() == [3, 0, 0, 0, 1, 2] and after.assignment.tolist() == [
        3,
        0,
        0,
        0,
        1,
        2,
    ]
    np.testing.assert_array_equal(after.models[1], state.models[1])
    assert not np.array_equal(after.models[2], state.models[2])


@pytest.mark.parametrize("bad", [{"accuracy": -0.1}, {"latest": -1}, {"latest": 2.5}])
def test_bad_options(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        FEROMA(**bad)
