"""Messages name clients as the data do: names that are numbers are other numbers than positions."""

import logging
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from torch import nn

import fedkin as fk
from fedkin.core.errors import DataError, MethodError, ModelError, TaskError
from fedkin.core.method import ClientRemark
from fedkin.core.object_repr import client_list
from fedkin.core.schema import Memory, Rows, floats
from fedkin.core.task import Task
from fedkin.core.world import client_names
from fedkin.methods.drift_history import count
from fedkin.run.instrumented_world import InstrumentedWorld
from fedkin.simulation.engine import SimulatedWorld
from tests.mappings import merged

NAMES = np.arange(60) % 6 + 1  # client 3 is at position 2


def samples(scale: float = 1.0) -> np.ndarray:
    """Sixty samples; the samples of client 3 are multiplied."""
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    x[NAMES == 3] *= scale
    return x


def data(x: np.ndarray | None = None, **options: Any) -> fk.data.FederatedData:
    """Six clients, named 1 to 6."""
    values = samples() if x is None else x
    return fk.data.from_arrays(
        values, np.arange(60) % 2, clients=NAMES, **merged({"test": 0}, options)
    )


def world() -> SimulatedWorld:
    federated = data()
    return SimulatedWorld(federated, fk.models.mclr(federated))


@dataclass(frozen=True)
class BrokenForTwo(Task):
    """What one client returns is no dictionary, has another shape, or cannot be stored."""

    up: ClassVar = Rows(value=floats())
    memory: ClassVar = {"kept": Memory()}
    kind: str = "list"

    def compute(self, client: Any) -> Any:
        if client.id != 2:
            return {"value": np.float64(0)}
        if self.kind == "memory":
            client.memory["kept"] = np.float32(np.nan)
        return [0] if self.kind == "list" else {"value": np.zeros(5)}


def test_a_list_of_clients_is_by_names_where_there_are_some() -> None:
    assert client_list([2, 0], ["x", "y", "z"]) == "z, x"
    assert client_list([2, 0]) == "2, 0"
    assert client_list([2, 0], ["x"]) == "2, x"  # a server that has not met client 2
    assert client_list(range(25)).endswith("18, 19 ...")


def test_a_reply_that_is_not_finite_is_logged_with_the_clients_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    federated = data(samples(1e35))
    with caplog.at_level(logging.WARNING):
        fk.simulate(
            fk.FedAvg(),
            federated,
            fk.models.mclr(federated),
            rounds=1,
            cohort=6,
            callbacks=fk.Progress(False),
        )
    assert "the reply of client 3 is not finite (" in caplog.text


def test_a_client_without_training_samples_is_named() -> None:
    with pytest.raises(DataError, match="client 3 has no training sample"):
        data(test=NAMES == 3)


def test_a_client_whose_batch_fails_is_named() -> None:
    # Client 3 has 3 samples, so that a batch of 2 leaves one.
    few = ~((NAMES == 3) & (np.arange(60) > 14))
    federated = fk.data.from_arrays(
        samples()[few], (np.arange(60) % 2)[few], clients=NAMES[few], test=0
    )
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    local = fk.SGD(epochs=1, batch_size=2, lr=0.1)
    with pytest.raises(ModelError, match="a batch of 1 samples of client 3:"):
        model = fk.torch_model(lambda: network, federated)
        fk.simulate(
            fk.FedAvg(),
            federated,
            model,
            rounds=1,
            cohort=6,
            local=local,
            callbacks=fk.Progress(False),
        )


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("list", r"\(client 3\)"),
        ("shape", r"\(client 3\)"),
        ("memory", "client 3, memory kept: expected finite"),
    ],
)
def test_a_reply_that_does_not_fit_is_logged_with_the_clients_name(kind: str, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        world().run(BrokenForTwo(kind=kind), np.arange(6))


def test_a_part_of_the_clients_keeps_its_names() -> None:
    chosen = data().select(np.array([2, 4, 2]))
    assert chosen.client_names == ["3", "5", "3"]


def test_remarks_about_clients_say_their_names() -> None:
    remark = ClientRemark("clients {} are suspicious", np.array([2, 0]))
    assert remark == "clients 2, 0 are suspicious"
    assert remark.with_names(data().client_names) == "clients 3, 1 are suspicious"


@dataclass(frozen=True)
class Suspicious(fk.FedAvg):
    """Federated averaging that warns about the client at position 2."""

    def remarks(self, state: Any) -> tuple[str, ...]:
        return (ClientRemark("clients {} are suspicious", [2]),)


def test_a_run_logs_remarks_with_the_clients_names(caplog: pytest.LogCaptureFixture) -> None:
    federated = data()
    with caplog.at_level(logging.WARNING):
        fk.simulate(
            Suspicious(),
            federated,
            fk.models.mclr(federated),
            rounds=1,
            cohort=6,
            callbacks=fk.Progress(False),
        )
    assert "clients 3 are suspicious" in caplog.text


def test_feddrift_names_the_client_that_has_fewer_samples() -> None:
    earlier = np.full((6, 2), 10)
    earlier[2] = 1000
    with pytest.raises(MethodError, match="client 3 has fewer samples than before"):
        count(world(), earlier, np.arange(6))


def test_worlds_pass_names_on() -> None:
    named = world()
    assert (
        client_names(InstrumentedWorld(named))
        == client_names(named)
        == ["1", "2", "3", "4", "5", "6"]
    )
