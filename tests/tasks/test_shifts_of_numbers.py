"""The shift tests of numbers, as clients do them: quantiles of labels, and losses of models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.loss_shift import LossShifted
from fedkin.tasks.shift import Note, Shifted
from tests.task_vectors import task_case

Oracle = Callable[[str], dict[str, Any]]
STREAM = Stream(0, 1, "scenario")


class Later:
    """From round 1 on, clients have the labels of other data."""

    def __init__(self, later: FederatedData) -> None:
        self.later = later

    def step(
        self, original: FederatedData, current: FederatedData, round: int, **_: Any
    ) -> tuple[FederatedData, np.ndarray]:
        return (self.later if round else original), np.zeros(original.clients, bool)


def labels_of(*clients: Any, task: str = "regression") -> FederatedData:
    """Clients with these labels, all of which are training samples."""
    y = np.concatenate([np.asarray(own, float) for own in clients])
    owner = np.repeat(np.arange(len(clients)), [len(own) for own in clients])
    x = np.zeros((len(y), 1), np.float32)
    return fk.data.from_arrays(x, y, clients=owner, test=0, task=task)


def in_round(data: FederatedData, later: FederatedData, round: int) -> SimulatedWorld:
    shift: Any = Later(later)
    world = SimulatedWorld(data, fk.models.mclr(data), shift=shift)
    world.begin(STREAM.at(round))
    return world


def shifted(data: FederatedData, later: np.ndarray, **test: Any) -> list[bool]:
    """Which clients report a shift when their labels, in the label's unit, become others."""
    scale = data.task_type.label
    y = ((later - scale.mean) / scale.scale).astype(np.float32)
    changed = replace(data, y=y if data.y.ndim == 1 else np.column_stack([y, data.y[:, 1:]]))
    world = in_round(data, changed, 0)
    world.run(Note(), np.arange(data.clients))
    world.begin(STREAM)
    return world.run(Shifted(**test), np.arange(data.clients)).shifted.tolist()


def test_the_oracle_samples_have_shifted(oracle: Oracle) -> None:
    case = task_case(oracle, "label_shift_continuous")["inputs"]
    old, new = np.array(case["old"]), np.array(case["new"])
    size = min(len(old), len(new))
    data = labels_of(old[:size], old[:size])
    changed = np.concatenate([new[:size], old[:size]])
    # By chance two samples of these sizes differ by 2.1 sqrt(2 / n) standard deviations.
    levels = (np.arange(20) + 0.5) / 20
    moved = np.abs(np.quantile(new[:size], levels) - np.quantile(old[:size], levels)).mean()
    expected = moved / data.task_type.label.scale > max(0.2, 2.1 * np.sqrt(2 / size))
    assert shifted(data, changed) == [expected, False]


@pytest.mark.parametrize("test", ["label_blind", "label_quantiles"])
def test_only_a_move_that_chance_does_not_explain_is_a_shift(test: str) -> None:
    rng = np.random.default_rng(0)
    old = rng.normal(size=(2, 200))
    data = labels_of(*old)
    # 2.1 sqrt(2 / 200) = 0.21 standard deviations.
    assert shifted(data, np.concatenate([old[0] + 0.15, old[1] + 0.3]), test=test) == [False, True]
    assert shifted(data, old.ravel()[::-1].copy(), test=test, threshold=5.0) == [False, False]


def test_a_change_of_spread_is_a_shift_of_quantiles() -> None:
    old = np.random.default_rng(0).normal(size=(2, 300))
    assert shifted(labels_of(*old), np.concatenate([2 * old[0], old[1]])) == [True, False]


def test_counts_are_measured_in_their_pooled_deviation() -> None:
    rng = np.random.default_rng(0)
    old = rng.poisson(100, size=(2, 200)).astype(float)
    data = labels_of(*old, task="count")
    assert data.task_type.deviation == pytest.approx(old.std())
    # 4 counts are 0.4 standard deviations of 10.
    assert shifted(data, np.concatenate([old[0] + 4, old[1] + 1])) == [True, False]


def test_changes_count_from_the_last_note() -> None:
    old = np.random.default_rng(0).normal(size=(1, 200))
    data = labels_of(*old)
    world = in_round(data, replace(data, y=data.y + np.float32(1)), 1)
    everyone = np.arange(1)
    assert world.run(Shifted(), everyone).shifted.tolist() == [True]  # against the first labels
    world.run(Note(), everyone)
    assert world.run(Shifted(), everyone).shifted.tolist() == [False]


def test_label_aware_needs_classes_and_quantiles_need_numbers() -> None:
    numbers = labels_of(np.arange(10.0), np.arange(10.0))
    classes = fk.data.digits(clients=4)
    cases: list[tuple[FederatedData, Any, str]] = [
        (numbers, "label_aware", "label_quantiles"),
        (classes, "label_quantiles", "label_blind"),
    ]
    for data, test, cure in cases:
        method = fk.IFCAMig(clusters=2, migration=test)
        with pytest.raises(ConfigError, match=f"set migration = '{cure}'"):
            fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=2)


# --- losses


def test_losses_see_a_change_of_y_given_x_that_labels_do_not() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1)).astype(np.float32)
    y = x[:, 0] + 0.1 * rng.normal(size=200)
    data = fk.data.from_arrays(x, y, clients=np.repeat([0, 1], 100), test=0, task="regression")
    flipped = replace(data, x=np.concatenate([-x[:100], x[100:]]))
    world = in_round(data, flipped, 0)
    everyone = np.arange(2)
    good = np.array([[1.0, 0.0]], np.float32)
    ask = LossShifted(good, np.zeros(2, np.int64))
    assert world.run(ask, everyone).risen.tolist() == [False, False]
    world.begin(STREAM)
    assert world.run(Shifted(), everyone).shifted.tolist() == [False, False]
    assert world.run(ask, everyone).risen.tolist() == [True, False]
    # The client has told it, and compares with its present losses from now on.
    assert world.run(ask, everyone).risen.tolist() == [False, False]


def test_a_model_that_improves_lowers_the_reference() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 1)).astype(np.float32)
    data = fk.data.from_arrays(x, x[:, 0], clients=np.zeros(100), test=0, task="regression")
    world = in_round(data, data, 1)

    def ask(weight: float) -> bool:
        models = np.array([[weight, 0.0]], np.float32)
        reply = world.run(LossShifted(models, np.zeros(1, np.int64)), np.arange(1))
        return bool(reply.risen[0])

    assert not ask(-1.0)
    assert not ask(0.9)
    # Far below the first loss, and far above the lowest one.
    assert ask(0.0)


def test_all_clients_of_a_model_are_scored_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 1)).astype(np.float32)
    data = fk.data.from_arrays(x, x[:, 0], clients=np.arange(600) % 6, test=0, task="regression")
    world = in_round(data, replace(data, x=-x), 0)
    models = np.array([[1.0, 0.0], [0.9, 0.1]], np.float32)
    ask = LossShifted(models, np.array([0, 1, 1, 0, 1, 1]))
    assert not world.run(ask, np.arange(6)).risen.any()
    world.begin(STREAM)
    scorer = type(world._scorer)
    calls = []
    original = scorer.sample_losses

    def counted(self: Any, models: np.ndarray, clients: np.ndarray) -> np.ndarray:
        calls.append(len(clients))
        return original(self, models, clients)

    monkeypatch.setattr(scorer, "sample_losses", counted)
    assert world.run(ask, np.arange(6)).risen.all()
    assert sorted(calls) == [2, 4]


def swapped(method: Any, cohort: int = 8) -> list[dict[str, Any]]:
    """Records of a run in which clients of two clusters, with other levels, swap their data."""
    rng = np.random.default_rng(0)
    clients, samples = 8, 60
    x = rng.normal(size=(clients * samples, 2)).astype(np.float32)
    owner = np.repeat(np.arange(clients), samples)
    sign = np.where(owner % 2, 1.0, -1.0)
    y = sign * (2 + x[:, 0]) + 0.1 * rng.normal(size=len(x))
    data = fk.data.from_arrays(x, y, clients=owner, task="regression")
    return fk.simulate(
        method,
        replace(data, true_clusters=np.arange(clients) % 2),
        fk.models.mlp(data, hidden=(4,)),
        rounds=8,
        cohort=cohort,
        local=fk.LocalTraining(epochs=2, lr=0.05),
        shift=fk.SwapAll(probability=0.3),
        seed=1,
    ).records


@pytest.mark.parametrize("migration", ["label_blind", "label_quantiles", "loss"])
def test_clients_of_flexcfl_follow_their_data(migration: Any) -> None:
    staying = swapped(fk.FlexCFL(clusters=2, migration="none"))
    moving = swapped(fk.FlexCFL(clusters=2, migration=migration))
    assert staying[-1]["ari"] < 0.5
    assert moving[-1]["ari"] == 1.0


@pytest.mark.parametrize("migration", ["label_blind", "label_quantiles", "loss"])
def test_clients_of_ifca_that_are_not_selected_follow_too(migration: Any) -> None:
    """Half of the clients choose in a round. The others move only when they detect a shift."""
    staying = swapped(fk.IFCA(clusters=2), cohort=4)
    moving = swapped(fk.IFCAMig(clusters=2, migration=migration), cohort=4)
    assert moving[-1]["ari"] > staying[-1]["ari"]
