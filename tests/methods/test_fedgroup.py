"""FedGroup on quadratic clients of three parameters, one cluster per axis.

One epoch of lr 0.5 goes half the way from the model to the client's target, so from w_0 = (1, 1, 1)
an update is half of target - w_0. Expectations are worked out from the paper's algorithms and the
published description of the code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import FedkinError
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.measures.cluster_agreement import adjusted_rand_index
from fedkin.methods.fedgroup import FedGroup, FedGrouProx, FedGroupState
from fedkin.simulation.fake_world import FakeWorld

ONE = np.ones(3, np.float32)
# updates from w_0: (1,0,0) (3,0,0) | (0,2,0) (0,6,0) | (0,0,1) (0,0,2)
UPDATE = np.array([[1, 0, 0], [0, 2, 0], [0, 0, 1], [3, 0, 0], [0, 6, 0], [0, 0, 2]], np.float32)
TRUE_CLUSTERS = np.array([0, 1, 2, 0, 1, 2])
EXAMPLES = np.array([10, 20, 30, 40, 50, 60])
STREAM = Stream(3, 0, "init")


class RecordingWorld(FakeWorld):
    """A fake world that remembers which clients it was asked to train, and with which work."""

    def run(self, task: Task, clients: Any, stream: Stream | None = None) -> Reply:
        if task.work is not None:
            self.calls = [*getattr(self, "calls", []), (tuple(clients), task.work)]
        return super().run(task, clients, stream)


def world(update: np.ndarray = UPDATE, epochs: int = 1, **options: Any) -> RecordingWorld:
    n = len(update)
    work = LocalTraining(epochs=epochs, lr=0.5)
    return RecordingWorld(
        ONE + 2 * update, EXAMPLES[np.arange(n) % 6], work, start=lambda _: ONE, **options
    )


def settled(method: FedGroup, w: FakeWorld) -> FedGroupState:
    """The state once every client has its place."""
    state = method.init(w, STREAM)
    cold = np.flatnonzero(state.assignment < 0)
    return method.place(w, state, cold, STREAM.child("place")) if len(cold) else state


def by_true_cluster(state: FedGroupState) -> np.ndarray:
    """Cluster ids are arbitrary: the id of the cluster that holds the clients of clusters 0, 1 and
    2."""
    return state.assignment[:3]


# --- group cold start (Algorithm 3)


def test_group_cold_start_finds_the_true_clusters() -> None:
    state = settled(FedGroup(clusters=3), world())
    np.testing.assert_array_equal(state.assignment, by_true_cluster(state)[TRUE_CLUSTERS])
    assert sorted(by_true_cluster(state)) == [0, 1, 2]


def test_clusters_start_from_the_simple_mean_of_their_clients_solutions() -> None:
    state = FedGroup(clusters=3).init(world(), STREAM)
    order = by_true_cluster(state)
    np.testing.assert_allclose(
        state.models[order], ONE + [[2, 0, 0], [0, 4, 0], [0, 0, 1.5]], rtol=1e-6
    )
    np.testing.assert_allclose(
        state.directions[order], [[2, 0, 0], [0, 4, 0], [0, 0, 1.5]], rtol=1e-6
    )
    np.testing.assert_array_equal(state.start, ONE)
    assert state.pretrained.all()


def test_pretraining_lasts_one_epoch_in_every_run() -> None:
    w = world(epochs=5)
    w.work = replace(w.work, steps=7)
    FedGroup(clusters=3).init(w, STREAM)
    assert {(work.epochs, work.steps) for _, work in w.calls} == {(1, None)}


def many(each: int = 20) -> np.ndarray:
    """Clients of the three clusters with lengths 1 .. each, shuffled."""
    rows = np.concatenate([np.outer(np.arange(1, each + 1), axis) for axis in np.eye(3)])
    return np.random.default_rng(0).permutation(rows).astype(np.float32)


def test_alpha_clients_per_cluster_are_pretrained_together() -> None:
    w = world(many())
    state = FedGroup(clusters=3, alpha=4).init(w, STREAM)
    first, _ = w.calls[0]
    assert len(first) == len(set(first)) == 12
    np.testing.assert_array_equal(np.flatnonzero(state.pretrained), sorted(first))


def test_other_clients_go_where_their_update_points() -> None:
    update = many()
    state = settled(FedGroup(clusters=3, alpha=6), world(update))
    kind = np.argmax(update, axis=1)
    ids = [state.assignment[kind == k] for k in range(3)]
    assert all(len(set(i)) == 1 for i in ids) and len({int(i[0]) for i in ids}) == 3
    assert state.pretrained.sum() == 18, "being placed is not being pre-trained with the group"


# --- client cold start (eq. 8)


def given(models: Any, directions: Any, assignment: Any, start: Any = ONE) -> FedGroupState:
    assignment = np.asarray(assignment)
    return FedGroupState(
        models=np.asarray(models, np.float32),
        assignment=assignment,
        start=np.asarray(start, np.float32),
        directions=np.asarray(directions, np.float32),
        pretrained=assignment >= 0,
    )


def test_a_newcomer_trains_from_the_start_and_compares_directions() -> None:
    """Its distance to the models would say cluster 0; the direction of its update from w_0 says
    cluster 1."""
    w = world(np.array([[0.1, 1, 0], [5, 1, 0]], np.float32))
    state = given(ONE + [[0, 1, 0], [100, 0, 0]], [[1, 0, 0], [0, 0.01, 0]], [-1, -1])
    after = FedGroup(clusters=2).place(w, state, np.arange(2), STREAM)
    np.testing.assert_array_equal(after.assignment, [1, 0])
    np.testing.assert_array_equal(after.models, state.models)


def test_a_tie_goes_to_the_first_cluster() -> None:
    state = given(ONE + np.eye(3)[:2], [[1, 0, 0], [0, 1, 0]], [-1])
    after = FedGroup(clusters=2).place(
        world(np.array([[0, 0, 3]], np.float32)), state, np.array([0]), STREAM
    )
    np.testing.assert_array_equal(after.assignment, [0])


def test_a_newcomer_that_does_not_answer_harms_no_other() -> None:
    w = world(UPDATE[:3], silent=frozenset({1}))
    state = given(ONE + np.eye(3), np.eye(3), [-1, -1, -1])
    after = FedGroup(clusters=3).place(w, state, np.arange(3), STREAM)
    assert after.assignment[0] == 0 and after.assignment[2] == 2
    assert -1 <= after.assignment[1] < 3


def test_a_newcomer_whose_update_is_zero_stays_without_a_group() -> None:
    """It has no direction. It must not be taken for group 0."""
    state = given(ONE + np.eye(3), np.eye(3), [-1, -1, -1])
    w = world(np.array([[0, 2, 0], [0, 0, 0], [0, 0, 1]], np.float32))
    after = FedGroup(clusters=3).place(w, state, np.arange(3), STREAM)
    np.testing.assert_array_equal(after.assignment, [1, -1, 2])


def test_a_zero_update_takes_no_part_in_the_clustering() -> None:
    update = np.concatenate([UPDATE, np.zeros((3, 3), np.float32)])
    state = FedGroup(clusters=3, alpha=3).init(world(update), STREAM)
    assert state.pretrained.tolist() == [True] * 6 + [False] * 3
    assert (state.assignment[6:] == -1).all() and state.directions.any(axis=1).all()
    assert adjusted_rand_index(TRUE_CLUSTERS, state.assignment[:6]) == 1


def test_too_few_updates_are_an_error() -> None:
    with pytest.raises(FedkinError, match="2 of 3 clients sent an update"):
        FedGroup(clusters=3, alpha=1).init(
            world(np.array([[1, 0, 0], [0, 2, 0], [0, 0, 0]], np.float32)), STREAM
        )


# --- a round (Algorithm 2)


def two_clusters() -> FedGroupState:
    return given([[0, 0, 0], [1, 1, 1]], [[1, 0, 0], [0, 1, 0]], [0, 0, 1, 0, 1, 1])


def test_each_cluster_averages_its_own_members() -> None:
    """Cluster 0 from 0: targets (3,1,1) n 10 and (1,5,1) n 20, half the way, weights 1/3 and 2/3.
    Cluster 1 from 1: client 2 alone, target (1,1,3)."""
    after = FedGroup(clusters=2, eta_g=0.0).round(
        world(), two_clusters(), np.array([0, 1, 2]), STREAM
    )
    expected = [[(1.5 + 2 * 0.5) / 3, (0.5 + 2 * 2.5) / 3, 0.5], [1, 1, 2]]
    np.testing.assert_allclose(after.models, expected, rtol=1e-6)
    np.testing.assert_array_equal(after.assignment, two_clusters().assignment)


def test_a_cluster_without_selected_members_keeps_its_model() -> None:
    after = FedGroup(clusters=2, eta_g=0.0).round(world(), two_clusters(), np.array([2, 4]), STREAM)
    np.testing.assert_array_equal(after.models[0], [0, 0, 0])
    assert np.any(after.models[1] != 1)


@pytest.mark.parametrize(("normalize", "divisor"), [(True, np.array([[1.2], [1.4]])), (False, 1)])
def test_inter_group_aggregation_reaches_every_cluster(normalize: bool, divisor: Any) -> None:
    """Client 0 wants cluster 0's model already, so nothing moves but by eta = 2; norms are 5 and
    10."""
    w = FakeWorld(
        np.array([[3, 4], [9, 9]], np.float32), np.array([5, 5]), start=lambda _: np.ones(2)
    )
    state = given([[3, 4], [0, 10]], [[1, 0], [0, 1]], [0, 1], [1, 1])
    after = FedGroup(clusters=2, eta_g=2.0, normalize=normalize).round(
        w, state, np.array([0]), STREAM
    )
    np.testing.assert_allclose(after.models, np.array([[3, 6], [1.2, 11.6]]) / divisor, rtol=1e-6)


# --- as printed: eq. 10, and Alg. 2, l. 2


def test_by_eq_10_a_newcomer_goes_from_the_global_model_to_the_group_with_the_nearest_update() -> (
    None
):
    """The global model, the mean of (7,1,1) and (-1,7,1), is (3,4,1). From there the update to
    (5,4,5) is (1,0,2): nearest to group 0's latest update. From w_0 it would be (2,1.5,2), nearest
    to group 1's. By the directions of the cold start it would be the other way round."""
    update = [[2, 1.5, 2]]
    latest = [[0, 0, 1], [1, 1, 1]]
    first = latest[::-1]
    expected = {
        ("latest", "latest"): 0,
        ("latest", "first"): 1,
        ("similarity", "latest"): 1,
        ("similarity", "first"): 0,
    }
    for (newcomers, compared), group in expected.items():
        directions = latest if compared == "latest" else first
        state = given([[7, 1, 1], [-1, 7, 1]], directions, [-1])
        method = FedGroup(clusters=2, newcomers=newcomers)  # pyright: ignore[reportArgumentType]
        after = method.place(world(np.array(update, np.float32)), state, np.array([0]), STREAM)
        assert after.assignment.tolist() == [group], (newcomers, compared)


def test_by_eq_10_groups_keep_their_latest_update_by_training() -> None:
    """As in the round by hand above, with eta_g: the update is that before inter-group aggregation.
    Group 1 has no selected client and keeps the update that it had."""
    state = two_clusters()
    method = FedGroup(clusters=2, eta_g=2.0, newcomers="latest")
    after = method.round(world(), state, np.array([0, 1]), STREAM)
    expected = [[(1.5 + 2 * 0.5) / 3, (0.5 + 2 * 2.5) / 3, 0.5], [0, 1, 0]]
    np.testing.assert_allclose(after.directions, expected, rtol=1e-6)
    assert not np.allclose(after.models[0] - state.models[0], after.directions[0])
    fixed = FedGroup(clusters=2, eta_g=2.0).round(world(), state, np.array([0, 1]), STREAM)
    np.testing.assert_array_equal(fixed.directions, state.directions)


def test_by_eq_10_clients_outside_the_cold_start_wait_until_they_are_selected() -> None:
    w = world(many())
    state = FedGroup(clusters=3, alpha=4, newcomers="latest").init(w, STREAM)
    assert len(w.calls) == 1
    np.testing.assert_array_equal(state.assignment >= 0, state.pretrained)


@pytest.mark.parametrize("newcomers", ["similarity", "latest"])
def test_groups_may_start_from_the_initial_model(newcomers: Any) -> None:
    """Alg. 2, l. 2. Groups and directions are those of groups that start from solutions."""
    from_solutions = FedGroup(clusters=3, newcomers=newcomers).init(world(), STREAM)
    state = FedGroup(clusters=3, newcomers=newcomers, start="initial").init(world(), STREAM)
    np.testing.assert_array_equal(state.models, [ONE] * 3)
    np.testing.assert_array_equal(state.directions, from_solutions.directions)
    np.testing.assert_array_equal(state.assignment, from_solutions.assignment)
    assert state.models.dtype == np.float32


def test_as_printed_the_first_newcomers_train_from_the_initial_model() -> None:
    """Until the first round the global model is w_0, and the latest updates are the first ones."""
    options = {"clusters": 3, "alpha": 4, "start": "initial"}
    printed, usual = (
        settled(FedGroup(**options, newcomers=newcomers), world(many()))
        for newcomers in ("latest", "similarity")
    )
    np.testing.assert_array_equal(printed.assignment, usual.assignment)


# --- RCC and RAC (Section V)


def test_random_centres_are_single_clients() -> None:
    """RCC: m random clients are pre-trained; their solutions are the group models, their updates
    the directions."""
    w = world(many())
    state = FedGroup(clusters=3, centers="random").init(w, STREAM)
    centres, _ = w.calls[0]
    assert len(set(centres)) == 3
    rows = sorted(map(tuple, state.directions))
    np.testing.assert_allclose(rows, sorted(map(tuple, many()[list(centres)])), rtol=1e-6)
    np.testing.assert_allclose(state.models, ONE + state.directions, rtol=1e-6)


def test_random_centres_depend_on_the_stream() -> None:
    method = FedGroup(clusters=3, centers="random")
    picks = {
        tuple(np.flatnonzero(method.init(world(many()), Stream(s)).pretrained)) for s in range(6)
    }
    assert len(picks) > 1


def test_random_assignment_moves_only_those_outside_the_cold_start() -> None:
    """RAC: every round a selected client is put into a random group, unless it was in the group
    cold start."""
    w = world(many())
    method = FedGroup(clusters=3, alpha=4, newcomers="random")
    state = settled(method, w)
    held = state.pretrained
    seen = [state.assignment]
    for r in range(1, 6):
        state = method.round(w, state, np.arange(60), Stream(0, r, "round"))
        seen.append(state.assignment)
    moves = np.ptp(np.stack(seen), axis=0) > 0
    assert not moves[held].any()
    assert moves[~held].mean() > 0.9  # staying put five times has probability 3^-5
    assert set(np.unique(state.assignment)) == {0, 1, 2}


def test_random_assignment_asks_newcomers_nothing() -> None:
    w = world(UPDATE)
    state = given(ONE + np.eye(3), np.eye(3), [-1] * 6)
    after = FedGroup(clusters=3, newcomers="random").place(w, state, np.arange(6), STREAM)
    assert np.all((after.assignment >= 0) & (after.assignment < 3)) and not hasattr(w, "calls")


# --- FedGrouProx


def test_the_proximal_variant_pulls_in_rounds() -> None:
    """Two epochs toward 2 from 0 with mu 1: 0 -> 1 -> 1 - 0.5 ((1 - 2) + (1 - 0)) = 1; without the
    pull 1.5."""
    w = FakeWorld(np.array([[2, 0, 0]], np.float32), np.array([5]), LocalTraining(epochs=2, lr=0.5))
    state = given([[0, 0, 0]], [[1, 0, 0]], [0], [0, 0, 0])
    np.testing.assert_allclose(
        FedGrouProx(clusters=1).round(w, state, np.array([0]), STREAM).models, [[1, 0, 0]]
    )
    np.testing.assert_allclose(
        FedGroup(clusters=1).round(w, state, np.array([0]), STREAM).models, [[1.5, 0, 0]]
    )


def test_the_proximal_variant_pulls_in_pretraining() -> None:
    """One epoch is one step here, at the anchor, where the pull is zero: the requested work has to
    tell."""
    w = world()
    FedGrouProx(clusters=3).init(w, STREAM)
    assert {work.mu for _, work in w.calls} == {1}


# --- refusals


IMPOSSIBLE = [
    {"clusters": 0},
    {"alpha": 0},
    {"alpha": -1},
    {"eta_g": -0.1},
    {"eta_g": float("nan")},
    {"mu": -1.0},
    {"components": 0},
]


@pytest.mark.parametrize("options", IMPOSSIBLE, ids=str)
@pytest.mark.parametrize("method", [FedGroup, FedGrouProx])
def test_invalid_options_are_refused(method: type[FedGroup], options: dict[str, Any]) -> None:
    with pytest.raises(FedkinError, match=next(iter(options))):
        method(**options)


@pytest.mark.parametrize("name", ["centers", "newcomers", "start"])
def test_refuses_an_unknown_choice(name: str) -> None:
    """The tests' own type checks would refuse it first,
    so the field is changed behind their back."""
    method = FedGroup()
    object.__setattr__(method, name, "anywhere")
    with pytest.raises(FedkinError, match=r"anywhere"):
        method.__post_init__()


@pytest.mark.parametrize("centers", ["kmeans", "random"])
def test_refuses_more_clusters_than_clients(centers: Any) -> None:
    with pytest.raises(FedkinError, match="7"):
        FedGroup(clusters=7, centers=centers).init(world(), STREAM)


def test_two_clients_are_enough_for_two_clusters() -> None:
    state = settled(FedGroup(clusters=2), world(UPDATE[:2]))
    assert sorted(state.assignment) == [0, 1]


def test_states_are_left_alone() -> None:
    before = two_clusters()
    kept = replace(before, models=before.models.copy(), assignment=before.assignment.copy())
    FedGroup(clusters=2, eta_g=0.1, newcomers="random").round(world(), before, np.arange(6), STREAM)
    np.testing.assert_array_equal(before.models, kept.models)
    np.testing.assert_array_equal(before.assignment, kept.assignment)
