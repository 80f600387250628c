"""FedSoft: a model of each client's own, pulled to all centres."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import jax
import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.methods.fedsoft import FedSoft, FedSoftState, selection_probabilities
from fedkin.run.metrics.accuracy import score
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.fedsoft import Importance, TrainTowards, mixed

Oracle = Callable[[str], Any]
STREAM = Stream(3, 1, "method")
MEMORY = "clients/own_model"


def oracle_world(case: dict[str, Any], compiled: bool = True) -> SimulatedWorld:
    x = np.concatenate(case["X"]).astype(np.float32)
    y = np.concatenate(case["Y"])
    rows = Ragged(np.arange(len(y)), np.concatenate([[0], np.cumsum(case["sizes"])]))
    data = FederatedData(name="oracle", x=x, y=y, classes=3, train=rows, test=rows)
    shape = np.shape(case["cluster_W"])[1:]
    model = fk.as_model((lambda key: jax.random.normal(key, shape), lambda w, x, key: x @ w.T))
    return SimulatedWorld(data, model, LocalTraining(lr=0.1), compiled=compiled)


@pytest.mark.parametrize("compiled", [True, False])
def test_importance_and_selection_are_those_of_the_oracle(oracle: Oracle, compiled: bool) -> None:
    for case in oracle("methods2")["fedsoft"]:
        centers = np.reshape(case["cluster_W"], (len(case["cluster_W"]), -1)).astype(np.float32)
        world = oracle_world(case, compiled)
        everyone = np.arange(len(case["sizes"]))
        importance = world.run(Importance(centers, case["smoother"]), everyone).importance
        np.testing.assert_allclose(importance, case["importance_u"], atol=case["tolerance"])
        v = selection_probabilities(importance, np.array(case["sizes"]))
        np.testing.assert_allclose(v, case["selection_probability_v"], atol=case["tolerance"])
        unknown = np.zeros((len(everyone), len(centers)))
        task = TrainTowards(
            centers, world.work, 0 * everyone, importance=unknown, floor=case["smoother"]
        )
        np.testing.assert_allclose(
            world.run(task, everyone, STREAM).importance, importance, atol=1e-9
        )


def test_pull_and_means_are_those_of_the_oracle(oracle: Oracle) -> None:
    """The pull to the mean of the centres is the sum of the pulls to each."""
    for case in oracle("methods2")["fedsoft"]:
        centers = np.reshape(case["cluster_W"], (len(case["cluster_W"]), -1)).astype(np.float32)
        u = np.array(case["importance_u"])
        w = np.array(case["client_models"])
        pull = (case["lam"] * u.sum(axis=1))[:, None] * (w - mixed(centers, u))
        np.testing.assert_allclose(pull, case["proximal_gradient"], atol=case["tolerance"])
        v = np.array(case["selection_probability_v"])
        found = FedSoft()._centers(w.astype(np.float32), v, STREAM)
        np.testing.assert_allclose(found, case["all_clients_aggregation"], atol=case["tolerance"])


def test_drawn_clients_count_alike(oracle: Oracle) -> None:
    """Each centre is the plain mean of two clients, drawn apart; the oracle's are among those."""
    case = oracle("methods2")["fedsoft"][0]
    w = np.array(case["client_models"], np.float32)
    v = np.array(case["selection_probability_v"])
    pairs = {pair: w[list(pair)].mean(axis=0) for pair in combinations(range(len(w)), 2)}
    for k, chosen in enumerate(case["selected"]):
        np.testing.assert_allclose(pairs[tuple(chosen)], case["selected_aggregation"][k], atol=1e-6)
    drawn = []
    for seed in range(20):
        centers = FedSoft(selected=2)._centers(w, v, Stream(seed, 1))
        near = [
            [p for p, mean in pairs.items() if np.allclose(mean, center, atol=1e-5)]
            for center in centers
        ]
        assert all(len(found) == 1 for found in near)
        drawn.append(near)
    # v of 1e-4.
    assert not any(
        1 in near[1][0] and 0 not in near[1][0] and 2 not in near[1][0] for near in drawn
    )


WORK = LocalTraining(1, lr=0.25)


def world(work: LocalTraining = WORK, **options: Any) -> FakeWorld:
    """Gradients are w - target: client 0 is near the second centre, and client 1 near the first."""
    target = np.array([[8.0], [-2.0], [9.0]], np.float32)
    return FakeWorld(target, np.array([1, 3, 4]), work=work, **options)


def state(*centers: float) -> FedSoftState:
    models = np.array(centers, np.float32)[:, None]
    return FedSoftState(models, np.zeros(3, np.int64), np.zeros((3, len(models))))


def test_two_rounds_by_hand() -> None:
    """u = (floor, 1): client 0 begins at the anchor 10/1.0001 = 9.999, and steps 0.25 (9.999 - 8)
    to 9.49925. Then the pull is 1.0001 (w - 9.999), and it goes on from its own model: 9.49925 -
    0.25 (1.49925 - 0.4998) = 9.2494; from the anchor again it would end at 9.499."""
    w = world()
    method = FedSoft(2, strength=1.0)
    cohort = np.array([0])
    method.round(w, state(0.0, 10.0), cohort, STREAM)
    np.testing.assert_allclose(w.memory()[MEMORY][0], [9.49925], atol=1e-4)
    after = method.round(w, state(0.0, 10.0), cohort, STREAM.at(2))
    np.testing.assert_allclose(w.memory()[MEMORY][0], [9.2494], atol=1e-4)
    # The only client: v = 1 for both.
    np.testing.assert_allclose(after.models, [[9.2494], [9.2494]], atol=1e-4)
    np.testing.assert_allclose(after.importance[0], [1e-4, 1])
    assert after.assignment.tolist() == [1, 0, 0]


def test_centres_are_means_by_importance_and_samples() -> None:
    """Clients 0 and 2, of 1 and 4 samples, fit the second centre; client 1, of 3, the first."""
    w = world(work=LocalTraining(1, lr=1e-9))
    method = FedSoft(2, strength=0.0)
    own = np.array([[6.0], [-4.0], [11.0]], np.float32)
    w.recall({MEMORY: own, f"{MEMORY}.kept": np.ones(3, np.int8)})
    after = method.round(w, state(0.0, 10.0), np.arange(3), STREAM)
    first = (-4 * 3 + 1e-4 * (6 + 4 * 11)) / (3 + 1e-4 * 5)
    second = (6 + 4 * 11 + 1e-4 * 3 * -4) / (5 + 1e-4 * 3)
    np.testing.assert_allclose(after.models[:, 0], [first, second], rtol=1e-5)
    assert after.assignment.tolist() == [1, 0, 1]
    np.testing.assert_allclose(after.membership.sum(axis=1), 1)


def test_importance_is_measured_when_it_is_due() -> None:
    w = world()
    method = FedSoft(2, every=2)
    cohort = np.array([0, 1])
    known = replace(state(0.0, 10.0), importance=np.array([[0.5, 0.5], [0, 0], [0, 0]]))
    second = method.round(w, known, cohort, STREAM.at(2))  # only of client 1, which has none yet
    np.testing.assert_allclose(second.importance[:2], [[0.5, 0.5], [1, 1e-4]])
    third = method.round(w, known, cohort, STREAM.at(3))
    np.testing.assert_allclose(third.importance[:2], [[1e-4, 1], [1, 1e-4]])


def test_own_models_are_tested_and_others_have_the_mean_of_the_centres() -> None:
    w = world(work=LocalTraining(1, lr=1.0))
    after = FedSoft(2, strength=0.0).round(w, state(0.0, 10.0), np.array([0, 1]), STREAM)
    losses = score(w, after, 1).scores.loss
    middle = after.models.mean()
    np.testing.assert_allclose(losses, [0, 0, (middle - 9) ** 2], atol=1e-6)


def test_a_newcomer_measures_and_trains_nothing() -> None:
    w = world()
    new = replace(state(0.0, 10.0), assignment=np.array([0, 0, UNASSIGNED]))
    placed = FedSoft(2).place(w, new, np.array([2]), STREAM)
    assert placed.assignment.tolist() == [0, 0, 1] and MEMORY not in w.memory()
    np.testing.assert_allclose(placed.importance[2], [1e-4, 1])


def test_all_centres_travel_down_and_one_model_up() -> None:
    w = world()
    FedSoft(2).round(w, state(0.0, 10.0), np.array([0, 1]), STREAM)
    assert (sum(w.ledger.down.values()), sum(w.ledger.up.values())) == (2 * 2 * 4, 2 * 4)


def test_equal_centres_are_refused() -> None:
    with pytest.raises(MethodError, match="2 clusters must start from different models"):
        FedSoft(2).init(world(start=lambda _: np.zeros(1)), STREAM)


def test_soft_membership_is_in_the_run(tiny: FederatedData) -> None:
    run = fk.simulate(
        FedSoft(2), tiny, fk.models.mclr(tiny), rounds=3, cohort=12, local=fk.SGD(lr=0.3)
    )
    columns = run.clients[["membership_0", "membership_1"]].to_numpy()
    np.testing.assert_allclose(columns.sum(axis=1), 1)
    own = run.trained.of_client(4)
    np.testing.assert_array_equal(own.vector, run.memory[MEMORY][4])


@pytest.mark.parametrize(
    "bad", [{"clusters": 0}, {"every": 0}, {"selected": 0}, {"strength": -1.0}, {"floor": 0.0}]
)
def test_bad_options(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        FedSoft(**bad)
