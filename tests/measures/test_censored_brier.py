"""The Brier score under censoring: the oracle vectors of scikit-survival, and cases by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import DataError
from fedkin.measures.censored_brier import brier_sums, integrated_brier
from fedkin.measures.survival_curves import censoring_sums, kaplan_meier
from tests.task_vectors import task_case


def test_the_oracle_and_sums_over_clients(oracle: Callable[[str], dict[str, Any]]) -> None:
    known = task_case(oracle, "brier_censored")
    inputs = known["inputs"]
    times = np.array(inputs["time"])
    died = np.array(inputs["event"]) == 1
    scored = np.flatnonzero(inputs["scored"])
    grid = np.array(inputs["grid"])
    survival = np.array(inputs["survival"])
    all_times = np.unique(times)
    censoring = kaplan_meier(censoring_sums(times, died, all_times), all_times)
    total = np.zeros(len(grid))
    # Two clients.
    for rows in (scored[:5], scored[5:]):
        total += brier_sums(survival[rows], times[rows], died[rows], grid, censoring)
    scores = total / len(scored)
    np.testing.assert_allclose(scores, known["outputs"]["brier"], atol=1e-10)
    printed = known["outputs"]["integrated"]
    assert integrated_brier(scores, grid) == pytest.approx(printed, abs=1e-10)


def test_without_censoring_it_is_the_mean_squared_error() -> None:
    times = np.array([1.0, 3.0])
    died = np.ones(2, bool)
    censoring = kaplan_meier(censoring_sums(times, died, times), times)
    predicted = np.array([[0.2], [0.7]])
    # At time 2 the first patient has died, and the second has not.
    found = brier_sums(predicted, times, died, np.array([2.0]), censoring)
    assert found.tolist() == pytest.approx([0.2**2 + 0.3**2])


def test_times_without_observed_patients_add_nothing() -> None:
    """All patients are censored at 1, so none is observed at 2."""
    times = np.ones(2)
    died = np.zeros(2, bool)
    censoring = kaplan_meier(censoring_sums(times, died, np.ones(1)), np.ones(1))
    assert brier_sums(np.ones((2, 1)), times, died, np.array([2.0]), censoring).tolist() == [0]


def test_an_integral_needs_two_times() -> None:
    assert integrated_brier(np.array([0.1, 0.3]), np.array([2.0, 6.0])) == pytest.approx(0.2)
    with pytest.raises(DataError, match="two times"):
        integrated_brier(np.array([0.1]), np.array([2.0]))
