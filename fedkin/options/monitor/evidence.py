"""Evidence that a number which clients send has risen: one e-detector for each client.

A client's observation is a number x from 0 to 1, such as the loss of its model
(``fedkin/options/monitor/statistics.py``). It exceeds its limit if

    x > level + margin + 2 spread
    level    mean of the newest ``size`` observations that did not exceed their limit
    spread   their noise: mean absolute difference of successive ones times sqrt(pi) / 2, which is
             the standard deviation if they are normal and independent, whatever their slow trend

The null is that an observation exceeds its limit with probability at most 0.1, given the past. The
limit depends on the past only, so y = 1 (exceeds) or 0 gives the e-value 1 + bet (y - 0.1), and the
detector of Shiryaev and Roberts over T rounds, divided by T, is an e-value, too
(``fedkin/measures/e_values.py``). After more than ``lag`` observations in a row above the limit,
all observations of the client are forgotten, and its detector begins at 0. No alarm is possible for
the client's next 2 x ``reference`` observations, since a limit needs so many.

Shapes: N clients, n clients of a round, W observations that are kept, B bets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from fedkin.measures.e_values import bounded_bet, e_shiryaev_roberts

MOST = 0.1  # largest probability under the null that an observation exceeds its limit
# Bets as shares of the largest one, 1 / MOST. The larger one finds a lasting change soon, the
# smaller one a change that some observations do not show.
SHARES = (0.5, 0.9)
SPREADS = 2.0  # spreads between level and limit, in addition to the margin
WINDOW = 20  # observations that are kept for each client


@dataclass(frozen=True)
class Evidence:
    """The evidence about all clients, of one statistic. It is never changed in place.

    Attributes:
        observations: the newest observations of each client that did not exceed their limit, the
            newest last; NaN where there are fewer.
        detectors: value of each client's detector, for each bet.
        spell: number of each client's latest observations in a row that exceeded their limit.
    """

    observations: Float64[np.ndarray, "N W"]
    detectors: Float64[np.ndarray, "N B"]
    spell: Int[np.ndarray, "N"]

    @classmethod
    def none(cls, clients: int) -> Evidence:
        """No observation of any of N clients."""
        return cls(
            observations=np.full((clients, WINDOW), np.nan),
            detectors=np.zeros((clients, len(SHARES))),
            spell=np.zeros(clients, np.int64),
        )

    @property
    def values(self) -> Float64[np.ndarray, "N"]:
        """The detector of each client: the mean over its bets."""
        return self.detectors.mean(axis=1)

    def limits(
        self, clients: Int[np.ndarray, "n"], size: int, margin: float
    ) -> Float64[np.ndarray, "n"]:
        """The limits of the clients' next observations, without those that have fewer than twice
        ``size`` observations so far: they have NaN.

        Args:
            clients: the clients.
            size: number of observations in the level.
            margin: rise that is not worth an alarm.
        """
        observations = self.observations[clients]
        known = (~np.isnan(observations)).sum(axis=1)
        level = observations[:, -size:].mean(axis=1)
        steps = np.abs(np.diff(observations, axis=1))
        # The differences that are known; a client with too few observations gets NaN below.
        mean_step = np.nansum(steps, axis=1) / np.maximum(known - 1, 1)
        spread = np.sqrt(np.pi) / 2 * mean_step
        return np.where(known >= 2 * size, level + margin + SPREADS * spread, np.nan)

    def observed(
        self,
        clients: Int[np.ndarray, "n"],
        values: Float[np.ndarray, "n"],
        size: int,
        margin: float,
        lag: int,
    ) -> Evidence:
        """The evidence after new observations.

        Args:
            clients: different clients.
            values: the observation of each.
            size, margin: as in ``limits``.
            lag: length of a spell after which a client's limit is given up.
        """
        limits = self.limits(clients, size, margin)
        tested = ~np.isnan(limits)
        # Comparisons with NaN are False: an untested client exceeds nothing.
        exceeds = values > limits
        detectors = self.detectors.copy()
        for number, share in enumerate(SHARES):
            y = exceeds[tested].astype(np.float64)
            e = bounded_bet(y, np.full(len(y), MOST), np.full(len(y), share / MOST))
            before = detectors[clients[tested], number]
            detectors[clients[tested], number] = e_shiryaev_roberts(before, e)
        spell = self.spell.copy()
        spell[clients] = np.where(exceeds, spell[clients] + 1, 0)
        kept = self.observations.copy()
        usual = clients[~exceeds]
        kept[usual, :-1] = kept[usual, 1:]
        kept[usual, -1] = values[~exceeds]
        after = Evidence(kept, detectors, spell)
        return after.forgotten(clients[spell[clients] > lag])

    def restarted(self, clients: Bool[np.ndarray, "N"]) -> Evidence:
        """The evidence with the detectors of some clients at their start, after an alarm."""
        return replace(self, detectors=np.where(clients[:, None], 0.0, self.detectors))

    def forgotten(self, clients: Int[np.ndarray, "n"] | Bool[np.ndarray, "N"]) -> Evidence:
        """The evidence without the observations of some clients, such as those that moved."""
        after = Evidence(self.observations.copy(), self.detectors.copy(), self.spell.copy())
        after.observations[clients] = np.nan
        after.detectors[clients] = 0
        after.spell[clients] = 0
        return after
