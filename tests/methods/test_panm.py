"""PANM's steps of one peer, worked out by hand from FACTS 2.12 (stages, bags, eqs. 5 and 10) and as sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.errors import MethodError
from fedkin.methods.gossip import Gossip, Local
from fedkin.methods.oracle import Oracle
from fedkin.methods.panm import PANM, PANMLoss
from fedkin.methods.pens import PENS
from fedkin.peers import Ties

SMALL = PANM(neighbours=2, candidates=3, stage_one=5, period=4)
EARLY, LAST, QUIET, MATCHING = 1, 5, 6, 8  # rounds: of stage one, its last, one of stage two, one with HNM
both = pytest.mark.parametrize("kind", [PANM, PANMLoss])


def row(N: int, *members: int) -> np.ndarray:
    return np.isin(np.arange(N), members)[None]


def ties(N: int, trust: Any, age: int) -> Ties:
    return Ties(row(N, *trust), np.zeros((1, N), np.int32), np.array([age]))


def others(N: int, *away: int, me: int = 0) -> np.ndarray:
    return ~row(N, me, *away)


def noise(N: int, *order: int) -> np.ndarray:
    """Noise that is lowest for the peers in this order, and then for the rest by number."""
    ranking = [*order, *(j for j in range(N) if j not in order)]
    return np.argsort(ranking)[None] / N


def members(found: np.ndarray) -> list[int]:
    assert found.shape[0] == 1
    return np.flatnonzero(found[0]).tolist()


# --- settings


def test_defaults_are_those_of_the_implementations() -> None:
    m = PANM()
    assert (m.neighbours, m.candidates, m.stage_one, m.period, m.alpha) == (3, 6, 100, 10, 0.5)
    assert (PANM.judges, PANMLoss.judges) == ("gradient", "loss")


@both
@pytest.mark.parametrize("name", ["neighbours", "candidates", "stage_one", "period"])
@pytest.mark.parametrize("value", [0, -1, True])
def test_counts_must_be_counts(kind: type[PANM], name: str, value: Any) -> None:
    with pytest.raises(MethodError, match=name):
        kind(**{name: value})


@both
@pytest.mark.parametrize("value", [-0.1, 1.01, float("nan"), float("inf")])
def test_alpha_is_a_share(kind: type[PANM], value: float) -> None:
    with pytest.raises(MethodError, match="alpha"):
        kind(alpha=value)


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, 0.3])
def test_alpha_may_be_either_end(value: float) -> None:
    assert PANM(alpha=value).alpha == value


# --- whom a peer asks


def test_at_first_it_asks_random_candidates() -> None:
    """l = 3 of the five others, by the lowest noise; never itself (0), though its noise is the lowest of all."""
    assert members(SMALL.asks(ties(6, [], EARLY), others(6), noise(6, 0, 4, 2, 5))) == [2, 4, 5]


@pytest.mark.parametrize("age", [2, LAST])
def test_in_stage_one_it_asks_candidates_and_all_neighbours(age: int) -> None:
    """Candidates are no neighbours (4 has the lowest noise, but is one)."""
    assert members(SMALL.asks(ties(9, [4, 7], age), others(9), noise(9, 4, 2, 6, 1, 7))) == [1, 2, 4, 6, 7]


def test_in_stage_one_neighbours_are_not_counted_against_l() -> None:
    """A bag of five (from a peer that begins again, say) is asked whole, with three candidates."""
    found = SMALL.asks(ties(10, [1, 2, 3, 4, 5], 2), others(10), noise(10, 9, 8, 7, 6))
    assert members(found) == [1, 2, 3, 4, 5, 7, 8, 9]


def test_it_asks_only_those_who_are_there() -> None:
    assert members(SMALL.asks(ties(9, [4, 7], 2), others(9, 2, 7, 8), noise(9, 2, 8, 7, 5, 6))) == [1, 4, 5, 6]


def test_with_few_others_it_asks_all() -> None:
    assert members(SMALL.asks(ties(3, [], EARLY), others(3), noise(3))) == [1, 2]
    assert members(SMALL.asks(ties(3, [2], MATCHING), others(3), noise(3))) == [1, 2]
    assert members(SMALL.asks(ties(1, [], EARLY), others(1), noise(1))) == []
    assert members(SMALL.asks(ties(4, [1], EARLY), others(4, 1, 2, 3), noise(4))) == []


@pytest.mark.parametrize("age", [6, 7, 9, 10, 11, 13])
def test_in_stage_two_it_asks_nobody_between_matchings(age: int) -> None:
    assert members(SMALL.asks(ties(9, [4, 7], age), others(9), noise(9))) == []


@pytest.mark.parametrize("age", [8, 12, 400])
def test_where_t_is_a_multiple_of_tau_it_asks_outside_and_inside_the_bag(age: int) -> None:
    """C = l = 3 of 1, 2, 3, 8; S = 3 of the bag's four."""
    found = SMALL.asks(ties(9, [4, 5, 6, 7], age), others(9), noise(9, 8, 3, 6, 5, 1, 7, 2, 4))
    assert members(found) == [1, 3, 5, 6, 7, 8]


def test_multiples_of_tau_in_stage_one_are_stage_one() -> None:
    """t = 4: all of a bag of four, and not a sample of it."""
    found = SMALL.asks(ties(9, [4, 5, 6, 7], 4), others(9), noise(9))
    assert members(found) == [1, 2, 3, 4, 5, 6, 7]


def test_a_small_bag_is_asked_whole() -> None:
    assert members(SMALL.asks(ties(9, [7], MATCHING), others(9), noise(9, 3, 2, 6))) == [2, 3, 6, 7]


def test_of_the_bag_only_those_there_are_sampled() -> None:
    found = SMALL.asks(ties(9, [4, 5, 6, 7], MATCHING), others(9, 4, 1), noise(9, 4, 1, 2, 3, 8))
    assert members(found) == [2, 3, 5, 6, 7, 8]


@pytest.mark.parametrize("age", [QUIET, MATCHING])
@pytest.mark.parametrize("bag", [[], [4, 7]])
def test_where_nobody_of_the_bag_is_there_it_begins_again(age: int, bag: list[int]) -> None:
    """In any round, not only those of HNM."""
    assert members(SMALL.asks(ties(9, bag, age), others(9, 4, 7), noise(9, 4, 7, 8, 6, 5))) == [5, 6, 8]


# --- whom it trusts then


@both
@pytest.mark.parametrize("age", [EARLY, 2, 4, LAST])
def test_stage_one_keeps_the_most_similar(kind: type[PANM], age: int) -> None:
    """Eq. 5: k = 2 of those that answered, candidates and old neighbours alike. 8 would be best and did not answer."""
    m = kind(neighbours=2, candidates=3, stage_one=5, period=4)
    similar = np.array([[1.0, 0.2, -0.3, 0.9, 0.4, 0.1, 0.5, 0.8, 0.99]])
    after = m.matched(ties(9, [5, 4], age), row(9, 1, 2, 4, 5, 6), similar)
    assert members(after.trust) == [4, 6]


def test_fewer_answers_than_k() -> None:
    assert members(SMALL.matched(ties(5, [], EARLY), row(5, 3), np.full((1, 5), -0.9)).trust) == [3]


def test_negative_similarities_are_similarities() -> None:
    similar = np.array([[0.0, -0.9, -0.2, -0.5, 0.0]])
    assert members(SMALL.matched(ties(5, [], EARLY), row(5, 1, 2, 3), similar).trust) == [2, 3]


@pytest.mark.parametrize("age", [QUIET, MATCHING])
def test_in_stage_two_a_peer_without_answers_keeps_its_bag(age: int) -> None:
    assert members(SMALL.matched(ties(9, [4, 7], age), row(9), np.zeros((1, 9))).trust) == [4, 7]


# S = {4, 5, 6} and C = {1, 2, 3}: the kinds are {2, 4, 5} and {1, 3, 6}, with 7 and 8 unasked
SPLIT = np.array([[9.0, 0.10, 0.79, 0.12, 0.80, 0.81, 0.11, 9.0, 9.0]])


@both
def test_matching(kind: type[PANM]) -> None:
    """Eq. 10, (B - S) and H: S = {.8, .81, .11}: mean .573, sigma .33; C = {.1, .79, .12}: .337, .32. At .11 z is 1.41
    against .71, at .79 .66 against 1.41: 6 goes, 2 comes. 7, in the bag and not asked, stays; 8 was never there."""
    m = kind(neighbours=2, candidates=3, stage_one=5, period=4)
    assert members(m.matched(ties(9, [4, 5, 6, 7], MATCHING), row(9, 1, 2, 3, 4, 5, 6), SPLIT).trust) == [2, 4, 5, 7]


def test_who_does_not_answer_stays_in_the_bag() -> None:
    """6 is asked and silent: nothing is known of it."""
    assert members(SMALL.matched(ties(9, [4, 5, 6, 7], MATCHING), row(9, 1, 2, 3, 4, 5), SPLIT).trust) == [
        2,
        4,
        5,
        6,
        7,
    ]


def test_without_candidates_the_bag_stays() -> None:
    """Everybody is in the bag: there is nothing to compare with."""
    assert members(SMALL.matched(ties(9, [4, 5, 6], MATCHING), row(9, 4, 5, 6), SPLIT).trust) == [4, 5, 6]


def test_similarities_that_tell_nothing_leave_the_bag_alone() -> None:
    assert members(SMALL.matched(ties(9, [4, 5], MATCHING), row(9, 1, 2, 4, 5), np.zeros((1, 9))).trust) == [4, 5]


@pytest.mark.parametrize("bag", [[], [6, 7]])
@pytest.mark.parametrize("age", [QUIET, MATCHING])
def test_beginning_again_is_eq_5(bag: list[int], age: int) -> None:
    """Candidates answered, the bag did not: the k = 2 most similar are the new one."""
    assert members(SMALL.matched(ties(9, bag, age), row(9, 1, 2, 3), SPLIT).trust) == [2, 3]


def test_votes_and_age_are_not_touched() -> None:
    before = replace(ties(9, [4], MATCHING), votes=np.arange(9, dtype=np.int32)[None])
    after = SMALL.matched(before, row(9, 1, 4), SPLIT)
    np.testing.assert_array_equal(after.votes, before.votes)
    np.testing.assert_array_equal(after.age, before.age)


# --- with whom it averages


@pytest.mark.parametrize("age", [EARLY, LAST, QUIET, MATCHING])
def test_it_averages_with_k_random_peers_of_the_bag(age: int) -> None:
    assert members(SMALL.partners(ties(9, [2, 4, 5, 7], age), others(9), noise(9, 8, 7, 1, 4))) == [4, 7]


def test_a_small_bag_is_averaged_with_whole_and_the_absent_are_not() -> None:
    assert members(SMALL.partners(ties(9, [3], QUIET), others(9), noise(9))) == [3]
    assert members(SMALL.partners(ties(9, [3, 5, 8], QUIET), others(9, 3), noise(9))) == [5, 8]
    assert members(SMALL.partners(ties(9, [3], QUIET), others(9, 3), noise(9))) == []


# --- what holds of every peer method

METHODS = [SMALL, PANMLoss(2, 3, 5, 4), PENS(sampled=3, top=2, stage_one=5), Gossip(2), Oracle(2), Local()]
each_method = pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)


def some(seed: int, n: int = 6, N: int = 9) -> tuple[Ties, np.ndarray, np.ndarray, np.ndarray]:
    """Peers 0 .. n-1 in rounds of all stages: ties, who is there, noise, similarities."""
    rng = np.random.default_rng(seed)
    self = np.eye(n, N, dtype=bool)
    trust, there = (rng.random((2, n, N)) < [[[0.4]], [[0.7]]]) & ~self
    known = Ties(trust, (rng.integers(0, 4, (n, N)) * ~self).astype(np.int32), rng.integers(1, 14, n))
    return known, there, rng.random((n, N)), rng.normal(size=(n, N))


def only(known: Ties, i: int) -> Ties:
    return Ties(known.trust[i : i + 1], known.votes[i : i + 1], known.age[i : i + 1])


@each_method
@given(seed=st.integers(0, 10_000))
def test_each_peer_decides_for_itself(method: Any, seed: int) -> None:
    """A row alone, as a real peer calls it, is the row among others; and nothing is changed in place."""
    known, there, random, similar = some(seed)
    for array in (known.trust, known.votes, known.age, there, random, similar):
        array.flags.writeable = False
    asked = method.asks(known, there, random)
    answered = asked & (similar > -0.8)
    after = method.matched(known, answered, similar)
    chosen = method.partners(after, there, random)
    for i in range(len(there)):
        alone, own = only(known, i), slice(i, i + 1)
        np.testing.assert_array_equal(method.asks(alone, there[own], random[own]), asked[own])
        next_ = method.matched(alone, answered[own], similar[own])
        for name in ("trust", "votes", "age"):
            np.testing.assert_array_equal(getattr(next_, name), getattr(after, name)[own])
        np.testing.assert_array_equal(method.partners(next_, there[own], random[own]), chosen[own])


@each_method
@given(seed=st.integers(0, 10_000))
def test_nobody_deals_with_the_absent_or_with_itself(method: Any, seed: int) -> None:
    known, there, random, similar = some(seed)
    asked = method.asks(known, there, random)
    after = method.matched(known, asked & (similar > -0.8), np.where(asked, similar, np.nan))
    assert not (asked & ~there).any() and not (method.partners(after, there, random) & ~there).any()
    if not isinstance(method, PENS):  # whose neighbours come from votes that it was given
        assert not (after.trust & ~known.trust & ~asked).any()
    assert not (after.trust & np.eye(*there.shape, dtype=bool)).any()
