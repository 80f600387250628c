"""Sites that are changed while a run goes on, or put right; and what is usual for which kind of training."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest

from fedkin.core.world import LocalTraining
from fedkin.server.update_collector import NormFilter
from tests.server.memory_transport import MemoryPost
from tests.server.small_federations import ABOUT, fake_node, hall_of
from tests.server.test_invalid_replies import MODELS, ODD, STREAM, WHICH, federation, train


@pytest.mark.parametrize("changes", [{"layout": "another"}, {"version": "0.0.0"}, {"parameters": 5}, {"samples": "x"}])
def test_a_site_that_is_another_by_now_is_no_longer_believed(
    changes: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    post, world = federation()
    other = fake_node(f"site-{ODD}", [ODD], replace(ABOUT, **changes))
    post.stations[ODD].answers = other.answer
    with caplog.at_level(logging.WARNING, "fedkin"):
        got = train(world)
    assert np.flatnonzero(~got.arrived).tolist() == [ODD]
    assert f"no answer from site-{ODD}" in caplog.text and "here" in caplog.text and "there" in caplog.text


def test_a_site_with_another_number_of_clients_by_now_is_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    post, world = federation()
    post.stations[ODD].answers = fake_node(f"site-{ODD}", [ODD, ODD + 1]).answer
    with caplog.at_level(logging.WARNING, "fedkin"):
        got = train(world)
    assert np.flatnonzero(~got.arrived).tolist() == [ODD]
    assert "had 1 clients when it was met, and has 2 now" in caplog.text


def test_who_was_refused_is_asked_again_after_it_was_away() -> None:
    post = MemoryPost()
    post.join(1, fake_node("a"))
    post.join(2, fake_node("b", about=replace(ABOUT, version="0.0.0")))
    membership = hall_of(post, wait_for=1)
    membership.begin(0)
    membership.begin(1)
    assert 2 in membership.registry.refused
    membership.begin(2)
    assert len(post.stations[2].letters) == 1  # not asked every round
    post.leave(2)
    membership.begin(3)
    post.join(2, fake_node("b"))
    membership.begin(4)
    membership.begin(5)
    np.testing.assert_array_equal(membership.there(), [0, 1])


def test_who_was_refused_is_asked_again_after_a_while() -> None:
    post = MemoryPost()
    post.join(1, fake_node("a"))
    post.join(2, fake_node("b", about=replace(ABOUT, version="0.0.0")))
    membership = hall_of(post, wait_for=1)
    for round in range(3):
        membership.begin(round)
    post.stations[2].answers = fake_node("b").answer  # put right, without a moment away
    post.clock.sleep(130.0)
    for round in range(3, 6):
        membership.begin(round)
    np.testing.assert_array_equal(membership.there(), [0, 1])


def test_a_node_whose_process_dies_of_every_greeting_is_refused_in_the_end() -> None:
    post = MemoryPost()
    post.join(1, fake_node("a"))
    post.join(2, fake_node("b"), crashes=True)
    membership = hall_of(post, wait_for=1)
    for round in range(8):
        membership.begin(round)
    assert 2 in membership.registry.refused
    assert sum(node == 2 for _, node, verb, _ in post.pushed if verb == "hello") == 3


def test_kinds_of_training_have_lengths_of_their_own() -> None:
    sieve = NormFilter(10)
    for _ in range(2):
        assert not sieve.of("fifty batches").absurd(np.array([1e-3])).any()
        assert not sieve.of("five epochs").absurd(np.array([1.0])).any()
    assert sieve.of("fifty batches").absurd(np.array([1.0])).all()


def test_of_two_at_the_beginning_the_longer_can_be_absurd() -> None:
    np.testing.assert_array_equal(NormFilter(100).absurd(np.array([1e30, 1.0])), [True, False])
    assert not NormFilter(100).absurd(np.array([3.0, 1.0])).any()


def test_what_is_usual_can_change_for_good() -> None:
    sieve = NormFilter(10)
    sieve.absurd(np.array([1.0]))
    assert sieve.absurd(np.array([100.0])).all()
    assert not sieve.absurd(np.array([100.0])).any()


def test_pretraining_is_another_kind_than_training() -> None:
    post, world = federation()
    train(world)
    for station in post.stations.values():
        station.twist = lambda letter, reply: reply
    few = np.array([0, 1])
    got = world.train(MODELS, few, WHICH[:2], work=LocalTraining(lr=0.5, steps=50), stream=STREAM)
    assert got.arrived.all() and len(world._sieve.usual) == 2
