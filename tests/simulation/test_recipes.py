"""Recipes of local training: JAX and PyTorch compared with a loop in NumPy, and with the classes of
torch.optim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedkin.core.errors import ConfigError, ModelError
from fedkin.core.randomness import Stream
from fedkin.core.schedule import Schedule
from fedkin.core.training import LocalTraining
from fedkin.models import mclr
from fedkin.simulation.batching import epoch_batches
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.torch import torch_model
from fedkin.tasks.train import train
from tests.simulation.small_federation import SIZES, federation, models, samples
from tests.simulation.torch.twins import WIDTHS, pair, perceptron

DATA = federation()
ROUND = 4
STREAM = Stream(3, ROUND, "run").child("train")
CLIENT = 4  # 23 samples: two whole batches and a short one
SGD = LocalTraining(epochs=2, batch_size=10, lr=0.1)
ADAM = replace(SGD, optimizer="adam", lr=0.02)
RECIPES = {
    "plain": SGD,
    "weight decay": replace(SGD, weight_decay=0.3),
    "weight decay and momentum": replace(SGD, weight_decay=0.3, momentum=0.8),
    "nesterov": replace(SGD, momentum=0.8, nesterov=True),
    "nesterov and weight decay": replace(SGD, momentum=0.8, nesterov=True, weight_decay=0.3),
    "adam": ADAM,
    "adam and weight decay": replace(ADAM, weight_decay=0.3),
    "adamw": replace(ADAM, optimizer="adamw", weight_decay=0.3),
    "clipping": replace(SGD, clip_norm=0.4),
    "clipping, proximal, weight decay, momentum": replace(
        SGD, clip_norm=0.4, mu=1.0, weight_decay=0.3, momentum=0.5
    ),
    "round schedule": replace(SGD, schedule=Schedule("exponential", gamma=0.5)),
    "step schedule": replace(SGD, step_schedule=Schedule("cosine", warmup=2)),
    "both schedules": replace(
        ADAM, schedule=Schedule("step", every=2, gamma=0.3), step_schedule=Schedule("linear")
    ),
    "label smoothing": replace(SGD, label_smoothing=0.2),
    "class weights": replace(SGD, class_weights=(0.5, 3.0, 1.0)),
    "balanced": replace(SGD, class_weights="balanced"),
    "balanced and smoothing": replace(SGD, class_weights="balanced", label_smoothing=0.2),
}


def start() -> np.ndarray:
    return models(mclr(DATA))[1]


def gradient(
    w: np.ndarray, x: np.ndarray, y: np.ndarray, weights: np.ndarray, smoothing: float
) -> np.ndarray:
    """Of sum_i [(1 - e) w_yi (-log p_yi) + e/C sum_c w_c (-log p_c)] / sum_i w_yi, by hand."""
    kernel = w[:18].reshape(3, 6)
    bias = w[18:]
    scores = x @ kernel.T + bias
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    target = (1 - smoothing) * np.eye(3)[y] * weights[y][:, None] + smoothing / 3 * weights
    error = (target.sum(axis=1, keepdims=True) * p - target) / weights[y].sum()
    return np.concatenate([(error.T @ x).ravel(), error.sum(axis=0)])


def factors(work: LocalTraining, steps: int) -> np.ndarray:
    """The learning rates of all steps, from the schedules that stand in RECIPES."""
    t = np.arange(steps)
    lr = work.lr
    if work.schedule is not None:  # round 4 is the fourth step
        lr *= 0.5**3 if work.schedule.name == "exponential" else 0.3 ** (3 // 2)
    if work.step_schedule is None:
        return np.full(steps, lr)
    if work.step_schedule.name == "linear":
        return lr * (1 - t / steps)
    return lr * np.where(t < 2, 0.1 + 0.9 * t / 2, (1 + np.cos(np.pi * (t - 2) / (steps - 2))) / 2)


def by_hand(work: LocalTraining) -> np.ndarray:
    """The update of the client, in float64."""
    x, y = samples(DATA, CLIENT)
    batches = batch_lists(work)
    counts = np.bincount(y, minlength=3)
    given = {"balanced": len(y) / (3 * np.maximum(counts, 1)), None: np.ones(3)}
    weights = (
        given[work.class_weights]
        if not isinstance(work.class_weights, tuple)
        else np.array(work.class_weights)
    )
    first = start().astype(np.float64)
    w = first.copy()
    m = np.zeros(21)
    v = np.zeros(21)
    for t, (batch, lr) in enumerate(zip(batches, factors(work, len(batches)), strict=True), 1):
        g = gradient(
            w=w,
            x=x[batch].astype(np.float64),
            y=y[batch],
            weights=weights,
            smoothing=work.label_smoothing,
        ) + work.mu * (w - first)
        if work.clip_norm:
            g *= min(1, work.clip_norm / np.linalg.norm(g))
        decay = work.weight_decay * w
        if work.optimizer == "sgd":
            m = work.momentum * m + g + decay
            move = g + decay + work.momentum * m if work.nesterov else m
        else:
            g = g + decay if work.optimizer == "adam" else g
            m = 0.9 * m + 0.1 * g
            v = 0.999 * v + 0.001 * g**2
            move = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
            move = move + decay if work.optimizer == "adamw" else move
        w = w - lr * move
    return w - first


def batch_lists(work: LocalTraining) -> list[np.ndarray]:
    """The client's batches as lists of sample numbers."""
    made = epoch_batches(
        SIZES[CLIENT], work.batch_size, work.count, STREAM.child("batches").client(CLIENT)
    )
    return [row[:count] for row, count in zip(made.rows, made.valid, strict=True)]


def trained(model: Any, work: LocalTraining) -> np.ndarray:
    world = SimulatedWorld(DATA, model, work)
    one = np.array([CLIENT])
    zero = np.zeros(1, np.int64)
    return train(world, start()[None], one, zero, stream=STREAM).update[0]


@pytest.mark.parametrize("name", RECIPES)
def test_jax_pytorch_and_a_loop_by_hand_agree(name: str) -> None:
    work = RECIPES[name]
    jax, own = pair("mclr", DATA)
    expected = by_hand(work)
    np.testing.assert_allclose(trained(jax, work), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(trained(own, work), expected, rtol=1e-5, atol=1e-5)
    plain = by_hand(ADAM if work.optimizer != "sgd" else SGD)
    # The option does something.
    assert name in ("plain", "adam") or np.abs(expected - plain).max() > 1e-3


@pytest.mark.parametrize(
    ("work", "make"),
    [
        (
            replace(SGD, weight_decay=0.3, momentum=0.8),
            lambda p, lr: torch.optim.SGD(p, lr, 0.8, weight_decay=0.3),
        ),
        (
            replace(SGD, momentum=0.8, nesterov=True),
            lambda p, lr: torch.optim.SGD(p, lr, 0.8, nesterov=True),
        ),
        (replace(ADAM, weight_decay=0.3), lambda p, lr: torch.optim.Adam(p, lr, weight_decay=0.3)),
        (
            replace(
                ADAM,
                optimizer="adamw",
                weight_decay=0.3,
                step_schedule=Schedule("linear"),
                clip_norm=0.4,
            ),
            lambda p, lr: torch.optim.AdamW(p, lr, weight_decay=0.3),
        ),
    ],
)
def test_torch_optim_takes_the_same_steps(work: LocalTraining, make: Callable[..., Any]) -> None:
    """By the user's own factory: schedules, clipping and batches stay the run's."""
    own = torch_model(lambda: perceptron(WIDTHS["mclr"]), optimizer=make)
    rest = replace(work, optimizer="sgd", momentum=0.0, nesterov=False, weight_decay=0.0)
    rest = replace(rest, schedule=Schedule("exponential", gamma=0.9))
    expected = trained(pair("mclr", DATA)[0], replace(work, schedule=rest.schedule))
    np.testing.assert_allclose(trained(own, rest), expected, rtol=1e-5, atol=1e-5)


def test_two_clients_have_different_weights_and_rates() -> None:
    """Several rows, of different numbers of steps, equal each row alone."""
    work = replace(SGD, class_weights="balanced", step_schedule=Schedule("cosine"))
    world = SimulatedWorld(DATA, mclr(DATA), work)
    every = np.arange(len(DATA.train))
    zeros = np.zeros(len(DATA.train), np.int64)
    together = train(world, start()[None], every, zeros, stream=STREAM).update
    for client in every:
        alone = train(world, start()[None], every[[client]], zeros[:1], stream=STREAM).update
        np.testing.assert_array_equal(together[client], alone[0])


def test_running_statistics_are_neither_decayed_nor_cut() -> None:
    """Batch normalisation's: as they are without clipping and decay, where the parameters do not
    move."""

    def network() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(6), nn.Linear(6, 3))

    model = torch_model(network, name="normalised")
    tiny = 1e-9
    first = model.initial(np.array([1, 2], np.uint32))
    one = np.array([6])
    zero = np.zeros(1, np.int64)
    statistics = [model.spec.slices[f"1.running_{name}"] for name in ("mean", "var")]
    updates = [
        train(SimulatedWorld(DATA, model, work), first[None], one, zero, stream=STREAM).update[0]
        for work in (replace(SGD, lr=tiny), replace(SGD, lr=tiny, weight_decay=0.5, clip_norm=0.1))
    ]
    for part in statistics:
        assert np.abs(updates[0][part]).max() > 0.05
        np.testing.assert_allclose(updates[1][part], updates[0][part], rtol=1e-5)


def sgd(parameters: list[Any], lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (
            {"momentum": 0.9},
            "local.momentum = 0.9 does not apply: model 'torch' has its own optimizer",
        ),
        ({"optimizer": "adam"}, "local.optimizer = 'adam' does not apply"),
        ({"weight_decay": 0.1}, "local.weight_decay = 0.1 does not apply"),
    ],
)
def test_settings_that_a_users_optimiser_would_ignore(work: dict[str, Any], words: str) -> None:
    own = torch_model(lambda: perceptron(WIDTHS["mclr"]), optimizer=sgd)
    with pytest.raises(ConfigError) as error:
        trained(own, replace(SGD, **work))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        (lambda p: sgd(p, 0.1), "its optimizer failed to start: TypeError"),
        (lambda p, lr: "sgd", "its optimizer must make a torch.optim.Optimizer, got str"),
        (lambda p, lr: torch.optim.LBFGS(p, lr), "a step of its optimizer failed: TypeError"),
    ],
)
def test_an_optimiser_that_fails_is_explained(factory: Callable[..., Any], words: str) -> None:
    own = torch_model(lambda: perceptron(WIDTHS["mclr"]), optimizer=factory)
    with pytest.raises(ModelError) as error:
        trained(own, SGD)
    assert words in str(error.value)


def test_class_weights_of_another_number_are_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match="one number for each of the 3 classes, got 2"):
        SimulatedWorld(DATA, mclr(DATA), replace(SGD, class_weights=(1.0, 2.0)))
