"""Recipes of local training in whole runs: described, resumed,
and the round that a schedule is at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData
from fedkin.models import mclr
from fedkin.simulation.fake_world import FakeWorld
from tests.option_lists import simulate_arguments
from tests.simulation.small_federation import federation

DATA = federation()
RECIPE = fk.AdamW(
    epochs=2,
    batch_size=10,
    lr=0.05,
    clip_norm=0.5,
    schedule={"name": "step", "every": 2, "gamma": 0.5, "warmup": 1},
    step_schedule="cosine",
    label_smoothing=0.1,
    class_weights="balanced",
)


def simulate(
    data: FederatedData, rounds: int = 5, local: Any = RECIPE, method: Any = None, **options: Any
) -> fk.Run:
    asked: dict[str, Any] = {"rounds": rounds, "cohort": 4, "checkpoint_every": 2, **options}
    return fk.simulate(
        method or fk.FedProx(mu=0.5), data, mclr(data), local=local, **simulate_arguments(asked)
    )


def test_a_resumed_run_is_the_same(tmp_path: Path) -> None:
    whole = simulate(DATA)
    simulate(DATA, rounds=3, out=tmp_path / "run")
    resumed = simulate(DATA, out=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(resumed.models, whole.models)
    assert resumed.records == whole.records
    described = resumed.config.local
    assert described["schedule"]["every"] == 2 and described["class_weights"] == "balanced"


def test_a_recipe_is_read_back_from_a_folder(tmp_path: Path) -> None:
    simulate(DATA, rounds=1, out=tmp_path / "run")
    loaded = fk.Run.load(tmp_path / "run", model=mclr(DATA), data=DATA)
    assert loaded.made_of is not None and loaded.made_of.local == RECIPE


def test_a_run_without_a_recipe_is_described_as_before() -> None:
    before = ["epochs", "batch_size", "lr", "optimizer", "momentum", "mu", "partial"]
    assert list(simulate(DATA, 1, fk.SGD()).config.local) == before


@pytest.mark.parametrize("method", [fk.FedAvg(), fk.FedProx(mu=0.0)], ids=["fedavg", "fedprox"])
def test_every_round_has_its_rate(method: Any) -> None:
    """On quadratics of one step, a round's way is its learning rate times the distance."""
    target = np.ones((3, 2), np.float32)
    schedule = fk.Schedule("exponential", gamma=0.5)
    world = FakeWorld(target, np.ones(3, np.int64), work=fk.SGD(lr=0.5, schedule=schedule))
    state = method.init(world, Stream(0, 0, "method/init"))
    everyone = np.arange(3)
    for round in (1, 2, 3):
        before = state.models[0]
        state = method.round(world, state, everyone, Stream(0, round, "method"))
        np.testing.assert_allclose(state.models[0] - before, 0.5**round * (1 - before), rtol=1e-5)


def test_an_averaged_gradient_has_the_rate_of_its_round() -> None:
    """IFCA's other form does one plain step itself."""
    target = np.ones((3, 2), np.float32)
    method = fk.IFCA(clusters=1, averaging="gradients")
    work = fk.SGD(lr=0.5, schedule=fk.Schedule("exponential", gamma=0.5))
    world = FakeWorld(target, np.ones(3, np.int64), work=work)
    state = method.init(world, Stream(0, 0, "method/init"))
    later = method.round(world, state, np.arange(3), Stream(0, 3, "method"))
    np.testing.assert_allclose(later.models - state.models, 0.125 * (1 - state.models), rtol=1e-5)
