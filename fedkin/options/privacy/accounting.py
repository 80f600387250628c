"""The price of noisy sums: epsilon at a delta, from dp-accounting (the extra ``privacy``).

Two data sets are neighbours that differ by one whole client, added or removed, for all rounds
together. A round is a Gaussian mechanism on the sum over a Poisson sample of the clients. The
figure is that of the privacy loss distribution (PLD, Koskela et al. 2020, Doroshenko et al. 2022);
Renyi differential privacy (Mironov 2017) gives an upper bound of it, and a PLD above that bound is
refused. Only this mechanism is accounted for here: the accountants of the library mean different
things by the replacement of a client, and one of them ignores the count of a randomised response.
Noisy sums of all clients, before the first round of a cold start and after the last one of scores,
compose with the rounds: Gaussians without sampling.

The Renyi bound itself is the figure in two cases: above an epsilon of 50, where a distribution of
losses takes minutes and protects nothing, and at a delta below 1e-14, which a distribution in
double precision does not resolve.
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

_TOLERANCE = 1e-3  # relative, of one accountant against the other
_MOST_NOISE = 2.0**16  # multiplier; where this is not enough, none is
_FIRST_NOISE = 1.0  # the multiplier from which a search starts

# Above this epsilon the Renyi bound is the figure: an epsilon this large gives no protection.
MOST_EPSILON = 50.0

# Steps of a distribution of losses. Those of dp-accounting by default are fine. With a cap, coarse
# ones are a hundred times as fast and give a figure that is above the fine one by less than
# the coarse step.
_FINE_STEP = 1e-4
_COARSE_STEP = 1e-2
_CLOSE = 1e-3  # relative; fine steps decide for coarse figures that are above a target by less

# dp-accounting cuts a tail of 1e-15 off a distribution of losses. Below ten times that, the tail
# decides.
LEAST_DELTA = 1e-14


@dataclass(frozen=True)
class NoisyRounds:
    """Rounds of one mechanism: a Gaussian on the sum over a Poisson sample of the clients.

    Attributes:
        probability: q, with which each client takes part in a round; 1: all clients take part.
        noise_multiplier: z, the standard deviation of the noise on a sum, divided by the clipping
            norm.
        count: how many rounds.
        cap: most clients of a round, where a device needs one; None: no limit. Larger samples are
            cut at random.
        clients: N, which only a cap needs.
        start_noise: the noise multiplier of each noisy sum before the first round, of all clients.
        start_sums: how many of these.
        score_noise: the noise multiplier of each noisy sum of all clients' scores.
        score_sums: how many of these.
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
        """Whether something was released as it is."""
        return (self.count > 0 and self.noise_multiplier <= 0) or any(
            noise <= 0 for noise, _ in self._of_all()
        )

    def _of_all(self) -> list[tuple[float, int]]:
        """The noise multiplier and the number of sums of all clients, where there are some."""
        sums = (self.start_noise, self.start_sums), (self.score_noise, self.score_sums)
        return [(noise, count) for noise, count in sums if count]

    def event(self) -> Any:
        """The event of dp-accounting."""
        events = _library("dp_accounting")
        parts = [
            events.SelfComposedDpEvent(events.GaussianDpEvent(z), count)
            for z, count in self._of_all()
        ]
        if self.count and self.probability:
            parts.append(self._rounds_event(events))
        return events.ComposedDpEvent(parts)

    def _rounds_event(self, events: Any) -> Any:
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
    """The epsilon of rounds at a delta, by the privacy loss distribution, or its Renyi bound
    (``by_renyi_bound``).

    Args:
        rounds: what was released.
        delta: the probability that the bound does not hold.

    Raises:
        ConfigError: the two accountants contradict each other; then neither is to be trusted.
        MissingExtra: dp-accounting is not installed.
    """
    if rounds.lacks_noise:
        return math.inf
    if by_renyi_bound(rounds, delta):
        return renyi_epsilon(rounds, delta)
    if rounds.cap is not None:
        coarse = _pld_epsilon(rounds, delta, _COARSE_STEP)
        return coarse if coarse > MOST_EPSILON else _pld_epsilon(rounds, delta, _FINE_STEP)
    value = _pld_epsilon(rounds, delta, _FINE_STEP)
    bound = renyi_epsilon(rounds, delta)
    # An infinite value: the tails that many rounds lose together are more than delta.
    if math.isinf(value):
        return bound
    check(value, bound)
    return value


def costs_at_most(target: float, delta: float, rounds: NoisyRounds) -> bool:
    """Whether rounds cost at most an epsilon.

    Args:
        target: the epsilon.
        delta: the probability that the bound does not hold.
        rounds: what is released.

    Raises:
        ConfigError: the two accountants contradict each other.
        MissingExtra: dp-accounting is not installed.
    """
    if rounds.cap is None or rounds.lacks_noise or by_renyi_bound(rounds, delta):
        return epsilon(rounds, delta) <= target

    # The figure of coarse steps is never too low. Most rounds that a search tries cost far more or
    # far less.
    step = min(max(target * _CLOSE, _FINE_STEP), _COARSE_STEP)
    coarse = _pld_epsilon(rounds, delta, step)
    if coarse <= target:
        return True
    if coarse > target * (1 + _CLOSE):
        return False
    return epsilon(rounds, delta) <= target


def by_renyi_bound(rounds: NoisyRounds, delta: float) -> bool:
    """Whether the epsilon of rounds is their Renyi bound: it is above 50, or delta is below 1e-14.

    Args:
        rounds: what was released.
        delta: the probability that the bound does not hold.

    Raises:
        MissingExtra: dp-accounting is not installed.
    """
    # For rounds with a cap the bound is far above the figure. The bound of the same rounds without
    # a cap is below it, and tells whether the figure is large.
    return delta < LEAST_DELTA or renyi_epsilon(replace(rounds, cap=None), delta) > MOST_EPSILON


def check(value: float, bound: float | None) -> None:
    """Refuse (ConfigError) an epsilon that is above its upper bound by the other accountant, where
    there is one."""
    if bound is not None and value > bound * (1 + _TOLERANCE) + _TOLERANCE:
        raise ConfigError(
            f"accountants contradict each other: epsilon {value:.4g} by PLD, above {bound:.4g} by "
            "RDP"
        )


@cache
def renyi_epsilon(rounds: NoisyRounds, delta: float) -> float:
    """The epsilon of rounds at a delta, by Renyi differential privacy: an upper bound that takes
    milliseconds.

    No bound is known of a sample with a cap. There a client that is added may take the place of
    another one, so the bound is that of all clients in every round with half the noise.

    Raises MissingExtra: dp-accounting is not installed.
    """
    if rounds.cap is not None:
        half = rounds.noise_multiplier / 2
        rounds = replace(rounds, cap=None, probability=1.0, noise_multiplier=half)
    return _spent(_library("dp_accounting.rdp").RdpAccountant, rounds, delta)


def fixed_cohort_epsilon(
    clients: int, cohort: int, noise_multiplier: float, count: int, delta: float
) -> float:
    """The epsilon of rounds whose cohorts have a fixed size, where a client is replaced by another.

    That moves a sum by twice the clipping norm, so the event gets half the noise multiplier. No
    bound is known for these cohorts and a client that is removed.

    Args:
        clients: N.
        cohort: n.
        noise_multiplier: z.
        count: how many rounds.
        delta: the probability that the bound does not hold.

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
    """The least noise multiplier, to 0.1%, with which rounds cost at most an epsilon.

    A search of more than some seconds is logged.

    Args:
        target: the epsilon.
        delta: the probability that the bound does not hold.
        rounds: from a noise multiplier to the rounds.

    Raises:
        ConfigError: no noise is enough.
        MissingExtra: dp-accounting is not installed.
    """
    search = Search(f"privacy: finding the noise multiplier for epsilon = {target:g}")

    def enough_by_bound(noise: float) -> bool:
        return renyi_epsilon(rounds(noise), delta) <= target

    def enough(noise: float) -> bool:
        return costs_at_most(target, delta, rounds(noise))

    # First by the quick bound, which is never too low. With a cap it is far too high. Where the
    # cold start alone costs much, the target may be between price and bound.
    quick = rounds(_FIRST_NOISE).cap is None and enough_by_bound(_MOST_NOISE)
    price = enough_by_bound if quick else enough
    if not price(_MOST_NOISE):
        raise ConfigError(
            f"privacy.epsilon = {target:g} at privacy.delta = {delta:g} cannot be met, however "
            "large the noise of the rounds is: raise privacy.epsilon or privacy.delta"
        )
    low, high = search.bracket(price, _FIRST_NOISE)
    noise = search.least(price, low, high)

    # The bound is rarely twice the figure; where it is, half of the noise is enough, and the search
    # goes on below it.
    while True:
        found = search.least(enough, noise / 2, noise, nearest=0.9)
        at_lower_end = found - noise / 2 <= found * PRECISION
        if not at_lower_end:
            return found
        noise = found


def affordable(target: float, delta: float, rounds: Callable[[int], NoisyRounds], most: int) -> int:
    """How many rounds cost at most an epsilon, up to ``most``.

    A search of more than some seconds is logged.

    Args:
        target: the epsilon.
        delta: the probability that the bound does not hold.
        rounds: from a count to that many rounds.
        most: the number that is planned.

    Raises:
        MissingExtra: dp-accounting is not installed.
    """
    search = Search(f"privacy: finding how many rounds cost at most epsilon = {target:g}")
    return search.most(lambda count: costs_at_most(target, delta, rounds(count)), most)


@cache
def _pld_epsilon(rounds: NoisyRounds, delta: float, step: float) -> float:
    """The epsilon of rounds by a distribution of losses in steps; it is never too low."""
    accountant = partial(
        _library("dp_accounting.pld").PLDAccountant, value_discretization_interval=step
    )
    return _spent(accountant, rounds, delta)


def _spent(accountant: Callable[..., Any], rounds: NoisyRounds, delta: float) -> float:
    relation = _library("dp_accounting").NeighboringRelation.ADD_OR_REMOVE_ONE
    return float(
        accountant(neighboring_relation=relation).compose(rounds.event()).get_epsilon(delta)
    )


@cache
def _library(name: str) -> Any:
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
