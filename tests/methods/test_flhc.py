"""FL+HC on quadratic clients of two parameters, and its communication in a small simulated world.

One epoch of lr 0.5 goes half the way from the model to the client's target, so from a model of
zeros a client whose target is 2 D sends D. Client i has 10 (1 + i) examples.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.methods.flhc import FLHC, FLHCState
from fedkin.models import mclr
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld

KINDS = [[4, 0], [0, 4], [5, 0], [0, 5]]
NO_CLIENTS = np.zeros(0, np.int64)


def world(updates: Any = KINDS, **options: Any) -> FakeWorld:
    target = 2 * np.asarray(updates, np.float32)
    examples = 10 * (1 + np.arange(len(target)))
    return FakeWorld(
        target,
        examples,
        LocalTraining(lr=0.5),
        start=lambda _: np.zeros(target.shape[1]),
        **options,
    )


def rounds(
    method: FLHC, w: Any, *cohorts: Any, state: FLHCState | None = None, first: int = 1
) -> FLHCState:
    """One round per cohort, numbered from ``first``."""
    state = method.init(w, Stream(1, 0, "init")) if state is None else state
    for r, cohort in enumerate(cohorts, first):
        state = method.round(w, state, np.array(cohort, np.int64), Stream(1, r, "method"))
    return state


def clustered(w: FakeWorld, **options: Any) -> FLHCState:
    """The state after a first round that clusters everybody."""
    return rounds(FLHC(**options, cluster_round=1), w, NO_CLIENTS)


def labels(updates: Any, **options: Any) -> list[int]:
    return clustered(world(updates), **options).assignment.tolist()


# --- before, in and after the clustering round


def test_before_it_there_is_one_model_for_everybody() -> None:
    """Examples 10 and 20: the mean of (4, 0) and (0, 4) is (4/3, 8/3)."""
    state = rounds(FLHC(clusters=2, cluster_round=2), world(), [0, 1])
    np.testing.assert_allclose(state.models, [[4 / 3, 8 / 3]], rtol=1e-6)
    np.testing.assert_array_equal(state.assignment, np.zeros(4))


@pytest.mark.parametrize("cohort", [[], [3], [0, 1, 2, 3]])
def test_in_it_all_clients_are_clustered_with_any_cohort(cohort: list[int]) -> None:
    """Examples 10, 20, 30, 40: (10 * 4 + 30 * 5) / 40 and (20 * 4 + 40 * 5) / 60."""
    state = rounds(FLHC(clusters=2, cluster_round=1), world(), cohort)
    np.testing.assert_array_equal(state.assignment, [0, 1, 0, 1])
    np.testing.assert_allclose(state.models, [[4.75, 0], [0, 14 / 3]], rtol=1e-6)


def test_clusters_start_from_the_joint_model() -> None:
    """Joint model (2, 0) after client 0 alone; then updates are (3, 0), (-1, 4), (4, 0), (-1,
    5)."""
    state = rounds(FLHC(clusters=2, cluster_round=2), world(), [0], NO_CLIENTS, state=None)
    np.testing.assert_array_equal(state.assignment, [0, 1, 0, 1])
    joint = np.array([4, 0])
    half = (2 * np.array(KINDS) - joint) / 2
    expected = [joint + (half[0] + 3 * half[2]) / 4, joint + (half[1] + 2 * half[3]) / 3]
    np.testing.assert_allclose(state.models, expected, rtol=1e-6)


def test_after_it_every_cluster_is_on_its_own() -> None:
    w = world()
    before = clustered(w, clusters=2)
    state = rounds(FLHC(clusters=2, cluster_round=1), w, [0], state=before, first=2)
    np.testing.assert_allclose(
        state.models, [(before.models[0] + [8, 0]) / 2, before.models[1]], rtol=1e-6
    )


@pytest.mark.parametrize("again", [1, 2, 20])
def test_no_client_is_clustered_again(again: int) -> None:
    w = world()
    before = clustered(w, clusters=2)
    w.target = w.target[::-1]
    state = rounds(FLHC(clusters=2, cluster_round=1), w, [0, 1, 2, 3], state=before, first=again)
    np.testing.assert_array_equal(state.assignment, before.assignment)


def test_a_run_that_comes_late_is_clustered_in_its_next_round() -> None:
    state = rounds(FLHC(clusters=2, cluster_round=2), world(), NO_CLIENTS, first=7)
    np.testing.assert_array_equal(state.assignment, [0, 1, 0, 1])


# --- the distances that are clustered, and the height at which the tree is cut


def test_three_clusters_by_default() -> None:
    assert labels([[0, 0], [9, 0], [0, 9], [1, 0], [9, 1]]) == [0, 1, 2, 0, 1]


def test_a_distance_finds_the_number() -> None:
    """Single linkage on a line: gaps of 1, 3 and 2."""
    line = [[0, 0], [1, 0], [4, 0], [6, 0]]
    assert labels(line, distance=2.5, linkage="single") == [0, 0, 1, 1]
    assert labels(line, distance=1.5, linkage="single") == [0, 0, 1, 2]


def test_a_distance_may_make_one_cluster_or_as_many_as_clients() -> None:
    assert labels(KINDS, distance=1e6) == [0, 0, 0, 0]
    assert labels(KINDS, distance=1e-6) == [0, 1, 2, 3]


def test_l1_and_l2_may_disagree() -> None:
    """From (0, 0): to (3, 3) l1 6 and l2 4.2; to (-5, 0) both 5."""
    three = [[0, 0], [3, 3], [-5, 0]]
    assert labels(three, clusters=2, metric="l1", linkage="complete") == [0, 1, 0]
    assert labels(three, clusters=2, metric="l2", linkage="complete") == [0, 0, 1]


def test_cosine_looks_at_directions_only() -> None:
    some = [[1, 0], [9, 0], [0, 1], [0, 9]]
    assert labels(some, clusters=2, metric="cosine", linkage="average") == [0, 0, 1, 1]
    assert labels(some, clusters=3, metric="l2", linkage="average") == [0, 1, 0, 2]


def test_linkages_may_disagree() -> None:
    """Gaps of 20, 21, 22 and 23: complete linkage merges two and two, single linkage leaves the
    last alone."""
    line = [[0, 0], [20, 0], [41, 0], [63, 0], [86, 0]]
    assert labels(line, clusters=2, linkage="complete") == [0, 0, 1, 1, 1]
    assert labels(line, clusters=2, linkage="single") == [0, 0, 0, 0, 1]


# --- replies that do not come


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_a_client_without_an_update_is_cold_and_placed_later(how: str) -> None:
    w = world(**{how: frozenset({2})})  # type: ignore[arg-type]
    state = clustered(w, clusters=2)
    np.testing.assert_array_equal(state.assignment, [0, 1, UNASSIGNED, 1])
    np.testing.assert_allclose(state.models, [[4, 0], [0, 14 / 3]], rtol=1e-6)
    place = Stream(1, 2, "place")
    np.testing.assert_array_equal(
        FLHC(clusters=2).place(w, state, np.array([2]), place).assignment, state.assignment
    )
    placed = FLHC(clusters=2).place(world(), state, np.array([2]), place)
    np.testing.assert_array_equal(placed.assignment, [0, 1, 0, 1])
    np.testing.assert_array_equal(placed.models, state.models)


def test_a_zero_update_has_a_place_but_no_direction() -> None:
    some = [[0, 0], [0.1, 0], [0, 9]]
    assert labels(some, clusters=2) == [0, 0, 1]
    assert labels(some, clusters=2, metric="cosine", linkage="average") == [UNASSIGNED, 0, 1]


def test_fewer_answers_than_clusters_are_refused() -> None:
    with pytest.raises(
        MethodError,
        match="3 clusters need at least as many clients, but 2 of 4 gave an update in round 1",
    ):
        clustered(world(silent=frozenset({0, 1})), clusters=3)


def test_a_distance_needs_one_answer() -> None:
    assert labels([[1, 1]], distance=1.0) == [0]
    with pytest.raises(MethodError, match="0 of 4 gave an update"):
        clustered(world(silent=frozenset(range(4))), distance=1.0)


def test_after_it_a_cohort_of_one_an_empty_one_and_a_silent_one() -> None:
    method = FLHC(clusters=2, cluster_round=1)
    before = clustered(world(), clusters=2)
    for w, cohort in ((world(), []), (world(silent=frozenset({1, 2})), [1, 2])):
        assert (
            rounds(method, w, cohort, state=before, first=2).models.tobytes()
            == before.models.tobytes()
        )
    one = rounds(method, world(), [3], state=before, first=2)
    np.testing.assert_allclose(one.models, [before.models[0], [0, (14 / 3 + 10) / 2]], rtol=1e-6)


def test_a_cluster_that_emptied_keeps_its_model() -> None:
    before = replace(clustered(world(), clusters=2), assignment=np.zeros(4, np.int64))
    state = rounds(FLHC(clusters=2, cluster_round=1), world(), [0, 1, 2, 3], state=before, first=2)
    np.testing.assert_array_equal(state.models[1], before.models[1])
    assert np.any(state.models[0] != before.models[0])


# --- policies and settings


@pytest.mark.parametrize(("migration", "cluster"), [("none", 0), ("label_blind", 1)])
def test_a_client_whose_data_shift_moves(migration: Any, cluster: int) -> None:
    w = world(counts=np.full((4, 2), 5))
    before = clustered(w, clusters=2)
    w.counts = np.array([[10, 0], [5, 5], [5, 5], [5, 5]])
    w.target = np.concatenate([w.target[1:2], w.target[1:]])
    method = FLHC(clusters=2, cluster_round=1, migration=migration)
    state = rounds(method, w, NO_CLIENTS, state=before, first=2)
    np.testing.assert_array_equal(state.assignment, [cluster, 1, 0, 1])


def test_newcomers_by_direction_go_where_the_models_have_gone() -> None:
    state = replace(clustered(world(), clusters=2), assignment=np.full(4, UNASSIGNED))
    placed = FLHC(newcomers="direction").place(world(), state, np.arange(4), Stream(1, 2, "place"))
    np.testing.assert_array_equal(placed.assignment, [0, 1, 0, 1])


def test_clusters_and_a_distance_are_too_much() -> None:
    with pytest.raises(MethodError, match=r"clusters or distance, not both; got 3 and 2\.0"):
        FLHC(clusters=3, distance=2.0)


@pytest.mark.parametrize("metric", ["l1", "cosine"])
def test_ward_is_for_l2(metric: Any) -> None:
    with pytest.raises(MethodError, match=f"'ward' needs metric 'l2', got '{metric}'"):
        FLHC(metric=metric)


# --- communication


def test_the_clustering_round_costs_a_model_to_and_from_every_client() -> None:
    """2KT messages, with N = 10 in place of K = 3 in one of T = 4 rounds."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4)).astype(np.float32)
    y = rng.integers(0, 3, 60)
    owner = np.arange(60) % 10
    rows = Ragged.of([np.flatnonzero(owner == c) for c in range(10)])
    data = FederatedData(name="small", x=x, y=y, classes=3, train=rows, test=rows)
    w = SimulatedWorld(data, mclr(data), LocalTraining(lr=0.1))
    rounds(FLHC(cluster_round=2), w, *[[1, 4, 8]] * 4)
    messages = 3 * 3 + 10
    assert w.ledger.total() == (messages * 4 * w.spec.parameters, messages * 4 * w.spec.parameters)


def test_as_many_clusters_as_the_silhouette_says() -> None:
    """Directions at angles of 0, 3, 90, 93, and 180 degrees: three kinds, and one is opposed to
    another."""
    angles = np.deg2rad([0, 3, 90, 93, 180, 183, 1, 91])
    updates = 4 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert labels(updates, distance="silhouette", metric="cosine", linkage="average") == [
        0,
        0,
        1,
        1,
        2,
        2,
        0,
        1,
    ]
    with pytest.raises(MethodError, match="distance 'silhouette' needs metric 'cosine', got 'l2'"):
        FLHC(distance="silhouette")
