"""An accelerator without memory, with wrong numbers or without a driver, played by a CPU."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from jax.errors import JaxRuntimeError

from fedkin.core.errors import ConfigError, WorkerError
from fedkin.core.train_call import TrainCall
from fedkin.models import as_model
from fedkin.simulation.jax import device_trial
from fedkin.simulation.jax.device_trial import cpu_instead, difference, usable
from fedkin.simulation.jax.devices import local_devices
from fedkin.simulation.jax.trainer import JaxTrainer
from tests.simulation.test_bitwise_equality import START, world
from tests.simulation.training_digests import DATA, MODEL, STREAM, WHICH, WORK, trained

FULL = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 GiB"


class Card(SimpleNamespace):
    """An accelerator that JAX does not know."""

    platform = "gpu"

    def __hash__(self) -> int:
        return id(self)

    def __str__(self) -> str:
        return "cuda:0"


def call_of(clients: int) -> TrainCall:
    """The training call of ``trained``, for its first clients."""
    return TrainCall(
        models=START,
        clients=np.arange(clients),
        model_index=WHICH[:clients],
        work=WORK,
        num_steps=np.full(clients, WORK.epochs),
        stream=STREAM,
    )


@pytest.fixture(autouse=True)
def _separate_trials() -> None:
    device_trial._fault.cache_clear()


def test_this_machines_device_passes_its_trial() -> None:
    [device] = local_devices(1)
    assert difference(device) < 1e-2
    assert usable([device]) == [device]


@pytest.mark.parametrize("factor", [1.05, np.nan])
def test_a_device_with_other_numbers_is_replaced_by_the_cpu(
    factor: float, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The product is right, and the convolution is wrong by 5%."""
    kernels = device_trial._kernels

    def faulty(*arrays: Any) -> tuple[Any, Any]:
        product, convolved = kernels(*arrays)
        return product, convolved * factor

    monkeypatch.setattr(device_trial, "_kernels", faulty)
    monkeypatch.setattr(jax, "device_put", lambda arrays, _: arrays)
    assert usable([Card()]) == jax.local_devices(backend="cpu")
    assert "cuda:0 cannot be used: its numbers differ from NumPy's by" in caplog.text
    assert "clients are trained on the CPU" in caplog.text


def test_rounding_of_products_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Factors in bfloat16, as coarse as a device may round by default."""
    kernels = device_trial._kernels

    def rounded(*arrays: Any) -> tuple[Any, Any]:
        return kernels(*(array.astype("bfloat16").astype(np.float32) for array in arrays))

    monkeypatch.setattr(device_trial, "_kernels", rounded)
    monkeypatch.setattr(jax, "device_put", lambda arrays, _: map(jax.numpy.asarray, arrays))
    card = Card()
    assert 1e-5 < difference(card) and usable([card]) == [card]


@pytest.mark.parametrize(
    ("message", "word"),
    [(FULL, "XLA_PYTHON_CLIENT_MEM_FRACTION"), ("INTERNAL: cuDNN\nmore", "INTERNAL: cuDNN")],
)
def test_a_device_that_fails_its_trial_is_replaced_by_the_cpu(
    message: str, word: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: Any) -> None:
        raise JaxRuntimeError(message)

    monkeypatch.setattr(jax, "device_put", failing)
    assert usable([Card()])[0].platform == "cpu"
    assert word in caplog.text and "more" not in caplog.text.replace("more memory", "")


def test_without_a_cpu_the_fault_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(**_: Any) -> list:
        raise RuntimeError("Unknown backend cpu")

    monkeypatch.setattr(jax, "local_devices", none)
    with pytest.raises(WorkerError, match=r"cuda:0 cannot be used: a fault.*set JAX_PLATFORMS"):
        cpu_instead(Card(), "a fault")


@pytest.mark.parametrize("clients", [7, 2])
def test_a_device_without_memory_for_one_client_leaves_training_to_the_cpu(
    clients: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With calls that are measured, and with calls too small for that."""
    expected = trained(world())
    card = Card()
    trainer = JaxTrainer(
        data=DATA, model=MODEL, devices=[card], lanes=None, ids=np.arange(DATA.clients), keep=False
    )

    def too_large(self: JaxTrainer, *arguments: Any) -> Any:
        if self._devices == [card]:
            raise JaxRuntimeError(FULL)
        return compute(self, *arguments)

    compute = JaxTrainer._compute
    monkeypatch.setattr(JaxTrainer, "_compute", too_large)
    monkeypatch.setattr("fedkin.simulation.jax.devices._FEWEST_ROWS", 5)
    call = call_of(clients)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            update = trainer.train(call).update
            np.testing.assert_array_equal(update, expected.update[:clients])
    assert caplog.text.count("one client does not fit") == 1


def test_another_failure_of_training_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise JaxRuntimeError("INTERNAL: a fault")

    monkeypatch.setattr(JaxTrainer, "_train_fastest", failing)
    trainer = JaxTrainer(
        data=DATA, model=MODEL, devices=local_devices(1), lanes=None, ids=np.arange(DATA.clients)
    )
    with pytest.raises(JaxRuntimeError, match="INTERNAL: a fault"):
        trainer.train(call_of(2))


@pytest.mark.parametrize(
    "error", [AssertionError(), RuntimeError("Unable to initialize backend 'cuda': no driver")]
)
def test_a_driver_that_jax_refuses_is_named(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> list:
        raise error

    monkeypatch.setattr(jax, "devices", refused)
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    with pytest.raises(ConfigError, match=r"no device for JAX_PLATFORMS='cuda'.*set JAX_PLATFORMS"):
        as_model((lambda key: np.zeros(3), lambda tree, x, key: tree))
