"""Whole rounds of PANM, in worlds of twelve peers of three clusters, against a slow reference and
by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedkin.methods.panm import PANM, Matching, PANMLoss
from fedkin.scenarios.population import Population
from tests.methods.panm_reference import (
    CLIENTS,
    EVERYBODY,
    SAME,
    SEED,
    TRUE_CLUSTERS,
    UnresponsivePeers,
    compare_with_reference,
    draw,
    fake,
    run,
    simulated,
    stream,
)
from tests.methods.test_conformance import arrays, assert_same

METHOD = PANM(neighbours=2, candidates=4, stage_one=4, period=2)
GRADIENT = METHOD
LOSS = PANMLoss(neighbours=2, candidates=4, stage_one=4, period=2)
each_method = pytest.mark.parametrize("method", [GRADIENT, LOSS], ids=["gradient", "loss"])


@each_method
def test_everybody_is_there(method: Matching) -> None:
    """Four rounds of stage one, then matching in rounds 6, 8, 10, 12."""
    state = compare_with_reference(method, fake, 12)
    assert np.all(state.age == 12) and state.trust.any(axis=1).all()


@pytest.mark.parametrize("alpha", [0, 1, 0.2])
def test_other_weights_of_the_last_update(alpha: float) -> None:
    compare_with_reference(replace(METHOD, alpha=alpha), fake, 8)


@each_method
def test_peers_that_do_not_answer(method: Matching) -> None:
    """3 is silent, 7 sends NaN: no peer knows them. 5 trains and asks, and is never answered."""

    def make() -> UnresponsivePeers:
        w = fake(silent=frozenset({3}), garbage=frozenset({7}))
        w.mute = (5,)
        return w

    state = compare_with_reference(method, make, 10)
    assert not state.trust[:, [3, 5, 7]].any() and not state.messages[:, 1][[3, 5, 7]].any()
    assert (
        not state.trust[[3, 7]].any()
        and not state.messages[[3, 7]].any()
        and state.messages[5, 0] > 0
    )
    np.testing.assert_array_equal(state.models[[3, 7]], np.tile(state.start, (2, 1)))
    np.testing.assert_array_equal(state.age[[3, 5, 7]], [0, 10, 0])


@each_method
def test_a_peer_that_falls_silent_in_stage_two_stays_in_the_bags(method: Matching) -> None:
    """From round 9 on 4 gives no answer. That is no reason to forget it, but no peer can average
    with it."""

    def make() -> UnresponsivePeers:
        w = fake()
        w.mute = (4,)
        w.since = 9
        return w

    after = compare_with_reference(method, make, 10)
    before = run(method, make(), 8)[-1]
    trusted = before.trust[:, 4]
    assert trusted.sum() >= 2 and np.all(after.trust[trusted, 4])
    assert after.messages[4, 1] == before.messages[4, 1]


@each_method
def test_cohorts_are_the_active_peers(method: Matching) -> None:
    """Peers of a round are any seven or more; the others keep all they have, their age too, and do
    not answer."""

    def cohort(t: int) -> np.ndarray:
        rng = np.random.default_rng(t)
        return np.sort(rng.choice(CLIENTS, int(rng.integers(7, CLIENTS)), replace=False))

    assert len(set(compare_with_reference(method, fake, 14, cohort).age.tolist())) > 1


def from_round_7(t: int) -> np.ndarray:
    return EVERYBODY if t >= 7 else EVERYBODY[:-1]


@each_method
def test_a_newcomer_has_its_own_stage_one(method: Matching) -> None:
    """11 comes in round 7. It asks in its rounds 1 to 4, which are 7 to 10; the others in 8 and 10
    only."""
    compare_with_reference(method, lambda: fake(here=from_round_7), 14)
    states = run(method, fake(here=from_round_7), 14)
    assert not (states[6].messages[11].any() or states[6].vectors[11].any())
    assert not states[6].trust[:, 11].any() and not states[6].trust[11].any()
    np.testing.assert_array_equal(states[6].models[11], states[0].start)
    assert [s.age[11] for s in states[6:12]] == [0, 1, 2, 3, 4, 5]
    assert np.all([s.trust[11].sum() == 2 for s in states[7:11]])  # k in stage one
    changed = [t for t in range(7, 15) if np.any(states[t].trust[:11] != states[t - 1].trust[:11])]
    assert set(changed) <= {8, 10, 12, 14}
    assert not states[10].trust[11, ~SAME[11]].any()


@each_method
def test_a_newcomer_finds_its_kind_and_is_found(method: Matching) -> None:
    states = run(method, fake(noise=0.0, here=from_round_7), 40)
    np.testing.assert_array_equal(states[-1].trust[11], SAME[11])
    np.testing.assert_array_equal(states[-1].trust[:, 11], SAME[:, 11])


@each_method
def test_departures(method: Matching) -> None:
    """0, 1 and 2 leave before round 9, which is no round of matching: who is left forgets them, and
    they change no more."""

    def here(t: int) -> np.ndarray:
        return EVERYBODY if t < 9 else EVERYBODY[3:]

    compare_with_reference(method, lambda: fake(here=here), 12)
    states = run(method, fake(here=here), 12)
    for name in ("models", "trust", "age"):
        np.testing.assert_array_equal(getattr(states[12], name)[:3], getattr(states[8], name)[:3])
    np.testing.assert_array_equal(states[12].messages[:3], states[8].messages[:3])
    assert states[8].trust[3:, :3].any() and not states[9].trust[3:, :3].any()
    others = states[8].trust[3:, 3:]
    kept = others.any(axis=1)  # a peer that has lost all begins again
    np.testing.assert_array_equal(states[9].trust[3:, 3:][kept], others[kept])


BY_THEMSELVES = np.setdiff1d(EVERYBODY, [3, 6, 9])  # 0 without its cluster


@each_method
def test_where_the_whole_bag_has_left_it_begins_again(method: Matching) -> None:
    """In round 9, which is no round of matching, only 0 is left of the cluster 0, 3, 6, 9. It asks
    l = 4 others at once, keeps k = 2 of them, and forgets the peers that left."""

    def here(t: int) -> np.ndarray:
        return EVERYBODY if t < 9 else BY_THEMSELVES

    states = run(method, fake(here=here), 9)
    before, after = states[8:]
    assert set(np.flatnonzero(before.trust[0])) <= {3, 6, 9} and before.trust[0].any()
    assert after.trust[0].sum() == 2 and not after.trust[0, [0, 3, 6, 9]].any()
    assert after.messages[0, 0] == before.messages[0, 0] + 4
    compare_with_reference(method, lambda: fake(here=here), 14)


@each_method
@pytest.mark.parametrize("t", [9, 10])
def test_where_the_whole_bag_is_inactive_it_stays(method: Matching, t: int) -> None:
    """No peer of 0's cluster is active in round 9, or in round 10, where it asks the bag in vain,
    and l = 4 others. So it trains alone, and keeps its bag."""
    w = fake()
    states = run(method, w, t, lambda r: BY_THEMSELVES if r == t else EVERYBODY)
    before, after = states[t - 1 :]
    assert set(np.flatnonzero(before.trust[0])) <= {3, 6, 9} and before.trust[0].any()
    np.testing.assert_array_equal(after.trust[0], before.trust[0])
    np.testing.assert_allclose(
        after.models[0], before.models[0] + 0.3 * (w.target[0] - before.models[0]), rtol=1e-5
    )
    candidates = draw(
        stream(t).child("ask"), 0, set(range(1, 12)) - set(np.flatnonzero(before.trust[0])), 4
    )
    answers = len(candidates - {3, 6, 9}) if t == 10 else 0
    assert after.messages[0, 0] == before.messages[0, 0] + answers
    np.testing.assert_array_equal(after.messages[[3, 6, 9]], before.messages[[3, 6, 9]])
    compare_with_reference(method, fake, 14, lambda r: BY_THEMSELVES if r == t else EVERYBODY)


def test_alone() -> None:
    w = fake()
    state = run(METHOD, w, 7, lambda _: np.array([4]))[-1]
    np.testing.assert_allclose(
        state.models[4], w.target[4] + 0.7**7 * (state.start - w.target[4]), rtol=1e-4
    )
    assert not state.trust.any() and not state.messages.any() and w.ledger.total() == (0, 0)


# --- true clusters


@each_method
@pytest.mark.parametrize("lr", [0.3, 1.0])
def test_true_clusters_are_found(method: Matching, lr: float) -> None:
    """Where all of a cluster want the same, nearly all neighbours are of one's cluster by the end
    of stage one, and bags become exactly the cluster. With lr 1 models reach their targets in the
    first round. Losses are 0 from then on, and so are updates of peers that have averaged with
    their cluster only; there is no division by zero."""
    states = run(method, fake(noise=0.0, lr=lr), 36)
    assert (states[4].trust & SAME).sum() >= 0.9 * states[4].trust.sum() and np.all(
        states[4].trust.sum(axis=1) == 2
    )
    np.testing.assert_array_equal(states[36].trust, SAME)
    np.testing.assert_array_equal(states[36].assignment, TRUE_CLUSTERS)
    assert states[36].clusters == 3 and np.isfinite(states[36].models).all()


def test_without_any_direction_bags_stay() -> None:
    """alpha = 1 counts last updates only, and there are none any more: similarities are 0 all
    around."""
    w = fake(noise=0.0, lr=1.0)
    before = run(GRADIENT, w, 4)[-1]
    state = before
    last = replace(METHOD, alpha=1)
    for t in range(5, 11):
        state = last.round(w, state, EVERYBODY, stream(t))
    np.testing.assert_array_equal(state.trust, before.trust)


def test_rounds_are_repeated_to_the_bit_and_leave_states_alone() -> None:
    w = fake()
    state = run(METHOD, w, 5)[-1]
    for array in arrays(state).values():
        array.flags.writeable = False
    first, again = (METHOD.round(w, state, EVERYBODY, stream(6)) for _ in range(2))
    other = METHOD.round(w, state, EVERYBODY, replace(stream(6), seed=SEED + 1))
    assert_same(first, again)
    assert other.models.tobytes() != first.models.tobytes()


# --- messages and bytes


@pytest.mark.parametrize(
    ("method", "vectors"), [(GRADIENT, 2), (LOSS, 1), (replace(METHOD, alpha=0), 1)]
)
def test_the_cost_of_a_round(method: Matching, vectors: int) -> None:
    """Models of 5 numbers, 20 bytes. Round 1: l = 4 answers of model and update (without alpha, or
    by loss: model). Rounds 2 to 4: 4 and the k = 2 neighbours, whom one averages with and who are
    not asked twice. Round 5: k = 2 models."""
    w = fake()
    states = run(method, w, 5)
    totals = [s.vectors.sum(axis=0).tolist() for s in states]
    rounds = [vectors * 4] + 3 * [vectors * 6] + [2]
    assert totals == [[CLIENTS * n] * 2 for n in np.cumsum([0, *rounds])]
    assert w.ledger.total() == (totals[-1][0] * 20,) * 2
    np.testing.assert_array_equal(states[5].messages[:, 0], 4 + 3 * 6 + 2)
    assert states[5].messages[:, 1].sum() == CLIENTS * 24


# --- a simulated world


@each_method
def test_simulated_rounds(method: Matching) -> None:
    """Trained and judged together as one by one. Evaluation on the own samples costs nothing."""
    compare_with_reference(method, simulated, 8)


@each_method
def test_simulated_peers_drop_out_come_and_go(method: Matching) -> None:
    """Peers 10 and 11 come in round 3, 0 leaves in round 6, each is inactive through a fifth of its
    rounds."""
    population = Population(dropout=0.2, arrivals={3: 2}, departures={6: 1})
    state = compare_with_reference(method, lambda: simulated(population=population), 9)
    assert np.all(state.age[[10, 11]] <= 7) and state.age[0] <= 5 and state.age.max() > 7
    assert len(set(state.age[1:10].tolist())) > 1  # some was inactive, and are younger for it


def test_true_clusters_are_found_in_a_simulation() -> None:
    states = run(METHOD, simulated(), 20)
    trust = states[-1].trust
    assert (trust & SAME).sum() >= 0.9 * trust.sum() and (trust & SAME).sum() >= 0.9 * SAME.sum()
