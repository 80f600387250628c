"""The limit of a client's loss, and the evidence that its loss exceeds it."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.options.monitor.evidence import MOST, SHARES, Evidence

CLIENT = np.array([1])


def after(losses: list[float], lag: int = 25, margin: float = 0.03) -> Evidence:
    """Evidence after observations of client 1 of 3."""
    evidence = Evidence.none(3)
    for loss in losses:
        evidence = evidence.observed(CLIENT, np.array([loss]), size=2, margin=margin, lag=lag)
    return evidence


def test_the_limit_is_level_margin_and_twice_the_noise() -> None:
    """The level is the mean of the last two, 0.15. The steps are 0.1, 0.1 and 0.1, so the spread
    is 0.1 sqrt(pi) / 2."""
    limit = after([0.1, 0.2, 0.1, 0.2]).limits(CLIENT, size=2, margin=0.03)
    assert limit == pytest.approx(0.15 + 0.03 + 2 * 0.1 * np.sqrt(np.pi) / 2)


def test_the_spread_of_independent_numbers_is_their_standard_deviation() -> None:
    rng = np.random.default_rng(0)
    limits = []
    for _ in range(300):
        losses = (0.3 + 0.05 * rng.standard_normal(20)).tolist()
        evidence = after(losses, margin=0.9)
        limits.append(float(evidence.limits(CLIENT, size=2, margin=0.9)[0]))
    # Level 0.3, margin 0.9, twice 0.05. No observation exceeds such a limit.
    assert np.mean(limits) == pytest.approx(1.3, abs=0.01)


def test_a_trend_is_no_noise() -> None:
    """Losses that fall by 0.01 have equal steps, and a spread of 0.01 sqrt(pi) / 2."""
    losses = np.arange(0.5, 0.3, -0.01).tolist()
    limit = after(losses).limits(CLIENT, size=2, margin=0.03)
    assert limit == pytest.approx(0.315 + 0.03 + 0.01 * np.sqrt(np.pi))


def test_there_is_no_limit_before_twice_the_observations_of_a_level() -> None:
    assert np.isnan(after([0.1, 0.1, 0.1]).limits(CLIENT, size=2, margin=0.03))
    assert not np.isnan(after([0.1, 0.1, 0.1, 0.1]).limits(CLIENT, size=2, margin=0.03))
    assert not after([0.1, 0.1, 0.1]).detectors.any()


def test_evidence_is_the_detector_of_each_bet() -> None:
    """Four observations make a limit; then two exceed it and one does not."""
    found = after([0.1, 0.1, 0.1, 0.1, 0.5, 0.6, 0.1])
    for number, share in enumerate(SHARES):
        bet = share / MOST
        up = 1 + bet * (1 - MOST)
        down = 1 - bet * MOST
        assert found.detectors[1, number] == pytest.approx(down * (1 + up * (1 + up)))
    assert found.values[1] == found.detectors[1].mean()
    assert not found.values[[0, 2]].any()


def test_what_exceeds_the_limit_does_not_move_it() -> None:
    quiet = after([0.1, 0.1, 0.1, 0.1])
    risen = after([0.1, 0.1, 0.1, 0.1, 0.5, 0.6])
    np.testing.assert_array_equal(quiet.observations, risen.observations)
    assert risen.spell.tolist() == [0, 2, 0]


def test_a_long_spell_becomes_the_new_level() -> None:
    risen = after([0.1, 0.1, 0.1, 0.1, *[0.5] * 4], lag=3)
    # The fourth observation above the limit is one more than the lag: the client starts again.
    assert np.isnan(risen.observations[1]).all()
    assert risen.values[1] == 0
    assert risen.spell[1] == 0
    # The next 2 x 2 observations are not tested, so no alarm is possible.
    again = after([0.1, 0.1, 0.1, 0.1, *[0.5] * 4, 0.5, 0.9, 0.9, 0.9], lag=3)
    assert again.values[1] == 0


def test_the_rate_of_false_alarms_is_kept_at_the_edge_of_the_null() -> None:
    """Observations exceed their limit with probability 0.1 exactly. The detector over T rounds
    exceeds T / alpha in at most a share alpha of the streams."""
    rng = np.random.default_rng(1)
    streams, rounds, alpha = 400, 200, 0.2
    evidence = Evidence.none(streams)
    everyone = np.arange(streams)
    for _ in range(4):
        evidence = evidence.observed(everyone, np.full(streams, 0.1), size=2, margin=0.03, lag=999)
    largest = np.zeros(streams)
    for _ in range(rounds):
        losses = np.where(rng.random(streams) < MOST, 0.9, 0.1)
        evidence = evidence.observed(everyone, losses, size=2, margin=0.03, lag=999)
        largest = np.maximum(largest, evidence.values)
    assert (largest >= rounds / alpha).mean() <= alpha
    assert (largest >= 5).mean() > alpha


def test_restarted_and_forgotten_clients() -> None:
    found = after([0.1, 0.1, 0.1, 0.1, 0.5])
    restarted = found.restarted(np.array([False, True, False]))
    assert not restarted.detectors.any()
    np.testing.assert_array_equal(restarted.observations, found.observations)
    forgotten = found.forgotten(CLIENT)
    assert np.isnan(forgotten.observations).all() and not forgotten.spell.any()
    # The evidence before is not changed.
    assert found.values[1] > 1 and found.spell[1] == 1
