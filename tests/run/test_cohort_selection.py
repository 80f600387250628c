"""The clients that are drawn for a round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.config.plan import SELECTIONS, Plan, Selection
from fedkin.core.randomness import Stream
from fedkin.run.cohort_selection import select_cohort


@pytest.mark.parametrize("selection", sorted(set(SELECTIONS) - {"poisson"}))
@given(
    ids=st.sets(st.integers(0, 50), min_size=1), size=st.integers(1, 60), seed=st.integers(0, 99)
)
def test_a_cohort_is_some_of_the_reachable_ascending(
    selection: Selection, ids: set[int], size: int, seed: int
) -> None:
    reachable = np.array(sorted(ids))
    for round in (1, 2, 3):
        cohort = select_cohort(
            reachable, 51, Plan(9, size, selection=selection), Stream(seed, round, "cohort")
        )
        assert len(cohort) == min(size, len(ids))
        assert set(cohort.tolist()) <= ids
        assert (np.diff(cohort) > 0).all()


def test_every_client_is_drawn_equally_often() -> None:
    # 3 of 8 in 4,000 rounds: 1,500 each, standard deviation below 31; the bound is six of them.
    drawn = [
        select_cohort(np.arange(8), 8, Plan(4000, 3), Stream(0, r, "cohort"))
        for r in range(1, 4001)
    ]
    times = np.bincount(np.concatenate(drawn), minlength=8)
    assert np.abs(times - 1500).max() < 6 * 31


@pytest.mark.parametrize(
    ("name", "clients", "cohort"), [("select_clients", 23, 5), ("select_clients_200_20", 200, 20)]
)
def test_round_robin_is_the_authors(
    oracle: Callable[[str], dict[str, Any]], name: str, clients: int, cohort: int
) -> None:
    """Their round r, from 0, is ours r + 1; once everybody was there they draw as Python's random
    does."""
    case = oracle("flexcfl")[name]
    turns = {
        int(r): ids for r, ids in case.get("rounds", case).items() if int(r) < clients / cohort
    }
    assert len(turns) >= 2
    plan = Plan(400, cohort, selection="round_robin")
    for r, ids in turns.items():
        np.testing.assert_array_equal(
            select_cohort(np.arange(clients), clients, plan, Stream(3, r + 1, "cohort")),
            sorted(ids),
        )
    after = Stream(3, -(-clients // cohort) + 1, "cohort")
    later = select_cohort(np.arange(clients), clients, plan, after)
    np.testing.assert_array_equal(
        later, select_cohort(np.arange(clients), clients, Plan(400, cohort), after)
    )


def test_all_present_clients_get_a_turn_when_others_come_or_go() -> None:
    """6 .. 9 come in round 4, in time for their turns; 0 and 1 leave in round 3, after theirs."""
    plan = Plan(9, 2, selection="round_robin")
    met = set()
    for r in range(1, 6):
        here = np.arange(0 if r < 3 else 2, 10 if r >= 4 else 6)
        cohort = select_cohort(here, 10, plan, Stream(0, r, "cohort"))
        assert len(cohort) == 2 and set(cohort.tolist()) <= set(here.tolist())
        met |= set(cohort.tolist())
    assert met == set(range(10))
    # 6 and 7 are not there yet.
    early = select_cohort(np.arange(6), 10, plan, Stream(0, 4, "cohort"))
    assert len(early) == 2


def test_seed_plus_round_is_the_cohort_of_fedproxs_and_fedsims_code() -> None:
    """Its rounds count from 0: ``np.random.seed(round + seed)``, then ``choice`` without
    replacement. A neighbouring seed has the cohort of the next round."""
    plan = Plan(10, 10, seed=3, selection="seed_plus_round")
    cohorts = [
        select_cohort(np.arange(30), 30, plan, Stream(3, round, "cohort")) for round in (1, 2)
    ]
    for round, cohort in enumerate(cohorts):
        expected = np.random.RandomState(round + 3).choice(range(30), 10, replace=False)
        assert cohort.tolist() == sorted(expected.tolist())
    next_seed = Plan(10, 10, seed=4, selection="seed_plus_round")
    first = select_cohort(np.arange(30), 30, next_seed, Stream(4, 1, "cohort"))
    assert first.tolist() == cohorts[1].tolist()
