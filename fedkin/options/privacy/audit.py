"""Audit of the privacy mechanism (clip and noise): a lower bound of epsilon, from one simulated run
with canaries.

A canary is a client with a random direction as its update. There are m canaries, and a fair coin
decides for each whether it is in or out. In each round every canary that is in takes part with the
run's sampling probability, independently of the others and without a cap on the cohort. The run's
own functions clip the updates and add the noise, with a fixed clip. An observer of the sums then
guesses. A canary's score is the inner product of its direction with the sums: the r / 2 canaries
with the highest scores are guessed to be in, the r / 2 with the lowest to be out. Many correct
guesses are unlikely under a small epsilon. Source: Steinke, Nasr and Jagielski, Privacy Auditing
with One (1) Training Run, NeurIPS 2023 (theorem 5.2).

In a run with secret sums, clients clip and round their updates and add shares of the noise, so the
canaries' updates pass through these functions. The audit tests the sum with the least noise: the
smallest allowed sum, in which the fewest other clients add noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from fedkin.options.privacy.clip_and_noise import clipped, noisy_sums
from fedkin.options.privacy.randomness import Randomness, SeededRandomness
from fedkin.options.privacy.secret_noise import noise_share
from fedkin.options.privacy.settings import Mechanism
from fedkin.secret.quantization import EXTRA

LEVEL = 0.05
_DIMENSIONS = 7850  # size of a canary's update: random directions are nearly orthogonal
_MOST = 30.0  # initial epsilon of the search for the lower bound
_HALVINGS = 60
# A sum weighs 1 / noise^2 in the scores. A noise of 0 counts as this number there, so that the
# weight is finite.
_LEAST = 1e-6


@dataclass(frozen=True)
class Audit:
    """The result of a privacy audit, in which an observer guesses which canaries (test clients)
    were in the run.

    Attributes:
        claim: the accountant's epsilon for the sums of updates. Scores are excluded, since canaries
            have none.
        lower_bound: the largest epsilon that this many correct guesses contradict, at 95%
            confidence.
        correct: number of correct guesses.
        guesses: number of guesses r.
        canaries: number of canaries m.
        rounds: number of rounds T.
    """

    claim: float
    lower_bound: float
    correct: int
    guesses: int
    canaries: int
    rounds: int

    @property
    def holds(self) -> bool:
        """Whether the audit is consistent with the claim."""
        return self.lower_bound <= self.claim


def p_value(epsilon: float, canaries: int, guesses: int, correct: int, delta: float) -> float:
    """The largest probability with which a mechanism that is (epsilon, delta)-private lets an
    observer make at least this many correct guesses about which canaries (test clients) were in the
    run.

    With q = e^eps / (1 + e^eps) the probability is

        P[Bin(r, q) >= v] + 2 m delta max over i = 1 .. v of (1 / i) P[v - i <= Bin(r, q) < v].

    Args:
        epsilon: the tested epsilon.
        canaries: number of canaries m.
        guesses: number of guesses r.
        correct: number of correct guesses v.
        delta: delta of the claim.
    """
    from scipy import stats

    q = 1 / (1 + math.exp(-epsilon))
    tail = float(stats.binom.sf(correct - 1, guesses, q))
    if not correct or not delta:
        return min(1.0, tail)
    steps = np.arange(1, correct + 1)
    below = np.cumsum(stats.binom.pmf(correct - steps, guesses, q))
    worst = float((below / steps).max())
    return min(1.0, tail + 2 * canaries * delta * worst)


def lower_bound(canaries: int, guesses: int, correct: int, delta: float) -> float:
    """The largest epsilon that the correct guesses about canaries (test clients) contradict (p
    below 5%); 0 if the guesses contradict none.

    Args:
        canaries: number of canaries m.
        guesses: number of guesses r.
        correct: number of correct guesses v.
        delta: delta of the claim.
    """

    def contradicted(epsilon: float) -> bool:
        p = p_value(
            epsilon=epsilon,
            canaries=canaries,
            guesses=guesses,
            correct=correct,
            delta=delta,
        )
        return p < LEVEL

    low = 0.0
    high = _MOST
    if not contradicted(low):
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if contradicted(middle):
            low = middle
        else:
            high = middle
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
    """Run canaries (test clients) through the privacy mechanism of a run, and guess which of them
    were in it.

    Args:
        mechanism: sampling, clip and noise.
        rounds: number of rounds T.
        randomness: source of all random numbers.
        canaries: number of canaries m.
        guesses: number of guesses r, even.
        noise_factor: factor by which the noise really added differs from the noise that the
            mechanism declares. A factor below 1 simulates an error that the audit should detect.
        least: n_min of secret sums, in which clients add the noise; None if the server adds it.
    """
    directions = randomness.normal(canaries, _DIMENSIONS)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    present = randomness.uniform(canaries) < 0.5
    if least is None:
        scores = _scores(
            mechanism=mechanism,
            rounds=rounds,
            randomness=randomness,
            directions=directions,
            present=present,
            noise_factor=noise_factor,
        )
    else:
        scores = _secret_scores(
            mechanism=mechanism,
            rounds=rounds,
            randomness=randomness,
            directions=directions,
            present=present,
            noise_factor=noise_factor,
            least=least,
        )

    # Half of the guesses are "in", for the highest scores; the other half are "out".
    half = guesses // 2
    order = np.argsort(scores)
    correct = int(present[order[-half:]].sum() + (~present[order[:half]]).sum())
    return Audit(
        claim=mechanism.epsilon(rounds, score_sums=0),
        lower_bound=lower_bound(canaries, 2 * half, correct, mechanism.settings.delta),
        correct=correct,
        guesses=2 * half,
        canaries=canaries,
        rounds=rounds,
    )


class _Release(NamedTuple):
    """The settings of one noisy sum of a run, from a cold start (first clustering) or from a
    round."""

    probability: float  # probability with which a client takes part
    clip: float
    noise_multiplier: float


def _scores(
    mechanism: Mechanism,
    rounds: int,
    randomness: Randomness,
    directions: Float[np.ndarray, "m p"],
    present: Bool[np.ndarray, "m"],
    noise_factor: float,
) -> Float[np.ndarray, "m"]:
    """How strongly the noisy sums of a trusted server, including cold-start sums, suggest that each
    canary (test client) is in the run.

    A score is the inner product of the canary's direction with the sums, added over all sums. Each
    sum weighs 1 / (clip noise^2), as in a likelihood-ratio test.

    Args:
        mechanism: sampling, clip and declared noise.
        rounds: number of rounds T.
        randomness: source of all random numbers.
        directions: each canary's direction, of norm 1.
        present: which canaries are in the run.
        noise_factor: factor of the noise that is really added, as in ``audit``.
    """
    scores = np.zeros(len(directions))
    start_sum = _Release(probability=1.0, clip=1.0, noise_multiplier=mechanism.start_noise)
    round_sum = _Release(
        probability=mechanism.probability,
        clip=mechanism.settings.clip,
        noise_multiplier=mechanism.update_noise,
    )
    for release in [start_sum] * mechanism.start_sums + [round_sum] * rounds:
        clip = release.clip
        noise = release.noise_multiplier
        taking_part = present & (randomness.uniform(len(directions)) < release.probability)
        # Updates are twice as long as the clip, so that the audit tests clipping too.
        rows = clipped(2 * clip * directions[taking_part], clip)
        sums = noisy_sums(
            rows=rows,
            model_index=np.zeros(len(rows), np.int64),
            models=1,
            noise_multiplier=noise * noise_factor,
            clip=clip,
            randomness=randomness,
        )
        # The weight uses the declared noise and not ``noise_factor`` times that, since an observer
        # knows only the declaration.
        scores += directions @ sums[0] / (clip * max(noise, _LEAST) ** 2)
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
    """How strongly the secret sums suggest that each canary (test client) is in the run: inner
    products of the canaries' directions with the total over all rounds.

    With secret sums an observer sees who takes part, so the claim is about a client that takes part
    in every round. All canaries that are in the run take part in every round.

    Args:
        mechanism: clip and declared noise.
        rounds: number of rounds T.
        randomness: source of all random numbers.
        directions: each canary's direction, of norm 1.
        present: which canaries are in the run.
        noise_factor: factor of the noise that is really added, as in ``audit``.
        least: n_min, the smallest number of clients in a sum.
    """
    seeded = randomness.rng if isinstance(randomness, SeededRandomness) else None
    rng = seeded or np.random.default_rng()
    numbers = directions.shape[1]
    grid, share = noise_share(
        mechanism=mechanism,
        least=least,
        members=len(directions) + least - 1,
        numbers=numbers,
        seeded=seeded is not None,
    )
    # Canaries are clipped and rounded like clients, but add no noise.
    silent = replace(share, deviation=0.0)
    faulty = replace(share, deviation=share.deviation * noise_factor)

    # The sum of the canaries' updates is the same in every round, so it is computed once. Canaries
    # add no noise: the claim must hold with the noise of the other clients alone.
    updates = np.zeros(numbers + EXTRA, np.uint32)
    for direction in directions[present]:
        updates += grid.noisy(2 * share.clip * direction, grid.cap, silent, rng)

    # The other clients send no update, only their shares of the noise.
    seen = np.zeros(numbers)
    for _ in range(rounds):
        total = updates.copy()
        for _ in range(least - 1):
            total += grid.noisy(
                update=None,
                examples=grid.cap,
                share=faulty,
                rng=rng,
                numbers=numbers,
            )
        seen += total.view(np.int32)[:-EXTRA] / grid.scale
    return directions @ seen
