"""Decisions of selective re-clustering, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.measures.e_values import (
    BET_SHARES,
    discordant_e_value,
    larger_share_e_value,
    not_worse_e_value,
)
from fedkin.measures.selective import better_e_value, choose, drifted, equal_models


def test_evidence_for_more_errors_is_the_mean_of_products_of_bets() -> None:
    """Three of five samples are wrong, where 0.2 was usual."""
    expected = np.mean([(1 + share / 0.2 * 0.8) ** 3 * (1 - share) ** 2 for share in BET_SHARES])
    found = larger_share_e_value(np.array([3]), np.array([5]), np.array([0.2]))
    assert found[0] == pytest.approx(expected)


def test_clients_drift_if_errors_rise_by_more_than_the_margin() -> None:
    wrong = np.array([5, 30, 30, 40])
    samples = np.full(4, 50)
    # The third client is used to many errors, and the last one has not been checked before.
    error = np.array([0.1, 0.1, 0.5, np.nan])
    assert drifted(wrong, samples, error, margin=0.1, alpha=0.05).tolist() == [
        False,
        True,
        False,
        False,
    ]
    assert not drifted(wrong, samples, error, margin=0.6, alpha=0.05).any()
    # An error of 1 before leaves nothing to detect.
    assert not drifted(np.array([50]), np.array([50]), np.array([1.0]), 0.1, 0.05).any()


def test_unknown_differences_are_as_many_as_possible() -> None:
    """Of 10 samples one model has 6 and the other 8 right: they may differ on 4 + 2 of them."""
    found = better_e_value(np.array([6]), np.array([8]), np.array([10]))
    assert found == discordant_e_value(np.array([4]), np.array([2]))
    # Fewer differences would be stronger evidence.
    assert found < discordant_e_value(np.array([2]), np.array([0]))


def test_a_client_moves_to_the_best_model_or_is_stray() -> None:
    correct = np.array([[10, 45, 30], [44, 45, 0], [5, 8, 6]])
    row = np.array([0, 0, 0])
    samples = np.full(3, 50)
    error = np.array([0.1, 0.1, 0.1])
    choice = choose(correct, row, samples, error, margin=0.1, alpha=0.05)
    assert choice.target.tolist() == [1, -1, -1]
    assert choice.stray.tolist() == [False, False, True]


def test_equal_models_are_the_pair_that_neither_side_loses_by() -> None:
    """Clusters 0 and 2 serve each other; cluster 1 is another."""
    correct = np.array([[400, 100, 398], [90, 410, 100], [399, 95, 401]])
    row = np.array([0, 1, 2])
    samples = np.full(3, 500)
    assert equal_models(correct, row, samples, margin=0.3, alpha=0.05) == (0, 2)
    # One side alone is not enough.
    correct[2, 0] = 100
    assert equal_models(correct, row, samples, margin=0.3, alpha=0.05) is None
    assert equal_models(correct[:1, :1], row[:1], samples[:1], margin=0.3, alpha=0.05) is None


def test_a_union_needs_evidence_for_all_pairs() -> None:
    """With three models there are three questions, so 60 is needed at alpha = 0.05."""
    correct = np.array([[45, 45], [45, 45]])
    number = np.array([50])
    b = np.array([5])
    e = not_worse_e_value(b, b, number, 0.4)[0]
    assert equal_models(correct, np.array([0, 1]), np.full(2, 50), 0.4, alpha=1.01 / e) == (0, 1)
    assert equal_models(correct, np.array([0, 1]), np.full(2, 50), 0.4, alpha=0.99 / e) is None
