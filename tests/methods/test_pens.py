"""PENS' votes and stages, from FACTS 2.13, the published threshold, and whole rounds of quadratic
peers by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.decentralized import Neighbourhood, PeerState
from fedkin.methods.pens import PENS
from fedkin.simulation.fake_world import FakeWorld

SMALL = PENS(sampled=3, top=2, stage_one=4)


def row(N: int, *members: int) -> np.ndarray:
    return np.isin(np.arange(N), members)[None]


def one_peer(votes: Any, age: int, trust: tuple[int, ...] = ()) -> Neighbourhood:
    counts = np.asarray(votes, np.int32)[None]
    return Neighbourhood(row(counts.shape[1], *trust), counts, np.array([age]))


def members(result: np.ndarray) -> list[int]:
    assert result.shape[0] == 1
    return np.flatnonzero(result[0]).tolist()


def kept(method: PENS, votes: Any, age: int | None = None) -> list[int]:
    """The neighbours of stage two."""
    N = len(votes)
    after = method.match_neighbours(
        one_peer(votes, age or method.stage_one + 1), row(N), np.zeros((1, N))
    )
    np.testing.assert_array_equal(after.votes[0], votes)
    return members(after.trust)


# --- settings


def test_defaults_are_the_papers() -> None:
    m = PENS()
    assert (m.sampled, m.top, m.stage_one, PENS.similarity_of) == (10, 2, 200, "loss")


@pytest.mark.parametrize("name", ["sampled", "top", "stage_one"])
@pytest.mark.parametrize("value", [0, -3, True])
def test_counts_must_be_counts(name: str, value: Any) -> None:
    with pytest.raises(MethodError, match=name):
        PENS(**{name: value})


def test_no_more_can_be_best_than_are_tried() -> None:
    assert PENS(sampled=4, top=4).top == 4
    with pytest.raises(MethodError, match="top"):
        PENS(sampled=4, top=5)


# --- the threshold


def test_published_threshold(oracle: Callable[[str], dict[str, Any]]) -> None:
    case = oracle("pens")["example"]
    method = PENS(sampled=5, top=case["top_m"], stage_one=case["rounds"])
    assert len(case["n_selected"]) == case["N"]
    assert kept(method, case["n_selected"]) == case["kept"]


@pytest.mark.parametrize(
    ("N", "top", "rounds", "exact"),
    [(10, 3, 20, 6), (49, 1, 49, 1), (98, 2, 49, 1), (93, 3, 31, 1), (25, 7, 25, 7)],
)
def test_as_many_votes_as_by_chance_are_not_enough(
    N: int, top: int, rounds: int, exact: int
) -> None:
    """More than n_t / N times the rounds. In floats 1 / 49 * 49 is less than 1."""
    votes = np.zeros(N, int)
    votes[[1, 2, 3]] = exact - 1, exact, exact + 1
    assert top * rounds == exact * N
    assert kept(PENS(sampled=10, top=top, stage_one=rounds), votes) == [3]


def test_no_neighbour_may_be_left() -> None:
    assert kept(PENS(sampled=3, top=1, stage_one=10), [0, 1, 2, 2, 1]) == []


def test_chosen_neighbours_stay() -> None:
    """The vote threshold uses the rounds of stage one, however many have passed since."""
    method = PENS(sampled=3, top=2, stage_one=10)
    for age in (11, 12, 500):
        assert kept(method, [0, 3, 5, 6, 4], age) == [2, 3]


# --- a peer's round


@pytest.mark.parametrize("age", [1, 4])
def test_in_stage_one_it_tries_random_peers(age: int) -> None:
    noise = np.array([[0.0, 0.5, 0.1, 0.3, 0.4, 0.2]])  # 2, 5, 3, 4, 1; 5 is away
    reachable = ~row(6, 0, 5)
    assert members(SMALL.select_queries(one_peer([0] * 6, age), reachable, noise)) == [2, 3, 4]
    assert members(SMALL.select_queries(one_peer([0] * 6, age, (2, 3)), reachable, noise)) == [
        2,
        3,
        4,
    ]


def test_in_stage_two_it_asks_no_peer_for_a_trial() -> None:
    assert (
        members(
            SMALL.select_queries(one_peer([0, 3, 3, 0], 5, (1, 2)), ~row(4, 0), np.zeros((1, 4)))
        )
        == []
    )


@pytest.mark.parametrize("age", [1, 4])
def test_a_vote_for_each_of_the_best_and_an_average_with_them(age: int) -> None:
    """Losses .5, 4, .1 and .2 of peers 1, 2, 3 and 4; 3 gave no answer. Similarities are one over
    the losses."""
    before = one_peer([0, 7, 1, 2, 0], age, (2,))
    after = SMALL.match_neighbours(
        before, row(5, 1, 2, 4), 1 / np.array([[1e9, 0.5, 4.0, 0.1, 0.2]])
    )
    np.testing.assert_array_equal(after.votes, [[0, 8, 1, 2, 1]])
    assert members(after.trust) == [1, 4]
    assert members(SMALL.select_partners(after, ~row(5, 0), np.zeros((1, 5)))) == [1, 4]


def test_fewer_answers_than_places() -> None:
    after = SMALL.match_neighbours(one_peer([0, 0, 0], 2, (1, 2)), row(3, 2), np.zeros((1, 3)))
    np.testing.assert_array_equal(after.votes, [[0, 0, 1]])
    assert members(after.trust) == [2]
    after = SMALL.match_neighbours(after, row(3), np.zeros((1, 3)))
    np.testing.assert_array_equal(after.votes, [[0, 0, 1]])
    assert members(after.trust) == []


def test_in_stage_two_it_averages_with_random_neighbours() -> None:
    noise = np.array([[0.0, 0.5, 0.1, 0.3, 0.4, 0.2]])
    known = one_peer([0] * 6, 9, (1, 2, 3, 4))
    assert members(SMALL.select_partners(known, ~row(6, 0), noise)) == [2, 3, 4]
    assert members(SMALL.select_partners(known, ~row(6, 0, 2), noise)) == [1, 3, 4]


# --- rounds in a world

# two clusters on a line, {0, 2, 4} around 0 and {1, 3, 5} around 10; the nearest of a cluster are
# each other's best
TARGET = np.array([[0.0, 0], [10, 1], [1, 0], [11, 1], [0, 1], [10, 0]], np.float32)
EXAMPLES = np.array([10, 20, 30, 40, 50, 60])
EVERYBODY = np.arange(6)


class Passing(FakeWorld):
    """Peers come and go."""

    here: Callable[[int], np.ndarray] = staticmethod(lambda round: EVERYBODY)

    def clients(self, round: int) -> np.ndarray:
        return self.here(round)


def world(here: Callable[[int], np.ndarray] = Passing.here, **options: Any) -> Passing:
    w = Passing(
        TARGET, EXAMPLES, LocalTraining(lr=0.5), start=lambda _: np.array([5.0, 0.5]), **options
    )
    w.here = here
    return w


def run(
    method: PENS, w: FakeWorld, rounds: int, cohort: Any = None, seed: int = 3
) -> list[PeerState]:
    """States before the first round and after each;
    ``cohort`` says who is active of those there."""
    states = [method.init(w, Stream(seed, 0, "method/init"))]
    for t in range(1, rounds + 1):
        active = w.clients(t) if cohort is None else np.asarray(cohort(t))
        states.append(method.round(w, states[-1], active, Stream(seed, t, "method").child("round")))
    return states


def test_first_round_by_hand() -> None:
    """Everybody tries everybody (5 of 5). From (5, .5) half the way: 0 is at (2.5, .25), 2 at (3,
    .25), 4 at (2.5, .75). On 0's data these are 2 at distance 3.01 and 4 at 2.61, 5 and more for
    the others."""
    after = run(PENS(sampled=5, top=2, stage_one=3), world(), 1)[-1]
    alike = (EVERYBODY[:, None] + EVERYBODY) % 2 == 0
    np.testing.assert_array_equal(after.trust, alike & ~np.eye(6, dtype=bool))
    np.testing.assert_array_equal(after.votes, after.trust)
    half = (TARGET + [5, 0.5]) / 2
    cluster_means = [
        np.average(half[own], axis=0, weights=EXAMPLES[own]) for own in ([0, 2, 4], [1, 3, 5])
    ]
    np.testing.assert_allclose(after.models, np.array(cluster_means)[EVERYBODY % 2], rtol=1e-6)
    np.testing.assert_array_equal(after.assignment, EVERYBODY % 2)


def test_messages_and_bytes() -> None:
    """Stage one: 3 trials of one model; those chosen are at hand. Stage two: the neighbours'
    models, up to 3."""
    w = world()
    states = run(PENS(sampled=3, top=1, stage_one=4), w, 6)
    for before, after in zip(states[:4], states[1:5], strict=True):
        assert np.all((after.messages - before.messages)[:, 0] == 3)
        assert np.all((after.votes - before.votes).sum(axis=1) == 1)
    for before, after in zip(states[4:], states[5:], strict=False):
        np.testing.assert_array_equal(
            (after.messages - before.messages)[:, 0], after.trust.sum(axis=1).clip(max=3)
        )
        np.testing.assert_array_equal(after.votes, states[4].votes)
        np.testing.assert_array_equal(after.trust, 6 * states[4].votes > 1 * 4)
    got, given = states[-1].messages.sum(axis=0)
    assert got == given and w.ledger.total() == (got * 2 * 4, got * 2 * 4)
    np.testing.assert_array_equal(states[-1].vectors, states[-1].messages)
    assert w.ledger.up.keys() == {"ask"}


def test_a_peer_that_comes_late_has_its_own_stage_one() -> None:
    """5 comes in round 4, when the others begin stage two: it tries others in rounds 4 to 6, they
    do not."""
    method = PENS(sampled=2, top=1, stage_one=3)
    states = run(method, world(lambda t: EVERYBODY if t >= 4 else EVERYBODY[:5]), 7)
    # It was not asked before it was there.
    np.testing.assert_array_equal(states[3].messages[:5, 0], 2 * 3)
    assert not states[3].votes[5].any() and not states[3].votes[:, 5].any()
    assert [s.votes[5].sum() for s in states[3:]] == [0, 1, 2, 3, 3]
    for s in states[4:]:
        np.testing.assert_array_equal(s.votes[:5], states[3].votes[:5])
    np.testing.assert_array_equal(states[-1].age, [7, 7, 7, 7, 7, 4])
    np.testing.assert_array_equal(states[-1].trust[5], 6 * states[-1].votes[5] > 1 * 3)


def test_a_silent_peer_is_inactive() -> None:
    states = run(PENS(sampled=5, top=2, stage_one=2), world(silent=frozenset({2})), 3)
    after = states[-1]
    assert not after.votes[:, 2].any() and not after.trust[:, 2].any() and after.age[2] == 0
    np.testing.assert_array_equal(after.models[2], after.start)
    np.testing.assert_array_equal(after.messages[2], 0)


def test_active_peers_reply_and_get_votes() -> None:
    """All five others are asked; 4 and 5 are not in the cohort. The best of the rest are 2, of its
    cluster, and 1 or 3. They get the votes, and queries to inactive peers do not count."""
    w = world()
    after = run(PENS(sampled=5, top=2, stage_one=3), w, 1, lambda t: EVERYBODY[:4])[-1]
    half = (TARGET + [5, 0.5]) / 2
    loss = np.sum((half - TARGET[0]) ** 2, axis=1)
    best = sorted([1, 2, 3], key=lambda j: loss[j])[:2]
    assert members(after.trust[:1]) == sorted(best) and 2 in best
    assert not after.votes[:, 4:].any() and not after.votes[4:].any()
    np.testing.assert_array_equal(after.messages, [[3, 3]] * 4 + [[0, 0]] * 2)
    assert w.ledger.total() == (12 * 2 * 4,) * 2


def test_few_trials_may_be_wasted() -> None:
    """n_s = 2 of the five others, and three of these are inactive: no other is tried in their
    place."""
    asked = []
    method = PENS(sampled=2, top=1, stage_one=9)
    states = run(method, world(), 8, lambda t: EVERYBODY[:3])
    for t, (before, after) in enumerate(zip(states, states[1:], strict=False), 1):
        noise = Stream(3, t, "method").child("round").child("ask").client(0).random(6)
        tried = np.argsort(noise[1:])[:2] + 1
        asked.append(int((tried < 3).sum()))
        assert (after.messages - before.messages)[0, 0] == asked[-1]
        assert (after.votes - before.votes)[0].sum() == min(1, asked[-1])
    assert 0 < sum(asked) < 16


def without_2_and_4() -> tuple[PeerState, PeerState]:
    """The first round of stage two, in which 0's cluster have left; the states before and after."""
    w = world()
    method = PENS(sampled=5, top=2, stage_one=2)
    before = run(method, w, 2)[-1]
    reachable = np.array([0, 1, 3, 5])
    assert members(before.trust[:1]) == [2, 4]
    w.here = lambda round: reachable
    return before, method.round(w, before, reachable, Stream(3, 3, "method").child("round"))


def test_a_peer_without_neighbours_trains_alone() -> None:
    """0 trusts 2 and 4, which have left."""
    before, after = without_2_and_4()
    np.testing.assert_allclose(after.models[0], (before.models[0] + TARGET[0]) / 2, rtol=1e-6)
    np.testing.assert_array_equal(after.messages[0], before.messages[0])
    for name in ("models", "trust", "votes", "age"):
        np.testing.assert_array_equal(getattr(after, name)[[2, 4]], getattr(before, name)[[2, 4]])


def test_a_peer_that_left_is_trusted_no_more() -> None:
    """However many votes it had."""
    _, after = without_2_and_4()
    assert not after.trust[np.ix_([0, 1, 3, 5], [2, 4])].any()


def test_inactive_neighbours_stay_neighbours() -> None:
    """The same two are not in the cohort: 0 trains alone in this round, and trusts them on."""
    w = world()
    method = PENS(sampled=5, top=2, stage_one=2)
    before = run(method, w, 2)[-1]
    after = method.round(w, before, np.array([0, 1, 3, 5]), Stream(3, 3, "method").child("round"))
    np.testing.assert_allclose(after.models[0], (before.models[0] + TARGET[0]) / 2, rtol=1e-6)
    np.testing.assert_array_equal(after.messages[0], before.messages[0])
    assert members(after.trust[:1]) == [2, 4]


def test_states_are_left_alone() -> None:
    w = world()
    before = run(SMALL, world(), 2)[-1]
    copy = replace(
        before,
        **{name: getattr(before, name).copy() for name in ("models", "trust", "votes", "age")},
    )
    SMALL.round(w, before, EVERYBODY, Stream(3, 3, "method").child("round"))
    for name in ("models", "trust", "votes", "age"):
        np.testing.assert_array_equal(getattr(before, name), getattr(copy, name))
