"""The baselines of peer methods: gossip with any peer, an oracle's cluster, no partner at all.
Quadratic
peers, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.methods.decentralized import PeerState
from fedkin.methods.fedavg import FedAvg
from fedkin.methods.gossip import Gossip, Local
from fedkin.methods.oracle import Oracle
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.peer_queries import Ask

TARGET = np.array([[8, 0], [0, 8], [10, 0], [0, 10], [12, 0], [0, 12], [14, 0]], np.float32)
EXAMPLES = np.array([10, 20, 30, 40, 50, 60, 70])
TRUTH = np.array([5, 2, 5, 2, 5, 2, 5])  # the names of clusters mean nothing
EVERYBODY = np.arange(7)
SELF = np.eye(7, dtype=bool)
SEED = 3


class RecordingWorld(FakeWorld):
    """Remembers who was asked, call by call; ``here`` can be reached."""

    here: np.ndarray = EVERYBODY

    def clients(self, round: int) -> np.ndarray:
        return self.here

    def run(self, task: Task, clients: Any, stream: Stream | None = None) -> Reply:
        if isinstance(task, Ask):
            self.asked = [*getattr(self, "asked", []), clients]
        return super().run(task, clients, stream)


def world(**options: Any) -> RecordingWorld:
    return RecordingWorld(
        TARGET,
        EXAMPLES,
        LocalTraining(lr=0.5),
        start=lambda _: np.zeros(2),
        true_clusters=TRUTH,
        **options,
    )


def stream(t: int) -> Stream:
    return Stream(SEED, t, "method").child("round")


def run(method: Any, w: FakeWorld, rounds: int, cohort: np.ndarray = EVERYBODY) -> PeerState:
    state = method.init(w, Stream(SEED, 0, "method/init"))
    for t in range(1, rounds + 1):
        state = method.round(w, state, cohort, stream(t))
    return state


def contacts(w: RecordingWorld) -> np.ndarray:
    """Which peer got an answer of which, round by round, where all ask as many: a call has the
    targets of one after another."""
    targets = np.stack([targets for targets in w.asked if len(targets)])
    return (targets.reshape(len(targets), 7, -1, 1) == EVERYBODY).any(axis=2)


# --- local


def test_local_is_training_alone() -> None:
    """Three times half the way: 7/8 of the target; nothing is sent."""
    w = world()
    state = run(Local(), w, 3)
    np.testing.assert_allclose(state.models, 7 / 8 * TARGET, rtol=1e-6)
    np.testing.assert_array_equal(state.assignment, EVERYBODY)
    np.testing.assert_array_equal(state.age, 3)
    assert not state.messages.any() and not state.vectors.any() and w.ledger.total() == (0, 0)


def test_a_peer_outside_the_cohort_or_without_a_reply_stays_as_it_is() -> None:
    state = run(
        Local(), world(silent=frozenset({1}), garbage=frozenset({4})), 2, np.array([0, 1, 2, 4])
    )
    np.testing.assert_allclose(state.models[[0, 2]], 3 / 4 * TARGET[[0, 2]])
    np.testing.assert_array_equal(state.models[[1, 3, 4, 5, 6]], 0)
    np.testing.assert_array_equal(state.age, [2, 0, 2, 0, 0, 0, 0])


# --- gossip


@pytest.mark.parametrize("kind", [Gossip, Oracle])
@pytest.mark.parametrize("value", [0, -1, True])
def test_neighbours_must_be_a_count(kind: Any, value: Any) -> None:
    with pytest.raises(MethodError, match="neighbours"):
        kind(neighbours=value)


def test_gossip_with_everybody_is_fedavg() -> None:
    """The mean by examples over all and itself, whoever one is."""
    state = run(Gossip(neighbours=6), world(), 3)
    plain = run(FedAvg(), world(), 3)
    np.testing.assert_allclose(state.models, np.tile(plain.models, (7, 1)), rtol=1e-5)


def test_more_neighbours_than_there_are() -> None:
    few = run(Gossip(neighbours=99), world(), 2)
    all_ = run(Gossip(neighbours=6), world(), 2)
    np.testing.assert_array_equal(few.models, all_.models)


def test_gossip_averages_with_the_peers_that_it_asked() -> None:
    """k = 2 others in each row; models are means by examples of solutions of this very round."""
    w = world()
    state = run(Gossip(neighbours=2), w, 1)
    [asked] = contacts(w)
    assert np.all(asked.sum(axis=1) == 2) and not (asked & SELF).any()
    for i in EVERYBODY:
        together = np.flatnonzero(asked[i] | SELF[i])
        expected = np.average(TARGET[together] / 2, axis=0, weights=EXAMPLES[together])
        np.testing.assert_allclose(state.models[i], expected, rtol=1e-6)


def test_gossip_meets_everybody_in_time() -> None:
    """Others in every round: of 120 rounds of 2 of 6, each pair met in a third (40,
    deviation 5)."""
    w = world()
    run(Gossip(neighbours=2), w, 120)
    met = contacts(w)
    assert len(met) == 120 and np.any(met[0] != met[1])
    assert np.all(met[:, ~SELF].sum(axis=0) > 20) and np.all(met[:, ~SELF].sum(axis=0) < 60)


def test_gossip_asks_for_models_only() -> None:
    """A model of 2 numbers from each of 2 others: 7 * 2 * 8 bytes a round, down and up."""
    w = world()
    state = run(Gossip(neighbours=2), w, 5)
    assert w.ledger.total() == (5 * 7 * 2 * 8,) * 2
    np.testing.assert_array_equal(state.messages[:, 0], 10)
    np.testing.assert_array_equal(state.messages[:, 1], contacts(w).sum(axis=(0, 1)))
    np.testing.assert_array_equal(state.vectors, state.messages)


def test_gossip_trusts_no_peer() -> None:
    w = world()
    for state in (run(Gossip(neighbours=2), w, rounds) for rounds in (0, 1, 5)):
        assert not state.trust.any() and not state.votes.any()
        np.testing.assert_array_equal(state.assignment, EVERYBODY)


def drawn(t: int, peer: int, pool: np.ndarray, count: int) -> np.ndarray:
    """The k random peers of a pool, by the peer's own stream."""
    noise = stream(t).child("partners").client(peer).random(7)
    return np.sort(pool[np.argsort(noise[pool])][:count])


def test_gossip_does_not_know_which_peers_are_inactive() -> None:
    """2 drops out, 4 sends NaN, 5 is not in the cohort: they are drawn as all others are (k = 3 of
    six), and give no answer. No other peer takes their place: the mean is over the others."""
    w = world(silent=frozenset({2}), garbage=frozenset({4}))
    state = run(Gossip(neighbours=3), w, 1, np.array([0, 1, 2, 3, 4, 6]))
    active = np.array([0, 1, 3, 6])
    got = np.zeros(7, int)
    given = np.zeros(7, int)
    for i in active.tolist():
        partners = np.intersect1d(drawn(1, i, np.setdiff1d(EVERYBODY, [i]), 3), active)
        got[i] = len(partners)
        given[partners] = given[partners] + 1
        together = np.append(partners, i)
        mean = np.average(TARGET[together] / 2, axis=0, weights=EXAMPLES[together])
        np.testing.assert_allclose(state.models[i], mean, rtol=1e-6)
    assert 0 < got.sum() < 3 * len(active)  # some questions were wasted, and others not
    np.testing.assert_array_equal(state.messages, np.stack([got, given], axis=1))
    np.testing.assert_array_equal(state.vectors, state.messages)
    assert w.ledger.total() == (got.sum() * 8,) * 2
    np.testing.assert_array_equal(state.models[[2, 4, 5]], 0)


def test_gossip_with_those_that_can_be_reached() -> None:
    """2 has left and 5 has not come yet: k = 4 are all the others, and no question is wasted."""
    w = world()
    there = np.array([0, 1, 3, 4, 6])
    w.here = there
    state = run(Gossip(neighbours=4), w, 1, there)
    mean = np.average(TARGET[there] / 2, axis=0, weights=EXAMPLES[there])
    np.testing.assert_allclose(state.models[there], np.tile(mean, (5, 1)), rtol=1e-6)
    np.testing.assert_array_equal(state.messages[there], 4)
    assert not state.messages[[2, 5]].any() and not state.models[[2, 5]].any()


def test_alone_in_the_world() -> None:
    w = FakeWorld(TARGET[:1], EXAMPLES[:1], LocalTraining(lr=0.5), start=lambda _: np.zeros(2))
    state = Gossip().init(w, Stream(SEED, 0, "method/init"))
    state = Gossip().round(w, state, np.array([0]), stream(1))
    np.testing.assert_allclose(state.models, TARGET[:1] / 2)


# --- oracle


def test_the_oracle_needs_the_truth() -> None:
    w = world()
    w.true_clusters = None
    with pytest.raises(MethodError, match="true cluster of every client"):
        Oracle().init(w, Stream(SEED, 0, "method/init"))


def test_the_oracle_averages_within_the_true_cluster() -> None:
    """With k = 3 everybody of one's cluster: the mean by examples of each cluster."""
    state = run(Oracle(neighbours=3), world(), 1)
    for kind in (5, 2):
        own = np.equal(TRUTH, kind)
        mean = np.average(TARGET[own] / 2, axis=0, weights=EXAMPLES[own])
        np.testing.assert_allclose(state.models[own], np.tile(mean, (int(own.sum()), 1)), rtol=1e-6)
    np.testing.assert_array_equal(state.assignment, [0, 1, 0, 1, 0, 1, 0])
    np.testing.assert_array_equal(state.trust, (TRUTH[:, None] == TRUTH) & ~SELF)


def test_the_oracle_draws_k_of_its_kind() -> None:
    w = world()
    state = run(Oracle(neighbours=1), w, 30)
    met = contacts(w)
    assert np.all(met.sum(axis=2) == 1) and not met[:, TRUTH[:, None] != TRUTH].any()
    same_cluster = (TRUTH[:, None] == TRUTH) & ~SELF
    assert np.all(met.any(axis=0) == same_cluster)  # each of them, some time
    assert w.ledger.total() == (30 * 7 * 8,) * 2
    np.testing.assert_array_equal(state.messages[:, 0], 30)


def test_the_oracle_knows_when_the_truth_moves() -> None:
    w = world()
    state = run(Oracle(neighbours=3), w, 1)
    w.true_clusters = np.array([0, 0, 0, 1, 1, 1, 1])
    after = Oracle(neighbours=3).round(w, state, EVERYBODY, stream(2))
    np.testing.assert_array_equal(after.assignment, [0, 0, 0, 1, 1, 1, 1])
    solution = (state.models + TARGET) / 2
    for own in ([0, 1, 2], [3, 4, 5, 6]):
        mean = np.average(solution[own], axis=0, weights=EXAMPLES[own])
        np.testing.assert_allclose(after.models[own], np.tile(mean, (len(own), 1)), rtol=1e-6)


def test_the_oracle_does_not_know_which_peers_are_inactive() -> None:
    """k = 2 of 0's cluster 2, 4 and 6: 2 is not in the cohort, and its place is not filled; in the
    next it is."""
    w = world()
    method = Oracle(neighbours=2)
    sizes = []
    for seed in range(6):
        state = method.init(w, Stream(seed, 0, "method/init"))
        s = Stream(seed, 1, "method").child("round")
        state = method.round(w, state, np.setdiff1d(EVERYBODY, [2]), s)
        noise = s.child("partners").client(0).random(7)
        partners = np.setdiff1d(np.array([2, 4, 6])[np.argsort(noise[[2, 4, 6]])][:2], [2])
        together = np.append(partners, 0)
        mean = np.average(TARGET[together] / 2, axis=0, weights=EXAMPLES[together])
        np.testing.assert_allclose(state.models[0], mean, rtol=1e-6)
        assert state.messages[0, 0] == len(partners) and state.messages[2].sum() == 0
        np.testing.assert_array_equal(state.trust[0], [0, 0, 1, 0, 1, 0, 1])
        sizes.append(len(partners))
    assert set(sizes) == {1, 2}


def test_the_oracle_forgets_peers_that_left() -> None:
    """2 is gone: k = 2 of 0's cluster are 4 and 6 in every round."""
    w = world()
    there = np.setdiff1d(EVERYBODY, [2])
    w.here = there
    state = run(Oracle(neighbours=2), w, 3, there)
    np.testing.assert_array_equal(state.messages[[0, 4, 6]], 6)
    assert not state.trust[there, 2].any() and state.trust[0, [4, 6]].all()


def test_an_only_child_trains_alone() -> None:
    w = world()
    w.true_clusters = np.array([0, 0, 0, 1, 0, 0, 0])
    state = run(Oracle(), w, 2)
    np.testing.assert_allclose(state.models[3], 3 / 4 * TARGET[3], rtol=1e-6)
    np.testing.assert_array_equal(state.messages[3], 0)
