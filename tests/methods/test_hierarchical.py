"""Hierarchical clustering on quadratic clients: clusters from one training, then FedAvg in each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import FedkinError, MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.methods.hierarchical import Hierarchical
from tests.methods.last_layer_clients import NO_CLIENTS, ROUND, groups, started, world

# on a line: 0 1 and 3 4 are near, 2 is far from all
POINTS = [[0, 0], [1, 0], [40, 0], [10, 0], [11, 0]]
NEAR: dict[str, Any] = {"eps": 2.0}


def round_of(method: Hierarchical, w: Any, state: Any = None, cohort: Any = None) -> Any:
    state = started(method, w) if state is None else state
    return method.round(
        w, state, np.arange(w.total_clients) if cohort is None else np.asarray(cohort), ROUND
    )


# --- the clustering round


def test_everybody_trains_once_from_the_start_for_so_many_epochs() -> None:
    """Whatever the run counts; and only the slice of the last layer is asked for."""
    w = world(POINTS)
    w.work = replace(w.work, epochs=3, steps=7)
    state = started(Hierarchical(**NEAR, pretraining=4), w)
    [(clients, work, part)] = w.calls
    assert (clients, work.epochs, work.steps, part) == ([0, 1, 2, 3, 4], 4, None, w.spec.head_bias)
    np.testing.assert_array_equal(state.layers, np.array(POINTS, np.float32))
    np.testing.assert_array_equal(state.start, [0, 0])


def test_clusters_start_where_all_started() -> None:
    state = started(Hierarchical(**NEAR), world(POINTS))
    np.testing.assert_array_equal(state.models, np.zeros((3, 2)))
    assert state.models.dtype == np.float32 and state.clusters == 3


@pytest.mark.parametrize(
    ("noise", "expected"), [("own", [[0, 1], [2], [3, 4]]), ("nearest", [[0, 1], [2, 3, 4]])]
)
def test_noise_is_a_separate_cluster_or_joins_the_nearest(noise: Any, expected: Any) -> None:
    state = started(Hierarchical(**NEAR, noise=noise), world(POINTS))
    assert groups(state) == expected


@pytest.mark.parametrize("noise", ["own", "nearest"])
def test_where_all_are_noise_each_is_its_own(noise: Any) -> None:
    state = started(Hierarchical(eps=0.5, noise=noise), world(POINTS))
    assert groups(state) == [[0], [1], [2], [3], [4]]


def test_optics_needs_no_eps_and_kmeans_a_number() -> None:
    points = [[0, 0], [1, 0], [0, 1], [50, 0], [51, 0], [50, 1]]
    both: list[dict[str, Any]] = [{"algorithm": "optics"}, {"algorithm": "kmeans", "clusters": 2}]
    for options in both:
        assert groups(started(Hierarchical(**options), world(points))) == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    "options", [NEAR, {"algorithm": "kmeans", "clusters": 3}], ids=["dbscan", "kmeans"]
)
@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [2, 3, 0, 4, 1], [4, 2, 1, 0, 3]])
def test_clusters_are_numbered_by_their_lowest_client(order: list[int], options: Any) -> None:
    """Noise as well: clusters with different hyper-parameters are known by number."""
    state = started(Hierarchical(**options), world(np.array(POINTS)[order]))
    _, first = np.unique(state.assignment, return_index=True)
    np.testing.assert_array_equal(first, np.sort(first))
    assert state.assignment[0] == 0


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_a_client_that_does_not_answer_is_in_no_cluster(how: str) -> None:
    state = started(Hierarchical(**NEAR), world(POINTS, **{how: frozenset({1, 3})}))
    np.testing.assert_array_equal(state.assignment == UNASSIGNED, [False, True, False, True, False])
    np.testing.assert_array_equal(
        np.isnan(state.layers).all(axis=1), state.assignment == UNASSIGNED
    )
    assert not state.suspects.any()


def test_no_client_answers() -> None:
    with pytest.raises(MethodError, match="0 of 5 clients replied"):
        started(Hierarchical(**NEAR), world(POINTS, silent=frozenset(range(5))))


def test_a_single_client_is_a_cluster() -> None:
    assert groups(started(Hierarchical(**NEAR), world(POINTS[:1]))) == [[0]]


def test_a_client_that_is_placed_notes_its_data() -> None:
    """Client 1 does not answer, client 2 is excluded."""
    w = world(POINTS, silent=frozenset({1}))
    started(Hierarchical(**NEAR, suspicious=20.0), w)
    assert w.noted == [0, 3, 4]


# --- a federation in each cluster


def test_a_round_is_fedavg_in_each_cluster() -> None:
    """All go right to their targets: means weighted by 10 and 20, 30, and 40 and 50 examples."""
    state = round_of(Hierarchical(**NEAR), world(POINTS))
    means = {
        tuple(group): state.models[state.assignment[group[0]]].tolist() for group in groups(state)
    }
    expected = {(0, 1): 20 / 30, (2,): 40.0, (3, 4): (40 * 10 + 50 * 11) / 90}
    assert means.keys() == expected.keys()
    for group, value in expected.items():
        np.testing.assert_allclose(means[group], [value, 0], rtol=1e-6)


def test_no_client_is_clustered_again() -> None:
    w = world(POINTS)
    state = started(Hierarchical(**NEAR), w)
    w.target = w.target[::-1].copy()
    after = round_of(Hierarchical(**NEAR), w, state)
    for name in ("assignment", "layers", "start", "suspects"):
        np.testing.assert_array_equal(getattr(after, name), getattr(state, name))


def test_half_of_each_cluster_trains() -> None:
    """Clusters of 8, 3 and 1 clients train 4, 2 and 1; others in other rounds, and everybody in
    some round."""
    points = (
        np.repeat([[0, 0], [50, 0], [90, 0]], [8, 3, 1], axis=0) + np.arange(12)[:, None] * 0.01
    )
    w = world(points)
    method = Hierarchical(**NEAR, fraction=0.5)
    state = started(method, w)
    seen = []
    for r in range(1, 30):
        w.calls = []
        method.round(w, state, np.arange(12), ROUND.at(r))
        asked = [client for clients, *_ in w.calls for client in clients]
        assert np.bincount(state.assignment[asked]).tolist() == [4, 2, 1]
        assert asked == sorted(set(asked))
        seen.append(tuple(asked))
    assert len(set(seen)) > 10 and set().union(*seen) == set(range(12))


def test_a_fraction_is_of_those_in_the_cohort() -> None:
    points = np.repeat([[0, 0], [50, 0]], [8, 4], axis=0) + np.arange(12)[:, None] * 0.01
    w = world(points)
    method = Hierarchical(**NEAR, fraction=0.5)
    state = started(method, w)
    w.calls = []
    method.round(w, state, np.array([0, 2, 4, 6, 9]), ROUND)
    asked = [client for clients, *_ in w.calls for client in clients]
    assert np.bincount(state.assignment[asked]).tolist() == [2, 1]
    assert set(asked) <= {0, 2, 4, 6, 9}


def test_the_smallest_fraction_is_one_client_of_each() -> None:
    w = world(POINTS)
    method = Hierarchical(**NEAR, fraction=0.001)
    state = started(method, w)
    w.calls = []
    round_of(method, w, state)
    asked = [client for clients, *_ in w.calls for client in clients]
    assert len(asked) == 3 and len(set(state.assignment[asked])) == 3


# --- hyper-parameters of a cluster


def test_a_cluster_has_its_own_hyper_parameters() -> None:
    """With lr 0.25 and two epochs it goes 7/16 of the way; the others are as they were, to the last
    bit."""
    w = world(POINTS)
    plain = round_of(Hierarchical(**NEAR), w)
    number = int(plain.assignment[3])
    own = round_of(Hierarchical(**NEAR, own={number: {"lr": 0.25, "epochs": 2}}), w)
    np.testing.assert_array_equal(own.assignment, plain.assignment)
    others = np.arange(3) != number
    assert own.models[others].tobytes() == plain.models[others].tobytes()
    np.testing.assert_allclose(own.models[number], 7 / 16 * plain.models[number], rtol=1e-6)


def test_all_clusters_may_have_their_own() -> None:
    w = world(POINTS)
    plain = round_of(Hierarchical(**NEAR), w)
    own = round_of(Hierarchical(**NEAR, own={k: {"lr": 0.5} for k in range(3)}), w)
    np.testing.assert_allclose(own.models, plain.models / 2, rtol=1e-6)


def test_a_cluster_without_anybody_in_the_cohort_rests() -> None:
    method = Hierarchical(**NEAR, own={0: {"lr": 0.5}})
    state = started(method, world(POINTS))
    cohort = np.flatnonzero(state.assignment != 0)
    after = method.round(world(POINTS), state, cohort, ROUND)
    assert not after.models[0].any() and after.models[1:].any(axis=1).all()
    nothing = method.round(world(POINTS), state, NO_CLIENTS, ROUND)
    np.testing.assert_array_equal(nothing.models, state.models)


@pytest.mark.parametrize(
    "own",
    [
        {0: {"learning_rate": 0.1}},
        {-1: {"lr": 0.1}},
        {0: {"positive": 1}},
        {0: {"partial": True}},
        {0: {"lr": 0.0}},
        {0: {"epochs": 0}},
        {0: {"optimizer": "lbfgs"}},
    ],
    ids=str,
)
def test_hyper_parameters_that_cannot_be_are_refused(own: Any) -> None:
    with pytest.raises(MethodError, match="own"):
        Hierarchical(own=own)


# --- refusals


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("algorithm", "meanshift"),
        ("layer", "first"),
        ("noise", "away"),
        ("eps", 0.0),
        ("eps", -0.1),
        ("eps", float("nan")),
        ("eps", float("inf")),
        ("min_samples", 0),
        ("pretraining", 0),
        ("suspicious", -1.0),
        ("suspicious", float("nan")),
        ("fraction", 0.0),
        ("fraction", 1.5),
        ("fraction", float("nan")),
    ],
)
def test_impossible_settings_are_refused(field: str, value: Any) -> None:
    with pytest.raises(MethodError, match=field):
        Hierarchical(**{field: value})


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "kmeans"},
        {"clusters": 3},
        {"algorithm": "optics", "clusters": 3},
        {"algorithm": "kmeans", "clusters": 0},
    ],
    ids=str,
)
def test_a_number_of_clusters_is_for_kmeans_alone(options: Any) -> None:
    with pytest.raises(MethodError, match="clusters"):
        Hierarchical(**options)


def test_optics_needs_two_samples() -> None:
    with pytest.raises(MethodError, match="min_samples"):
        started(Hierarchical("optics", min_samples=1), world(POINTS))


def test_more_clusters_than_clients() -> None:
    with pytest.raises(FedkinError, match="6"):
        started(Hierarchical("kmeans", clusters=6), world(POINTS))


@pytest.mark.parametrize("layer", ["bias", "last_layer"])
def test_a_model_without_a_last_layer_is_refused(layer: Any) -> None:
    w = world(POINTS)
    w.spec = replace(w.spec, head=None, head_bias=None)
    with pytest.raises(MethodError, match="last layer"):
        started(Hierarchical(**NEAR, layer=layer), w)


def test_detectors_are_for_athena() -> None:
    with pytest.raises(MethodError, match="athena"):
        started(Hierarchical(**NEAR), world(POINTS, detects=True))


def test_a_head_without_a_bias_for_every_class_cannot_be_narrow() -> None:
    with pytest.raises(MethodError, match="narrow"):
        started(Hierarchical(**NEAR, narrow=True), world(POINTS, counts=np.ones((5, 3), np.int64)))


def test_a_method_is_a_value() -> None:
    assert hash(Hierarchical(own={1: {"lr": 0.1}})) == hash(Hierarchical(own={1: {"lr": 0.1}}))
    assert Hierarchical(own={1: {"lr": 0.1}}) != Hierarchical(own={1: {"lr": 0.2}})
