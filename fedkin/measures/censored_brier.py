"""The Brier score of predicted survival curves under censoring, from sums over clients.

Source: E. Graf et al.: Assessment and Comparison of Prognostic Classification Schemes for Survival
Data. Statistics in Medicine 18, 1999. At each time, a patient whose event was observed before has
weight 1 / G of the event's time, a patient who is still observed has weight 1 / G of this time, and
a censored one has none. G is the probability to be still under observation
(``fedkin.measures.survival_curves.censoring_sums``), pooled or of each client.

Shapes: n patients, G times.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64, Real

from fedkin.core.errors import DataError
from fedkin.measures.survival_curves import SurvivalCurve


def brier_sums(
    survival: Real[np.ndarray, "n G"],
    times: Real[np.ndarray, "n"],
    died: Bool[np.ndarray, "n"],
    grid: Real[np.ndarray, "G"],
    censoring: SurvivalCurve,
) -> Float64[np.ndarray, "G"]:
    """Sum of the weighted squared errors of patients at each time. The sum over clients, divided by
    the number of patients, is the Brier score.

    Args:
        survival: predicted probability of each patient to survive each time.
        times: time of each patient's event, or the time until which the patient was seen.
        died: whether the event was observed; otherwise the patient is censored.
        grid: the times at which predictions are scored, below the last censored time.
        censoring: curve of the probability to be under observation.
    """
    had_event = (times[:, None] <= grid[None]) & died[:, None]
    is_observed = times[:, None] > grid[None]
    of_patient = _inverse(censoring.at(times))[:, None]
    of_time = _inverse(censoring.at(grid))[None]
    predicted = np.asarray(survival, np.float64)
    after_event = predicted**2 * had_event * of_patient
    before_event = (1 - predicted) ** 2 * is_observed * of_time
    return (after_event + before_event).sum(axis=0)


def integrated_brier(scores: Real[np.ndarray, "G"], grid: Real[np.ndarray, "G"]) -> float:
    """Mean of the Brier score over the time of a grid, by trapezoids.

    Args:
        scores: Brier score at each time.
        grid: at least two times, in ascending order.

    Raises:
        DataError: there are fewer than two times, or they are not in ascending order.
    """
    if len(grid) < 2 or not (np.diff(grid) > 0).all():
        raise DataError(f"at least two times in ascending order are needed, got {list(grid)[:8]}")
    return float(np.trapezoid(scores, grid) / (grid[-1] - grid[0]))


def _inverse(probability: Float64[np.ndarray, "_"]) -> Float64[np.ndarray, "_"]:
    """1 / probability, and 0 where it is 0: no patient is observed then."""
    return np.divide(1.0, probability, out=np.zeros(len(probability)), where=probability > 0)
