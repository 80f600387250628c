"""The C-index from sums: concordant, discordant and tied pairs of patients within clients.

Source: F. Harrell et al.: Evaluating the Yield of Medical Tests. JAMA 247, 1982. A pair is
comparable if one patient's event was observed, and the other one's time is later, or is the same
and censored. It is concordant if the first patient has the higher risk. Equal risks count half.

The index within clients and the index of all patients together differ: in the first one, no
patients of different clients are compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Real

from fedkin.core.errors import DataError

LEAST_PAIRS = 2


class Concordance(NamedTuple):
    """Numbers of comparable pairs of patients. Those of clients add up (``concordance_within``).

    Attributes:
        concordant: pairs in which the patient with the higher risk had the earlier event.
        discordant: pairs in which the patient with the higher risk had the later one.
        tied: pairs with equal risks.
    """

    concordant: int
    discordant: int
    tied: int

    @property
    def pairs(self) -> int:
        """Number of comparable pairs."""
        return self.concordant + self.discordant + self.tied

    @property
    def index(self) -> float | None:
        """The C-index; None with fewer than two comparable pairs."""
        if self.pairs < LEAST_PAIRS:
            return None
        return (self.concordant + self.tied / 2) / self.pairs


def concordance(
    scores: Real[np.ndarray, "n"], times: Real[np.ndarray, "n"], died: Bool[np.ndarray, "n"]
) -> Concordance:
    """The comparable pairs among some patients.

    Args:
        scores: risk score of each patient; a higher score means an earlier event. (Predicted times
            are scores with the other sign.)
        times: time of each patient's event, or the time until which the patient was seen.
        died: whether the event was observed; otherwise the patient is censored.

    Raises:
        DataError: a score or a time is not finite.

    Examples:
        >>> import numpy as np
        >>> from fedkin.measures.concordance import concordance
        >>> times = np.array([2.0, 4.0, 5.0])
        >>> concordance(np.array([0.9, 0.1, 0.5]), times, np.array([True, True, False])).index
        0.6666666666666666
    """
    if not np.isfinite(scores).all() or not np.isfinite(times).all():
        raise DataError("scores and times must be finite numbers, one for each patient")
    concordant = 0
    tied = 0
    pairs = 0
    # One event at a time, so that the memory grows with the number of patients only.
    for event in np.flatnonzero(died):
        later = (times > times[event]) | ((times == times[event]) & ~died)
        others = scores[later]
        pairs += len(others)
        concordant += int((others < scores[event]).sum())
        tied += int((others == scores[event]).sum())
    return Concordance(concordant, pairs - concordant - tied, tied)


def concordance_within(clients: Iterable[Concordance]) -> Concordance:
    """The pairs of all clients together. Each client counts by its number of comparable pairs.

    Args:
        clients: the pairs of each client.
    """
    parts = list(clients)
    return Concordance(
        concordant=sum(part.concordant for part in parts),
        discordant=sum(part.discordant for part in parts),
        tied=sum(part.tied for part in parts),
    )
