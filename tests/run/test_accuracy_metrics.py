"""Numbers worked by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from fedkin.core.ledger import Ledger
from fedkin.core.method import UNASSIGNED, AssignedModels, State
from fedkin.core.randomness import Stream
from fedkin.measures.fairness import worst_decile
from fedkin.run.instrumented_world import InstrumentedWorld
from fedkin.run.metrics.accuracy import EvaluationResults, score, weighted_mean
from fedkin.run.metrics.ledger_record import ledger_record
from fedkin.run.metrics.observations import Observations
from fedkin.run.metrics.round_records import (
    away_record,
    discrepancy_record,
    score_record,
    training_record,
)
from fedkin.tasks.evaluate import Scores
from fedkin.tasks.train import train
from tests.run.toy_method import fake_world


def scored(
    correct: list[int], examples: list[int], cluster: list[int], partial: bool = False
) -> EvaluationResults:
    """Test results whose losses are 1, 2, 3, ..."""
    loss = np.arange(1, len(correct) + 1, dtype=np.float64)
    scores = Scores(np.array(correct, np.float64)[:, None], np.array(examples, np.int64), loss)
    return EvaluationResults(np.arange(len(correct)), np.array(cluster, np.int64), scores, partial)


def test_accuracy_is_correct_over_samples_and_not_a_mean_over_clients() -> None:
    record = score_record(scored([9, 0, 1], [10, 2, 4], [0, 0, 2]), 4, None)
    assert record["accuracy"] == 10 / 16
    assert record["accuracy_by_cluster"] == [9 / 12, None, 1 / 4, None]
    assert record["cluster_sizes"] == [2, 0, 1, 0]
    assert record["median_client"] == 0.25
    assert record["bottom_decile"] == 0.0
    assert record["loss"] == (10 * 1 + 2 * 2 + 4 * 3) / 16
    assert record["partial"] is False
    assert record["ari"] is None and record["nmi"] is None


def test_a_client_without_test_samples_counts_for_nothing() -> None:
    record = score_record(scored([3, 0], [4, 0], [0, 1]), 2, None)
    assert (record["accuracy"], record["median_client"], record["bottom_decile"]) == (
        0.75,
        0.75,
        0.75,
    )
    assert record["accuracy_by_cluster"] == [0.75, None]
    assert record["loss"] == 1.0


def test_no_client_to_test_is_null() -> None:
    record = score_record(scored([], [], []), 2, None)
    assert (
        record["accuracy"]
        is record["loss"]
        is record["median_client"]
        is record["bottom_decile"]
        is None
    )
    assert record["cluster_sizes"] == [0, 0]


def test_an_unscored_round_has_the_same_keys() -> None:
    full = score_record(scored([1], [1], [0]), 1, None)
    empty = score_record(None, 1, None)
    assert list(full) == list(empty)
    assert set(empty.values()) == {None}


def test_the_worst_tenth_is_rounded_up() -> None:
    accuracy = np.array([0.5, 0.1, 0.9, 0.3] + [1.0] * 16)
    assert worst_decile(accuracy) == pytest.approx((0.1 + 0.3) / 2, abs=1e-15)
    assert worst_decile(accuracy[:11]) == pytest.approx((0.1 + 0.3) / 2, abs=1e-15)
    assert worst_decile(accuracy[:10]) == 0.1
    assert worst_decile(np.zeros(0)) is None


def test_agreement_with_the_truth() -> None:
    true_clusters = np.array([5, 5, 7, 7, 7])
    same = score_record(scored([1] * 4, [1] * 4, [1, 1, 0, 0]), 2, true_clusters)
    assert (same["ari"], same["nmi"]) == (1.0, 1.0)
    lumped = score_record(scored([1] * 4, [1] * 4, [0, 0, 0, 0]), 2, true_clusters)
    assert (lumped["ari"], lumped["nmi"]) == (0.0, 0.0)


def test_discrepancy_by_both_definitions() -> None:
    # FedGroup eq. 4 sums the distances, FlexCFL eq. 3 averages them.
    record = discrepancy_record(np.array([1.0, 2.0, 6.0]))
    assert record == {
        "discrepancy_sum": 9.0,
        "discrepancy_mean": 3.0,
        "discrepancy_variance": 14 / 3,
    }
    assert (
        set(discrepancy_record(None).values())
        == set(discrepancy_record(np.zeros(0)).values())
        == {None}
    )


def test_training_record_of_fake_clients() -> None:
    world = fake_world(clients=4, silent=frozenset({0}), garbage=frozenset({1}))
    instrumented = InstrumentedWorld(world)
    models = np.zeros((1, 3), np.float32)
    clients = np.arange(4)
    model_index = np.zeros(4, np.int64)
    reply = train(instrumented, models, clients, model_index, reduce=True, stream=Stream(0))
    state = State(models + reply.update, np.zeros(4, np.int64))
    record = training_record(instrumented.observations, state)
    weight = np.array([12, 13]) / 25  # clients 2 and 3 answered
    assert record["train_loss"] == pytest.approx(float(weight @ reply.loss[2:]), rel=1e-12)
    assert record["first_train_loss"] == pytest.approx(
        float(weight @ reply.first_loss[2:]), rel=1e-12
    )
    solution = 0.25 * world.target[2:].astype(np.float64)
    distance = np.linalg.norm(solution - state.models[0], axis=1)
    assert record["discrepancy_sum"] == pytest.approx(distance.sum(), rel=1e-6)
    assert record["discrepancy_mean"] == pytest.approx(distance.mean(), rel=1e-6)
    assert (record["missing"], record["nonfinite"]) == (1, 1)


def test_a_round_without_training_is_null() -> None:
    record = training_record(
        Observations(8, 1), State(np.zeros((1, 3), np.float32), np.zeros(8, np.int64))
    )
    assert record["train_loss"] is record["first_train_loss"] is record["discrepancy_mean"] is None


def test_scoring_tests_the_warm_clients_on_their_own_account() -> None:
    world = fake_world(clients=4)
    state = State(np.array([[1, 1, 1], [-1, -1, -1]], np.float32), np.array([0, 1, UNASSIGNED, 0]))
    result = score(world, state, 1)
    np.testing.assert_array_equal(result.clients, [0, 1, 3])
    np.testing.assert_array_equal(result.cluster, [0, 1, 0])
    np.testing.assert_array_equal(result.scores.correct, [1, 1, 0])
    np.testing.assert_array_equal(result.client_scores, [1, 1, 0])
    assert result.partial


@pytest.mark.parametrize(
    ("sizes", "unreachable", "unanswered", "expected"),
    [
        (None, 0, 0, {}),
        (None, 2, 1, {"scored": 9, "scored_of": 12}),
        ([60, 38], 0, 0, {}),
        ([60, 38], 2, 0, {"scored": 10, "scored_of": 100}),
        ([60, 40], 0, 1, {"scored": 9, "scored_of": 100}),
    ],
)
def test_clients_outside_an_evaluation_sample_have_a_cluster(
    sizes: list[int] | None, unreachable: int, unanswered: int, expected: dict[str, int]
) -> None:
    """Ten clients are tested, all that were reached or a sample of them."""
    ones = np.ones(10, np.int64)
    result = EvaluationResults(
        clients=np.arange(10),
        cluster=np.zeros(10, np.int64),
        scores=Scores(ones[:, None].astype(float), ones, ones.astype(float)),
        partial=unreachable + unanswered > 0,
        sizes=None if sizes is None else np.array(sizes),
        unreachable=unreachable,
        unanswered=unanswered,
    )
    assert away_record(result) == expected


class Aside(State):
    """Client 2 shall have no cluster."""

    def excluded(self) -> np.ndarray:
        return np.arange(len(self.assignment)) == 2


@pytest.mark.parametrize(("cold", "partial"), [([2], False), ([2, 3], True), ([3], True)])
def test_excluded_clients_make_no_round_partial(cold: list[int], partial: bool) -> None:
    """Excluded clients may stay without a cluster; other clients are still to be placed."""
    assignment = np.where(np.isin(np.arange(4), cold), UNASSIGNED, 0)
    state = Aside(np.ones((1, 3), np.float32), assignment)
    if 2 not in cold:
        state = State(state.models, assignment)
    result = score(fake_world(clients=4), state, 1)
    assert result.partial is partial
    record = score_record(result, 1, None)
    assert record.get("excluded", 0) == (2 in cold) and record["partial"] is partial
    assert 2 in cold or "excluded" not in record


class Detected(State):
    """Everybody is tested on two detectors, of classes 0 and 1, one of each cluster."""

    def models_for(self, clients: np.ndarray) -> AssignedModels:
        return AssignedModels(
            self.models, np.tile([0, 1], (len(clients), 1)), np.array([0, 1]), np.array([0, 1])
        )


def test_each_detector_is_right_on_its_own_clusters_clients() -> None:
    """Scores are 3 - |w|^2: detector 0 says yes (3), detector 1 no (-9). In cluster 0, client 0 has
    class 0, and client 1 has not. Clients 2 and 3 of cluster 1 have no sample of class 1, so "no"
    is right. Client 2 does not answer."""
    counts = np.array([[1, 0], [0, 1], [1, 0], [1, 0]])
    world = fake_world(clients=4, counts=counts, detects=True, silent=frozenset({2}))
    state = Detected(np.array([[0, 0, 0], [2, 2, 2]], np.float32), np.array([0, 0, 1, 1]))
    result = score(world, state, 1)
    assert result.detectors == [0.5, 1.0]
    record = score_record(result, 2, None)
    assert record["accuracy_by_detector"] == [0.5, 1.0]
    np.testing.assert_array_equal(result.scores.correct, [1, 0, 1, 1])
    assert set(world.ledger.total()) == {0}


def test_a_detector_without_clients_has_no_accuracy() -> None:
    world = fake_world(clients=4, counts=np.array([[1, 0]] * 4), detects=True)
    state = Detected(np.zeros((2, 3), np.float32), np.array([0, 0, UNASSIGNED, 0]))
    assert score(world, state, 1).detectors == [1.0, None]


def test_other_models_have_no_accuracy_by_detector() -> None:
    state = State(np.ones((1, 3), np.float32), np.zeros(4, np.int64))
    result = score(fake_world(clients=4), state, 1)
    assert result.detectors is None and "accuracy_by_detector" not in score_record(result, 1, None)


def test_message_sizes_are_recorded_where_there_are_messages() -> None:
    ledger = Ledger()
    ledger.add("train", 100, 50)
    assert "messages_down" not in ledger_record(ledger)
    ledger.measure("train", 130, 70)
    ledger.measure("hello", 8, 0)
    with ledger.scoring():
        ledger.measure("evaluate", 30, 20)
    record = ledger_record(ledger)
    assert (record["bytes_down"], record["bytes_up"]) == (100, 50)
    assert (record["messages_down"], record["messages_up"]) == (138, 70)
    assert record["messages_by_operation"] == {
        "hello": [8, 0],
        "scoring.evaluate": [30, 20],
        "train": [130, 70],
    }


def test_ledger_record_keeps_scoring_apart() -> None:
    ledger = Ledger()
    ledger.add("train", 100, 40)
    with ledger.scoring():
        ledger.add("evaluate", 7, 0)
    assert ledger_record(ledger) == {
        "bytes_down": 100,
        "bytes_up": 40,
        "bytes_by_operation": {"scoring.evaluate": [7, 0], "train": [100, 40]},
    }


def test_values_that_are_not_finite_become_null() -> None:
    assert weighted_mean(np.array([1.0, math.inf]), np.array([1, 1])) is None
    # Weight nothing, say nothing.
    assert weighted_mean(np.array([1.0, math.nan]), np.array([2, 0])) == 1.0
    assert weighted_mean(np.zeros(0), np.zeros(0, np.int64)) is None
    assert (
        json.loads(json.dumps(discrepancy_record(np.array([math.inf])), allow_nan=False))[
            "discrepancy_sum"
        ]
        is None
    )
