"""The measures of task types, from sums over samples, against scikit-learn's values in the oracle
vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import DataError
from fedkin.data.number_scores import scores_of_numbers
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.count import Count, CountLoss, Gamma, NegativeBinomial, Poisson, Tweedie
from fedkin.task_types.loss import Loss
from fedkin.task_types.quantile import Pinball, Quantile
from fedkin.task_types.regression import AbsoluteError, Huber, Regression, SquaredError
from fedkin.task_types.task_type import LabelScale, TaskType
from tests.task_vectors import task_case

Oracle = Callable[[str], dict[str, Any]]


def measured(task: TaskType, scores: Any, y: Any) -> dict[str, float]:
    """The measures of scores [B C] on all samples together."""
    y = np.asarray(y, np.float64)
    model = task.sample_scores(np, np.asarray(scores, np.float64), y)
    constant = task.sample_scores(np, np.tile(task.constant, (len(y), 1)), y)
    parts = [*model, *constant][: len(task.sums)]
    sums = {name: np.array([part.sum()]) for name, part in zip(task.sums, parts, strict=True)}
    found = task.values(sums, np.array([len(y)]))
    return {name: float(value[0]) for name, value in found.items()}


def column(values: list[float]) -> np.ndarray:
    return np.array(values)[:, None]


def test_regression(oracle: Oracle) -> None:
    """R2 against the mean of the scored samples is scikit-learn's."""
    known = task_case(oracle, "regression_metrics")
    y = np.array(known["inputs"]["y"])
    task = Regression(constant=(float(y.mean()),))
    found = measured(task, column(known["inputs"]["f"]), y)
    for name in ("root_mean_squared_error", "mean_absolute_error", "r2_score"):
        assert found[name] == pytest.approx(known["outputs"][name], rel=1e-12)


def test_regression_on_scaled_labels_is_in_units_of_the_label(oracle: Oracle) -> None:
    known = task_case(oracle, "regression_metrics")
    y = np.array(known["inputs"]["y"])
    f = np.array(known["inputs"]["f"])
    label = LabelScale(mean=float(y.mean()), scale=float(y.std()))
    scaled = measured(
        Regression(label=label),
        scores=((f - label.mean) / label.scale)[:, None],
        y=(y - label.mean) / label.scale,
    )
    for name in ("root_mean_squared_error", "mean_absolute_error", "r2_score"):
        assert scaled[name] == pytest.approx(known["outputs"][name], rel=1e-9)


def test_the_rmse_of_clients_together_is_not_the_mean_of_theirs(oracle: Oracle) -> None:
    known = task_case(oracle, "client_aggregates")
    samples = np.array(known["inputs"]["samples"])
    squares = np.array(known["inputs"]["loss"]) * samples
    zeros = np.zeros_like(squares)
    sums = {"squared_error": squares, "absolute_error": zeros, "constant_squared_error": zeros}
    by_client = Regression().values(sums, samples)["root_mean_squared_error"]
    together = {name: values.sum(keepdims=True) for name, values in sums.items()}
    (pooled,) = Regression().values(together, samples.sum(keepdims=True))["root_mean_squared_error"]
    printed = known["outputs"]
    assert pooled == pytest.approx(printed["rmse per sample if l is squared error"], rel=1e-12)
    assert by_client.mean() == pytest.approx(printed["mean of the clients' rmse"], rel=1e-12)


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("poisson_log_link", Poisson()),
        ("gamma_log_link", Gamma()),
        ("tweedie_1.5", Tweedie(1.5)),
    ],
)
def test_deviances_and_d2(name: str, loss: CountLoss, oracle: Oracle) -> None:
    """scikit-learn's D2 is against the mean of the scored labels."""
    known = task_case(oracle, name)
    inputs = known["inputs"]
    y = np.array(inputs["y"])
    scores = np.array(inputs["eta" if "eta" in inputs else "s"])
    if "exposure" in inputs:
        scores = scores + np.log(inputs["exposure"])
    task = Count(loss, constant=(float(np.log(y.mean())),))
    found = measured(task, scores[:, None], y)
    assert found["mean_deviance"] == pytest.approx(known["outputs"]["mean deviance"], rel=1e-12)
    assert found["d2_score"] == pytest.approx(known["outputs"]["d2"], rel=1e-12)


def test_an_exposure_is_part_of_the_mean(oracle: Oracle) -> None:
    """The offset stands in the second column of y. It is no part of the constant's score, but the
    constant is a rate, so it gets the offset as well."""
    known = task_case(oracle, "poisson_log_link")
    y = np.array(known["inputs"]["y"])
    exposure = np.array(known["inputs"]["exposure"])
    rate = y.sum() / exposure.sum()
    task = Count(constant=(float(np.log(rate)),))
    rows = np.stack([y, np.log(exposure)], axis=1)
    found = measured(task, column(known["inputs"]["eta"]), rows)
    assert found["mean_deviance"] == pytest.approx(known["outputs"]["mean deviance"], rel=1e-12)
    of_rate = Poisson().deviance(np, y, rate * exposure).mean()
    assert found["d2_score"] == pytest.approx(1 - found["mean_deviance"] / of_rate, rel=1e-12)


@pytest.mark.parametrize("loss", [Poisson(), Gamma(), Tweedie(), NegativeBinomial()], ids=repr)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rounding_makes_no_deviance_negative(loss: CountLoss, kind: Any) -> None:
    """Servers refuse negative sums, so the reply of a perfect model would be refused."""
    y = np.random.default_rng(0).uniform(1, 1e4, 1000).astype(kind)
    deviance, _ = Count(loss).sample_scores(np, np.log(y)[:, None], y)
    assert (deviance >= 0).all()
    diverged, _ = Count(loss).sample_scores(np, np.full((1, 1), np.nan), y[:1])
    assert np.isnan(diverged).all()


@pytest.mark.parametrize(("level", "key"), [(0.9, "d2_pinball_score 0.9"), (0.5, "d2_absolute")])
def test_d2_of_a_quantile(level: float, key: str, oracle: Oracle) -> None:
    """The median's pinball loss is half of the absolute error, so both have the same D2. The
    constant is scikit-learn's, an observed label or the middle of two."""
    known = task_case(oracle, "regression_metrics")
    y = np.array(known["inputs"]["y"])
    (printed,) = (value for name, value in known["outputs"].items() if name.startswith(key))
    constant = np.quantile(y, level, method="averaged_inverted_cdf")
    task = Quantile(Pinball((level,)), constant=(float(constant),))
    found = measured(task, column(known["inputs"]["f"]), y)
    assert found["d2_pinball_score"] == pytest.approx(printed, rel=1e-12)


def test_quantiles_are_put_in_order_before_they_are_scored(oracle: Oracle) -> None:
    """One of the printed intervals is crossed: its width counts as negative there."""
    known = task_case(oracle, "interval_metrics")
    low = np.array(known["inputs"]["low"])
    high = np.array(known["inputs"]["high"])
    y = np.array(known["inputs"]["y"])
    task = Quantile(Pinball((0.1, 0.9)), constant=(0.0, 0.0))
    found = measured(task, np.stack([low, high], axis=1), y)
    assert found["coverage"] == pytest.approx(known["outputs"]["coverage sorted"])
    assert found["interval_width"] == pytest.approx(np.abs(high - low).mean())
    assert np.mean(high - low) == pytest.approx(known["outputs"]["width"])

    # Without crossing, the pinball loss of both levels is a tenth of the interval score.
    right = low <= high
    ordered = measured(task, np.stack([low, high], axis=1)[right], y[right])
    misses = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    winkler = (high - low + 2 / 0.2 * misses)[right].mean()
    assert 2 * ordered["mean_pinball_loss"] == pytest.approx(winkler / 10)


@pytest.mark.parametrize(
    "task",
    [
        Regression(Huber()),
        Regression(AbsoluteError()),
        Count(),
        Quantile(constant=(0.0, 0.0, 0.0)),
    ],
    ids=lambda task: task.measures[0] + task.loss.name,
)
def test_models_are_compared_by_the_sum_from_which_the_score_follows(task: TaskType) -> None:
    """Sample by sample and client by client."""
    y = np.array([1.0, 4.0, 2.0])
    scores = np.linspace(0.1, 0.9, 3 * (task.loss.outputs if task.loss else 1)).reshape(3, -1)
    losses = task.score_losses(scores.astype(np.float32), y)
    parts = [*task.sample_scores(np, scores, y), *task.constant_scores(y)]
    sums = np.array([[part.sum() for part in parts]])
    assert task.named(sums)[task.score_sum] == pytest.approx(losses.sum())
    of_clients = task.score_loss_sums(sums, np.array([7.0]), np.array([3]))
    assert of_clients == pytest.approx([losses.sum()])
    residual = np.abs(y - scores[:, 0])
    if task == Regression(Huber()):
        assert losses == pytest.approx(residual**2)
    if task == Regression(AbsoluteError()):
        assert losses == pytest.approx(residual)


@pytest.mark.parametrize("loss", [SquaredError(), Huber(), AbsoluteError()], ids=repr)
def test_r2_is_against_the_mean_of_the_training_labels(loss: Loss) -> None:
    """With a loss whose best constant is the median, too: the labels' mean is 1.5 times it."""
    y = np.array([0.0, 1.0, 2.0, 2.0, 10.0])
    data = fk.data.from_arrays(
        np.arange(5.0)[:, None],
        y,
        clients=[0, 0, 0, 1, 1],
        task="regression",
        loss=loss.name,
        test=np.zeros(5, np.int64),
    )
    forecast = np.array([0.0, 1, 2, 3, 6])
    label = data.task_type.label
    found = scores_of_numbers(
        data.task_type, ((forecast - label.mean) / label.scale)[:, None], data.y
    )
    assert found["r2_score"] == pytest.approx(1 - 17 / 64, rel=1e-6)
    median = (data.task_type.constant[0] * label.scale) + label.mean
    assert median == pytest.approx(2 if loss == AbsoluteError() else 3)


def test_classes_are_compared_by_log_loss() -> None:
    """And not by correct predictions, the first of their sums: by hand, two equal scores."""
    losses = CLASSIFICATION.score_losses(np.zeros((1, 2), np.float32), np.array([1]))
    assert losses == pytest.approx([np.log(2)])
    sums = CLASSIFICATION.score_loss_sums(np.array([[3.0]]), np.array([0.5]), np.array([4]))
    assert sums.tolist() == [2.0]


def test_measures_without_a_value() -> None:
    """A constant that is right everywhere leaves nothing to save, and no samples have no mean."""
    equal = measured(Regression(constant=(2.0,)), column([1.0, 3.0]), [2.0, 2.0])
    assert np.isnan(equal["r2_score"])
    assert equal["mean_absolute_error"] == 1.0
    none = measured(Count(), np.zeros((0, 1)), np.zeros(0))
    assert all(np.isnan(value) for value in none.values())


@pytest.mark.parametrize(
    ("task", "labels", "words"),
    [
        (Regression(), [1.0, np.inf], ["place", "row 1", "inf"]),
        (Count(), [2.0, -1.0, -3.0], ["place", "row 1", "-1", "2 such rows", "regression"]),
        (Count(Gamma()), [2.0, 0.0], ["place", "row 1", "gamma", "tweedie"]),
        (Quantile(), [np.nan], ["place", "row 0", "nan"]),
    ],
)
def test_labels_that_a_task_cannot_have(
    task: TaskType, labels: list[float], words: list[str]
) -> None:
    with pytest.raises(DataError) as refused:
        task.check_labels(np.array(labels), "place")
    assert all(word in str(refused.value) for word in words), refused.value
