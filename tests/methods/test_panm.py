"""PANM's steps of one peer, worked out by hand from FACTS 2.12 (stages, bags, eqs. 5 and 10) and as
sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.methods.decentralized import Neighbourhood
from fedkin.methods.panm import PANM, Matching, PANMLoss

SMALL = PANM(neighbours=2, candidates=3, stage_one=5, period=4)
# rounds: of stage one, its last, one of stage two, one with HNM.
EARLY = 1
LAST = 5
QUIET = 6
MATCHING = 8
both = pytest.mark.parametrize("kind", [PANM, PANMLoss])


def row(N: int, members: Sequence[int] = ()) -> np.ndarray:
    return np.isin(np.arange(N), members)[None]


def one_peer(N: int, trust: Any, age: int) -> Neighbourhood:
    return Neighbourhood(row(N, trust), np.zeros((1, N), np.int32), np.array([age]))


def others(N: int, away: Sequence[int] = (), me: int = 0) -> np.ndarray:
    """Who can be reached, active or not."""
    return ~row(N, [me, *away])


def noise(N: int, order: Sequence[int] = ()) -> np.ndarray:
    """Noise that is lowest for the peers in this order, and then for the rest by number."""
    ranking = [*order, *(j for j in range(N) if j not in order)]
    return np.argsort(ranking)[None] / N


def members(result: np.ndarray) -> list[int]:
    assert result.shape[0] == 1
    return np.flatnonzero(result[0]).tolist()


def queried(known: Neighbourhood, reachable: np.ndarray, noise: np.ndarray) -> list[int]:
    return members(SMALL.select_queries(known, reachable, noise))


def trusted(known: Neighbourhood, replied: np.ndarray, similarity: np.ndarray) -> list[int]:
    return members(SMALL.match_neighbours(known, replied, similarity).trust)


def partners(known: Neighbourhood, reachable: np.ndarray, noise: np.ndarray) -> list[int]:
    return members(SMALL.select_partners(known, reachable, noise))


# --- settings


def test_defaults_are_those_of_the_implementations() -> None:
    m = PANM()
    assert (m.neighbours, m.candidates, m.stage_one, m.period, m.alpha) == (3, 6, 100, 10, 0.5)
    assert (PANM.similarity_of, PANMLoss.similarity_of) == ("gradient", "loss")


@both
@pytest.mark.parametrize("name", ["neighbours", "candidates", "stage_one", "period"])
@pytest.mark.parametrize("value", [0, -1, True])
def test_counts_must_be_counts(kind: type[Matching], name: str, value: Any) -> None:
    with pytest.raises(MethodError, match=name):
        kind(**{name: value})


@pytest.mark.parametrize("value", [-0.1, 1.01, float("nan"), float("inf")])
def test_alpha_is_a_share(value: float) -> None:
    with pytest.raises(MethodError, match="alpha"):
        PANM(alpha=value)


def test_panm_by_loss_has_no_alpha() -> None:
    """There are no updates to weigh: the option would mean nothing."""
    names = ["neighbours", "candidates", "stage_one", "period"]
    assert [f.name for f in fields(PANMLoss)] == [f.name for f in fields(Matching)] == names
    assert [f.name for f in fields(PANM)] == [*names, "alpha", "part"]
    with pytest.raises(TypeError, match="alpha"):
        PANMLoss(alpha=0.5)  # type: ignore[call-arg]


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, 0.3])
def test_alpha_may_be_either_end(value: float) -> None:
    assert PANM(alpha=value).alpha == value


UPDATES = [
    (PANM(), True),
    (PANM(alpha=1), True),
    (PANM(alpha=0), False),
    (PANM(alpha=0.0), False),
    (PANMLoss(), False),
]


@pytest.mark.parametrize(("method", "needed"), UPDATES)
def test_updates_are_sent_where_they_count(method: Matching, needed: bool) -> None:
    assert method.needs_updates is needed


# --- queries


def test_at_first_it_asks_random_candidates() -> None:
    """l = 3 of the five others, by the lowest noise; never itself (0), though its noise is the
    lowest of all."""
    assert queried(one_peer(6, [], EARLY), others(6), noise(6, [0, 4, 2, 5])) == [2, 4, 5]


@pytest.mark.parametrize("age", [2, LAST])
def test_in_stage_one_it_asks_candidates_and_all_neighbours(age: int) -> None:
    """Candidates are no neighbours (4 has the lowest noise, but is one)."""
    assert queried(one_peer(9, [4, 7], age), others(9), noise(9, [4, 2, 6, 1, 7])) == [
        1,
        2,
        4,
        6,
        7,
    ]


def test_in_stage_one_neighbours_are_not_counted_against_l() -> None:
    """A bag of five (from a peer that begins again, say) is asked whole, with three candidates."""
    result = SMALL.select_queries(
        one_peer(10, [1, 2, 3, 4, 5], 2), others(10), noise(10, [9, 8, 7, 6])
    )
    assert members(result) == [1, 2, 3, 4, 5, 7, 8, 9]


def test_it_asks_only_reachable_peers() -> None:
    assert queried(one_peer(9, [4], 2), others(9, away=[2, 7, 8]), noise(9, [2, 8, 7, 5, 6])) == [
        1,
        4,
        5,
        6,
    ]


def test_with_few_others_it_asks_all() -> None:
    assert queried(one_peer(3, [], EARLY), others(3), noise(3)) == [1, 2]
    assert queried(one_peer(3, [2], MATCHING), others(3), noise(3)) == [1, 2]
    assert queried(one_peer(1, [], EARLY), others(1), noise(1)) == []
    assert queried(one_peer(4, [], EARLY), others(4, away=[1, 2, 3]), noise(4)) == []


@pytest.mark.parametrize("age", [6, 7, 9, 10, 11, 13])
def test_in_stage_two_it_asks_no_peer_between_matchings(age: int) -> None:
    assert queried(one_peer(9, [4, 7], age), others(9), noise(9)) == []


@pytest.mark.parametrize("age", [8, 12, 400])
def test_where_t_is_a_multiple_of_tau_it_asks_outside_and_inside_the_bag(age: int) -> None:
    """C = l = 3 of 1, 2, 3, 8; S = 3 of the bag's four."""
    result = SMALL.select_queries(
        one_peer(9, [4, 5, 6, 7], age), others(9), noise(9, [8, 3, 6, 5, 1, 7, 2, 4])
    )
    assert members(result) == [1, 3, 5, 6, 7, 8]


@pytest.mark.parametrize("age", [6, 7, 8, 9])
def test_with_a_period_of_1_it_matches_in_every_round_as_in_the_poster(age: int) -> None:
    """Poster, section 1.3: "in each round". The same peers as above, also between multiples."""
    result = replace(SMALL, period=1).select_queries(
        one_peer(9, [4, 5, 6, 7], age), others(9), noise(9, [8, 3, 6, 5, 1, 7, 2, 4])
    )
    assert members(result) == [1, 3, 5, 6, 7, 8]


def test_multiples_of_tau_in_stage_one_are_stage_one() -> None:
    """t = 4: all of a bag of four, and not a sample of it."""
    result = SMALL.select_queries(one_peer(9, [4, 5, 6, 7], 4), others(9), noise(9))
    assert members(result) == [1, 2, 3, 4, 5, 6, 7]


def test_a_small_bag_is_asked_whole() -> None:
    assert queried(one_peer(9, [7], MATCHING), others(9), noise(9, [3, 2, 6])) == [2, 3, 6, 7]


def test_candidates_are_of_those_there() -> None:
    """1 and 8 have not come yet, or have left; C = 2,
    3 are all outside the bag that can be asked."""
    result = SMALL.select_queries(
        one_peer(9, [4, 5, 6, 7], MATCHING), others(9, away=[1, 8]), noise(9, [8, 1, 4, 7, 5])
    )
    assert members(result) == [2, 3, 4, 5, 7]


@pytest.mark.parametrize("age", [QUIET, 7, MATCHING, 400])
def test_a_peer_that_trusts_no_other_begins_again(age: int) -> None:
    """In any round, not only in rounds of HNM: l = 3 candidates."""
    assert queried(one_peer(9, [], age), others(9, away=[4, 7]), noise(9, [4, 7, 8, 6, 5])) == [
        5,
        6,
        8,
    ]


def test_a_peer_that_trusts_another_does_not_begin_again() -> None:
    """Whether its bag is active it cannot know."""
    assert queried(one_peer(9, [4], QUIET), others(9), noise(9)) == []
    assert queried(one_peer(9, [4], MATCHING), others(9), noise(9, [8, 4, 6, 5])) == [4, 5, 6, 8]


# --- the new bag


@both
@pytest.mark.parametrize("age", [EARLY, 2, 4, LAST])
def test_stage_one_keeps_the_most_similar(kind: type[Matching], age: int) -> None:
    """Eq. 5: k = 2 of those that answered, candidates and old neighbours alike. 8 would be best and
    did not answer."""
    m = kind(neighbours=2, candidates=3, stage_one=5, period=4)
    similar = np.array([[1.0, 0.2, -0.3, 0.9, 0.4, 0.1, 0.5, 0.8, 0.99]])
    after = m.match_neighbours(one_peer(9, [5, 4], age), row(9, [1, 2, 4, 5, 6]), similar)
    assert members(after.trust) == [4, 6]


CHOICE = np.array([[1.0, 0.2, -0.3, 0.9, 0.4, 0.1, 0.5, 0.8, 0.99]])


@both
@pytest.mark.parametrize("age", [EARLY, 2, 4, LAST])
@pytest.mark.parametrize(
    ("before", "answered", "after"),
    [
        (
            (5, 2),
            (1, 3, 4, 6),
            (2, 5),
        ),  # both are asked and silent: no place is left, not even for 3
        (
            (5, 2),
            (1, 2, 4, 6),
            (5, 6),
        ),  # 5 is silent, and one place goes to the best of those that answered
        ((5, 2), (1, 2, 7), (5, 7)),
        ((5, 3), (1, 3, 4, 6), (3, 5)),  # which may be the other neighbour
        ((5,), (1, 4, 6), (5, 6)),
        ((5,), (), (5,)),
        ((5, 2), (), (2, 5)),
        ((), (1, 4, 6), (4, 6)),
        ((2, 5, 6), (3, 7), (2, 5, 6)),  # more than k: none goes, none comes
        ((2, 5, 6), (6, 7), (2, 5)),
    ],
)
def test_in_stage_one_silent_neighbours_keep_their_places(
    kind: type[Matching],
    age: int,
    before: tuple[int, ...],
    answered: tuple[int, ...],
    after: tuple[int, ...],
) -> None:
    """k = 2: the k - (silent ones) places left go to the best of those that answered."""
    m = kind(neighbours=2, candidates=3, stage_one=5, period=4)
    assert members(
        m.match_neighbours(one_peer(9, before, age), row(9, answered), CHOICE).trust
    ) == list(after)


def test_silent_candidates_are_not_chosen() -> None:
    """8 would be the most similar, were anything known of it."""
    assert trusted(one_peer(9, [], EARLY), row(9, [1, 2]), CHOICE) == [1, 2]


def test_fewer_answers_than_k() -> None:
    assert trusted(one_peer(5, [], EARLY), row(5, [3]), np.full((1, 5), -0.9)) == [3]


def test_negative_similarities_are_similarities() -> None:
    similar = np.array([[0.0, -0.9, -0.2, -0.5, 0.0]])
    assert trusted(one_peer(5, [], EARLY), row(5, [1, 2, 3]), similar) == [2, 3]


@pytest.mark.parametrize("age", [QUIET, MATCHING])
def test_in_stage_two_a_peer_without_answers_keeps_its_bag(age: int) -> None:
    assert trusted(one_peer(9, [4, 7], age), row(9), np.zeros((1, 9))) == [4, 7]


# S = {4, 5, 6} and C = {1, 2, 3}: the clusters are {2, 4, 5} and {1, 3, 6}, with 7 and 8 unasked
SPLIT = np.array([[9.0, 0.10, 0.79, 0.12, 0.80, 0.81, 0.11, 9.0, 9.0]])


@both
def test_matching(kind: type[Matching]) -> None:
    """Eq. 10, (B - S) and H: S = {.8, .81, .11}: mean .573, sigma .33; C = {.1, .79, .12}: .337,
    .32. At .11 z is 1.41 against .71, at .79 .66 against 1.41: 6 goes, 2 comes. 7, in the bag and
    not asked, stays; 8 was never there."""
    m = kind(neighbours=2, candidates=3, stage_one=5, period=4)
    after = m.match_neighbours(
        one_peer(9, [4, 5, 6, 7], MATCHING), row(9, [1, 2, 3, 4, 5, 6]), SPLIT
    )
    assert members(after.trust) == [2, 4, 5, 7]


def test_a_peer_that_does_not_answer_stays_in_the_bag() -> None:
    """6 is asked and silent: nothing is known of it."""
    assert trusted(one_peer(9, [4, 5, 6, 7], MATCHING), row(9, [1, 2, 3, 4, 5]), SPLIT) == [
        2,
        4,
        5,
        6,
        7,
    ]


def test_without_candidates_the_bag_stays() -> None:
    """Everybody is in the bag: there is nothing to compare with."""
    assert trusted(one_peer(9, [4, 5, 6], MATCHING), row(9, [4, 5, 6]), SPLIT) == [4, 5, 6]


def test_similarities_that_tell_nothing_leave_the_bag_alone() -> None:
    assert trusted(one_peer(9, [4, 5], MATCHING), row(9, [1, 2, 4, 5]), np.zeros((1, 9))) == [4, 5]


@pytest.mark.parametrize("age", [QUIET, MATCHING])
def test_beginning_again_is_eq_5(age: int) -> None:
    """No peer was trusted, candidates answered: the k = 2 most similar are the new bag."""
    assert trusted(one_peer(9, [], age), row(9, [1, 2, 3]), SPLIT) == [2, 3]


@both
@pytest.mark.parametrize("age", [MATCHING, 12, 400])
@pytest.mark.parametrize("bag", [[7], [6, 7], [4, 5, 6, 7]])
def test_where_no_peer_of_the_bag_answers_it_stays(
    kind: type[Matching], age: int, bag: list[int]
) -> None:
    """H is empty, and no candidate comes in: there is no peer to compare it with."""
    m = kind(neighbours=2, candidates=3, stage_one=5, period=4)
    assert members(m.match_neighbours(one_peer(9, bag, age), row(9, [1, 2, 3]), SPLIT).trust) == bag


def test_votes_and_age_are_not_touched() -> None:
    before = replace(one_peer(9, [4], MATCHING), votes=np.arange(9, dtype=np.int32)[None])
    after = SMALL.match_neighbours(before, row(9, [1, 4]), SPLIT)
    np.testing.assert_array_equal(after.votes, before.votes)
    np.testing.assert_array_equal(after.age, before.age)


# --- partners


@pytest.mark.parametrize("age", [EARLY, LAST, QUIET, MATCHING])
def test_it_averages_with_k_random_peers_of_the_bag(age: int) -> None:
    assert partners(one_peer(9, [2, 4, 5, 7], age), others(9), noise(9, [8, 7, 1, 4])) == [4, 7]


def test_a_small_bag_is_averaged_with_whole_and_the_absent_are_not() -> None:
    assert partners(one_peer(9, [3], QUIET), others(9), noise(9)) == [3]
    assert partners(one_peer(9, [3, 5, 8], QUIET), others(9, away=[3]), noise(9)) == [5, 8]
    assert partners(one_peer(9, [3], QUIET), others(9, away=[3]), noise(9)) == []
