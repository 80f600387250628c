"""Streams step by step: the samples that clients train on, and the samples tested before."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data import FederatedData, StreamData, digits, sine
from fedkin.scenarios.shift import ShiftedData
from fedkin.scenarios.steps import Steps, prequential_accuracy

CHANGES = ("000", "010", "011", "011")


def stream(**options: Any) -> StreamData:
    return cast(StreamData, sine(clients=3, samples=5, changes=CHANGES, **options))


def at(shift: Steps, data: StreamData, round: int) -> tuple[FederatedData, np.ndarray]:
    return ShiftedData(data, shift, lambda _: np.arange(3)).at(Stream(0, round, "scenario"))


def test_a_step_is_tested_before_it_is_trained_on() -> None:
    data = stream()
    trained = set()
    every = ShiftedData(data, Steps(2), lambda _: np.arange(3))
    for round in range(7):
        now, shifted = every.at(Stream(0, round, "scenario"))
        step = [0, 0, 0, 1, 1, 2, 2][round]
        trained |= set(now.train.rows)
        assert np.array_equal(now.train.rows, data.steps[step].rows)
        assert np.array_equal(now.test.rows, data.steps[step + 1].rows) and not trained & set(
            now.test.rows
        )
        assert now.true_clusters is not None and now.true_clusters.tolist() == [
            int(c) for c in CHANGES[step]
        ]
        drifts = {3: [False, True, False], 5: [False, False, True]}
        assert shifted.tolist() == drifts.get(round, [False] * 3)
    assert np.array_equal(every.at(Stream(0, 99, "scenario"))[0].test.rows, data.steps[3].rows)


def test_history_is_kept_in_its_order() -> None:
    data = stream()
    now, _ = at(Steps(2, history=True), data, 5)
    for client in range(3):
        assert np.array_equal(
            now.train[client], np.concatenate([data.steps[step][client] for step in range(3)])
        )
    assert np.array_equal(now.test.rows, at(Steps(2), data, 5)[0].test.rows)


def test_validation_samples_of_a_stream_are_refused() -> None:
    """From step 1 on, clients would train on them."""
    data = cast(StreamData, stream().with_validation(0.2))
    with pytest.raises(DataError, match=r"tested on the next step; leave out data\.validation"):
        at(Steps(2), data, 0)


def test_data_without_steps() -> None:
    with pytest.raises(
        DataError,
        match=r"digits.*do not come in steps: use sine, circle, sea .*or leave out the shift",
    ):
        Steps().step(
            original=digits(), current=digits(), round=0, reachable=np.arange(3), stream=Stream(0)
        )


@pytest.mark.parametrize("options", [{"every": 0}, {"every": -2}])
def test_invalid_values_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Steps(**options)


def test_prequential_accuracy_is_of_the_last_rounds_of_steps() -> None:
    records: Any = [{"round": r, "accuracy": a} for r, a in enumerate([0.9, 0.1, 0.5, 0.2, 0.7])]
    # Not round 0, before any training.
    assert prequential_accuracy(records, 2) == pytest.approx(0.6)
    with pytest.raises(ConfigError, match=r"run\.evaluate_every = 5"):
        prequential_accuracy(records, 5)
    with pytest.raises(ConfigError, match="was scored"):
        prequential_accuracy([{"round": 2, "accuracy": None}], 2)
