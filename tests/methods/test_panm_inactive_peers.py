"""Rounds of PANM with cohorts smaller than N: the others are inactive, and no peer forgets them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedkin.config.plan import Plan
from fedkin.core.randomness import Stream
from fedkin.methods.decentralized import PeerState
from fedkin.methods.panm import PANM, Matching, PANMLoss
from fedkin.run.cohort_selection import select_cohort
from tests.methods.panm_reference import CLIENTS, EVERYBODY, SEED, compare_with_reference, fake, run

METHODS = [kind(neighbours=2, candidates=4, stage_one=4, period=2) for kind in (PANM, PANMLoss)]
each_method = pytest.mark.parametrize("method", METHODS, ids=["gradient", "loss"])


@each_method
def test_inactive_neighbours_keep_their_places_by_hand(method: Matching) -> None:
    """k = 2, and l = 11 asks all. Round 1: 3 and 6, of 0's cluster, become its neighbours. Round 2:
    both are inactive, so no place is free, not even for 9, which is of its cluster, and 0 trains
    alone; nothing is forgotten. Round 3: 6 is inactive, and 3 and 9 are there for the other place.
    """
    wide = replace(method, candidates=11, stage_one=9)
    w = fake(noise=0.0)
    cohorts = [np.array(c) for c in ([0, 1, 3, 4, 6], [0, 1, 2, 9], [0, 1, 3, 9])]
    states = run(wide, w, 3, lambda t: cohorts[t - 1])
    assert [np.flatnonzero(s.trust[0]).tolist() for s in states[:3]] == [[], [3, 6], [3, 6]]
    assert (
        states[3].trust[0].sum() == 2
        and states[3].trust[0, 6]
        and states[3].trust[0, [3, 9]].sum() == 1
    )
    # 11 asked, these answer.
    assert [int(s.messages[0, 0]) for s in states] == [
        0,
        4,
        4 + 3,
        4 + 3 + 3,
    ]
    np.testing.assert_allclose(
        states[2].models[0], states[1].models[0] + 0.3 * (w.target[0] - states[1].models[0])
    )
    for t, cohort in enumerate(cohorts, 1):
        inactive = np.setdiff1d(EVERYBODY, cohort)
        np.testing.assert_array_equal(states[t].trust[inactive], states[t - 1].trust[inactive])
        np.testing.assert_array_equal(
            states[t].messages[inactive], states[t - 1].messages[inactive]
        )


def drawn(t: int) -> np.ndarray:
    """Seven of the twelve, as the runner draws them."""
    return select_cohort(
        EVERYBODY, CLIENTS, Plan(rounds=3, cohort=7, seed=SEED), Stream(SEED, t, "cohort")
    )


def slept(states: list[PeerState]) -> list[int]:
    """How many neighbours of active peers was inactive in each round; each of them is kept."""
    count = []
    for t, (before, after) in enumerate(zip(states, states[1:], strict=False), 1):
        active = np.isin(EVERYBODY, drawn(t))
        sleeping = before.trust & active[:, None] & ~active
        assert np.all(after.trust[sleeping])
        count.append(int(sleeping.sum()))
    return count


@each_method
@pytest.mark.parametrize("stage_one", [1, 9])
def test_three_rounds_of_small_cohorts_forget_no_inactive_peer(
    method: Matching, stage_one: int
) -> None:
    """In stage one, and where the second and third round match the bag."""
    some = replace(method, stage_one=stage_one, period=1)
    compare_with_reference(some, fake, 3, drawn)
    first, *later = slept(run(some, fake(), 3, drawn))
    assert first == 0 and min(later) > 0
