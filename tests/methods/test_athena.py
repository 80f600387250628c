"""ATHENA-FL on quadratic clients: which detectors there are, who trains them, who uses which.

Client i wants target[i] + c of its detector of class c; one epoch of lr 1 goes right there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.methods.athena import Athena
from tests.methods.last_layer_clients import (
    NO_CLIENTS,
    ROUND,
    RecordingWorld,
    groups,
    started,
    world,
)

# clients 0 1 2 have the classes 0 and 1, clients 3 and 4 the classes 2 and 3
TARGET = [[0, 0], [0.1, 0], [0, 0.1], [0, 0], [0.1, 0.1]]
COUNTS = np.array([[5, 5, 0, 0]] * 3 + [[0, 0, 5, 5]] * 2)
NEAR: dict[str, Any] = {"eps": 0.5}
GIVEN = (0, 0, 0, 1, 1)


def athena_world(counts: Any = COUNTS, target: Any = TARGET, **options: Any) -> RecordingWorld:
    return world(target, counts=np.array(counts), detects=True, **options)


def round_of(method: Athena, w: Any, state: Any = None, cohort: Any = None) -> Any:
    state = started(method, w) if state is None else state
    return method.round(
        w, state, np.arange(w.total_clients) if cohort is None else np.asarray(cohort), ROUND
    )


# --- clusters


def test_clusters_come_from_the_last_layers_of_a_detector_for_each_class() -> None:
    """End to end, and zero for a class that a client does not have. Each client trains only the
    detectors of its classes."""
    w = athena_world()
    state = started(Athena(**NEAR, pretraining=3), w)
    assert groups(state) == [[0, 1, 2], [3, 4]]
    [(clients, work, part)] = w.calls
    assert (clients, part) == ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], w.spec.head_bias)
    assert (work.positive.tolist(), work.epochs) == ([0, 1] * 3 + [2, 3] * 2, 3)
    expected = np.zeros((5, 4, 2))
    for client, c in zip(*np.nonzero(COUNTS), strict=True):
        expected[client, c] = np.array(TARGET[client]) + c
    np.testing.assert_allclose(state.layers, expected.reshape(5, 8), rtol=1e-6)


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_a_client_that_does_not_answer_is_in_no_cluster(how: str) -> None:
    state = started(Athena(**NEAR), athena_world(**{how: frozenset({1})}))
    assert groups(state) == [[0, 2], [3, 4]] and state.assignment[1] == UNASSIGNED


def test_clusters_may_be_given_and_then_no_client_trains_for_them() -> None:
    w = athena_world()
    state = started(Athena(assignment=GIVEN), w)
    np.testing.assert_array_equal(state.assignment, GIVEN)
    assert not hasattr(w, "calls") and not state.suspects.any()


def test_a_client_that_is_given_no_cluster_is_excluded_and_never_asked() -> None:
    """As clients that Hierarchical found suspicious."""
    w = athena_world()
    method = Athena(assignment=(0, 0, 0, 1, -1))
    state = started(method, w)
    assert np.flatnonzero(state.excluded()).tolist() == [4]
    assert method.place(w, state, np.array([4]), ROUND).assignment[4] == UNASSIGNED
    round_of(method, w, state)
    assert {c for clients, *_ in w.calls for c in clients} == {0, 1, 2, 3}


# --- detectors


def test_a_detector_for_each_class_of_each_cluster() -> None:
    state = started(Athena(**NEAR), athena_world())
    np.testing.assert_array_equal(state.positive, [0, 1, 2, 3])
    np.testing.assert_array_equal(state.home, [0, 0, 1, 1])
    assert state.trained.all() and state.clusters == 2
    np.testing.assert_array_equal(state.table, [[0, 1, 2, 3]] * 2)
    np.testing.assert_array_equal(state.scale, [[1, 0]] * 4)
    np.testing.assert_array_equal(state.models, np.zeros((4, 2)))


# class 0 has clients 0 to 3 (three of cluster 0, one of cluster 1); class 1 one of each; class 2
# the first two of cluster 1 and both of cluster 2; class 3 no client
SHARED = np.array(
    [
        [1, 1, 0, 0],
        [1, 0, 0, 0],
        [1, 0, 0, 0],
        [1, 0, 1, 0],
        [0, 1, 1, 0],
        [0, 0, 1, 0],
        [0, 0, 1, 0],
    ]
)
WITH = (0, 0, 0, 1, 1, 2, 2)


def test_a_class_of_several_clusters_is_detected_by_ones_own_or_where_most_have_it() -> None:
    """Detectors by cluster and class: 0: 0 1, 1: 0 1 2, 2: 2. Cluster 0 takes class 2 from cluster
    1 (the first of equals), cluster 2 takes class 0 from cluster 0 (three clients against one) and
    class 1 from cluster 0."""
    state = started(Athena(assignment=WITH), athena_world(SHARED, np.zeros((7, 2))))
    np.testing.assert_array_equal(state.home, [0, 0, 1, 1, 1, 2])
    np.testing.assert_array_equal(state.positive, [0, 1, 0, 1, 2, 2])
    np.testing.assert_array_equal(state.table, [[0, 1, 4, -1], [2, 3, 4, -1], [0, 1, 5, -1]])


def test_clients_are_counted_and_not_samples() -> None:
    counts = SHARED.copy()
    counts[3, 0] = 1000
    state = started(Athena(assignment=WITH), athena_world(counts, np.zeros((7, 2))))
    assert state.table[2, 0] == 0


def test_remarks() -> None:
    method = Athena(assignment=WITH)
    said = " ".join(method.remarks(started(method, athena_world(SHARED, np.zeros((7, 2))))))
    assert "class 3" in said and "cluster 2" in said and "single class" in said
    assert not method.remarks(started(Athena(assignment=GIVEN), athena_world()))


def test_an_eps_that_makes_one_cluster_is_remarked_on() -> None:
    method = Athena(eps=100.0)
    [said] = method.remarks(started(method, athena_world()))
    assert "all clients into one cluster" in said


# --- rounds


def test_a_round_is_fedavg_of_every_detector_in_its_cluster() -> None:
    """All clients of a cluster train all its detectors: means of targets by 10, 20, 30 and 40, 50
    examples."""
    w = athena_world()
    state = round_of(Athena(assignment=GIVEN), w)
    first = (10 * np.array(TARGET[0]) + 20 * np.array(TARGET[1]) + 30 * np.array(TARGET[2])) / 60
    second = (40 * np.array(TARGET[3]) + 50 * np.array(TARGET[4])) / 90
    np.testing.assert_allclose(state.models, [first, first + 1, second + 2, second + 3], rtol=1e-5)
    [(clients, work, part)] = w.calls
    assert (clients, part) == ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], None)
    assert work.positive.tolist() == [0, 1] * 3 + [2, 3] * 2


def test_a_client_without_a_class_trains_its_detector() -> None:
    """Its samples are the negative examples of the class."""
    w = athena_world(SHARED, np.zeros((7, 2)))
    round_of(Athena(assignment=WITH), w)
    [(clients, work, _)] = w.calls
    assert [c for c, p in zip(clients, work.positive.tolist(), strict=True) if p == 1] == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_a_detector_without_anything_to_tell_its_class_from_is_not_trained() -> None:
    """Its last layer is zero from the start, and so is its score."""
    w = athena_world(SHARED, np.zeros((7, 2)))
    w.start = lambda _: np.array([3.0, 4.0])
    method = Athena(assignment=WITH)
    state = started(method, w)
    np.testing.assert_array_equal(state.trained, [True] * 5 + [False])
    np.testing.assert_array_equal(state.models, [[3, 4]] * 5 + [[0, 0]])
    after = round_of(method, w, state)
    assert not after.models[5].any() and (after.models[:5] != state.models[:5]).all()
    assert not {5, 6} & {c for clients, *_ in w.calls for c in clients}


def test_clusters_without_anybody_in_the_cohort_rest() -> None:
    w = athena_world()
    method = Athena(assignment=GIVEN)
    state = round_of(method, w, cohort=[3, 4])
    assert not state.models[:2].any() and state.models[2:].any(axis=1).all()
    w.calls = []
    assert round_of(method, w, state, NO_CLIENTS).models.tobytes() == state.models.tobytes()
    assert not w.calls


def test_half_of_each_cluster_trains_all_detectors_of_it() -> None:
    counts = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], [6, 3], axis=0)
    w = athena_world(counts, np.zeros((9, 2)))
    round_of(Athena(assignment=(0,) * 6 + (1,) * 3, fraction=0.5), w)
    [(clients, work, _)] = w.calls
    chosen = np.array(sorted(set(clients)))
    assert (np.sum(chosen < 6), np.sum(chosen >= 6)) == (3, 2)
    assert clients == np.repeat(chosen, 2).tolist()
    assert [set(work.positive[np.array(clients) == c].tolist()) for c in chosen] == [{0, 1}] * 3 + [
        {2, 3}
    ] * 2


# --- newcomers


def test_a_newcomer_joins_the_nearest_and_takes_its_detectors() -> None:
    counts = [*COUNTS.tolist(), [0, 0, 5, 5]]
    w = athena_world(counts, [*TARGET, [0.2, 0]], late={1: 1})
    method = Athena(**NEAR)
    state = started(method, w)
    assert state.assignment[5] == UNASSIGNED
    after = method.place(w, state, np.array([5]), ROUND)
    assert after.assignment[5] == after.assignment[3]
    np.testing.assert_array_equal(after.models_for(np.array([5])).model_index, [[0, 1, 2, 3]])
    w.calls = []
    round_of(method, w, after, [5])
    [(clients, work, _)] = w.calls
    assert (clients, work.positive.tolist()) == ([5, 5], [2, 3])


def test_a_newcomer_with_a_new_class_joins_and_brings_no_detector() -> None:
    """Class 4 came with client 5; no cluster has it, and none is made for it."""
    counts = [[*row, 0] for row in COUNTS.tolist()] + [[0, 0, 0, 5, 5]]
    w = athena_world(counts, [*TARGET, [0, 0]], late={1: 1})
    method = Athena(**NEAR)
    state = started(method, w)
    after = method.place(w, state, np.array([5]), ROUND)
    assert after.assignment[5] == after.assignment[3]
    np.testing.assert_array_equal(after.table, [[0, 1, 2, 3, -1]] * 2)
    assert any("class 4" in said for said in method.remarks(state))


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_a_newcomer_that_gives_no_answer_stays_cold(how: str) -> None:
    w = athena_world(
        [*COUNTS.tolist(), [0, 0, 5, 5]], [*TARGET, [0, 0]], late={1: 1}, **{how: frozenset({5})}
    )
    method = Athena(**NEAR)
    state = started(method, w)
    after = method.place(w, state, np.array([5]), ROUND)
    np.testing.assert_array_equal(after.assignment, state.assignment)
    assert not after.suspects.any()


def test_a_suspicious_client_trains_no_detector() -> None:
    """Client 5 wants its detectors far from anybody's;
    the class that only it has is in no table."""
    counts = [[*row, 0] for row in COUNTS.tolist()] + [[0, 0, 0, 5, 5]]
    w = athena_world(counts, [*TARGET, [40, 0]])
    method = Athena(**NEAR, suspicious=10.0)
    state = started(method, w)
    assert groups(state) == [[0, 1, 2], [3, 4]]
    assert np.flatnonzero(state.excluded()).tolist() == [5]
    np.testing.assert_array_equal(state.table, [[0, 1, 2, 3, -1]] * 2)
    w.calls = []
    round_of(method, w, state)
    assert 5 not in {c for clients, *_ in w.calls for c in clients}


# --- refusals


@pytest.mark.parametrize(
    "assignment", [(0, 2), (1, 1), (1, 2), (-2, 0), (0, 1, 3, 1), (-1, -1)], ids=str
)
def test_clusters_with_a_gap_are_refused(assignment: Any) -> None:
    with pytest.raises(MethodError, match="assignment"):
        Athena(assignment=assignment)


@pytest.mark.parametrize(
    "assignment", [(), (0, 0, 1), (0, 0, 0, 1, 1, 1)], ids=["none", "fewer", "more"]
)
def test_every_client_needs_its_cluster(assignment: Any) -> None:
    with pytest.raises(MethodError, match="assignment"):
        started(Athena(assignment=assignment), athena_world())


@pytest.mark.parametrize(
    ("field", "value"),
    [("calibrate", -1), ("fraction", 0.0), ("fraction", 2.0), ("eps", 0.0), ("suspicious", -1.0)],
)
def test_impossible_settings_are_refused(field: str, value: Any) -> None:
    with pytest.raises(MethodError, match=field):
        Athena(**{field: value})


def test_models_with_many_scores_are_not_detectors() -> None:
    with pytest.raises(MethodError, match="detector"):
        started(Athena(**NEAR), world(TARGET))


@pytest.mark.parametrize("lost", ["head", "head_bias"])
@pytest.mark.parametrize("assignment", [None, GIVEN])
def test_a_detector_without_a_last_layer_is_refused(lost: str, assignment: Any) -> None:
    w = athena_world()
    w.spec = replace(w.spec, **{lost: None})
    with pytest.raises(MethodError, match="last layer"):
        started(Athena(**NEAR, assignment=assignment), w)


def test_all_are_suspicious() -> None:
    with pytest.raises(MethodError, match="suspicious"):
        started(Athena(**NEAR, suspicious=0.001), athena_world(target=np.arange(10).reshape(5, 2)))


def test_no_client_answers() -> None:
    with pytest.raises(MethodError, match="0 of 5"):
        started(Athena(**NEAR), athena_world(silent=frozenset(range(5))))


def test_a_method_is_a_value() -> None:
    assert hash(Athena(assignment=GIVEN)) == hash(Athena(assignment=GIVEN))


def test_given_clusters_and_ways_to_find_them_exclude_each_other() -> None:
    result: list[dict[str, Any]] = [{"suspicious": 0.5}, {"algorithm": "kmeans", "clusters": 2}]
    for options in result:
        with pytest.raises(MethodError, match="do not set the options suspicious and clusters"):
            Athena(**options, assignment=GIVEN)
