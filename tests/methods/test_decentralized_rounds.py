"""The round of a peer, whatever its method: reachable peers, answers, forgotten peers and
messages."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.methods.decentralized import Neighbourhood, PeerMethod, PeerState, update_peers
from fedkin.simulation.fake_world import FakeWorld
from tests.methods.test_decentralized import STREAM, initial_state, trusting, world


class Asking(PeerMethod):
    """Asks all reachable peers, averages with its partners, and keeps the arguments of its
    calls."""

    neighbours = 9

    def __init__(self, similarity_of: str = "nothing", alpha: float = 0.0) -> None:
        self.similarity_of = similarity_of  # type: ignore[misc]
        self.alpha = alpha

    def select_queries(
        self, neighbourhood: Neighbourhood, reachable: np.ndarray, noise: np.ndarray
    ) -> np.ndarray:
        self.neighbourhood = neighbourhood
        self.reachable = reachable
        return reachable

    def match_neighbours(
        self, neighbourhood: Neighbourhood, answered: np.ndarray, similar: np.ndarray
    ) -> Neighbourhood:
        self.answered = answered
        return neighbourhood

    def select_partners(
        self, neighbourhood: Neighbourhood, reachable: np.ndarray, noise: np.ndarray
    ) -> np.ndarray:
        np.testing.assert_array_equal(reachable, self.reachable)
        return super().select_partners(neighbourhood, reachable, noise)


class Leaving(FakeWorld):
    """The last peer is not there."""

    def clients(self, round: int) -> np.ndarray:
        return np.arange(self.total_clients - 1)


def a_round(method: Asking) -> tuple[Leaving, PeerState, PeerState]:
    """Peer 5 of 0 to 5 has left, 4 is not in the cohort, 3 drops out, 2 sends NaN; everybody
    trusted everybody."""
    w = Leaving(
        np.eye(6, 3, dtype=np.float32),
        np.arange(1, 7),
        silent=frozenset({3}),
        garbage=frozenset({2}),
    )
    before = update_peers(
        method.init(w, STREAM),
        np.arange(6),
        Neighbourhood(*trusting(6)),
        np.ones((6, 3), np.float32),
    )
    return w, before, method.round(w, before, np.arange(4), STREAM)


def test_all_reachable_peers_are_queried_and_active_ones_reply() -> None:
    method = Asking()
    _, before, after = a_round(method)
    np.testing.assert_array_equal(method.reachable, [[0, 1, 1, 1, 1, 0], [1, 0, 1, 1, 1, 0]])
    np.testing.assert_array_equal(method.answered, [[0, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]])
    assert before.age.tolist() == [1] * 6 and after.age.tolist() == [2, 2, 1, 1, 1, 1]


def test_trust_loses_peers_that_left_and_keeps_inactive_peers() -> None:
    """Before anything is asked; peers that are inactive change nothing."""
    method = Asking()
    _, before, after = a_round(method)
    np.testing.assert_array_equal(
        method.neighbourhood.trust, [[0, 1, 1, 1, 1, 0], [1, 0, 1, 1, 1, 0]]
    )
    np.testing.assert_array_equal(after.trust[:2], method.neighbourhood.trust)
    for name in ("models", "trust", "votes"):
        np.testing.assert_array_equal(getattr(after, name)[2:], getattr(before, name)[2:])


ANSWERS = [("nothing", 0.5, 1), ("loss", 0.5, 1), ("gradient", 0.0, 1), ("gradient", 0.25, 2)]


@pytest.mark.parametrize(("similarity_of", "alpha", "vectors"), ANSWERS)
def test_an_answer_is_a_model_and_an_update_where_that_counts(
    similarity_of: str, alpha: float, vectors: int
) -> None:
    """0 and 1 get one answer each. No other answer is on the ledger or in messages, and no peer is
    asked twice."""
    method = Asking(similarity_of, alpha)
    w, before, after = a_round(method)
    assert method.needs_updates is (vectors == 2)
    np.testing.assert_array_equal(after.messages - before.messages, [[1, 1], [1, 1]] + [[0, 0]] * 4)
    np.testing.assert_array_equal(
        after.vectors - before.vectors, vectors * (after.messages - before.messages)
    )
    assert w.ledger.total() == (2 * vectors * 3 * 4,) * 2 and w.ledger.up.keys() == {"ask"}


def test_the_mean_is_of_those_that_answered() -> None:
    """0 and 1 have 1 and 2 examples; the others, whom they average with as well, say nothing."""
    w, before, after = a_round(Asking())
    solution = (before.models + w.target)[:2] / 2
    np.testing.assert_allclose(
        after.models[:2], np.tile((solution[0] + 2 * solution[1]) / 3, (2, 1)), rtol=1e-6
    )


def test_neighbourhoods_are_of_the_round_that_begins() -> None:
    state = update_peers(
        initial_state(),
        np.array([2]),
        Neighbourhood(np.eye(4, dtype=bool)[[0]], np.eye(4, dtype=int)[[0]], np.array([6])),
        np.zeros((1, 3), np.float32),
    )
    neighbourhood = state.neighbourhood(np.array([2, 0]))
    np.testing.assert_array_equal(neighbourhood.age, [7, 1])
    np.testing.assert_array_equal(neighbourhood.trust, [[1, 0, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(neighbourhood.votes, [[1, 0, 0, 0], [0, 0, 0, 0]])


def test_newcomers_need_no_place() -> None:
    state = initial_state()
    assert PeerMethod().place(world(), state, np.array([1, 2]), STREAM) is state
