"""The weights that rules give to rows: the weighted mean equals the rule's result."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.options.robust.rules import RULES, aggregate
from fedkin.options.robust.weights import aggregate_and_weights, weights

ROWS = np.array(
    [[0.0, 0.5], [1.0, 0.1], [2.0, 0.3], [3.5, 0.2], [1000.0, -70.0], [1.5, 0.7], [2.5, 0.0]]
)


@pytest.mark.parametrize("before", ["", "nnm+", "arc+", "clip+", "arc+nnm+"])
@pytest.mark.parametrize("rule", RULES)
def test_the_rule_equals_a_weighted_mean(rule: str, before: str) -> None:
    """With one coordinate, every rule is a weighted mean of the rows."""
    rows = ROWS[:, :1]
    own = weights(rows, before + rule, 2)
    np.testing.assert_allclose(own @ rows, aggregate(rows, before + rule, 2), rtol=1e-9)


@pytest.mark.parametrize(
    "rule",
    [
        "krum",
        "multi_krum",
        "geometric_median",
        "rfa",
        "centered_clipping",
        "mda",
        "nnm+krum",
        "arc+geometric_median",
    ],
)
def test_rules_on_whole_rows_are_weighted_means_in_all_coordinates(rule: str) -> None:
    mean = weights(ROWS, rule, 2) @ ROWS
    # As far as Weiszfeld's steps went.
    np.testing.assert_allclose(mean, aggregate(ROWS, rule, 2), rtol=1e-6)


def test_a_minority_that_is_left_out_has_no_weight() -> None:
    rows = np.array([[-3.0, 0.2], [4, 1], [5, 0], [-3, -0.2], [4, -1], [6, 0]])
    np.testing.assert_allclose(weights(rows, "majority+mean", 2), [0, 0.25, 0.25, 0, 0.25, 0.25])
    np.testing.assert_allclose(weights(rows, "nnm+majority+krum", 2).sum(), 1)


@pytest.mark.parametrize("rule", ["median", "geometric_median", "mda"])
def test_the_weight_of_a_bucket_comes_from_its_rows(rule: str) -> None:
    own = weights(ROWS[:, :1], f"bucketing+{rule}", 1)
    np.testing.assert_allclose(
        own @ ROWS[:, :1], aggregate(ROWS[:, :1], f"bucketing+{rule}", 1), rtol=1e-9
    )
    assert own.sum() == pytest.approx(1)


def test_by_hand() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 9.0], [2.0, 1.0], [3.0, 2.0], [50.0, 3.0]])
    # 2 of the one, 2 of the other.
    np.testing.assert_allclose(weights(rows, "median", 1), [0, 0, 0.5, 0.5, 0])
    np.testing.assert_allclose(weights(rows, "trimmed_mean", 1), [0, 1 / 6, 2 / 6, 2 / 6, 1 / 6])
    # An even number has two.
    np.testing.assert_allclose(weights(rows[:4], "median", 1), [0, 1 / 4, 2 / 4, 1 / 4])
    np.testing.assert_allclose(
        weights(np.array([[3.0], [4.0], [8.0]]), "arc+mean", 1), [1 / 3, 1 / 3, 1 / 6]
    )


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "mean"])
def test_a_row_that_is_far_away_counts_for_nothing(rule: str) -> None:
    own = weights(ROWS, f"nnm+{rule}", 2)
    # Centred clipping shortens a little.
    assert own[4] < 0.01 and own.sum() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("before", ["", "nnm+", "arc+", "majority+", "nnm+majority+"])
@pytest.mark.parametrize("rule", RULES)
def test_both_at_once_are_equal_to_each_alone(rule: str, before: str) -> None:
    rows = np.array([[-3.0, 0.2], [4, 1], [5, 0], [-3, -0.2], [4, -1], [6, 0], [5, 2]])
    average, own = aggregate_and_weights(rows, before + rule, 2)
    np.testing.assert_array_equal(average, aggregate(rows, before + rule, 2))
    np.testing.assert_array_equal(own, weights(rows, before + rule, 2))
