"""PACFL: the angles and clusters of its code and of its paper, newcomers, and clusters that come
and go."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import subspace_angles as scipy_angles

import fedkin as fk
from fedkin.clustering.agglomerative import merge_up_to
from fedkin.core.errors import MethodError, TaskError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.task import Task
from fedkin.data.federated import FederatedData, Ragged
from fedkin.measures.principal_angles import (
    FORMS,
    angles_between,
    directions_by_label,
    orthonormal,
    side_by_side,
    subspace_angles,
)
from fedkin.methods.pacfl import PACFL, PACFLState
from fedkin.models import mclr
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.pacfl import LabelSubspaces, Subspace

STREAM = Stream(1, 0, "init")
CODE = {"maximum": "complete", "minimum": "single", "average": "weighted"}
KEYS = {
    "as_coded": "adjacency_code_degrees",
    "smallest": "smallest_principal_angle_degrees",
    "sum": "sum_of_principal_angles_degrees",
    "same_rank": "sum_of_angles_between_same_rank_vectors_degrees",
}


def groups(labels: np.ndarray) -> list[list[int]]:
    return [np.flatnonzero(labels == k).tolist() for k in range(labels.max() + 1)]


def test_the_codes_clusters(oracle: Callable[[str], dict[str, Any]]) -> None:
    """Its "average" is WPGMA, and it merges at a distance of exactly the threshold."""
    for case in oracle("methods2")["pacfl"]:
        angles = np.array(case["adjacency_code_degrees"])
        for key, expected in case["clusters_by_linkage_at_threshold"].items():
            linkage, threshold = key.split("@")
            assert groups(merge_up_to(angles, float(threshold), CODE[linkage])) == expected, (
                case["case"],
                key,
            )


@pytest.mark.parametrize("form", FORMS)
def test_the_codes_angles_by_block(form: str, oracle: Callable[[str], dict[str, Any]]) -> None:
    for case in oracle("methods2")["pacfl"]:
        bases = np.array(case["bases_U"])
        np.testing.assert_allclose(
            angles_between(bases[:2], bases, form),
            np.array(case[KEYS[form]])[:2],
            atol=case["tolerance"],
        )


def test_weighted_is_not_average() -> None:
    """{0, 1} and then 2 merge. To 3 the mean of the two parts is (6 + 9) / 2 = 7.5, and the mean of
    the clients is 7."""
    distances = np.array([[0, 1, 2, 6], [1, 0, 2, 6], [2, 2, 0, 9], [6, 6, 9, 0]], float)
    for linkage, height in (("weighted", 7.5), ("average", 7.0)):
        assert groups(merge_up_to(distances, height, linkage)) == [[0, 1, 2, 3]]
        assert groups(merge_up_to(distances, height - 0.01, linkage)) == [[0, 1, 2], [3]]


def test_merging_refuses_distances_that_it_cannot_order() -> None:
    with pytest.raises(MethodError, match="linkage"):
        merge_up_to(np.zeros((2, 2)), 1.0, "ward")
    with pytest.raises(MethodError, match="finite"):
        merge_up_to(np.array([[0, np.nan], [np.nan, 0]]), 1.0)


# --- subspaces of several labels


def test_angles_of_vectors_that_are_not_orthonormal() -> None:
    """Vectors of two labels that nearly agree: scipy makes its own bases; the plain product is no
    cosine."""
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    samples = rng.random((2, 40, 12)) + 1
    bases = side_by_side(np.stack([directions_by_label(x, labels, 3, 2) for x in samples]))
    assert bases.shape == (2, 12, 6) and not bases[:, :, 4:].any()  # the third label has no samples
    expected = np.degrees(scipy_angles(bases[0, :, :4], bases[1, :, :4]))
    found = orthonormal(bases)
    assert subspace_angles(found)[0, 1] == pytest.approx(expected[-1], abs=1e-6)
    assert subspace_angles(found, "sum")[0, 1] == pytest.approx(expected.sum(), abs=1e-6)
    assert subspace_angles(bases)[0, 1] < expected[-1] - 1


def test_labels_stand_side_by_side_in_their_order() -> None:
    """A client of labels 0 and 2 has these two, and then nothing."""
    samples = np.diag([1.0, 2.0, 3.0])
    labels = np.array([2, 0, 2])
    bases = side_by_side(directions_by_label(samples, labels, 3, 2)[None])[0]
    np.testing.assert_allclose(bases[:, :3], [[0, 0, 1], [1, 0, 0], [0, 1, 0]], atol=1e-12)
    assert not bases[:, 3:].any()


def test_a_basis_of_dependent_vectors_has_fewer() -> None:
    twice = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])[None]
    np.testing.assert_allclose(np.linalg.norm(orthonormal(twice)[0], axis=0), [1, 0], atol=1e-12)
    assert not orthonormal(np.full((1, 3, 2), np.nan)).any()


@pytest.mark.parametrize("task", [LabelSubspaces(1), Subspace(1)])
def test_text_is_refused(task: Task) -> None:
    words = np.ones((2, 5), np.int64)
    rows = Ragged.of([np.arange(2)])
    text = FederatedData(
        name="text",
        x=words,
        y=np.zeros(2, np.int64),
        classes=2,
        train=rows,
        test=rows,
        vocabulary=("a", "b"),
    )
    world = SimulatedWorld(text, fk.models.rnn(text))
    with pytest.raises(TaskError, match="word indices"):
        world.run(task, np.array([0]))


# --- the method


def world_of(directions: Any, **options: Any) -> SimulatedWorld:
    """Clients of two labels in a plane. Each client's samples of label 0 lie in one direction,
    given in degrees. Samples of label 1 are along a third axis."""
    angle = np.radians(np.asarray(directions, float))
    first = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    x = np.stack([first, 2 * first, np.tile([0, 0, 1.0], (len(angle), 1))], axis=1).reshape(-1, 3)
    rows = Ragged.of(list(np.arange(len(x)).reshape(-1, 3)))
    y = np.tile([0, 0, 1], len(angle))
    data = FederatedData(
        name="directions", x=x.astype(np.float32), y=y, classes=2, train=rows, test=rows
    )
    return SimulatedWorld(data, mclr(data), fk.SGD(epochs=1, batch_size=3, lr=0.1), **options)


def test_a_common_axis_makes_principal_angles_small() -> None:
    """All clients share the third axis: the smallest angle is 0, and so is the smallest between two
    vectors; only sums see the difference."""
    w = world_of([0, 4, 60])
    for angle, expected in (("smallest", 0), ("as_coded", 0), ("sum", 60), ("same_rank", 60)):
        state = PACFL(p=1, angle=angle).init(w, STREAM)  # type: ignore[arg-type]
        assert state.angles[0, 2] == pytest.approx(expected, abs=0.05), angle
    assert PACFL(p=1, angle="sum", threshold=10.0).init(w, STREAM).assignment.tolist() == [0, 0, 1]


METHOD = PACFL(p=1, angle="sum", threshold=10.0, linkage="single")


def settled(w: SimulatedWorld, method: PACFL, clients: list[int]) -> PACFLState:
    """The state of a federation in which these clients were there first."""
    state = method.init(w, STREAM)
    absent = np.setdiff1d(np.arange(w.total_clients), clients)
    bases = state.bases.copy()
    angles = state.angles.copy()
    bases[absent] = angles[absent] = angles[:, absent] = np.nan
    empty = replace(state, models=state.models[:0], assignment=np.full(w.total_clients, UNASSIGNED))
    empty = replace(empty, bases=bases, angles=angles)
    known = np.array(clients)
    state = method._cluster(w, empty, known, state.bases[known])
    return replace(
        state, models=state.models + np.arange(len(state.models), dtype=np.float32)[:, None]
    )


def test_newcomers_join_and_found_clusters() -> None:
    w = world_of([0, 60, 62, 3, 30])
    state = settled(w, METHOD, [0, 1, 2])
    assert state.assignment.tolist() == [0, 1, 1, UNASSIGNED, UNASSIGNED]
    placed = METHOD.place(w, state, np.array([3, 4]), STREAM)
    assert placed.assignment.tolist() == [0, 1, 1, 0, 2]
    np.testing.assert_array_equal(placed.models[:2], state.models)
    np.testing.assert_array_equal(placed.models[2], state.start)
    np.testing.assert_allclose(placed.angles, METHOD.init(w, STREAM).angles, atol=1e-4)


def test_a_newcomer_between_two_clusters_joins_them() -> None:
    """By single linkage 9 is near to both 0 and 18: the larger cluster keeps its number, and both
    models stay."""
    w = world_of([0, 18, 19, 9])
    state = settled(w, METHOD, [0, 1, 2])
    assert state.assignment.tolist() == [0, 1, 1, UNASSIGNED]
    placed = METHOD.place(w, state, np.array([3]), STREAM)
    assert placed.assignment.tolist() == [1, 1, 1, 1] and len(placed.models) == 2


def test_a_cluster_that_is_cut_off_goes_on_from_its_models() -> None:
    """Once 12 and 13 are there, WPGMA splits {0, 8}: a client that leaves starts with the model of
    all."""
    method = replace(METHOD, linkage="weighted", threshold=9.0)
    w = world_of([0, 8, 12, 13])
    state = settled(w, method, [0, 1])
    assert state.assignment.tolist() == [0, 0, UNASSIGNED, UNASSIGNED]
    placed = method.place(w, state, np.array([2, 3]), STREAM)
    assert (
        len(set(placed.assignment.tolist())) == 2 and placed.assignment[0] != placed.assignment[1]
    )
    np.testing.assert_array_equal(placed.models, np.stack([state.models[0]] * 2))


def test_subspaces_are_sent_once() -> None:
    w = world_of([0, 4, 60])
    state = METHOD.init(w, STREAM)
    # d = 3 numbers of one vector for each of two labels.
    assert w.ledger.total() == (
        0,
        3 * 3 * 2 * 4,
    )
    METHOD.round(w, state, np.arange(3), Stream(1, 1, "method"))
    assert w.ledger.total() == (
        3 * 4 * w.spec.parameters,
        3 * 3 * 2 * 4 + 3 * 4 * w.spec.parameters,
    )


def test_no_client_to_cluster_is_refused() -> None:
    data = world_of([0, 4]).data
    with pytest.raises(MethodError, match="0 of 2 clients sent singular vectors"):
        METHOD.init(SimulatedWorld(replace(data, x=np.zeros_like(data.x)), mclr(data)), STREAM)


def test_a_run_places_a_newcomer_and_knows_a_stranger() -> None:
    data = fk.planted("digits", "rotation", clusters=2, clients=8, samples=60, seed=0)
    run = fk.simulate(
        PACFL(p=1, threshold=4.3), data, mclr(data), rounds=2, cohort=8, local=fk.SGD(epochs=1)
    )
    assert run.summary()["ari"] == 1
    rows = data.train[3]
    placed = run.place(data.x[rows], data.y[rows], resamples=2)
    assert placed.cluster == run.assignment[3] and placed.shares.shape == (2,)
    noise = -np.random.default_rng(0).normal(size=(60, 64)).astype(np.float32)
    assert run.place(noise, data.y[rows], resamples=2).cluster == UNASSIGNED


def test_only_classwise_angles_show_exchanged_labels() -> None:
    """Samples along two axes; the last two clients exchange the labels. By class, the axes are 90
    degrees apart; together, their planes are equal."""
    x = np.tile(np.eye(3, dtype=np.float32)[:2], (4, 1))
    y = np.array([0, 1, 0, 1, 1, 0, 1, 0])
    rows = Ragged.of(list(np.arange(8).reshape(-1, 2)))
    data = FederatedData(name="exchanged", x=x, y=y, classes=2, train=rows, test=rows)
    w = SimulatedWorld(data, mclr(data), fk.SGD(epochs=1, batch_size=2, lr=0.1))
    together = PACFL(p=1, threshold=10.0).init(w, STREAM)
    by_class = PACFL(p=1, threshold=10.0, classwise=True).init(w, STREAM)
    assert together.assignment.tolist() == [0, 0, 0, 0]
    assert by_class.assignment.tolist() == [0, 0, 1, 1]
    np.testing.assert_allclose(by_class.angles[0], [0, 0, 90, 90], atol=1e-4)


def test_a_classwise_newcomer_is_placed_by_the_angles_of_a_start_with_all() -> None:
    method = PACFL(p=1, threshold=10.0, classwise=True)
    w = world_of([0, 60, 62, 3])
    state = settled(w, method, [0, 1, 2])
    placed = method.place(w, state, np.array([3]), STREAM)
    assert placed.assignment.tolist() == [0, 1, 1, 0]
    np.testing.assert_array_equal(placed.angles, method.init(w, STREAM).angles)


def test_a_classwise_newcomer_is_compared_with_each_client_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The angles of the clients that were there are not computed again."""
    method = PACFL(p=1, threshold=10.0, classwise=True)
    w = world_of([0, 60, 62, 3])
    state = settled(w, method, [0, 1, 2])
    module = sys.modules["fedkin.measures.classwise_angles"]
    between = module.angles_between
    pairs = []

    def counted(first: np.ndarray, second: np.ndarray, form: str) -> np.ndarray:
        pairs.append((len(first), len(second)))
        return between(first, second, form)

    monkeypatch.setattr(module, "angles_between", counted)
    method.place(w, state, np.array([3]), STREAM)
    assert set(pairs) == {(1, 4)}
