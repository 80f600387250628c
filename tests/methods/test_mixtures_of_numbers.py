"""FedEM on numbers and counts: the E-step divides losses by the dispersion, and predicted means are
mixed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import fedkin as fk
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData
from fedkin.methods.fedem import FedEM, MixtureState
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.fedem import EvaluateMixture, MixtureWeights
from tests.methods.test_task_types import CLIENTS, data_of, trained

STREAM = Stream(3, 1, "method")
EVERYONE = np.arange(CLIENTS)


def state_of(data: FederatedData, models: np.ndarray, dispersion: float) -> MixtureState:
    shares = np.tile([0.3, 0.7], (CLIENTS, 1))
    return MixtureState(
        models=models,
        assignment=np.zeros(CLIENTS, np.int64),
        membership=shares,
        samples=np.zeros(CLIENTS, np.int64),
        dispersion=np.array([dispersion]),
    )


def world_of(task: str) -> SimulatedWorld:
    data = data_of(task)
    return SimulatedWorld(data, fk.models.mclr(data), fk.LocalTraining(lr=0.01))


MODELS = np.array([[0.8, 0.1, 0.0, 0.1], [-0.6, 0.2, 0.1, -0.1]], np.float32)  # weights, bias


def scores_of(x: np.ndarray) -> list[np.ndarray]:
    return [x @ model[:3] + model[3] for model in MODELS.astype(np.float64)]


def test_the_e_step_of_squares_divides_by_the_variance() -> None:
    world = world_of("regression")
    data = data_of("regression")
    rows = data.train.rows
    residuals = [data.y[rows] - score for score in scores_of(data.x[rows])]
    variance = 0.25
    # log prior - (y - s)^2 / (2 sigma2), sample by sample.
    logits = np.stack(
        [np.log(p) - r**2 / (2 * variance) for p, r in zip((0.3, 0.7), residuals, strict=True)]
    )
    q = softmax(logits, axis=0)
    after = FedEM(2).round(world, state_of(data, MODELS, variance), EVERYONE, STREAM)
    expected = [q[0][data.train.owners() == client].mean() for client in EVERYONE]
    np.testing.assert_allclose(after.membership[:, 0], expected, rtol=1e-5)
    pooled = sum((weights * r**2).sum() for weights, r in zip(q, residuals, strict=True))
    np.testing.assert_allclose(after.dispersion, [pooled / len(rows)], rtol=1e-5)


def test_newcomers_use_the_variance_too() -> None:
    world = world_of("regression")
    shares = np.tile([0.3, 0.7], (CLIENTS, 1))
    wide = world.run(MixtureWeights(MODELS, shares, dispersion=1.0), EVERYONE).membership
    narrow = world.run(MixtureWeights(MODELS, shares, dispersion=0.05), EVERYONE).membership
    # Clients of the first cluster follow the first model, and surer with a smaller variance.
    assert (narrow[0::2, 0] > wide[0::2, 0]).all()


def test_the_dispersion_of_counts_is_pearsons() -> None:
    world = world_of("count")
    data = data_of("count")
    rows = data.train.rows
    label, offset = data.y[rows].T.astype(np.float64)
    means = [np.exp(score + offset) for score in scores_of(data.x[rows])]
    losses = np.stack([mean - label * np.log(mean) for mean in means])
    q = softmax(np.log([[0.3], [0.7]]) - losses / 2.0, axis=0)
    after = FedEM(2).round(world, state_of(data, MODELS, 2.0), EVERYONE, STREAM)
    pearson = sum((w * (label - m) ** 2 / m).sum() for w, m in zip(q, means, strict=True))
    np.testing.assert_allclose(after.dispersion, [pearson / len(rows)], rtol=1e-5)


def test_predicted_means_of_counts_are_mixed_and_not_log_rates() -> None:
    world = world_of("count")
    data = data_of("count")
    shares = np.tile([0.3, 0.7], (CLIENTS, 1))
    reply = world.run(EvaluateMixture(MODELS, shares, "train"), EVERYONE)
    rows = data.train[0]
    label, offset = data.y[rows].T.astype(np.float64)
    first, second = (np.exp(score + offset) for score in scores_of(data.x[rows]))
    mean = 0.3 * first + 0.7 * second
    np.testing.assert_allclose(reply.sums[0, 1], np.abs(label - mean).sum(), rtol=1e-5)
    np.testing.assert_allclose(reply.loss[0], (mean - label * np.log(mean)).mean(), rtol=1e-5)


def test_the_served_mixture_has_the_mixed_scores() -> None:
    run = trained(FedEM(2), "regression")
    x = data_of("regression").x[:5]
    own = run.model_for(0)
    assert own.shares is not None
    expected = sum(
        share * (x @ w[:3] + w[3]) for share, w in zip(own.shares, own.vectors, strict=True)
    )
    np.testing.assert_allclose(own(x)[:, 0], expected, rtol=1e-4, atol=1e-6)


def test_the_dispersion_of_classes_stays_one() -> None:
    data = fk.data.digits(clients=4)
    run = fk.simulate(FedEM(2), data, fk.models.mclr(data), rounds=2, cohort=4)
    assert isinstance(run.state, MixtureState)
    assert run.state.dispersion.tolist() == [1.0]


@pytest.mark.parametrize("loss", ["absolute_error", "huber", "gaussian_nll"])
def test_other_losses_of_numbers_train_and_keep_a_finite_dispersion(loss: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)).astype(np.float32)
    y = x[:, 0] + rng.normal(size=60)
    data = fk.data.from_arrays(x, y, clients=np.repeat(np.arange(4), 15), loss=loss)
    run = fk.simulate(FedEM(2), data, fk.models.mclr(data), rounds=2, cohort=4)
    assert isinstance(run.state, MixtureState)
    dispersion = float(run.state.dispersion[0])
    assert dispersion == 1.0 if loss == "gaussian_nll" else 0 < dispersion < 5


def mixed(loss: Any, scores: list[list[float]]) -> np.ndarray:
    return loss.mixed([np.array([one]) for one in scores], np.array([[0.5], [0.5]]))[0]


def test_mixtures_of_other_losses() -> None:
    softplus = fk.data.from_arrays(
        np.zeros((4, 1), np.float32),
        np.array([0.0, 1, 2, 3]),
        clients=[0, 0, 1, 1],
        task="count",
        loss_options={"link": "softplus"},
    ).task_type.loss
    assert softplus is not None
    mean = (np.log1p(np.exp(2.0)) + np.log1p(np.exp(-1.0))) / 2
    np.testing.assert_allclose(np.log1p(np.exp(mixed(softplus, [[2.0], [-1.0]]))), [mean])
    from fedkin.task_types.quantile import Pinball
    from fedkin.task_types.regression import GaussianLikelihood

    # Quantiles are put in order before their means are taken.
    assert mixed(Pinball((0.1, 0.9)), [[4.0, 0.0], [2.0, 6.0]]).tolist() == [1.0, 5.0]
    centre, log_scale = mixed(GaussianLikelihood(), [[0.0, 0.0], [2.0, np.log(2.0)]])
    assert centre == 1.0
    np.testing.assert_allclose(np.exp(2 * log_scale), (1 + 4) / 2 + 1)  # within, and between


def test_an_old_state_without_dispersion_is_one() -> None:
    state = state_of(data_of("regression"), MODELS, 3.0)
    old = MixtureState(
        models=state.models,
        assignment=state.assignment,
        membership=state.membership,
        samples=state.samples,
    )
    assert replace(old).dispersion.tolist() == [1.0]
