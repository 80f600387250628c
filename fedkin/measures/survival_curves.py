"""Survival curves from sums over clients on a public grid of times: Kaplan-Meier with Greenwood's
variance, Nelson-Aalen, and Breslow's baseline of a Cox model.

Clients send numbers of events and of patients at risk for each time of the grid, never times of
patients, and secret sums can carry them. If the grid holds the time of every event, the curves are
those of the pooled patients. On a coarser grid, such as months, events count at the next time of
the grid and censored patients leave at the last one: the estimate of a life table. A count of 1
may disclose a patient; a coarser grid hides it.

Sources: E. Kaplan, P. Meier: Nonparametric Estimation from Incomplete Observations. JASA 53, 1958.
M. Greenwood: The Natural Duration of Cancer. 1926. N. Breslow: discussion of Cox. JRSS B 34, 1972.

Shapes: n patients, G times of the grid.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Real

from fedkin.core.errors import DataError


class SurvivalSums(NamedTuple):
    """Sums over patients for each time of a grid. Those of clients add up (``merged``).

    Attributes:
        events: number of events at the time [G].
        at_risk: number of patients at risk just before [G].
        risk: sum of exp(score) of the patients at risk [G]; ``at_risk`` without scores.
    """

    events: Float64[np.ndarray, "G"]
    at_risk: Float64[np.ndarray, "G"]
    risk: Float64[np.ndarray, "G"]


class SurvivalCurve(NamedTuple):
    """A survival curve: a step function that changes at the times of a grid.

    Attributes:
        grid: the times, in ascending order [G].
        survival: probability to survive each time [G].
        variance: Greenwood's variance of this probability [G]; NaN where all at risk have died.
        hazard: cumulative hazard by Nelson and Aalen [G].
    """

    grid: Float64[np.ndarray, "G"]
    survival: Float64[np.ndarray, "G"]
    variance: Float64[np.ndarray, "G"]
    hazard: Float64[np.ndarray, "G"]

    def at(self, times: Real[np.ndarray, "n"]) -> Float64[np.ndarray, "n"]:
        """Probability to survive each of these times; 1 before the grid's first time."""
        steps = np.concatenate([[1.0], self.survival])
        return steps[np.searchsorted(self.grid, times, side="right")]

    @property
    def median(self) -> float:
        """The first time that at most half of the patients survive; infinity if there is none."""
        reached = np.flatnonzero(self.survival <= 0.5)
        return float(self.grid[reached[0]]) if len(reached) else math.inf


def survival_sums(
    times: Real[np.ndarray, "n"],
    died: Bool[np.ndarray, "n"],
    grid: Real[np.ndarray, "G"],
    scores: Real[np.ndarray, "n"] | None = None,
) -> SurvivalSums:
    """The sums of a client's patients. Events after the last time of the grid do not count.

    Args:
        times: time of each patient's event, or the time until which the patient was seen.
        died: whether the event was observed; otherwise the patient is censored.
        grid: public times in ascending order, the same for all clients.
        scores: risk score of each patient by a Cox model; None for curves without a model.

    Raises:
        DataError: the grid is not in ascending order.
    """
    return _sums(times, died, grid, scores, tied_events_first=False)


def censoring_sums(
    times: Real[np.ndarray, "n"], died: Bool[np.ndarray, "n"], grid: Real[np.ndarray, "G"]
) -> SurvivalSums:
    """The sums of which ``kaplan_meier`` makes the curve of censoring: the probability that a
    patient is still under observation. It weighs patients in ``brier_sums``.

    A patient who died at the time of a censoring is not at risk of being censored.

    Args:
        times: time of each patient's event, or the time until which the patient was seen.
        died: whether the event was observed; otherwise the patient is censored.
        grid: public times in ascending order, the same for all clients.
    """
    return _sums(times, ~died, grid, None, tied_events_first=True)


def merged(parts: list[SurvivalSums]) -> SurvivalSums:
    """The sums of several clients together."""
    return SurvivalSums(*(np.sum(column, axis=0) for column in zip(*parts, strict=True)))


def kaplan_meier(sums: SurvivalSums, grid: Real[np.ndarray, "G"]) -> SurvivalCurve:
    """The survival curve of patients, from their sums on a grid of times.

    S(t) is the product of 1 - d / n up to t, Greenwood's variance is S^2 times the sum of
    d / (n (n - d)), and the hazard is the sum of d / n.

    Args:
        sums: sums of all patients (``survival_sums``, ``merged``).
        grid: the times of these sums.

    Examples:
        >>> import numpy as np
        >>> from fedkin.measures.survival_curves import kaplan_meier, survival_sums
        >>> times = np.array([1.0, 2.0, 2.0, 3.0])
        >>> died = np.array([True, True, False, True])
        >>> kaplan_meier(survival_sums(times, died, times[[0, 1, 3]]), times[[0, 1, 3]]).survival
        array([0.75, 0.5 , 0.  ])
    """
    share = _share(sums.events, sums.at_risk)
    survival = np.cumprod(1 - share)
    left = sums.at_risk - sums.events
    # No patient is left: the variance of a survival of 0 is unknown.
    steps = np.where(left > 0, _share(sums.events, sums.at_risk * left), np.nan)
    steps = np.where(sums.events > 0, steps, 0.0)
    return SurvivalCurve(
        grid=np.asarray(grid, np.float64),
        survival=survival,
        variance=survival**2 * np.cumsum(steps),
        hazard=np.cumsum(share),
    )


def baseline_hazard(sums: SurvivalSums) -> Float64[np.ndarray, "G"]:
    """Breslow's cumulative baseline hazard of a Cox model at each time of a grid: the sum of events
    / sum of exp(score) of the patients at risk. Without scores it is Nelson and Aalen's.

    Args:
        sums: sums of all patients with the model's scores.
    """
    return np.cumsum(_share(sums.events, sums.risk))


def cox_survival(
    hazard: Float64[np.ndarray, "G"], scores: Real[np.ndarray, "n"]
) -> Float64[np.ndarray, "n G"]:
    """Probability of each patient to survive each time of a grid, exp(-H0(t) exp(score)).

    Args:
        hazard: the cumulative baseline hazard H0 (``baseline_hazard``).
        scores: risk score of each patient by the same Cox model.
    """
    return np.exp(-np.exp(np.asarray(scores, np.float64))[:, None] * hazard[None])


def _sums(
    times: Real[np.ndarray, "n"],
    ends: Bool[np.ndarray, "n"],
    grid: Real[np.ndarray, "G"],
    scores: Real[np.ndarray, "n"] | None,
    tied_events_first: bool,
) -> SurvivalSums:
    """Sums on a grid. ``ends`` says whose time counts as an event of the curve.

    With ``tied_events_first``, the times of others come before the same time of an event of the
    curve, so that these patients are not at risk then.
    """
    if len(times) != len(ends) or not np.isfinite(times).all():
        raise DataError("survival sums need one finite time and one event for each patient")
    if not len(grid) or not (np.diff(grid) > 0).all():
        raise DataError(f"the grid of times must be in ascending order, got {list(grid)[:8]}")
    # An event counts at the next time of the grid. A patient without one is last at risk at the
    # last time of the grid that the patient reached.
    event_place = np.searchsorted(grid, times, side="left")
    other_side = "left" if tied_events_first else "right"
    other_place = np.searchsorted(grid, times, side=other_side) - 1
    last_at_risk = np.where(ends, event_place, other_place)

    size = len(grid)
    weights = np.ones(len(times)) if scores is None else np.exp(np.asarray(scores, np.float64))
    in_grid = ends & (event_place < size)
    return SurvivalSums(
        events=np.bincount(event_place[in_grid], minlength=size).astype(np.float64),
        at_risk=_reaching(last_at_risk, np.ones(len(times)), size),
        risk=_reaching(last_at_risk, weights, size),
    )


def _reaching(
    last: Real[np.ndarray, "n"], weights: Float64[np.ndarray, "n"], size: int
) -> Float64[np.ndarray, "G"]:
    """Sum of the weights of patients whose last place on a grid is each place or a later one."""
    reached = last >= 0
    places = np.minimum(last[reached], size - 1)
    at_place = np.bincount(places, weights=weights[reached], minlength=size)
    # Without patients, NumPy counts in integers.
    return np.cumsum(at_place[::-1], dtype=np.float64)[::-1]


def _share(
    part: Float64[np.ndarray, "G"], whole: Float64[np.ndarray, "G"]
) -> Float64[np.ndarray, "G"]:
    """part / whole, and 0 where ``whole`` is 0."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)
