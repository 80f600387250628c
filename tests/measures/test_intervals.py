"""Measures of predicted intervals: the oracle vectors, SciPy, and cases by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from fedkin.core.errors import MethodError
from fedkin.measures.intervals import (
    interval_score,
    interval_scores,
    wilson_interval,
)
from fedkin.task_types.loss import Targets
from fedkin.task_types.quantile import Pinball
from tests.task_vectors import task_case

Oracle = Callable[[str], dict[str, Any]]


def test_the_oracle(oracle: Oracle) -> None:
    known = task_case(oracle, "interval_metrics")
    y = np.array(known["inputs"]["y"])
    low = np.array(known["inputs"]["low"])
    high = np.array(known["inputs"]["high"])
    found = interval_scores(y, low, high, miss=known["inputs"]["a"])
    printed = known["outputs"]
    assert found.coverage == printed["coverage"]
    assert found.width == pytest.approx(printed["width"], rel=1e-12)
    assert found.crossing == printed["crossing"]
    assert found.score == pytest.approx(printed["interval score"], rel=1e-12)

    # The score is 2 / a times the pinball losses of both ends.
    pinball = Pinball((0.1, 0.9)).of(np, np.stack([low, high], axis=1), Targets(y, 0.0, None))
    assert 10 * pinball.mean() == pytest.approx(printed["10 (pinball sum)"], rel=1e-12)


def test_the_interval_score_by_hand() -> None:
    """Width 2; a label 1 below pays 2 / 0.2; an end is inside."""
    y = np.array([-1.0, 0.0, 2.0, 2.5])
    low = np.zeros(4)
    high = np.full(4, 2.0)
    assert interval_score(y, low, high, miss=0.2).tolist() == pytest.approx([12, 2, 2, 7])
    assert interval_scores(y, low, high, miss=0.2).coverage == 0.5


def test_without_samples_there_are_no_measures() -> None:
    none = np.zeros(0)
    assert np.isnan(interval_scores(none, none, none, miss=0.2)).all()
    with pytest.raises(MethodError, match=r"miss must be above 0 and below 1.*1\.0"):
        interval_scores(none, none, none, miss=1.0)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_wilsons_interval_is_scipys(confidence: float) -> None:
    hits = np.array([0, 1, 9, 15, 15, 40, 33])
    samples = np.array([15, 15, 15, 15, 40, 40, 40])
    low, high = wilson_interval(hits, samples, confidence)
    for client, (k, n) in enumerate(zip(hits.tolist(), samples.tolist(), strict=True)):
        expected = binomtest(k, n).proportion_ci(confidence, method="wilson")
        assert low[client] == pytest.approx(expected.low, abs=1e-12)
        assert high[client] == pytest.approx(expected.high, abs=1e-12)


def test_a_client_without_samples_may_have_any_coverage() -> None:
    low, high = wilson_interval(np.array([0]), np.array([0]))
    assert (low[0], high[0]) == (0, 1)
    with pytest.raises(MethodError, match="hits"):
        wilson_interval(np.array([3]), np.array([2]))
