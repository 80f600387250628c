"""The Cox loss of a client's patients: the negative log partial likelihood, divided by the number
of events.

An event is an observed death; t is a patient's time and s the risk score that a model gives.

    loss = sum over events i of (log sum over j with t_j >= t_i of exp(s_j) - s_i) / events
           (Breslow 1974)

With Efron (1977), the sum for the k-th of d tied events, k = 0 .. d - 1, is reduced by k / d of the
sum over these d events. A risk set is the patients who were still under observation at a death,
here only those of the same client. Therefore the clients' losses, averaged with their numbers of
events as weights, are the partial likelihood stratified by client.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from fedkin.core.errors import DataError
from fedkin.core.validation import check_choice

TIES = ("breslow", "efron")  # treatments of events at the same time


def cox_loss(scores: Any, times: Any, died: Any, ties: str = "breslow") -> float | None:
    """The Cox loss of some patients: their negative log partial likelihood, divided by the number
    of events (observed deaths). None if there is no event.

    Args:
        scores: risk score of each patient [n]; a higher score means an earlier death.
        times: time until the event, or until the patient was last seen [n].
        died: whether the event was observed [n], as booleans or 1 and 0. Otherwise the patient is
            censored.
        ties: treatment of events at the same time: ``breslow`` or ``efron``.

    Raises:
        DataError: arrays have different lengths, a number is not finite, or events are not
            booleans.
        MethodError: ``ties`` is unknown.

    Examples:
        >>> import fedkin as fk
        >>> risks = [0.2, 1.5, 0.9, -0.3]
        >>> loss = fk.cox_loss(risks, times=[2, 2, 5, 7], died=[True, True, False, True])
        >>> round(loss, 3)
        0.891
    """
    check_choice("ties", ties, TIES)
    risks = _finite("scores", scores)
    ends = _finite("times", times)
    events = _finite("died", died)
    if not len(risks) == len(ends) == len(events):
        raise DataError(
            f"cox_loss: expected one score, time and event for each patient, got {len(risks)} "
            f"scores, {len(ends)} times and {len(events)} events"
        )
    is_boolean = np.isin(events, (0, 1))
    if not is_boolean.all():
        wrong = events[~is_boolean][0]
        raise DataError(
            f"cox_loss: died must be True or False, or 1 or 0, for each patient; got {wrong:g}"
        )
    return _loss_per_event(risks, ends, events == 1, ties)


def _finite(name: str, values: Any) -> Float[np.ndarray, "n"]:
    """Convert values to finite numbers, one for each patient. Raises DataError if that is not
    possible."""
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"cox_loss: {name} must be one number for each patient, got {values!r:.60}"
        ) from None
    if array.ndim != 1:
        raise DataError(
            f"cox_loss: {name} must be one number for each patient, got an array of shape "
            f"{list(array.shape)}"
        )
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise DataError(
            f"cox_loss: {name} must be finite numbers, got {name}[{row}] = {array[row]}"
        )
    return array


def _loss_per_event(
    scores: Float[np.ndarray, "n"],
    times: Float[np.ndarray, "n"],
    died: Bool[np.ndarray, "n"],
    ties: str,
) -> float | None:
    """The Cox loss of checked arrays, divided by the number of events; None without events."""
    events = int(died.sum())
    if not events:
        return None
    loss = -float(scores[died].sum())
    for time in np.unique(times[died]):
        at_risk = float(np.logaddexp.reduce(scores[times >= time]))
        # Patients who died at this same time.
        tied = scores[died & (times == time)]
        loss += len(tied) * at_risk
        if ties == "efron":
            shares = np.arange(len(tied)) / len(tied)
            # Share of the tied patients in the risk of all patients at risk.
            tied_share = np.exp(float(np.logaddexp.reduce(tied)) - at_risk)
            loss += float(np.log1p(-shares * tied_share).sum())
    return loss / events
