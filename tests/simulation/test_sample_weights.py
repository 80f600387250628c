"""Weights of samples in local training: the loss of a batch is their weighted sum divided by its
number of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float

from fedkin.core.engine_protocols import Trainer
from fedkin.core.randomness import Stream
from fedkin.core.train_call import TrainCall
from fedkin.core.training import LocalTraining
from fedkin.models import mclr
from fedkin.simulation.workers import worker_factory
from tests.simulation.small_federation import federation
from tests.simulation.torch.twins import of_jax

DATA = federation(sizes=(5, 7), test_sizes=(2, 2))
MODELS: dict[str, Any] = {"jax": mclr(DATA), "torch": of_jax(mclr(DATA), (6, 3))}
# Two rows of one client.
CLIENTS = np.array([0, 1, 1])
INDEX = np.array([1, 0, 1])
SIZES = DATA.train.sizes[CLIENTS]
WEIGHTS = np.random.default_rng(5).uniform(0, 1, SIZES.sum())
WHOLE = LocalTraining(1, batch_size=100, lr=0.5)
START = np.random.default_rng(6).normal(size=(2, MODELS["jax"].spec.parameters)).astype(np.float32)


def trainer(name: str) -> Trainer:
    return worker_factory(MODELS[name], np.arange(2), None, None)(DATA)[1]


def update(name: str, work: LocalTraining, weights: Float[np.ndarray, "t"] | None) -> np.ndarray:
    steps = np.full(3, work.count)
    of_rows = None if weights is None else np.split(weights, np.cumsum(SIZES)[:-1])
    call = TrainCall(
        models=START,
        clients=CLIENTS,
        model_index=INDEX,
        work=work,
        num_steps=steps,
        stream=Stream(1),
        weights=of_rows,
    )
    return np.asarray(trainer(name).train(call).update)


def by_hand(row: int, weights: Float[np.ndarray, "s"]) -> np.ndarray:
    """-lr (1/B) sum_j q_j grad l_j of a linear softmax model, weight [C, d] before bias [C]."""
    x, y = (part[DATA.train[int(CLIENTS[row])]] for part in (DATA.x, DATA.y))
    weight = START[INDEX[row], :18].reshape(3, 6)
    bias = START[INDEX[row], 18:]
    scores = x @ weight.T + bias
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    error = (p / p.sum(axis=1, keepdims=True) - np.eye(3)[y]) * weights[:, None] / len(y)
    return -0.5 * np.concatenate([(error.T @ x).ravel(), error.sum(axis=0)])


@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_the_weighted_sum_over_the_number_of_samples(name: str) -> None:
    got = update(name, WHOLE, WEIGHTS)
    own = np.split(WEIGHTS, np.cumsum(SIZES)[:-1])
    for row in range(3):
        np.testing.assert_allclose(got[row], by_hand(row, own[row]), atol=2e-6)
    # No division by their sum.
    np.testing.assert_allclose(update(name, WHOLE, WEIGHTS / 2), got / 2, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_weights_of_one_change_nothing(name: str) -> None:
    work = LocalTraining(3, batch_size=2, lr=0.1, momentum=0.5)
    np.testing.assert_allclose(
        update(name, work, np.ones(SIZES.sum())), update(name, work, None), atol=1e-6
    )


def test_weights_follow_their_samples_into_shuffled_batches_and_both_libraries_agree() -> None:
    work = LocalTraining(3, batch_size=2, lr=0.1, class_weights="balanced", label_smoothing=0.1)
    np.testing.assert_allclose(
        update("torch", work, WEIGHTS), update("jax", work, WEIGHTS), atol=2e-6
    )
    first = np.where(np.concatenate([np.arange(size) for size in SIZES]) == 0, 1.0, 0.0)
    # One step on the first sample, and steps of zero.
    plain = LocalTraining(1, batch_size=1, lr=0.5)
    got = update("jax", plain, first)
    for row in range(3):
        np.testing.assert_allclose(
            got[row], by_hand(row, np.eye(SIZES[row])[0] * SIZES[row]), atol=2e-6
        )


@pytest.mark.parametrize("name", MODELS)
def test_losses_of_single_samples(name: str) -> None:
    scorer = worker_factory(MODELS[name], np.arange(2), None, None)(DATA)[0]
    each = scorer.sample_losses(START, np.array([1, 0]))
    assert each.shape == (2, 12)
    means = np.stack([each[:, :7].mean(axis=1), each[:, 7:].mean(axis=1)])
    np.testing.assert_allclose(means, scorer.losses(START, np.array([1, 0])), atol=1e-5)
    scores = scorer.scores(START[1], np.array([1]), "train")
    y = DATA.y[DATA.train[1]]
    expected = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(7), y]
    np.testing.assert_allclose(each[1, :7], expected, atol=1e-5)
