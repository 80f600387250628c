"""The Cox loss of a client's patients: its negative log partial likelihood per event.

    loss = sum over events i of (log sum over j with t_j >= t_i of exp(s_j) - s_i) / events          (Breslow 1974)

With Efron (1977) the sum of the k-th of d events at one time, k = 0 .. d - 1, is reduced by k / d of the sum over those
d. Risk sets are the client's own: the sum over clients, weighted by their events, is the partial likelihood that is
stratified by client.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float


def cox_loss(
    scores: Float[np.ndarray, "n"],
    times: Float[np.ndarray, "n"],
    died: Bool[np.ndarray, "n"],
    ties: str = "breslow",
) -> float | None:
    """The Cox loss per event; None for patients without an event.

    Args:
        scores: risk of each patient; the higher, the sooner it dies.
        times: until the event, or until a patient was last seen.
        died: whether the event was observed; else the patient is censored.
        ties: of events at the same time: ``breslow`` or ``efron``.
    """
    events = int(died.sum())
    if not events:
        return None
    loss = -float(scores[died].sum())
    for time in np.unique(times[died]):
        at_risk = float(np.logaddexp.reduce(scores[times >= time]))
        tied = scores[died & (times == time)]
        loss += len(tied) * at_risk
        if ties == "efron":
            shares = np.arange(len(tied)) / len(tied)
            tied_share = np.exp(float(np.logaddexp.reduce(tied)) - at_risk)
            loss += float(np.log1p(-shares * tied_share).sum())
    return loss / events
