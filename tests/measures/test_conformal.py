"""Conformal corrections of predicted intervals: the oracle vectors, and the promised coverage."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.measures.conformal import (
    conformal_quantile,
    conformal_rank,
    conformity_scores,
)
from tests.task_vectors import task_case


def test_the_oracle(oracle: Callable[[str], dict[str, Any]]) -> None:
    known = task_case(oracle, "conformal_quantile")
    scores = np.array(known["inputs"]["scores"])
    miss = known["inputs"]["a"]
    assert conformal_rank(len(scores), miss) == known["outputs"]["k"]
    assert conformal_quantile(scores, miss) == known["outputs"]["quantile"]
    assert conformal_rank(3, 0.1) == known["outputs"]["k of n = 3, a = 0.1 (infinite)"]
    assert conformal_quantile(scores[:3], 0.1) == math.inf


def test_nine_samples_are_the_fewest_for_a_tenth() -> None:
    """With 9 samples the correction is the largest score. (9 + 1)(1 - 0.1) is a whole number."""
    scores = np.arange(9.0)
    assert conformal_quantile(scores, 0.1) == 8
    assert conformal_quantile(scores[:8], 0.1) == math.inf
    assert conformal_quantile(np.zeros(0), 0.1) == math.inf


def test_the_rank_is_exact() -> None:
    """(n + 1)(1 - 7/100) in floats may be a little above a whole number, and ceil one too large."""
    for samples in range(1, 400):
        exact = -((samples + 1) * (7 - 100) // 100)
        assert conformal_rank(samples, 0.07) == exact


def test_scores_are_distances_to_the_interval() -> None:
    y = np.array([0.0, 1.5, 4.0])
    found = conformity_scores(y, low=np.ones(3), high=np.full(3, 3.0))
    assert found.tolist() == [1.0, -0.5, 1.0]


def test_new_labels_are_covered() -> None:
    """Intervals that are too narrow cover half of the labels, corrected ones 80% or a little more.
    The standard deviation of the mean over draws is below 0.01."""
    rng = np.random.default_rng(0)
    coverages = []
    for _ in range(200):
        y = rng.standard_t(3, size=60)
        low = np.full(60, -0.7)
        scores = conformity_scores(y[:40], low[:40], -low[:40])
        correction = conformal_quantile(scores, miss=0.2)
        coverages.append(float((np.abs(y[40:]) <= 0.7 + correction).mean()))
    assert 0.79 < np.mean(coverages) < 0.84


@pytest.mark.parametrize("miss", [0.0, 1.0, -0.1])
def test_an_impossible_share_is_refused(miss: float) -> None:
    with pytest.raises(MethodError, match="miss"):
        conformal_rank(10, miss)


def test_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(MethodError, match="NaN"):
        conformal_quantile(np.array([1.0, math.nan]), 0.2)
