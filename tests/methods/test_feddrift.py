"""FedDrift on streams and on clients with a known history: the models that clients train, from its
lines, in small federations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.data.drifting import StreamData
from fedkin.data.federated import FederatedData
from fedkin.methods.drift_history import History, spans_of
from fedkin.methods.feddrift import FedDrift
from fedkin.models import mclr
from fedkin.scenarios.steps import Steps
from fedkin.simulation.engine import SimulatedWorld
from tests.mappings import merged
from tests.option_lists import simulate_arguments

CHANGES = ("0000", "0100", "0110", "0110")
WORK = LocalTraining(epochs=3, batch_size=20, lr=0.5)
OPTIONS: dict[str, Any] = {"every": 4, "models": 4, "delta": 0.25}


def stream() -> FederatedData:
    """Labels by a straight line, which a linear model learns at once; the second concept has them
    inverted."""
    data = fk.data.sine(clients=4, samples=60, changes=CHANGES)
    assert isinstance(data, StreamData) and data.concepts is not None
    y = (data.x[:, 0] > data.x[:, 1]).astype(np.int64)
    for concept, own in zip(data.concepts, data.steps, strict=True):
        y[own.rows] ^= concept[own.owners()]
    return data.with_rows(data.train, data.test, y=y)


def run(method: Any, rounds: int = 12, history: bool = True, **options: Any) -> Any:
    data = stream()
    settings = {
        "rounds": rounds,
        "cohort": 4,
        "local": WORK,
        "shift": Steps(4, history=history),
        "progress": False,
    }
    return fk.simulate(method, data, mclr(data), **simulate_arguments({**settings, **options}))


def test_a_drifted_client_is_alone_and_then_shares_its_model() -> None:
    found = run(FedDrift(**OPTIONS))
    owner = found.state.owner
    new = owner[1, 1]
    assert owner[:, 0].tolist() == [0] * 4 and owner[:, 1].tolist() == [0, new, 0, 0] and new != 0
    assert owner[:, 2].tolist() == [0, new, new, 0]  # the next client finds a model of its concept
    assert found.state.release.tolist() == [0, 2, 0, 0]
    assert np.array_equal(found.state.ends, np.tile([60, 120, 180], (4, 1)))
    # One of four is inverted.
    assert found.records[12]["accuracy"] > 0.85 and found.records[4]["accuracy"] < 0.8
    assert found.records[12]["ari"] == 1.0


def test_samples_of_earlier_steps_must_stay_on_clients() -> None:
    """Without them no client would have more samples than before, and none would ever drift."""
    with pytest.raises(
        ConfigError, match=r"feddrift needs clients that keep the samples.*set shift\.history=true"
    ):
        run(FedDrift(**OPTIONS), history=False)


def test_one_model_that_never_drifts_is_fedavg() -> None:
    alone, plain = (
        run(method) for method in (FedDrift(**merged(OPTIONS, {"models": 1})), fk.FedAvg())
    )
    assert [r["accuracy"] for r in alone.records] != [
        r["accuracy"] for r in run(FedDrift(**OPTIONS)).records
    ]
    gap = [
        abs(a["loss"] - b["loss"])
        for a, b in zip(alone.records[-3:], plain.records[-3:], strict=True)
    ]
    assert max(gap) < 0.05  # from another initial model


def test_the_eager_form_merges_nothing_and_isolates_no_client() -> None:
    found = run(FedDrift(**OPTIONS, eager=True))
    assert not found.state.release.any() and len(np.unique(found.state.owner[:, 2])) == 2


def test_resumed_runs_are_equal(tmp_path: Path) -> None:
    whole = run(FedDrift(**OPTIONS))
    run(FedDrift(**OPTIONS), rounds=6, out=tmp_path, checkpoint_every=1)
    resumed = run(FedDrift(**OPTIONS), out=tmp_path, checkpoint_every=1, resume=True)
    for name in ("models", "assignment", "owner", "ends", "accuracy", "release"):
        assert np.array_equal(
            getattr(whole.state, name), getattr(resumed.state, name), equal_nan=True
        ), name


def test_clients_that_forget_are_refused() -> None:
    data = stream()
    world = SimulatedWorld(data, mclr(data), WORK)
    method = FedDrift(**OPTIONS)
    state = method.round(world, method.init(world, Stream(0)), np.arange(4), Stream(0, 1))
    world.data = data.with_rows(data.train.select(np.arange(4)), data.test)
    rows = [data.train[c][:30] for c in range(4)]
    fewer = data.with_rows(type(data.train).of(rows), data.test)
    world = SimulatedWorld(fewer, mclr(data), WORK)
    with pytest.raises(
        MethodError, match=r"client 0 has fewer samples than before: set shift.history = true"
    ):
        method.round(world, state, np.arange(4), Stream(0, 5))


def test_without_new_samples_no_choice_is_repeated() -> None:
    data = stream()
    world = SimulatedWorld(data, mclr(data), WORK)
    method = FedDrift(**OPTIONS)
    state = method.init(world, Stream(0))
    for round in range(1, 10):
        state = method.round(world, state, np.arange(4), Stream(0, round))
    assert state.owner.tolist() == [[0, -1, -1]] * 4 and state.assignment.tolist() == [0] * 4


def test_a_newcomer_takes_the_best_model() -> None:
    found = run(FedDrift(**OPTIONS))
    data = stream()
    assert isinstance(data, StreamData)
    last = data.with_rows(data.steps[2], data.steps[3])
    world = SimulatedWorld(last, mclr(data), WORK)
    state = found.state
    cold = type(state)(
        state.models,
        np.array([0, -1, -1, 0]),
        state.owner,
        0 * state.ends,
        state.accuracy,
        state.release,
    )
    placed = FedDrift(**OPTIONS).place(world, cold, np.array([1, 2]), Stream(0, 12))
    assert placed.assignment.tolist() == state.assignment.tolist()


def test_accuracy_between_models_is_over_all_that_they_own() -> None:
    correct = np.zeros((2, 2, 3), int)
    correct[0, 0] = (8, 4, 0)
    correct[0, 1] = (1, 9, 0)
    correct[1, 0] = (5, 3, 0)
    history = History(correct, np.array([[10, 10], [5, 0]]), np.array([0, 1]))
    owner = np.array([[0, 1], [0, -1]])
    np.testing.assert_allclose(
        history.between(owner, np.array([0, 1])), [[13 / 15, 0.1], [7 / 15, 0.9]]
    )
    assert np.array_equal(history.accuracy(1), [[0.1, 0.9, -np.inf], [-np.inf] * 3])
    assert spans_of(np.array([[3, 3, 7]])).tolist() == [[[0, 3], [3, 3], [3, 7]]]
