"""Links of counts: the score of a rate is the inverse of the predicted mean, for every link and
any offset."""

from __future__ import annotations

import numpy as np
import pytest

import fedkin as fk
from fedkin.data.number_scores import scores_of_numbers
from fedkin.task_types.count import CountLoss, Gamma, NegativeBinomial, Poisson, Tweedie
from fedkin.task_types.loss import Targets

LOSSES = [Poisson(), Poisson("softplus"), Gamma(), Tweedie(1.5), NegativeBinomial()]
EVENTS = np.array([1.0, 3, 2, 8, 0, 4, 5, 1])
YEARS = np.array([1.0, 2, 1, 4, 1, 1, 2, 2])


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("rate", [1e-6, 0.5, 1.0, 40.0, 1e9])
def test_the_score_of_a_rate_predicts_the_rate(loss: CountLoss, rate: float) -> None:
    """1e9 is above the score of 20, where the exponential continues by its tangent."""
    score = loss.score_of_rate(rate)
    assert loss.mean(np, np.array([[score]]), 0.0) == pytest.approx([rate], rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_an_exposure_multiplies_the_mean_however_large_it_is(loss: CountLoss) -> None:
    """Amounts of money: a pooled rate of 1e12 has the log 27.6, beyond the tangent's 20."""
    scores = np.array([[0.3], [-0.2]])
    offset = np.log([1e12, 3e12])
    expected = loss.mean(np, scores, 0.0) * [1e12, 3e12]
    assert loss.mean(np, scores, offset) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("rate", [2.0, 1e12])
def test_the_loss_is_lowest_where_the_mean_is_the_label(loss: CountLoss, rate: float) -> None:
    targets = Targets(np.array([1.3 * rate]), np.log([rate]), None)
    best = loss.score_of_rate(1.3)
    low, lowest, high = (
        loss.of(np, np.array([[best + step]]), targets)[0] for step in (-0.2, 0.0, 0.2)
    )
    assert lowest < low
    assert lowest < high


@pytest.mark.parametrize("loss", [Poisson(), Poisson("softplus")], ids=repr)
def test_a_mixture_of_equal_scores_is_this_score(loss: CountLoss) -> None:
    """Scores beyond the tangent are mixed by the same means as others."""
    score = np.array([[-700.0], [0.0], [35.0]])
    mixed = loss.mixed([score, score], np.array([[0.5], [0.5]]))
    np.testing.assert_allclose(mixed, score, rtol=1e-9, atol=1e-9)
    high = loss.mixed([np.array([[35.0]]), np.array([[1.0]])], np.array([[0.5], [0.5]]))
    mean = (loss.mean(np, np.array([[35.0]]), 0.0) + loss.mean(np, np.array([[1.0]]), 0.0)) / 2
    np.testing.assert_allclose(loss.mean(np, high, 0.0), mean, rtol=1e-9)


@pytest.mark.parametrize("link", ["log", "softplus"])
def test_d2_is_against_the_pooled_rate_with_either_link(link: str) -> None:
    """The constant model predicts rate times exposure: 24 events in 14 years. A model that does so
    too has D2 0; softplus(0) would be 0.69 of the rate."""
    data = fk.data.from_arrays(
        np.arange(8.0)[:, None],
        EVENTS,
        clients=[0, 0, 0, 0, 1, 1, 1, 1],
        task="count",
        exposure=YEARS,
        loss_options={"link": link},
        test=np.zeros(8, np.int64),
    )
    rate = EVENTS.sum() / YEARS.sum()
    assert data.task_type.rate == pytest.approx(rate)
    deviance, _ = data.task_type.constant_scores(data.y)
    expected = Poisson().deviance(np, EVENTS, rate * YEARS)
    np.testing.assert_allclose(deviance, expected, rtol=1e-5)
    constant = np.tile(data.task_type.constant, (8, 1))
    assert scores_of_numbers(data.task_type, constant, data.y)["d2_score"] == pytest.approx(0)
