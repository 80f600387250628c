"""Privacy accounting of noisy sums: epsilon at a delta, with dp-accounting (the extra ``privacy``).

Neighbouring data sets differ by one whole client, added or removed, for all rounds together. A
round is a Gaussian mechanism on the sum over a Poisson sample of the clients. Noisy sums over all
clients (of a cold start before the first round, and of scores after the last round) are Gaussian
mechanisms without sampling, which compose with the rounds.

The reported epsilon comes from the privacy loss distribution (PLD, Koskela et al. 2020, Doroshenko
et al. 2022). Renyi differential privacy (Mironov 2017) gives an upper bound of it. A PLD epsilon
above that bound would show an error in one of them, so it raises an error. No other mechanism is
accounted for: the two accountants of dp-accounting disagree on the definition of replacing a
client, and the PLD accountant charges a repeated randomised response only once.

The Renyi bound itself is reported in two cases. Above an epsilon of 50 a loss distribution takes
minutes, and such an epsilon gives no protection. A delta below 1e-14 is too small for a loss
distribution in double precision.
"""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.options.privacy.search import PRECISION, Search

_TOLERANCE = 1e-3  # relative tolerance between the two accountants
# Largest noise multiplier tried. With it rounds cost almost nothing, so if it is not enough, no
# noise of the rounds is.
_MOST_NOISE = 2.0**16
_FIRST_NOISE = 1.0  # first noise multiplier of a search

# Above this epsilon the Renyi bound is reported: such a large epsilon gives no protection.
MOST_EPSILON = 50.0

# Step sizes of loss distributions. The fine step is the default of dp-accounting. With a cap on the
# cohort, coarse steps are a hundred times as fast, and their epsilon exceeds the fine one by less
# than the coarse step.
_FINE_STEP = 1e-4
_COARSE_STEP = 1e-2
_CLOSE = 1e-3  # relative; coarse results this close above a target are checked with fine steps

# dp-accounting cuts off a tail of 1e-15 of a loss distribution. For a delta below ten times that,
# the tail would determine the result.
LEAST_DELTA = 1e-14


@dataclass(frozen=True)
class NoisyRounds:
    """All releases of a run: noisy sums of rounds, each over a Poisson sample of the clients, and
    noisy sums over all clients.

    Attributes:
        probability: q, with which each client takes part in a round; 1: all clients take part.
        noise_multiplier: z, the standard deviation of the noise on a sum, divided by the clipping
            norm.
        count: number of rounds.
        cap: largest number of clients in a round, if a device needs a limit; None: no limit. Of a
            larger sample, that many clients are drawn at random.
        clients: number of clients N, needed only with a cap.
        start_noise: noise multiplier of each noisy sum of all clients before the first round.
        start_sums: number of these sums.
        score_noise: noise multiplier of each noisy sum of all clients' accuracies (scores).
        score_sums: number of these sums.
    """

    probability: float
    noise_multiplier: float
    count: int
    cap: int | None = None
    clients: int = 0
    start_noise: float = 0.0
    start_sums: int = 0
    score_noise: float = 0.0
    score_sums: int = 0

    @property
    def lacks_noise(self) -> bool:
        """Whether any sum was released without noise."""
        return (self.count > 0 and self.noise_multiplier <= 0) or any(
            noise <= 0 for noise, _ in self._of_all()
        )

    def _of_all(self) -> list[tuple[float, int]]:
        """The sums over all clients, as pairs (noise multiplier, number of sums): one pair for the
        cold start (first clustering) and one for scores. A pair with 0 sums is left out."""
        sums = (self.start_noise, self.start_sums), (self.score_noise, self.score_sums)
        return [(noise, count) for noise, count in sums if count]

    def event(self) -> Any:
        """All releases together, as an event of dp-accounting."""
        events = _library("dp_accounting")
        parts = [
            events.SelfComposedDpEvent(events.GaussianDpEvent(z), count)
            for z, count in self._of_all()
        ]
        if self.count and self.probability:
            parts.append(self._rounds_event(events))
        return events.ComposedDpEvent(parts)

    def _rounds_event(self, events: Any) -> Any:
        """The noisy sums of all rounds as an event of dp-accounting.

        Args:
            events: the module ``dp_accounting``, which defines events.
        """
        noise = events.GaussianDpEvent(self.noise_multiplier)
        if self.cap is not None:
            noise = events.TruncatedSubsampledGaussianDpEvent(
                dataset_size=self.clients,
                sampling_probability=self.probability,
                truncated_batch_size=self.cap,
                noise_multiplier=self.noise_multiplier,
            )
        elif self.probability < 1:
            noise = events.PoissonSampledDpEvent(self.probability, noise)
        return events.SelfComposedDpEvent(noise, self.count)


@cache
def epsilon(rounds: NoisyRounds, delta: float) -> float:
    """The epsilon of the released rounds at a delta.

    It comes from the privacy loss distribution, or from the Renyi bound (``by_renyi_bound``).

    Args:
        rounds: the released rounds.
        delta: probability that the bound does not hold.

    Raises:
        ConfigError: the two accountants (privacy loss distribution and Renyi) contradict each
            other, so neither is reliable.
        MissingExtra: dp-accounting is not installed.
    """
    if rounds.lacks_noise:
        return math.inf
    if by_renyi_bound(rounds, delta):
        return renyi_epsilon(rounds, delta)
    if rounds.cap is not None:
        # Fine steps are slow with a cap, and above this epsilon they are not worth the time.
        coarse = _pld_epsilon(rounds, delta, _COARSE_STEP)
        return coarse if coarse > MOST_EPSILON else _pld_epsilon(rounds, delta, _FINE_STEP)
    value = _pld_epsilon(rounds, delta, _FINE_STEP)
    bound = renyi_epsilon(rounds, delta)
    # Infinite: the cut-off tails of many rounds together exceed delta.
    if math.isinf(value):
        return bound
    check(value, bound)
    return value


def costs_at_most(target: float, delta: float, rounds: NoisyRounds) -> bool:
    """Whether the rounds cost at most a target epsilon.

    Args:
        target: the target epsilon.
        delta: probability that the bound does not hold.
        rounds: the released rounds.

    Raises:
        ConfigError: the two accountants contradict each other.
        MissingExtra: dp-accounting is not installed.
    """
    if rounds.cap is None or rounds.lacks_noise or by_renyi_bound(rounds, delta):
        return epsilon(rounds, delta) <= target

    # Coarse steps never underestimate epsilon, and most rounds that a search tries cost far more or
    # far less than the target.
    step = min(max(target * _CLOSE, _FINE_STEP), _COARSE_STEP)
    coarse = _pld_epsilon(rounds, delta, step)
    if coarse <= target:
        return True
    if coarse > target * (1 + _CLOSE):
        return False
    return epsilon(rounds, delta) <= target


def by_renyi_bound(rounds: NoisyRounds, delta: float) -> bool:
    """Whether the Renyi bound is reported as the epsilon: if it is above 50, or if delta is below
    1e-14.

    Args:
        rounds: the released rounds.
        delta: probability that the bound does not hold.

    Raises:
        MissingExtra: dp-accounting is not installed.
    """
    # With a cap the Renyi bound is far above the PLD epsilon. The bound without a cap is below the
    # PLD epsilon, so it shows whether that is large.
    return delta < LEAST_DELTA or renyi_epsilon(replace(rounds, cap=None), delta) > MOST_EPSILON


def check(value: float, bound: float | None) -> None:
    """Raise ConfigError if the PLD epsilon exceeds the Renyi bound, so that one of the accountants
    must be wrong.

    Args:
        value: the PLD epsilon.
        bound: the Renyi bound; None if there is none.
    """
    if bound is not None and value > bound * (1 + _TOLERANCE) + _TOLERANCE:
        raise ConfigError(
            f"privacy: the accountants contradict each other: epsilon is {value:.4g} by the "
            f"privacy loss distribution, above the Renyi bound {bound:.4g}, so neither can be "
            "trusted; install another version of dp-accounting, and report this error"
        )


@cache
def renyi_epsilon(rounds: NoisyRounds, delta: float) -> float:
    """The epsilon of the released rounds at a delta by Renyi differential privacy.

    It is an upper bound, computed in milliseconds.

    For a sample with a cap, no bound with amplification by sampling is known. There an added client
    may displace another one, which changes the sum by up to twice the clip. So the bound then
    assumes all clients in every round, and half the noise multiplier.

    Raises MissingExtra if dp-accounting is not installed.
    """
    if rounds.cap is not None:
        half = rounds.noise_multiplier / 2
        rounds = replace(rounds, cap=None, probability=1.0, noise_multiplier=half)
    return _spent(_library("dp_accounting.rdp").RdpAccountant, rounds, delta)


def fixed_cohort_epsilon(
    clients: int, cohort: int, noise_multiplier: float, count: int, delta: float
) -> float:
    """The epsilon of rounds with cohorts of a fixed size.

    Neighbouring data sets differ here by one client that is replaced by another, since no bound is
    known for the removal of a client with such cohorts. Replacement changes a sum by up to twice
    the clipping norm, so the calculation uses half the noise multiplier.

    Args:
        clients: number of clients N.
        cohort: number of clients n in each round.
        noise_multiplier: z.
        count: number of rounds.
        delta: probability that the bound does not hold.

    Raises:
        MissingExtra: dp-accounting is not installed.
    """
    events = _library("dp_accounting")
    renyi = _library("dp_accounting.rdp")
    relation = events.NeighboringRelation.REPLACE_ONE
    noise = events.GaussianDpEvent(noise_multiplier / 2)
    event = events.SampledWithoutReplacementDpEvent(clients, cohort, noise)
    accountant = renyi.RdpAccountant(neighboring_relation=relation)
    return float(accountant.compose(event, count).get_epsilon(delta))


def calibrate(target: float, delta: float, rounds: Callable[[float], NoisyRounds]) -> float:
    """The smallest noise multiplier, to 0.1%, with which rounds cost at most a target epsilon.

    A search that takes more than a few seconds is logged.

    Args:
        target: the target epsilon.
        delta: probability that the bound does not hold.
        rounds: function from a noise multiplier to all releases of the run.

    Raises:
        ConfigError: no noise is large enough.
        MissingExtra: dp-accounting is not installed.
    """
    search = Search(f"privacy: finding the noise multiplier for epsilon = {target:g}")

    def enough_by_bound(noise: float) -> bool:
        return renyi_epsilon(rounds(noise), delta) <= target

    def enough(noise: float) -> bool:
        return costs_at_most(target, delta, rounds(noise))

    # Search first with the Renyi bound, which is fast and never underestimates. It is not used in
    # two cases: with a cap, where it is far too high, and if even the largest noise does not bring
    # it below the target, since the cold start or the scores alone cost too much by this bound.
    quick = rounds(_FIRST_NOISE).cap is None and enough_by_bound(_MOST_NOISE)
    price = enough_by_bound if quick else enough
    if not price(_MOST_NOISE):
        raise ConfigError(
            f"privacy.epsilon = {target:g} at privacy.delta = {delta:g} cannot be met, however "
            "large the noise of the rounds is: raise privacy.epsilon or privacy.delta"
        )
    low, high = search.bracket(price, _FIRST_NOISE)
    noise = search.least(price, low, high)

    # Then search below the noise found by the bound with the slow PLD epsilon. The bound is usually
    # close, so the search tries 90% of its noise first. If the result is at the lower end of the
    # interval, less noise may be enough, and the search continues below.
    while True:
        found = search.least(enough, noise / 2, noise, nearest=0.9)
        at_lower_end = found - noise / 2 <= found * PRECISION
        if not at_lower_end:
            return found
        noise = found


def affordable(target: float, delta: float, rounds: Callable[[int], NoisyRounds], most: int) -> int:
    """The largest number of rounds, up to ``most``, that cost at most a target epsilon.

    A search that takes more than a few seconds is logged.

    Args:
        target: the target epsilon.
        delta: probability that the bound does not hold.
        rounds: function from a number of rounds to all releases of the run.
        most: planned number of rounds.

    Raises:
        MissingExtra: dp-accounting is not installed.
    """
    search = Search(f"privacy: finding how many rounds cost at most epsilon = {target:g}")
    return search.most(lambda count: costs_at_most(target, delta, rounds(count)), most)


@cache
def _pld_epsilon(rounds: NoisyRounds, delta: float, step: float) -> float:
    """The epsilon of rounds from a privacy loss distribution with this step size. Coarser steps may
    overestimate it, but never underestimate it."""
    accountant = partial(
        _library("dp_accounting.pld").PLDAccountant, value_discretization_interval=step
    )
    return _spent(accountant, rounds, delta)


def _spent(accountant: Callable[..., Any], rounds: NoisyRounds, delta: float) -> float:
    """The epsilon of a run's releases, as an accountant of dp-accounting computes it.

    Args:
        accountant: class of the accountant.
        rounds: the releases.
        delta: probability that the bound does not hold.
    """
    relation = _library("dp_accounting").NeighboringRelation.ADD_OR_REMOVE_ONE
    return float(
        accountant(neighboring_relation=relation).compose(rounds.event()).get_epsilon(delta)
    )


@cache
def _library(name: str) -> Any:
    """Import a module of dp-accounting. Raises MissingExtra if it is not installed."""
    try:
        library = importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(
            "accounting for privacy needs dp-accounting, which is not installed: pip install "
            "'fedkin[privacy]'"
        ) from error
    # Orders of RDP that do not converge are left out with a warning, which is safe.
    logging.getLogger("absl").setLevel(logging.ERROR)
    return library
