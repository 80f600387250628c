"""FedPer: bodies are averaged, heads never leave their clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.engine_protocols import LocalUpdates
from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.randomness import Stream
from fedkin.core.train_call import TrainCall
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.methods.fedavg import FedAvg
from fedkin.methods.fedper import FedPer, FedPerState, FedRep
from fedkin.models import mclr, mlp
from fedkin.run.metrics.accuracy import score
from fedkin.simulation.fake_world import FakeWorld, _Quadratic
from tests.option_lists import simulate_arguments
from tests.simulation.small_federation import federation

HEAD = slice(1, 3)
TARGET = np.array([[2, 10, -4, 0], [0, 20, 6, 4], [8, 30, 0, 8]], np.float32)
STREAM = Stream(7, 1, "round")
COHORT = np.arange(3)


def world(head: Any = HEAD, **options: Any) -> FakeWorld:
    fake = FakeWorld(
        TARGET, np.array([10, 30, 60]), start=lambda _: np.array([0, 2, 2, 0]), **options
    )
    fake.spec = replace(fake.spec, head=head)
    return fake


def rounds(w: FakeWorld, count: int, cohort: np.ndarray = COHORT) -> FedPerState:
    state = FedPer().init(w, STREAM)
    for r in range(count):
        state = FedPer().round(w, state, cohort, STREAM.at(r))
    return state


class _Regression(_Quadratic):
    """A trainer of y = h b.x by gradient steps on half the mean square, as in the oracle."""

    def __init__(self, x: np.ndarray, y: np.ndarray, lr: float) -> None:
        self.x = x
        self.y = y
        self.lr = lr

    def train(self, call: TrainCall) -> LocalUpdates:
        updates = []
        trained = np.ones(call.models.shape[1]) if call.trained is None else call.trained
        starts = call.models[call.model_index].astype(np.float64)
        for client, start in zip(call.clients, starts, strict=True):
            model = start.copy()
            x = self.x[client]
            for _step in range(int(call.num_steps.max())):
                body = model[:3]
                h = model[3]
                error = h * x @ body - self.y[client]
                gradient = np.append(h * x.T @ error, (x @ body) @ error) / len(error)
                model = model - self.lr * trained * gradient
            updates.append(model - start)
        losses = np.zeros(len(call.clients), np.float32)
        return LocalUpdates(np.array(updates, np.float32), losses, losses, None)


@pytest.mark.parametrize("name", ["fedper", "fedrep"])
def test_oracle(name: str, oracle: Callable[[str], dict[str, Any]]) -> None:
    for case in oracle("methods2")["personalisation"]:
        x = np.array(case["fedrep"]["X"])
        y = np.array(case["fedrep"]["Y"])
        start = np.append(case["w0"], 1.0)
        w = FakeWorld(
            np.zeros((3, 4), np.float32), np.full(3, x.shape[1]), start=lambda _, start=start: start
        )
        w.spec = replace(w.spec, head=slice(3, 4))
        w._trainer = _Regression(x, y, case["lr"])
        method = FedPer() if name == "fedper" else FedRep(head_epochs=case["fedrep"]["head_steps"])
        state = method.init(w, STREAM)
        for r, expected in enumerate(case[name]["trace"]):
            state = method.round(w, state, COHORT, STREAM.at(r))
            np.testing.assert_allclose(state.models[0, :3], expected["body"], atol=1e-6)
            np.testing.assert_allclose(
                w.memory()["clients/personal_head"][:, 0], expected["heads"], atol=1e-6
            )


def test_a_round_by_hand() -> None:
    """Half the way to each target: bodies with weights 10 and 30, heads on their own."""
    w = world()
    state = rounds(w, 1, COHORT[:2])
    np.testing.assert_allclose(state.models, [[0.25, 2, 2, 1.5]])
    np.testing.assert_array_equal(w.memory()["clients/personal_head"], [[6, -1], [11, 4], [0, 0]])


def test_in_the_end_heads_are_the_clients_own_and_the_body_is_the_mean() -> None:
    w = world()
    state = rounds(w, 40)
    np.testing.assert_allclose(
        state.models[0, [0, 3]], np.average(TARGET, 0, [10, 30, 60])[[0, 3]], rtol=1e-5
    )
    np.testing.assert_allclose(
        w.memory()["clients/personal_head"], TARGET[:, HEAD], rtol=1e-5, atol=1e-6
    )


def test_the_body_is_fedavgs_where_the_head_does_not_touch_it() -> None:
    """With quadratic clients, whose numbers are independent."""
    w = world()
    fedavg = FedAvg()
    plain = fedavg.init(w, STREAM)
    for r in range(3):
        plain = fedavg.round(w, plain, COHORT, STREAM.at(r))
    np.testing.assert_allclose(
        rounds(world(), 3).models[0, [0, 3]], plain.models[0, [0, 3]], rtol=1e-6
    )


def test_the_head_of_the_state_is_never_trained() -> None:
    np.testing.assert_array_equal(rounds(world(), 3).models[0, HEAD], [2, 2])


def test_only_bodies_travel() -> None:
    w = world()
    rounds(w, 2)
    assert (w.ledger.down, w.ledger.up) == (
        {"personal": 2 * 3 * 2 * 4},
        {"personal": 2 * 3 * 2 * 4},
    )


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_lost_replies(how: str) -> None:
    """The body is the mean of the bodies that came. The lost client keeps its head."""
    w = world(**{how: frozenset({1})})
    state = rounds(w, 1)
    np.testing.assert_allclose(
        state.models[0, [0, 3]], (10 * TARGET[0] + 60 * TARGET[2])[[0, 3]] / 140
    )
    np.testing.assert_array_equal(w.memory()["clients/personal_head.kept"], [1, 0, 1])


def test_clients_are_tested_with_their_own_heads() -> None:
    """After one round of lr 1 a client's head is its target; of client 2, which was not there, it
    is the first."""
    w = world(work=LocalTraining(lr=1.0))
    state = rounds(w, 1, COHORT[:2])
    mean = np.average(TARGET[:2], 0, [10, 30])
    expected = np.sum((mean - TARGET)[:, [0, 3]] ** 2, axis=1) + [0, 0, 28**2 + 2**2]
    results = score(w, state, 1)
    np.testing.assert_allclose(results.scores.loss, expected, rtol=1e-6)
    assert w.ledger.down["scoring.evaluate_personal"] == 3 * 2 * 4 and w.ledger.total() == (
        2 * 2 * 4,
        2 * 2 * 4,
    )


def test_heads_help_clients_with_opposite_labels() -> None:
    """Half of the clients have the labels the other way round: one model cannot serve both, a head
    each can."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12 * 60, 2)).astype(np.float32)
    clients = np.repeat(np.arange(12), 60)
    y = (x[:, 0] > 0).astype(np.int64) ^ (clients % 2)
    rows = np.arange(len(x)).reshape(12, 60)
    data = FederatedData(
        name="opposite",
        x=x,
        y=y,
        classes=2,
        train=Ragged.of(list(rows[:, :40])),
        test=Ragged.of(list(rows[:, 40:])),
    )
    options: dict[str, Any] = {"rounds": 15, "cohort": 12, "local": fk.SGD(epochs=2, lr=0.1)}
    own, one = (
        fk.simulate(method, data, mlp(data, 8), **simulate_arguments(options))
        for method in (FedPer(), FedAvg())
    )
    accuracy, plain = (run.history["accuracy"].iloc[-1] for run in (own, one))
    assert accuracy > 0.85 and plain < 0.7
    assert own.history["train_loss"].iloc[-1] < own.history["train_loss"].iloc[1]
    assert own.history["bytes_up"].iloc[-1] == 15 * 12 * (2 * 8 + 8) * 4  # the first layer only


def test_a_run_that_is_resumed_is_the_same(tmp_path: Path) -> None:
    """Heads are in the checkpoint of a simulation."""

    class Stop(Exception):
        pass

    def stop(record: dict[str, Any]) -> None:
        if record["round"] == 3:
            raise Stop

    data = federation()
    options: dict[str, Any] = {
        "rounds": 5,
        "cohort": 4,
        "local": fk.SGD(lr=0.1),
        "checkpoint_every": 1,
    }
    whole = fk.simulate(
        FedPer(), data, mlp(data, 8), out=tmp_path / "whole", **simulate_arguments(options)
    )
    with pytest.raises(Stop):
        fk.simulate(
            FedPer(),
            data,
            mlp(data, 8),
            out=tmp_path / "cut",
            **simulate_arguments({"callbacks": stop} | options),
        )
    resumed = fk.simulate(
        FedPer(),
        data,
        mlp(data, 8),
        out=tmp_path / "cut",
        resume=True,
        **simulate_arguments(options),
    )
    assert resumed.models.tobytes() == whole.models.tobytes()
    assert (tmp_path / "cut/metrics.jsonl").read_bytes() == (
        tmp_path / "whole/metrics.jsonl"
    ).read_bytes()


@pytest.mark.parametrize(
    ("head", "reason"),
    [(None, "does not end in a weight"), (slice(0, 4), "has no other"), (slice(None), "no other")],
)
def test_a_model_without_a_body_or_a_head_is_refused(head: slice | None, reason: str) -> None:
    with pytest.raises(MethodError, match=rf"{reason}.*model.name=mlp"):
        FedPer().init(world(head), STREAM)


def test_the_default_model_of_a_run_is_refused_in_words() -> None:
    data = federation()
    with pytest.raises((MethodError, ConfigError), match="hidden layers"):
        fk.simulate(FedPer(), data, mclr(data), rounds=1, cohort=2)


def test_the_head_is_trained_before_the_body() -> None:
    """In a network: the head with the body as it came, then the body with the new head."""
    data = federation()
    w = fk.SimulatedWorld(data, mlp(data, hidden=4), LocalTraining(epochs=2, batch_size=10, lr=0.1))
    method = FedRep(head_epochs=3)
    client = np.array([4])
    state = method.init(w, STREAM)
    after = method.round(w, state, client, STREAM)
    head = w.spec.head
    own = w.memory()["clients/personal_head"][4]
    start = state.start
    trainer: Any = w._trainer
    trained = np.zeros(len(start), bool)
    trained[head] = True
    for only, epochs in ((trained, 3), (~trained, 2)):
        call = TrainCall(
            models=start[None],
            clients=client,
            model_index=np.zeros(1, int),
            work=replace(w.work, epochs=epochs),
            num_steps=np.array([epochs]),
            stream=STREAM.child("train"),
            trained=only,
        )
        start = start + trainer.train(call).update[0]
    np.testing.assert_allclose(own, start[head], rtol=1e-5)
    np.testing.assert_allclose(after.models[0, ~trained], start[~trained], rtol=1e-5, atol=1e-7)


def test_head_epochs_are_a_number() -> None:
    with pytest.raises(MethodError, match="head_epochs"):
        FedRep(head_epochs=-1)
