"""Hierarchical clustering meets newcomers and clients unlike all others, and remarks on an eps
that separates nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.methods.hierarchical import Hierarchical
from tests.methods.last_layer_clients import NO_CLIENTS, ROUND, groups, started, world
from tests.methods.test_hierarchical import NEAR, POINTS, round_of

# --- newcomers


def test_a_newcomer_joins_the_cluster_of_the_nearest_client() -> None:
    """Client 5 arrives at 18: the mean of 3 and 4 is at 10.5, client 2 at 40; client 6 at 26 is
    nearer to client 5 than to anybody, and client 5 counts from then on."""
    w = world([*POINTS, [18, 0], [26, 0]], late={2: 1, 3: 1})
    method = Hierarchical(**NEAR)
    state = started(method, w)
    np.testing.assert_array_equal(state.assignment[5:], UNASSIGNED)
    state = method.place(w, state, np.array([5]), ROUND.at(2))
    state = method.place(w, state, np.array([6]), ROUND.at(3))
    assert groups(state) == [[0, 1], [2], [3, 4, 5, 6]]
    np.testing.assert_array_equal(state.layers[5:], [[18, 0], [26, 0]])
    np.testing.assert_array_equal(state.models, np.zeros((3, 2)))


def test_newcomers_train_from_the_common_start() -> None:
    """However far the clusters have come."""
    w = world([*POINTS, [12, 0]], late={1: 1})
    method = Hierarchical(**NEAR, pretraining=4)
    state = replace(started(method, w), models=np.full((3, 2), 77, np.float32))
    w.work = replace(w.work, lr=0.5)
    after = method.place(w, state, np.array([5]), ROUND)
    clients, work, part = w.calls[-1]
    assert (clients, work.epochs, part) == ([5], 4, w.spec.head_bias)
    np.testing.assert_allclose(after.layers[5], [12 * 15 / 16, 0], rtol=1e-6)


def test_equally_near_is_the_first() -> None:
    w = world([*POINTS, [5.5, 0]], late={1: 1})
    state = started(Hierarchical(**NEAR), w)
    after = Hierarchical(**NEAR).place(w, state, np.array([5]), ROUND)
    assert after.assignment[5] == after.assignment[1]


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_a_newcomer_that_gives_no_answer_stays_cold_and_is_asked_again(how: str) -> None:
    points = [*POINTS, [12, 0], [2, 0]]
    w = world(points, late={1: 2}, **{how: frozenset({5})})
    method = Hierarchical(**NEAR, suspicious=30.0)
    state = method.place(w, started(method, w), np.array([5, 6]), ROUND)
    assert state.assignment[5] == UNASSIGNED and state.assignment[6] == state.assignment[0]
    assert not state.suspects[5:].any() and np.isnan(state.layers[5]).all()
    state = method.place(world(points), state, np.array([5]), ROUND.at(2))
    assert state.assignment[5] == state.assignment[4]


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_of_all_newcomers_none_answers(how: str) -> None:
    w = world([*POINTS, [12, 0]], late={1: 1}, **{how: frozenset({5})})
    state = started(Hierarchical(**NEAR), w)
    after = Hierarchical(**NEAR).place(w, state, np.array([5]), ROUND)
    for name in ("models", "assignment", "layers", "suspects"):
        np.testing.assert_array_equal(getattr(after, name), getattr(state, name))


def test_no_newcomer_at_all() -> None:
    w = world(POINTS)
    state = started(Hierarchical(**NEAR), w)
    w.calls = []
    assert Hierarchical(**NEAR).place(w, state, NO_CLIENTS, ROUND) is state
    assert not w.calls


def test_a_client_without_a_cluster_is_left_out_of_a_round() -> None:
    w = world([*POINTS, [12, 0]], late={1: 1})
    state = started(Hierarchical(**NEAR), w)
    w.calls = []
    round_of(Hierarchical(**NEAR), w, state)
    assert [clients for clients, *_ in w.calls] == [[0, 1, 2, 3, 4]]


# --- suspicious clients


@pytest.mark.parametrize(
    "algorithm", [{"eps": 2.0}, {"algorithm": "kmeans", "clusters": 2}], ids=["dbscan", "kmeans"]
)
def test_one_that_is_far_from_everybody_is_excluded(algorithm: Any) -> None:
    """Client 2 is 29 from its nearest; the others are clustered as if it were not there."""
    w = world(POINTS)
    method = Hierarchical(**algorithm, suspicious=28.9)
    state = started(method, w)
    assert groups(state) == [[0, 1], [3, 4]] and state.clusters == 2
    np.testing.assert_array_equal(state.suspects, np.arange(5) == 2)
    np.testing.assert_array_equal(state.excluded(), np.arange(5) == 2)
    w.calls = []
    round_of(method, w, state)
    assert [clients for clients, *_ in w.calls] == [[0, 1, 3, 4]]


def test_farther_is_more_than_the_distance() -> None:
    state = started(Hierarchical(**NEAR, suspicious=29.0), world(POINTS))
    assert not state.suspects.any() and state.clusters == 3


def test_a_suspicious_newcomer_is_excluded_and_not_asked_again() -> None:
    w = world([*POINTS, [80, 0], [81, 0], [41, 0]], late={1: 3})
    method = Hierarchical(**NEAR, suspicious=30.0)
    state = method.place(w, started(method, w), np.array([5, 7]), ROUND)
    assert state.assignment[5] == UNASSIGNED and state.assignment[7] == state.assignment[2]
    assert np.flatnonzero(state.suspects).tolist() == [5]
    w.calls = []
    again = method.place(w, state, np.array([5]), ROUND.at(2))
    assert not w.calls and again.assignment[5] == UNASSIGNED
    again = method.place(w, state, np.array([5, 6]), ROUND.at(2))
    assert [clients for clients, *_ in w.calls] == [[6]]
    assert again.suspects[6], "a suspicious client is no client's neighbour"


def test_all_are_suspicious() -> None:
    with pytest.raises(
        MethodError, match=r"5 of 5 clients replied.*suspicious = 0\.5.*nearest two are 1 apart"
    ):
        started(Hierarchical(**NEAR, suspicious=0.5), world(POINTS))


# --- remarks


def remarks(points: Any = POINTS, **options: Any) -> tuple[str, ...]:
    method = Hierarchical(**options)
    return method.remarks(started(method, world(points)))


@pytest.mark.parametrize("eps", [1.0, 2.0, 28.9])
def test_an_eps_that_tells_clients_apart_needs_no_remark(eps: float) -> None:
    """Points at 0, 1, 10, 11 and 40: from 1 on some are near, from 29 on all are one."""
    assert remarks(eps=eps) == ()


@pytest.mark.parametrize(
    ("eps", "what"),
    [(0.99, "makes all clients noise"), (29.0, "puts all clients into one cluster")],
)
def test_another_eps_is_suggested_with_the_useful_range(eps: float, what: str) -> None:
    [messages] = remarks(eps=eps)
    assert f"eps = {eps:g} {what}" in messages and "from 1 to 29" in messages


def test_a_gap_is_suggested_on_its_logarithmic_middle() -> None:
    """Without client 2 two clusters are there from 1 up to 9."""
    [messages] = remarks([POINTS[i] for i in (0, 1, 3, 4)], eps=100.0)
    assert "from 1 to 9" in messages and "3 is suggested" in messages


def test_where_no_eps_helps_the_remark_says_so() -> None:
    [messages] = remarks([[1, 1]] * 4, eps=1.0)
    assert "all clients into one cluster" in messages and "no other" in messages


@pytest.mark.parametrize(
    "options", [{"algorithm": "optics"}, {"algorithm": "kmeans", "clusters": 2}], ids=str
)
def test_where_there_is_no_eps_there_is_no_remark(options: Any) -> None:
    assert remarks(**options) == ()
