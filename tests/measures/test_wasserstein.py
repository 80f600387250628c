"""How far labels have moved: FlexCFL's test for a shift, blind to names, and ours,
which sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from fedkin.measures.wasserstein import label_aware, label_blind, shift_threshold

OLD = np.array([[40, 10, 0, 0, 0]])


def test_cases_of_the_authors(oracle: Callable[[str], dict[str, Any]]) -> None:
    detection = oracle("flexcfl")["shift_detection"]
    cases = detection["cases"]
    old, new = (np.array([case[f"{which}_counts"] for case in cases]) for which in ("old", "new"))
    distances = label_blind(new, old)
    thresholds = shift_threshold(old.sum(axis=1), detection["L"])
    np.testing.assert_allclose(distances, [case["wasserstein"] for case in cases], atol=1e-12)
    np.testing.assert_allclose(thresholds, [case["threshold"] for case in cases])
    np.testing.assert_array_equal(
        distances > thresholds, [case["shift_detected"] for case in cases]
    )


def test_it_is_the_wasserstein_distance_of_the_counts() -> None:
    rng = np.random.default_rng(0)
    new, old = rng.integers(0, 60, size=(2, 40, 10))
    expected = [wasserstein_distance(a, b) for a, b in zip(new, old, strict=True)]
    np.testing.assert_allclose(label_blind(new, old), expected)


def test_new_names_are_seen_only_by_the_aware() -> None:
    new = np.array([[0, 0, 10, 40, 0]])
    np.testing.assert_array_equal(label_blind(new, OLD), [0])
    np.testing.assert_array_equal(label_aware(new, OLD), [20])


def test_by_hand() -> None:
    new = np.array([[20, 25, 0, 0, 5]])  # sorted 25 20 5 for 40 10 0: 15 + 10 + 5
    np.testing.assert_array_equal(label_blind(new, OLD), [6])
    np.testing.assert_array_equal(label_aware(new, OLD), [8])  # 20 + 15 + 5


def test_the_aware_is_never_below_the_blind() -> None:
    new, old = np.random.default_rng(1).integers(0, 9, size=(2, 500, 6))
    assert np.all(label_aware(new, old) >= label_blind(new, old))
    assert np.any(label_aware(new, old) > label_blind(new, old))


def test_unsigned_counts_do_not_wrap() -> None:
    new = np.array([[0, 5]], np.uint8)
    old = np.array([[5, 5]], np.uint8)
    np.testing.assert_array_equal(label_aware(new, old), [2.5])
    np.testing.assert_array_equal(label_blind(new, old), [2.5])


@pytest.mark.parametrize("classes", [10, 19, 62])
def test_a_loss_of_exactly_a_fifth_is_no_shift(classes: int) -> None:
    """For any number of samples: rounding must not decide. One sample more, and it is a shift."""
    sizes = np.arange(5, 5000, 5)
    old = np.zeros((len(sizes), classes), np.int64)
    old[:, 0] = sizes
    for lost, shifted in ((sizes // 5, False), (sizes // 5 + 1, True)):
        new = old.copy()
        new[:, 0] -= lost
        np.testing.assert_array_equal(
            label_blind(new, old) > shift_threshold(sizes, classes), shifted
        )


@pytest.mark.parametrize("classes", [10, 19, 62])
@pytest.mark.parametrize("percent", [29, 35, 58, 70])
def test_a_loss_of_exactly_another_fraction_is_no_shift(percent: int, classes: int) -> None:
    """These fractions are no binary numbers: 0.29 x 100 comes out below 29,
    and 0.7 x 90 below 63."""
    sizes = np.arange(1, 2001)
    sizes = sizes[percent * sizes % 100 == 0]
    lost = percent * sizes // 100
    nothing = np.zeros((len(sizes), classes - 1), np.int64)
    old = np.column_stack([sizes, nothing])
    tau = shift_threshold(sizes, classes, fraction=percent / 100)
    for more, shifted in ((0, False), (1, True)):
        new = np.column_stack([sizes - lost - more, nothing])
        np.testing.assert_array_equal(label_blind(new, old) > tau, shifted)
        np.testing.assert_array_equal(label_aware(new, old) > tau, shifted)


def test_threshold_of_another_fraction() -> None:
    np.testing.assert_allclose(shift_threshold(np.array([100, 60]), 10, fraction=0.5), [5, 3])
