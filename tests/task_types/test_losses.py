"""The losses of numbers, counts and quantiles: values in NumPy, gradients in JAX, against the
oracle vectors, and cases by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedkin.core.errors import ConfigError
from fedkin.simulation.jax.training_losses import detection_losses
from fedkin.task_types.count import LOSSES as COUNT_LOSSES
from fedkin.task_types.count import CountLoss, Gamma, NegativeBinomial, Poisson, Tweedie
from fedkin.task_types.loss import Loss, Targets
from fedkin.task_types.quantile import Pinball
from fedkin.task_types.regression import GaussianLikelihood, Huber, SquaredError
from tests.task_types.loss_cases import LOSSES, WITH_A_KINK, loss_case
from tests.task_vectors import task_case

Oracle = Callable[[str], dict[str, Any]]


def in_jax(loss: Loss, scores: Any, targets: Targets, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values [B] of a loss in JAX, and their gradient [B C] by the scores."""
    with jax.enable_x64(dtype == np.float64):
        arrays = [part if part is None else jnp.asarray(part, dtype) for part in targets]

        def total(scores: Any) -> tuple[Any, Any]:
            values = loss.of(jnp, scores, Targets(*arrays))
            return values.sum(), values

        gradient, values = jax.grad(total, has_aux=True)(jnp.asarray(scores, dtype))
        return np.asarray(values), np.asarray(gradient)


@pytest.mark.parametrize("name", LOSSES)
def test_values_equal_the_oracle(name: str, oracle: Oracle) -> None:
    case = loss_case(oracle, name)
    values = case.loss.of(np, case.scores, case.targets(np.asarray))
    np.testing.assert_allclose(values, case.values, rtol=case.tolerance, atol=case.tolerance)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_values_and_gradients_in_jax_equal_the_oracle(
    name: str, dtype: Any, oracle: Oracle
) -> None:
    case = loss_case(oracle, name)
    values, gradient = in_jax(case.loss, case.scores, case.targets(np.asarray), dtype)
    # float32 has 7 digits, of the largest term of a loss.
    tolerance = case.tolerance if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(values, case.values, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(gradient, case.gradient, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["pinball_0.1", "pinball_0.5", "pinball_0.9"])
def test_weighted_means_of_pinball_losses(name: str, oracle: Oracle) -> None:
    case = loss_case(oracle, name)
    known = task_case(oracle, name)
    values = case.loss.of(np, case.scores, case.targets(np.asarray))
    weighted = np.average(values, weights=known["inputs"]["weight"])
    assert weighted == pytest.approx(known["outputs"]["weighted mean loss"], rel=1e-12)


def test_the_logistic_loss_of_detectors_equals_the_oracle(oracle: Oracle) -> None:
    known = task_case(oracle, "logistic_stable")
    y = np.array(known["inputs"]["y"]) == 1
    scores = np.array(known["inputs"]["z"])[:, None]
    with jax.enable_x64(True):
        values = detection_losses(jnp.asarray(scores), jnp.asarray(y))
        gradient = jax.grad(lambda s: detection_losses(s, jnp.asarray(y)).sum())(
            jnp.asarray(scores)
        )
        np.testing.assert_allclose(values, known["outputs"]["loss"], rtol=1e-12)
        np.testing.assert_allclose(gradient[:, 0], known["outputs"]["grad"], rtol=1e-12)


@pytest.mark.parametrize("loss", WITH_A_KINK, ids=repr)
def test_the_gradient_at_a_tie_is_zero(loss: Loss) -> None:
    scores = np.full((2, loss.outputs), 1.5)
    values, gradient = in_jax(loss, scores, Targets(np.full(2, 1.5), 0.0, None), np.float32)
    assert not values.any()
    assert not gradient.any()


@pytest.mark.parametrize("loss", [Poisson(), Gamma(), Tweedie(), NegativeBinomial()], ids=repr)
def test_scores_far_out_have_finite_values_and_gradients_that_lead_back(loss: Loss) -> None:
    """At a score of 500 the exponential overflows float64 in Gamma's ratio and float32 in all."""
    scores = np.array([[500.0], [-500.0]])
    values, gradient = in_jax(loss, scores, Targets(np.array([3.0, 3.0]), 0.0, None), np.float32)
    assert np.isfinite(values).all()
    assert np.isfinite(gradient).all()
    assert gradient[0, 0] > 0
    assert gradient[1, 0] < 0


def test_several_levels_are_summed_and_have_one_output_each() -> None:
    loss = Pinball((0.1, 0.9))
    targets = Targets(np.array([2.0]), 0.0, None)
    assert loss.outputs == 2
    assert loss.of(np, np.array([[1.0, 4.0]]), targets).tolist() == pytest.approx([0.1 + 0.2])


def test_an_exposure_of_one_changes_no_bit_and_a_rate_doubles_with_the_exposure() -> None:
    y = np.array([0.0, 3.0, 7.0])
    scores = np.array([[0.3], [-1.2], [2.0]])
    loss = Poisson()
    without = loss.of(np, scores, Targets(y, 0.0, None))
    assert (loss.of(np, scores, Targets(y, np.log(np.ones(3)), None)) == without).all()
    doubled = loss.mean(np, scores, np.log(np.full(3, 2.0)))
    np.testing.assert_allclose(doubled, 2 * loss.mean(np, scores, 0.0), rtol=1e-12)


@pytest.mark.parametrize("kind", COUNT_LOSSES.values())
def test_a_perfect_prediction_has_no_deviance_and_any_other_has(kind: type[CountLoss]) -> None:
    loss = kind()
    y = np.array([1.0, 4.0, 9.5])
    np.testing.assert_allclose(loss.deviance(np, y, y), 0, atol=1e-12)
    assert (loss.deviance(np, y, 1.3 * y) > 0).all()
    assert (loss.deviance(np, y, 0.7 * y) > 0).all()


@pytest.mark.parametrize("loss", [Poisson(), Tweedie(), NegativeBinomial()], ids=repr)
def test_the_deviance_of_a_count_of_zero_is_finite(loss: CountLoss) -> None:
    """For Poisson by hand: 2 mu."""
    deviance = loss.deviance(np, np.zeros(1), np.array([0.75]))
    assert np.isfinite(deviance).all()
    if isinstance(loss, Poisson):
        assert deviance.tolist() == [1.5]


def test_the_scale_of_the_gaussian_is_cut() -> None:
    """A log scale of -40 would weigh a residual by exp(80); it counts as -7."""
    targets = Targets(np.array([1.0]), 0.0, None)
    values = GaussianLikelihood().of(np, np.array([[0.0, -40.0]]), targets)
    assert values.tolist() == pytest.approx([-7 + math.exp(14) / 2])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Huber(0.0), ["data.delta", "above 0", "1.35"]),
        (lambda: Tweedie(2.0), ["data.power", "2.0", "gamma"]),
        (lambda: NegativeBinomial(-1.0), ["data.overdispersion", "-1"]),
        (lambda: Pinball((0.9, 0.1)), ["data.quantiles", "ascending", "[0.9, 0.1]"]),
        (lambda: Pinball((0.5, 1.0)), ["data.quantiles", "between 0 and 1"]),
        (lambda: Pinball(()), ["data.quantiles", "[]"]),
        (lambda: Poisson("identity"), ["data.link", "'identity'", "softplus"]),
    ],
)
def test_impossible_options_are_refused(make: Callable[[], Loss], words: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert all(word in str(refused.value) for word in words), refused.value


def test_equal_options_are_equal_losses() -> None:
    """Equal losses share compiled programs."""
    assert Huber(1.0) == Huber(1.0) != Huber(1.35)
    assert SquaredError() == SquaredError()
    assert hash(Pinball((0.5,))) == hash(Pinball((0.5,)))
    with pytest.raises(ConfigError):
        Huber(-1.0)
