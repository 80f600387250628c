"""The audit's statistics against published vectors, and that it finds noise that is too small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.options.privacy.audit import audit, lower_bound, p_value
from fedkin.options.privacy.client_dp import ClientDP
from fedkin.options.privacy.randomness import SeededRandomness

Oracle = Callable[[str], dict[str, Any]]


def test_bounds_are_those_of_the_oracle(oracle: Oracle) -> None:
    for case in oracle("trust")["audit"]:
        canaries = case["canaries"]
        guesses = case["guesses"]
        correct = case["correct"]
        delta = float(case["delta"])
        p = p_value(epsilon=1.0, canaries=canaries, guesses=guesses, correct=correct, delta=delta)
        assert p == pytest.approx(case["p_value_at_eps_1"], rel=1e-6, abs=1e-18)
        bound = lower_bound(canaries, guesses, correct, delta)
        assert bound == pytest.approx(case["eps_lower"], abs=1e-6)


def test_guesses_by_chance_contradict_nothing() -> None:
    assert lower_bound(1000, 100, 50, 1e-5) == 0 and lower_bound(1000, 100, 0, 1e-5) == 0


@pytest.mark.parametrize("seed", range(5))
def test_the_claim_holds_and_a_tenth_of_the_noise_is_found(seed: int) -> None:
    """Five times the clip as noise, ten rounds, everybody takes part: epsilon is 2.6."""
    mechanism = ClientDP(noise_multiplier=5.0, delta=1e-5, clip=0.3).mechanism(
        1000, 1000, 10, "uniform"
    )
    sound = audit(mechanism, 10, SeededRandomness(np.random.default_rng(seed)))
    assert (
        sound.claim == pytest.approx(2.59, abs=0.01)
        and 0.2 < sound.lower_bound <= sound.claim
        and sound.holds
    )
    faulty = audit(mechanism, 10, SeededRandomness(np.random.default_rng(seed)), noise_factor=0.1)
    assert faulty.lower_bound > faulty.claim and not faulty.holds


@pytest.mark.parametrize("seed", range(5))
def test_shares_of_noise_in_secret_sums_hold_and_a_tenth_of_them_is_found(seed: int) -> None:
    """The same mechanism where four clients add the noise, of at least five in a sum. Cohorts of a
    tenth cost as much as full rounds."""
    settings = ClientDP(noise_multiplier=5.0, delta=1e-5, clip=0.3)
    mechanism = settings.mechanism(1000, 100, 10, "uniform", seen_cohorts=True)
    sound = audit(mechanism, 10, SeededRandomness(np.random.default_rng(seed)), least=5)
    assert (
        sound.claim == pytest.approx(2.59, abs=0.01)
        and 0.2 < sound.lower_bound <= sound.claim
        and sound.holds
    )
    faulty = audit(
        mechanism, 10, SeededRandomness(np.random.default_rng(seed)), noise_factor=0.1, least=5
    )
    assert faulty.lower_bound > faulty.claim and not faulty.holds


def test_the_claim_covers_the_steps_of_the_canaries() -> None:
    """Their sums of updates, and no sum of scores."""
    scored = ClientDP(noise_multiplier=5.0, delta=1e-5, clip=0.3, scores=1.0).mechanism(
        1000, 1000, 10, "uniform"
    )
    assert audit(scored, 10, SeededRandomness(np.random.default_rng(0))).claim == pytest.approx(
        2.59, abs=0.01
    )
    assert scored.epsilon(10) > 4


def test_a_cold_start_is_a_part_of_it() -> None:
    """Three sums of all clients and seven full rounds, with equal noise, give away as much as ten
    rounds."""
    settings = ClientDP(noise_multiplier=5.0, start_noise=5.0, delta=1e-5, clip=0.3)
    mechanism = settings.mechanism(
        clients=1000, cohort=1000, rounds=7, selection="uniform", start_sums=3
    )
    sound = audit(mechanism, 7, SeededRandomness(np.random.default_rng(0)))
    assert sound.claim == pytest.approx(2.59, abs=0.01) and 0.2 < sound.lower_bound <= sound.claim
    assert not audit(
        mechanism, 7, SeededRandomness(np.random.default_rng(0)), noise_factor=0.1
    ).holds
