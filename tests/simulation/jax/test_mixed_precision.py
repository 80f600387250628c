"""Local training in bfloat16: near float32, not equal to it; parameters, losses and updates stay
float32."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError
from fedkin.core.training import LocalTraining
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.train import train
from tests.simulation.torch.twins import pair
from tests.simulation.training_digests import DATA, STREAM

WORK = LocalTraining(epochs=2, batch_size=10, lr=0.1)
LOW = replace(WORK, precision="bfloat16")
CLIENTS = np.arange(3)
FIRST = np.zeros(3, np.int64)


def reply(model: Any, work: LocalTraining, start: np.ndarray) -> Any:
    return train(SimulatedWorld(DATA, model, work), start, CLIENTS, FIRST, stream=STREAM)


@pytest.mark.parametrize("engine", [0, 1])
def test_it_is_near_float32_in_both_engines(engine: int) -> None:
    jax, own = pair("mclr", DATA)
    start = jax.initial(np.array([1, 2], np.uint32))[None]
    model = (jax, own)[engine]
    whole = reply(model, WORK, start)
    low = reply(model, LOW, start)
    assert low.update.dtype == np.float32 and (low.update != whole.update).any()
    scale = np.abs(whole.update).max()
    # 8 bits of mantissa: 0.4% a number.
    np.testing.assert_allclose(low.update, whole.update, atol=0.03 * scale)
    np.testing.assert_allclose(low.loss, whole.loss, rtol=0.03)


def test_a_run_in_bfloat16_is_about_as_accurate() -> None:
    data = fk.data.digits(clients=6)
    model = fk.models.mlp(data)
    works = [fk.SGD(lr=0.1), fk.SGD(lr=0.1, precision="bfloat16")]
    runs = [
        fk.simulate(
            fk.FedAvg(), data, model, rounds=3, cohort=6, local=work, callbacks=fk.Progress(False)
        )
        for work in works
    ]
    whole, low = (run.summary()["final_accuracy"] for run in runs)
    assert abs(whole - low) < 0.03 and not np.array_equal(runs[0].models, runs[1].models)


def test_refused_precisions() -> None:
    with pytest.raises(ConfigError, match="precision must be 'bfloat16'"):
        LocalTraining(precision="float16")
    with pytest.raises(
        ConfigError, match="running statistics or frozen parameters would be rounded"
    ):
        LOW.check_precision("resnet", True)
    LOW.check_precision("mlp", False)
    assert "precision" not in WORK.settings() and LocalTraining.from_settings(LOW.settings()) == LOW
