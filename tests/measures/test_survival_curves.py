"""Survival curves from clients' sums: the oracle vectors of lifelines, and cases by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import DataError
from fedkin.measures.survival_curves import (
    SurvivalSums,
    baseline_hazard,
    censoring_sums,
    cox_survival,
    kaplan_meier,
    merged,
    survival_sums,
)
from tests.task_vectors import task_case

Oracle = Callable[[str], dict[str, Any]]


def oracle_patients(oracle: Oracle) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    """Times, events and clients of the patients, and the printed curve."""
    known = task_case(oracle, "kaplan_meier_from_client_sums")
    inputs = known["inputs"]
    died = np.array(inputs["event"]) == 1
    return np.array(inputs["time"]), died, np.array(inputs["client"]), known["outputs"]


def test_clients_sums_make_the_pooled_curve(oracle: Oracle) -> None:
    times, died, client, printed = oracle_patients(oracle)
    grid = np.array(printed["grid"])
    parts = [survival_sums(times[client == c], died[client == c], grid) for c in range(3)]
    assert [part.events.tolist() for part in parts] == printed["deaths"]
    assert [part.at_risk.tolist() for part in parts] == printed["at risk"]
    curve = kaplan_meier(merged(parts), grid)
    np.testing.assert_allclose(curve.survival, printed["survival"], atol=1e-12)
    np.testing.assert_allclose(curve.survival, printed["lifelines survival"], atol=1e-12)
    greenwood = printed["greenwood variance (finite ones)"]
    np.testing.assert_allclose(curve.variance[:-1], greenwood, atol=1e-12)
    assert np.isnan(curve.variance[-1])
    np.testing.assert_allclose(curve.hazard, printed["nelson aalen"], atol=1e-12)
    assert curve.median == printed["lifelines median"]


def test_times_without_an_event_change_nothing(oracle: Oracle) -> None:
    times, died, _, printed = oracle_patients(oracle)
    grid = np.array([0.5, 1.0, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 12.0])
    curve = kaplan_meier(survival_sums(times, died, grid), grid)
    found = curve.at(np.array(printed["grid"]))
    np.testing.assert_allclose(found, printed["survival"], atol=1e-12)
    assert curve.at(np.array([0.0, 5.5, 99.0])).tolist() == pytest.approx(
        [1.0, printed["survival"][2], 0.0]
    )


def test_on_a_coarse_grid_events_are_late_and_censored_patients_leave_early() -> None:
    """Months 1 and 2. The event at 0.4 counts at 1, with all 5 at risk but the patient who left at
    0.7. At 2 there are two at risk, one of whom dies at 1.5. The event at 2.5 is off the grid, but
    its patient was at risk at 2."""
    times = np.array([0.4, 0.7, 1.5, 1.6, 2.5])
    died = np.array([True, False, True, False, True])
    sums = survival_sums(times, died, np.array([1.0, 2.0]))
    assert sums.events.tolist() == [1, 1]
    assert sums.at_risk.tolist() == [4, 2]


def test_sums_never_have_more_events_than_patients_at_risk() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        times = rng.exponential(5, 30)
        died = rng.random(30) < 0.5
        grid = np.unique(rng.integers(1, 15, 4)).astype(float)
        for sums in (survival_sums(times, died, grid), censoring_sums(times, died, grid)):
            assert (sums.events <= sums.at_risk).all()
            assert (np.diff(sums.at_risk) <= 0).all()


def test_deaths_come_before_censoring_at_the_same_time() -> None:
    """At time 2 one patient died, so of the others at risk of censoring there are two."""
    times = np.array([2.0, 2.0, 3.0])
    died = np.array([True, False, False])
    sums = censoring_sums(times, died, np.array([2.0, 3.0]))
    assert sums.events.tolist() == [1, 1]
    assert sums.at_risk.tolist() == [2, 1]
    assert survival_sums(times, died, np.array([2.0, 3.0])).at_risk.tolist() == [3, 1]


def test_without_patients_at_risk_the_curve_stays() -> None:
    grid = np.array([1.0, 2.0])
    sums = survival_sums(np.array([1.0, 1.0]), np.array([True, False]), grid)
    curve = kaplan_meier(sums, grid)
    assert curve.survival.tolist() == [0.5, 0.5]
    assert curve.median == 1
    assert (
        kaplan_meier(survival_sums(np.zeros(0), np.zeros(0, bool), grid), grid).median == math.inf
    )


def test_breslows_baseline_with_equal_scores_is_nelson_and_aalens(oracle: Oracle) -> None:
    times, died, _, printed = oracle_patients(oracle)
    grid = np.array(printed["grid"])
    plain = baseline_hazard(survival_sums(times, died, grid))
    np.testing.assert_allclose(plain, printed["nelson aalen"], atol=1e-12)
    scored = baseline_hazard(survival_sums(times, died, grid, np.full(len(times), math.log(2))))
    np.testing.assert_allclose(scored, plain / 2, rtol=1e-12)


def test_survival_of_patients_under_a_cox_model_by_hand() -> None:
    """Scores log 1 and log 3: at time 1 the first dies of 4 at risk, at time 2 the second of 3."""
    grid = np.array([1.0, 2.0])
    scores = np.log([1.0, 3.0])
    sums = survival_sums(np.array([1.0, 2.0]), np.array([True, True]), grid, scores)
    assert sums.risk.tolist() == pytest.approx([4, 3])
    hazard = baseline_hazard(sums)
    assert hazard.tolist() == pytest.approx([1 / 4, 1 / 4 + 1 / 3])
    np.testing.assert_allclose(cox_survival(hazard, scores)[1], np.exp(-3 * hazard))


@pytest.mark.parametrize("grid", [[], [2.0, 1.0], [1.0, 1.0]])
def test_a_grid_must_ascend(grid: list[float]) -> None:
    with pytest.raises(DataError, match="ascending"):
        survival_sums(np.ones(2), np.ones(2, bool), np.array(grid))


def test_times_must_be_finite() -> None:
    with pytest.raises(DataError, match="finite time"):
        survival_sums(np.array([1.0, np.nan]), np.ones(2, bool), np.ones(1))


def test_merging_one_client_changes_nothing() -> None:
    sums = SurvivalSums(np.ones(2), np.full(2, 3.0), np.full(2, 4.0))
    for left, right in zip(merged([sums]), sums, strict=True):
        assert left.tolist() == right.tolist()
