"""Measures of a classifier, with points at which a wrong formula differs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedkin.core.errors import ModelError
from fedkin.measures.classification import (
    balanced_accuracy,
    classification_measures,
    expected_calibration_error,
    macro_f1,
    one_vs_rest_auroc,
)


def test_balanced_accuracy_is_the_mean_recall_of_the_classes_that_occur() -> None:
    y = np.array([0, 0, 0, 1])
    predicted = np.array([0, 0, 2, 1])
    # 2 is no label: it has no recall.
    assert balanced_accuracy(y, predicted) == pytest.approx((2 / 3 + 1) / 2)


def test_macro_f1_counts_a_class_that_is_only_predicted() -> None:
    y = np.array([0, 0, 0, 1])
    predicted = np.array([0, 0, 2, 1])
    assert macro_f1(y, predicted) == pytest.approx((2 * 1 * (2 / 3) / (1 + 2 / 3) + 1 + 0) / 3)


def test_auroc_is_the_share_of_pairs_in_order_over_the_classes_where_it_is_defined() -> None:
    y = np.array([0, 0, 1, 1])
    # Of the pairs (0, 1), (0.1, 0.5), (0.1, 0.9), (0.6, 0.9) are in order.
    of_one = np.array([0.1, 0.6, 0.5, 0.9])
    # No sample has class 2.
    probability = np.stack([1 - of_one, of_one, np.zeros(4)], axis=1)
    assert one_vs_rest_auroc(y, probability) == pytest.approx(3 / 4)
    assert math.isnan(one_vs_rest_auroc(np.zeros(3, int), probability[:3]))


def test_calibration_error_is_weighted_by_the_samples_of_a_bin() -> None:
    confidence = np.array([0.65, 0.75, 0.95, 0.95, 0.95])
    correct = np.array([True, False, True, True, False])
    # with 2 bins all are in the upper one: |3/5 - 0.85|; with 10 bins three bins of 1, 1 and 3
    # samples
    assert expected_calibration_error(confidence, correct, 2) == pytest.approx(0.25)
    expected = (0.35 + 0.75 + 3 * (0.95 - 2 / 3)) / 5
    assert expected_calibration_error(confidence, correct, 10) == pytest.approx(expected)
    edge = np.array([0.5, 0.6])  # 0.5 belongs to the lower of two bins (0, 0.5], so nothing cancels
    assert expected_calibration_error(edge, np.array([True, False]), 2) == pytest.approx(
        (0.5 + 0.6) / 2
    )
    assert expected_calibration_error(np.array([1.0, 0.0]), np.array([True, False])) == 0
    assert math.isnan(expected_calibration_error(np.zeros(0), np.zeros(0, bool)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_probabilities_that_are_not_finite_are_refused_by_sample(value: float) -> None:
    probability = np.array([[0.5, 0.5], [value, 0.5]])
    with pytest.raises(
        ModelError, match="probabilities of 1 samples are NaN or infinite, such as sample 1"
    ):
        classification_measures(np.array([0, 1]), probability)


def test_all_measures_of_certain_predictions() -> None:
    y = np.array([0, 1, 1, 0])
    right = classification_measures(y, np.eye(2)[y])
    assert right == {"accuracy": 1, "balanced_accuracy": 1, "macro_f1": 1, "auroc": 1, "ece": 0}
    wrong = classification_measures(y, np.eye(2)[1 - y])
    assert wrong == {"accuracy": 0, "balanced_accuracy": 0, "macro_f1": 0, "auroc": 0, "ece": 1}
    ties = classification_measures(np.array([1]), np.full((1, 2), 0.5), np.array([1]))
    assert (
        ties["accuracy"] == 1
        and classification_measures(np.array([1]), np.full((1, 2), 0.5))["accuracy"] == 0
    )
    assert all(
        math.isnan(value)
        for value in classification_measures(np.zeros(0, int), np.zeros((0, 2))).values()
    )
