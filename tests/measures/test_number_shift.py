"""Shift tests of numbers: the oracle vectors of SciPy, false alarms, power, and cases by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedkin.core.errors import MethodError
from fedkin.measures.kolmogorov_smirnov import ks_statistics
from fedkin.measures.label_divergence import jensen_shannon
from fedkin.measures.number_bins import bin_counts
from fedkin.measures.number_shift import (
    bin_distance,
    label_quantiles,
    labels_shifted,
    loss_statistic,
    losses_shifted,
    quantile_distance,
    quantile_threshold,
)
from tests.task_vectors import task_case

Oracle = Callable[[str], dict[str, Any]]


def test_distances_of_samples_and_histograms_are_the_oracles(oracle: Oracle) -> None:
    known = task_case(oracle, "label_shift_continuous")
    old = np.array(known["inputs"]["old"])
    new = np.array(known["inputs"]["new"])
    edges = np.array(known["inputs"]["edges"])
    printed = known["outputs"]
    client = np.repeat([0, 1], [len(old), len(new)])
    counts = bin_counts(np.concatenate([old, new]), client, 2, edges)
    assert counts.tolist() == [printed["counts old"], printed["counts new"]]

    moved = bin_distance(counts[1], counts[0])
    assert moved == pytest.approx(printed["sum |CDF difference| at the inner edges"], rel=1e-12)
    assert moved == pytest.approx(printed["W1 of 0..4 bin numbers"], rel=1e-12)
    shares = counts / counts.sum(axis=1, keepdims=True)
    found = jensen_shannon(shares[:1], shares[1:])[0]
    assert found == pytest.approx(printed["jensen shannon bits"], rel=1e-12)
    ks = ks_statistics(old[:, None], new[:, None])[0]
    assert ks == pytest.approx(printed["ks"], rel=1e-12)

    # With a quantile for each sample of equal sizes, the distance of quantiles is SciPy's.
    w1 = stats.wasserstein_distance(old, new)
    assert w1 == pytest.approx(printed["wasserstein"], rel=1e-12)
    assert stats.energy_distance(old, new) == pytest.approx(printed["energy"], rel=1e-12)
    many = quantile_distance(label_quantiles(new, 9999), label_quantiles(old, 9999), 1.0)
    assert many == pytest.approx(w1, abs=0.1)


def test_quantiles_by_hand() -> None:
    """Levels 1/4 and 3/4 of 0, 1, 2: linear interpolation gives 0.5 and 1.5."""
    assert label_quantiles(np.arange(3), 2).tolist() == [0.5, 1.5]
    assert label_quantiles(np.array([4.0])).tolist() == [4.0] * 20
    with pytest.raises(MethodError, match="at least one label"):
        label_quantiles(np.zeros(0))


def test_the_distance_is_in_standard_deviations() -> None:
    old = label_quantiles(np.arange(100.0))
    assert quantile_distance(old + 6, old, deviation=12.0) == pytest.approx(0.5)
    with pytest.raises(MethodError, match="deviation"):
        quantile_distance(old, old, deviation=0.0)


def test_the_threshold_is_wider_for_few_samples() -> None:
    assert quantile_threshold(10_000, 10_000) == 0.2
    assert quantile_threshold(50, 50) == pytest.approx(2.1 * 0.2)
    assert quantile_threshold(20, 80) == pytest.approx(2.1 * 0.25)
    with pytest.raises(MethodError, match="old_samples"):
        quantile_threshold(10, 0)


@pytest.mark.parametrize("samples", [20, 100])
@pytest.mark.parametrize("kind", ["normal", "exponential"])
def test_false_alarms_are_rare_and_large_moves_are_seen(samples: int, kind: str) -> None:
    """About 5% of false alarms, where a threshold of 0.2 alone would have 87% and 24%."""
    rng = np.random.default_rng(0)
    draw: Callable[..., np.ndarray] = getattr(rng, f"standard_{kind}")
    alarms = 0
    plain = 0
    seen = 0
    for _ in range(400):
        old = label_quantiles(draw(size=samples))
        new = draw(size=samples)
        alarms += labels_shifted(new, old, samples, deviation=1.0)
        plain += quantile_distance(label_quantiles(new), old, 1.0) > 0.2
        seen += labels_shifted(new + 1.5, old, samples, deviation=1.0)
    assert alarms < 0.09 * 400
    assert plain > 0.15 * 400
    assert seen > 0.95 * 400


def test_a_change_of_labels_given_features_is_seen_by_the_losses_only() -> None:
    """y = x becomes y = -x: the labels have the same distribution."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    old = label_quantiles(x)
    losses = rng.normal(1, 0.1, 200) ** 2
    assert not labels_shifted(-x, old, 200, deviation=1.0)
    mean = float(losses.mean())
    variance = float(losses.var(ddof=1))
    assert losses_shifted((2 * x) ** 2, mean, variance, 200)
    assert not losses_shifted(rng.normal(1, 0.1, 200) ** 2, mean, variance, 200)


def test_the_statistic_is_welchs() -> None:
    rng = np.random.default_rng(0)
    old = rng.exponential(size=15)
    new = rng.exponential(1.5, size=40)
    test: Any = stats.ttest_ind(new, old, equal_var=False)
    found = loss_statistic(new, float(old.mean()), float(old.var(ddof=1)), len(old))
    assert found == pytest.approx(test.statistic)


def test_statistics_of_losses_that_do_not_vary() -> None:
    assert loss_statistic(np.array([1.0]), 0.0, 1.0, 10) == 0
    assert loss_statistic(np.ones(3), 0.0, 0.0, 1) == 0
    assert loss_statistic(np.ones(3), 0.5, 0.0, 3) == math.inf
    assert loss_statistic(np.ones(3), 1.5, 0.0, 3) == -math.inf
    assert loss_statistic(np.ones(3), 1.0, 0.0, 3) == 0


def test_the_distance_of_bins_knows_their_order() -> None:
    """A permutation of counts is no shift for ``label_blind``; here it is one of two bins."""
    assert bin_distance(np.array([0, 0, 4]), np.array([4, 0, 0])) == 2
    assert bin_distance(np.array([2, 2]), np.array([5, 5])) == 0
    with pytest.raises(MethodError, match="samples in both"):
        bin_distance(np.zeros(2, np.int64), np.ones(2, np.int64))
