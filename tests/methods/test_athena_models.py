"""Which detectors ATHENA-FL's clients are tested on, and how they are calibrated, on quadratic
clients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedkin.measures.calibration import fold_scale, platt_scale
from fedkin.methods.athena import Athena
from fedkin.tasks.detections import Detections
from tests.methods.last_layer_clients import NO_CLIENTS, ROUND, started
from tests.methods.test_athena import GIVEN, SHARED, WITH, athena_world, round_of

# --- the models that clients are tested on


def test_everybody_is_served_one_detector_of_each_class() -> None:
    state = started(Athena(assignment=WITH), athena_world(SHARED, np.zeros((7, 2))))
    assigned = state.models_for(np.array([6, 0, 3]))
    np.testing.assert_array_equal(
        assigned.model_index, [[0, 1, 5, -1], [0, 1, 4, -1], [2, 3, 4, -1]]
    )
    np.testing.assert_array_equal(assigned.models, state.models)
    np.testing.assert_array_equal(assigned.positive, state.positive)
    np.testing.assert_array_equal(assigned.cluster, state.home)


def test_a_local_solution_becomes_a_part_of_the_detector_it_trained() -> None:
    state = started(Athena(assignment=GIVEN), athena_world())
    np.testing.assert_array_equal(state.aggregated_into(np.array([3, 3]), np.array([2, 3])), [2, 3])


def test_scales_are_folded_into_the_last_layer() -> None:
    """Head [2, 3, 4 | bias]: of (a, b) all are multiplied by a, and b is added to the bias."""
    state = started(Athena(assignment=GIVEN), athena_world())
    state = replace(
        state,
        models=np.arange(20, dtype=np.float32).reshape(4, 5),
        start=np.zeros(5, np.float32),
        head=np.array([2, 4, 5]),
        scale=np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 0.5], [-1.0, 3.0]]),
    )
    expected = [
        [0, 1, 2, 3, 4],
        [5, 6, 14, 16, 18],
        [10, 11, 12, 13, 14.5],
        [15, 16, -17, -18, -16],
    ]
    np.testing.assert_allclose(state.models_for(np.array([0])).models, expected)
    assert state.models[1, 2] == 7, "the trained models stay unscaled"


# --- calibration


def test_every_detector_is_scaled_by_the_scores_of_all_clients() -> None:
    """In every second round; histograms are added up over clients."""
    w = athena_world()
    method = Athena(assignment=GIVEN, calibrate=2)
    state = round_of(method, w)
    np.testing.assert_array_equal(state.scale, [[1, 0]] * 4)
    after = method.round(w, state, np.arange(5), ROUND.at(2))
    everybody = np.arange(5)
    one = np.ones(5, np.int64)
    tasks = [Detections(after.models, d * one, c * one) for d, c in enumerate(state.positive)]
    counts = [w.run(task, everybody).counts.sum(axis=0) for task in tasks]
    np.testing.assert_allclose(after.scale, platt_scale(np.stack(counts)), rtol=1e-12)
    assert (after.scale != [1, 0]).any()
    head = slice(0, 2)
    np.testing.assert_array_equal(
        after.models_for(everybody).models, fold_scale(after.models, head, head, after.scale)
    )
    third = method.round(w, after, np.arange(5), ROUND.at(3))
    np.testing.assert_array_equal(third.scale, after.scale)


def test_without_calibration_scores_are_as_they_are() -> None:
    w = athena_world()
    method = Athena(assignment=GIVEN)
    state = started(method, w)
    for r in range(1, 4):
        state = method.round(w, state, np.arange(5), ROUND.at(r))
    np.testing.assert_array_equal(state.scale, [[1, 0]] * 4)
    np.testing.assert_array_equal(state.models_for(np.arange(5)).models, state.models)


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_a_client_that_does_not_answer_is_not_counted(how: str) -> None:
    w = athena_world()
    deaf = athena_world(**{how: frozenset({1, 4})})
    method = Athena(assignment=GIVEN, calibrate=1)
    state = started(method, w)
    after = method.round(deaf, state, NO_CLIENTS, ROUND)
    rest = np.array([0, 2, 3])
    one = np.ones(3, np.int64)
    tasks = [Detections(state.models, d * one, c * one) for d, c in enumerate(state.positive)]
    counts = [w.run(task, rest).counts.sum(axis=0) for task in tasks]
    np.testing.assert_allclose(after.scale, platt_scale(np.stack(counts)), rtol=1e-12)


def test_no_client_answers_and_scales_stay() -> None:
    method = Athena(assignment=GIVEN, calibrate=1)
    state = started(method, athena_world())
    after = method.round(athena_world(silent=frozenset(range(5))), state, NO_CLIENTS, ROUND)
    np.testing.assert_array_equal(after.scale, [[1, 0]] * 4)


def test_a_detector_that_is_not_trained_is_not_scaled() -> None:
    method = Athena(assignment=WITH, calibrate=1)
    state = round_of(method, athena_world(SHARED, np.zeros((7, 2))))
    np.testing.assert_array_equal(state.scale[5], [1, 0])
    assert not state.models_for(np.array([5])).models[5].any()
