"""FlexCFL's rounds: migration and its effect on clusters. Expectations are worked out from
Algorithm 2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.method import UNASSIGNED
from fedkin.core.training import LocalTraining
from fedkin.methods.flexcfl import FlexCFL
from tests.methods.flexcfl_clients import (
    COUNTS,
    ONE,
    ROUND,
    STREAM,
    TRUE_CLUSTERS,
    UPDATE,
    RecordingWorld,
    given,
    swap,
    world,
)

# --- migration (Algorithm 2, l. 4-6)


def test_two_migrations_in_one_round_selected_or_not() -> None:
    """Clients 0 and 1 have exchanged their data; only client 1 is selected, and trains its new
    cluster's model."""
    w = world()
    state = given(TRUE_CLUSTERS)
    swap(w, 0, 1)
    after = FlexCFL().round(w, state, np.array([1, 2]), ROUND)
    np.testing.assert_array_equal(after.assignment, [1, 0, 2, 0, 1, 2])
    # cluster 0 from (2,1,1) half way to (3,1,1); cluster 1 untrained; cluster 2 from (1,1,2) half
    # way to (1,1,3)
    np.testing.assert_allclose(after.models, [[2.5, 1, 1], [1, 2, 1], [1, 1, 2.5]], rtol=1e-6)


def test_a_migrated_client_is_not_flagged_again() -> None:
    w = world()
    state = given(TRUE_CLUSTERS)
    swap(w, 0, 1)
    after = FlexCFL().round(w, state, np.array([2]), ROUND)
    np.testing.assert_array_equal(w.told, [True, True, False, False, False, False])
    FlexCFL().round(w, after, np.array([2]), ROUND.at(2))
    assert not w.told.any()


def test_one_that_gives_no_answer_keeps_its_cluster_and_is_flagged_again() -> None:
    w = world(silent=frozenset({0}))
    state = given(TRUE_CLUSTERS)
    swap(w, 0, 1)
    after = FlexCFL().round(w, state, np.array([2]), ROUND)
    np.testing.assert_array_equal(after.assignment, [0, 0, 2, 0, 1, 2])
    w.silent = frozenset()
    after = FlexCFL().round(w, after, np.array([2]), ROUND.at(2))
    np.testing.assert_array_equal(w.told, [True, False, False, False, False, False])
    np.testing.assert_array_equal(after.assignment, [1, 0, 2, 0, 1, 2])


@pytest.mark.parametrize(
    ("migration", "expected"), [("none", 0), ("label_blind", 0), ("label_aware", 1)]
)
def test_a_renaming_of_classes_is_seen_by_the_aware_only(migration: Any, expected: int) -> None:
    w = world()
    state = given(TRUE_CLUSTERS)
    assert w.counts is not None
    w.counts = w.counts[:, [2, 0, 1]]
    w.target = w.target[[1, 0, 2, 3, 4, 5]]
    after = FlexCFL(migration=migration).round(w, state, np.array([2]), ROUND)
    assert after.assignment[0] == expected


def test_the_threshold_is_the_methods() -> None:
    """Client 0 loses 3 of its 10 samples, and gets the target of client 1."""
    for threshold, cluster in ((0.3, 0), (0.29, 1)):
        w = world()
        assert w.counts is not None
        w.counts = w.counts - 3 * np.eye(6, 3, dtype=int) * (np.arange(6) == 0)[:, None]
        w.target = w.target[[1, *range(1, 6)]]
        after = FlexCFL(threshold=threshold).round(w, given(TRUE_CLUSTERS), np.array([2]), ROUND)
        assert after.assignment[0] == cluster


def test_cold_and_absent_clients_are_not_tested() -> None:
    class Small(RecordingWorld):
        def clients(self, round: int) -> Any:
            return np.arange(5)

    w = Small(
        ONE + 2 * UPDATE,
        COUNTS.sum(axis=1),
        LocalTraining(lr=0.5),
        start=lambda _: ONE,
        counts=COUNTS,
    )
    FlexCFL().round(w, given([0, UNASSIGNED, 2, 0, 1, 2]), np.array([2]), ROUND)
    assert w.tested == [0, 2, 3, 4]


def test_the_static_version_tests_no_client() -> None:
    w = world()
    swap(w, 0, 1)
    after = FlexCFL(migration="none").round(w, given(TRUE_CLUSTERS), np.arange(6), ROUND)
    np.testing.assert_array_equal(after.assignment, TRUE_CLUSTERS)
    assert not hasattr(w, "tested")


def test_a_migrated_client_is_sent_nothing_and_sends_no_update() -> None:
    w = world()
    swap(w, 0, 1)
    FlexCFL().round(w, given(TRUE_CLUSTERS), np.array([2]), ROUND)
    assert w.ledger.down.get("send", 0) == 0


# --- a round


def test_a_cluster_that_empties_keeps_its_model_and_is_left_alone() -> None:
    """Cluster 0 had only clients 0 and 3. They now have the target of client 1."""
    w = world()
    state = given(TRUE_CLUSTERS)
    assert w.counts is not None
    w.target = w.target[[1, 1, 2, 4, 4, 5]]
    w.counts = w.counts[[1, 1, 2, 4, 4, 5]]
    after = FlexCFL(eta_g=0.5).round(w, state, np.arange(6), ROUND)
    np.testing.assert_array_equal(after.assignment, [1, 1, 2, 1, 1, 2])
    np.testing.assert_array_equal(after.models[0], state.models[0])
    assert (after.models[1:] != state.models[1:]).any(axis=1).all()


def test_a_cluster_without_selected_members_keeps_its_model() -> None:
    state = given(TRUE_CLUSTERS)
    after = FlexCFL().round(world(), state, np.array([1, 4]), ROUND)
    np.testing.assert_array_equal(after.models[[0, 2]], state.models[[0, 2]])
    assert np.any(after.models[1] != state.models[1])


def test_a_cohort_of_one_and_a_cold_one_in_it() -> None:
    """Client 2 has no cluster and is left out; client 0 pulls cluster 0 half the way from (2,1,1)
    to (3,1,1)."""
    after = FlexCFL().round(world(), given([0, 1, UNASSIGNED, 0, 1, 2]), np.array([0, 2]), ROUND)
    alone = FlexCFL().round(world(), given([0, 1, UNASSIGNED, 0, 1, 2]), np.array([0]), ROUND)
    np.testing.assert_allclose(after.models, [[2.5, 1, 1], [1, 2, 1], [1, 1, 2]])
    np.testing.assert_array_equal(alone.models, after.models)
    assert after.assignment[2] == UNASSIGNED


@pytest.mark.parametrize(("mu", "end"), [(0.0, 2.75), (0.5, 2.625), (1.0, 2.5)])
def test_the_proximal_term_pulls_to_the_cluster_model(mu: float, end: float) -> None:
    """Client 0 wants 3 from 2, in two steps of lr 0.5: to 2.5, then by half of 0.5 - mu 0.5."""
    w = world()
    w.work = LocalTraining(epochs=2, lr=0.5)
    after = FlexCFL(mu=mu).round(w, given(TRUE_CLUSTERS), np.array([0]), ROUND)
    np.testing.assert_allclose(after.models[0], [end, 1, 1])


def test_the_proximal_term_is_of_rounds_only() -> None:
    """A cold start is ClientUpdate of Alg. 1, which has none. Stragglers count as in FedProx."""
    w = world()
    method = FlexCFL(mu=0.5)
    state = method.init(w, STREAM)
    state = method.place(w, replace(state, assignment=np.full(6, UNASSIGNED)), np.arange(6), ROUND)
    assert [work.mu for _, work in w.calls] == [0, 0]
    method.round(w, state, np.arange(6), ROUND)
    FlexCFL().round(w, state, np.arange(6), ROUND)
    proximal, plain = (work for _, work in w.calls[2:])
    assert (proximal.mu, proximal.partial) == (0.5, True)
    assert plain == w.work


def test_in_an_empty_round_data_may_still_move() -> None:
    w = world()
    state = given(TRUE_CLUSTERS)
    swap(w, 0, 1)
    after = FlexCFL().round(w, state, np.zeros(0, np.int64), ROUND)
    np.testing.assert_array_equal(after.models, state.models)
    np.testing.assert_array_equal(after.assignment, [1, 0, 2, 0, 1, 2])


def test_states_are_left_alone() -> None:
    w = world()
    before = given(TRUE_CLUSTERS)
    kept = replace(before, models=before.models.copy(), assignment=before.assignment.copy())
    swap(w, 0, 1)
    FlexCFL(eta_g=0.1).round(w, before, np.arange(6), ROUND)
    np.testing.assert_array_equal(before.models, kept.models)
    np.testing.assert_array_equal(before.assignment, kept.assignment)
