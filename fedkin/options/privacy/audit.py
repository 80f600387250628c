"""An audit of the mechanism: a lower bound of epsilon from one simulated run with canaries.

m canaries are clients whose updates are random directions; each is in or out by a fair coin. In
each round every canary that is in takes part with the run's sampling probability, independently of
the others, without a cap on the cohort. The run's own functions clip the updates and add the noise,
with a fixed clip. Then whoever sees the sums guesses: the r / 2 canaries with the highest products
with the sums are in, the r / 2 with the lowest are out. So many right guesses are unlikely under a
small epsilon. Source: Steinke, Nasr and Jagielski, Privacy Auditing with One (1) Training Run,
NeurIPS 2023 (theorem 5.2).

Of a run with secret sums the canaries go through the clients' own clip and rounding, and only as
many others as the smallest sum has add their shares of the noise: the least noise that any sum has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from fedkin.options.privacy.mechanism import clipped, noisy_sums
from fedkin.options.privacy.randomness import Randomness, SeededRandomness
from fedkin.options.privacy.secret_noise import noise_share
from fedkin.options.privacy.settings import Mechanism
from fedkin.secret.quantization import EXTRA

LEVEL = 0.05
_DIMENSIONS = 7850  # of a canary's update: so many that random directions hardly overlap
_MOST = 30.0
_HALVINGS = 60
_LEAST = 1e-6


@dataclass(frozen=True)
class Audit:
    """What came of it.

    Attributes:
        claim: the epsilon that the accountant says of the sums of updates; scores, which the
            canaries have none of, are not in it.
        lower_bound: an epsilon below which the guesses would have been right less often, at 95%
            confidence.
        correct: right guesses.
        guesses: r.
        canaries: m.
        rounds: T.
    """

    claim: float
    lower_bound: float
    correct: int
    guesses: int
    canaries: int
    rounds: int

    @property
    def holds(self) -> bool:
        """Whether the claim is not contradicted."""
        return self.lower_bound <= self.claim


def p_value(epsilon: float, canaries: int, guesses: int, correct: int, delta: float) -> float:
    """The most likely that (epsilon, delta) allows so many right guesses or more: with q = e^eps /
    (1 + e^eps),

        P[Bin(r, q) >= v] + 2 m delta max over i = 1 .. v of (1 / i) P[v - i <= Bin(r, q) < v].

    Args:
        epsilon: to be tested.
        canaries: m.
        guesses: r.
        correct: v.
        delta: of the claim.
    """
    from scipy import stats

    q = 1 / (1 + math.exp(-epsilon))
    tail = float(stats.binom.sf(correct - 1, guesses, q))
    if not correct or not delta:
        return min(1.0, tail)
    below = np.cumsum(stats.binom.pmf(correct - np.arange(1, correct + 1), guesses, q))
    return min(1.0, tail + 2 * canaries * delta * float((below / np.arange(1, correct + 1)).max()))


def lower_bound(canaries: int, guesses: int, correct: int, delta: float) -> float:
    """The largest epsilon that the guesses contradict (p below 5%); 0 where they contradict none.

    Args:
        canaries: m.
        guesses: r.
        correct: v.
        delta: of the claim.
    """
    low = 0.0
    high = _MOST
    if p_value(low, canaries, guesses, correct, delta) >= LEVEL:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (
            (middle, high)
            if p_value(middle, canaries, guesses, correct, delta) < LEVEL
            else (low, middle)
        )
    return low


def audit(
    mechanism: Mechanism,
    rounds: int,
    randomness: Randomness,
    canaries: int = 1000,
    guesses: int = 100,
    noise_factor: float = 1.0,
    least: int | None = None,
) -> Audit:
    """Run canaries through the mechanism of a run, and guess.

    Args:
        mechanism: sampling, clip and noise.
        rounds: T.
        randomness: of everything.
        canaries: m.
        guesses: r, even.
        noise_factor: of the noise that is really added; below 1 it is a fault that the audit is to
            find.
        least: n_min of secret sums, to which clients add the noise; None: the server adds it.
    """
    directions = randomness.normal(canaries, _DIMENSIONS)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    present = randomness.uniform(canaries) < 0.5
    own = mechanism, rounds, randomness, directions, present, noise_factor
    scores = _scores(*own) if least is None else _secret_scores(*own, least)
    order = np.argsort(scores)
    correct = int(present[order[-(guesses // 2) :]].sum() + (~present[order[: guesses // 2]]).sum())
    bound = lower_bound(canaries, 2 * (guesses // 2), correct, mechanism.settings.delta)
    claim = mechanism.epsilon(rounds, score_sums=0)
    return Audit(claim, bound, correct, 2 * (guesses // 2), canaries, rounds)


def _scores(
    mechanism: Mechanism,
    rounds: int,
    randomness: Randomness,
    directions: Float[np.ndarray, "m p"],
    present: Bool[np.ndarray, "m"],
    noise_factor: float,
) -> Float[np.ndarray, "m"]:
    """How much the sums of a trusted server speak for each canary, those of a cold start too."""
    scores = np.zeros(len(directions))
    releases = [
        (1.0, 1.0, mechanism.start_noise)
    ] * mechanism.start_sums  # probability, clip, noise multiplier
    releases += [(mechanism.probability, mechanism.settings.clip, mechanism.update_noise)] * rounds
    for probability, longest, noise in releases:
        taking_part = present & (randomness.uniform(len(directions)) < probability)
        rows = clipped(
            2 * longest * directions[taking_part], longest
        )  # too long: the clip is a part of what is tested
        sums = noisy_sums(
            rows, np.zeros(len(rows), np.int64), 1, noise * noise_factor, longest, randomness
        )
        scores += (
            directions @ sums[0] / (longest * max(noise, _LEAST) ** 2)
        )  # as the less noisy say more
    return scores


def _secret_scores(
    mechanism: Mechanism,
    rounds: int,
    randomness: Randomness,
    directions: Float[np.ndarray, "m p"],
    present: Bool[np.ndarray, "m"],
    noise_factor: float,
    least: int,
) -> Float[np.ndarray, "m"]:
    """The same of secret sums. Who takes part is seen, and the claim is of a client that does in
    every round: so do the canaries."""
    seeded = randomness.rng if isinstance(randomness, SeededRandomness) else None
    rng = seeded or np.random.default_rng()
    numbers = directions.shape[1]
    grid, share = noise_share(
        mechanism, least, len(directions) + least - 1, numbers, seeded is not None
    )
    silent = replace(share, deviation=0.0)
    faulty = replace(share, deviation=share.deviation * noise_factor)
    updates = np.zeros(numbers + EXTRA, np.uint32)
    for direction in directions[present]:
        updates += grid.noisy(2 * share.clip * direction, grid.cap, silent, rng)
    seen = np.zeros(numbers)
    for _ in range(rounds):
        total = updates.copy()
        for _ in range(least - 1):
            total += grid.noisy(None, grid.cap, faulty, rng, numbers)
        seen += total.view(np.int32)[:-EXTRA] / grid.scale
    return directions @ seen
