"""FeSEM on quadratic clients, worked by hand from Algorithm 1 of the paper, and in the simulator where bytes count.

One epoch of lr 0.5 goes half the way from the model to the client's target.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.errors import FedkinError
from fedkin.fake_world import FakeWorld
from fedkin.method import COLD
from fedkin.methods.fesem import FeSEM, FeSEMMig, FeSEMState
from fedkin.models import mlp
from fedkin.randomness import Stream
from fedkin.simulator import SimulatedWorld
from fedkin.world import LocalWork, ModelSpec
from tests.simulator.small import federation

STREAM = Stream(3, 2, "method")
MODELS = np.array([[0, 0], [8, 0], [40, 0]], np.float32)
# last solutions: clients 0 1 2 are nearest to the first model, 3 and 4 to the second; their data say nothing of it
LOCAL = np.array([[1, 1], [0, -1], [3, 2], [7, 0], [9, 3]], np.float32)
NEAREST = np.array([0, 0, 0, 1, 1])
TARGET = np.array([[40, 0], [0, 2], [8, 2], [0, 4], [40, 0]], np.float32)
EXAMPLES = np.array([10, 20, 30, 40, 60])
EVERYBODY = np.arange(5)
NOBODY = np.zeros(0, np.int64)


def world(target: Any = TARGET, **options: Any) -> FakeWorld:
    return FakeWorld(target, np.resize(EXAMPLES, len(target)), LocalWork(lr=0.5), **options)


def given(assignment: Any = (COLD,) * 5, models: np.ndarray = MODELS, local: np.ndarray = LOCAL) -> FeSEMState:
    return FeSEMState(models, np.array(assignment), local)


def after(cohort: Any = EVERYBODY, w: FakeWorld | None = None, state: FeSEMState | None = None, **options: Any) -> Any:
    return FeSEM(**options).round(w or world(), state or given(), np.asarray(cohort), STREAM)


# --- start


def test_clusters_start_apart_and_clients_together() -> None:
    state = FeSEM(clusters=3).init(world(), Stream(3))
    assert len({model.tobytes() for model in [*state.models, state.local[0]]}) == 4
    np.testing.assert_array_equal(state.local, np.tile(state.local[0], (5, 1)))
    np.testing.assert_array_equal(state.assignment, [COLD] * 5)


def test_all_newcomers_are_nearest_to_one_cluster() -> None:
    """The collapse: whatever their data, they hold one and the same model."""
    for seed in range(6):
        w = world()
        state = FeSEM(clusters=3).init(w, Stream(seed))
        nearest = np.argmin(np.linalg.norm(state.models - state.local[0], axis=1))
        placed = FeSEM(clusters=3).place(w, state, EVERYBODY, STREAM)
        np.testing.assert_array_equal(placed.assignment, [nearest] * 5)


def test_a_collapse_lasts_where_steps_are_small() -> None:
    """Updates far shorter than the way between random models never lead anybody to another cluster."""
    w, method = simulated(), FeSEM(clusters=3)
    state = method.init(w, Stream(3))
    for r in range(1, 6):
        state = method.round(w, state, np.arange(r % 2, CLIENTS, 2), Stream(3, r))
    assert len(set(state.assignment.tolist())) == 1
    assert np.sum(np.any(state.models != method.init(w, Stream(3)).models, axis=1)) == 1


# --- a round (Algorithm 1)


def test_every_client_goes_to_the_model_nearest_to_its_last_solution() -> None:
    np.testing.assert_array_equal(after().assignment, NEAREST)


def test_a_tie_goes_to_the_first_model() -> None:
    local = np.array([[4, 7]], np.float32)
    found = after([0], world(TARGET[:1]), given([1], local=local))
    np.testing.assert_array_equal(found.assignment, [0])


def test_a_cluster_is_the_simple_mean_of_its_clients_solutions() -> None:
    """From (0,0) half the way to (40,0), (0,2), (8,2); from (8,0) to (0,4), (40,0)."""
    np.testing.assert_allclose(after().models[:2], [[8, 2 / 3], [14, 1]], rtol=1e-6)


def test_clients_train_from_the_cluster_and_their_solution_is_kept() -> None:
    expected = [[20, 0], [0, 1], [4, 1], [4, 2], [24, 0]]
    np.testing.assert_allclose(after().local, expected, rtol=1e-6)


def test_the_next_round_measures_from_the_new_solutions() -> None:
    """To centers (8, 2/3), (14, 1), (40, 0): (20,0) and (24,0) are nearest to the second, the rest to the first."""
    np.testing.assert_array_equal(after(state=after()).assignment, [1, 0, 0, 0, 1])


def test_a_cluster_without_clients_keeps_its_model() -> None:
    assert after().models[2].tobytes() == MODELS[2].tobytes()
    assert after([3]).models[[0, 2]].tobytes() == MODELS[[0, 2]].tobytes()


def test_clients_outside_the_cohort_keep_all_they_have() -> None:
    found = after([0, 3], state=given([2, 2, COLD, 2, 2]))
    np.testing.assert_array_equal(found.assignment, [0, 2, COLD, 1, 2])
    np.testing.assert_array_equal(found.local[[1, 2, 4]], LOCAL[[1, 2, 4]])


def test_the_mean_by_examples() -> None:
    expected = [[(200 + 120) / 60, (20 + 30) / 60], [(160 + 1440) / 100, 80 / 100]]
    np.testing.assert_allclose(after(weighting="examples").models[:2], expected, rtol=1e-6)


def test_the_first_client_as_coded() -> None:
    found = after([4, 2, 3, 1, 0], weighting="first_client")
    np.testing.assert_allclose(found.models[:2], [[20, 0], [4, 2]], rtol=1e-6)
    np.testing.assert_allclose(found.local, after().local, rtol=1e-6)


# --- what is measured


def layered(kernel: slice, bias: slice | None) -> FakeWorld:
    """Four parameters: a hidden one, then a last layer; two clients."""
    w = world(np.zeros((2, 4), np.float32))
    w.spec = ModelSpec(4, head=slice(1, 4), head_bias=bias)
    return w


FOUR = np.array([[0, 0, 0, 0], [9, 5, 5, 9]], np.float32)


@pytest.mark.parametrize(("bias", "width"), [(slice(3, 4), 2), (slice(1, 2), 2), (None, 3)])
def test_the_head_is_the_weights_of_the_last_layer(bias: slice | None, width: int) -> None:
    w = layered(slice(1, 4), bias)
    state = FeSEM(clusters=2, part="head").init(w, Stream(3))
    kept = [i for i in (1, 2, 3) if bias is None or i not in range(4)[bias]]
    assert state.local.shape == (2, width)
    whole = FeSEM(clusters=2).init(w, Stream(3)).local
    np.testing.assert_array_equal(state.local, whole[:, kept])


def test_by_the_head_the_rest_does_not_count() -> None:
    """(., 4, 4, .) is nearest to the head (5, 5) and, with the two numbers that stand for dots, to the zeros."""
    w = layered(slice(1, 4), slice(3, 4))
    whole = np.array([[0, 4, 4, 0], [0, 0, 0, 0]], np.float32)
    by_all = after([0], w, given([COLD] * 2, FOUR, whole), clusters=2)
    by_head = after([0], w, given([COLD] * 2, FOUR, whole[:, 1:3]), clusters=2, part="head")
    assert (by_all.assignment[0], by_head.assignment[0]) == (0, 1)
    np.testing.assert_allclose(by_head.local, [[2.5, 2.5], [0, 0]])
    np.testing.assert_allclose(by_head.models, [FOUR[0], FOUR[1] / 2])


def test_the_head_needs_a_last_layer() -> None:
    with pytest.raises(FedkinError, match="last layer"):
        FeSEM(part="head").init(world(), Stream(3))


def test_the_head_in_the_simulator() -> None:
    w, method = simulated(), FeSEM(clusters=2, part="head")
    state = method.round(w, method.init(w, Stream(3)), np.arange(CLIENTS), STREAM)
    assert state.local.shape == (CLIENTS, 3 * 3) and state.local.dtype == np.float32
    kernel = state.models[:, w.spec.slices[list(w.spec.slices)[-2]]]
    cluster = state.assignment[0]  # all are in one: its model is the mean of their solutions
    np.testing.assert_allclose(state.local.mean(axis=0), kernel[cluster], rtol=1e-4, atol=1e-6)


# --- what does not come


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_a_client_that_does_not_answer_keeps_its_solution(how: str) -> None:
    found = after(w=world(**{how: frozenset({0, 4})}))
    np.testing.assert_array_equal(found.local[[0, 4]], LOCAL[[0, 4]])
    np.testing.assert_allclose(found.models[:2], [[2, 1], [4, 2]], rtol=1e-6)


@pytest.mark.parametrize("weighting", ["simple", "examples", "first_client"])
@pytest.mark.parametrize("cohort", [NOBODY, np.array([0, 1])])
def test_without_any_answer_no_model_changes(cohort: np.ndarray, weighting: Any) -> None:
    found = after(cohort, world(silent=frozenset(range(5))), weighting=weighting)
    assert found.models.tobytes() == MODELS.tobytes() and found.local.tobytes() == LOCAL.tobytes()


@pytest.mark.parametrize("migration", ["none", "label_blind"])
def test_broken_data_stay_with_their_client(migration: Any) -> None:
    w = simulated()
    w.data.x[w.data.train[2]] = np.nan
    method = FeSEM(clusters=2, newcomers="loss", migration=migration)
    before = method.init(w, Stream(3))
    state = method.place(w, before, np.array([1, 2, 3]), STREAM)
    assert state.assignment[2] == COLD and np.all(state.assignment[[1, 3]] != COLD)
    np.testing.assert_array_equal(state.local[2], before.local[2])
    found = method.round(w, state, np.array([1, 2, 3]), STREAM)
    assert np.isfinite(found.models).all() and np.isfinite(found.local).all()


@pytest.mark.parametrize("cohort", [[], [4]])
def test_a_cohort_of_one_or_none_in_the_simulator(cohort: Any) -> None:
    w, method = simulated(), FeSEM(clusters=2)
    state = method.init(w, Stream(3))
    found = method.round(w, state, np.array(cohort, np.int64), STREAM)
    assert np.sum(np.any(found.models != state.models, axis=1)) == len(cohort)
    assert np.isfinite(found.models).all()


# --- newcomers by other policies


def test_a_newcomer_holds_the_model_of_the_cluster_it_was_given() -> None:
    """By loss: targets (40, 0), (0, 2) and (8, 2) are nearest to the third, first and second model."""
    method = FeSEM(newcomers="loss")
    placed = method.place(world(), given(), np.array([0, 1, 2]), STREAM)
    np.testing.assert_array_equal(placed.assignment, [2, 0, 1, COLD, COLD])
    np.testing.assert_array_equal(placed.local, [MODELS[2], MODELS[0], MODELS[1], LOCAL[3], LOCAL[4]])
    assert placed.models.tobytes() == MODELS.tobytes()
    np.testing.assert_array_equal(after([0, 1, 2], state=placed).assignment[:3], [2, 0, 1])


@pytest.mark.parametrize("newcomers", ["loss", "random"])
def test_a_newcomer_that_could_not_be_placed_waits(newcomers: Any) -> None:
    """Client 0 alone trains in cluster 0, half the way from (0, 0) to (40, 0); client 2 is still cold."""
    found = after([0, 2], state=given([0, 0, COLD, 1, 1]), newcomers=newcomers)
    np.testing.assert_array_equal(found.assignment, [0, 0, COLD, 1, 1])
    np.testing.assert_allclose(found.models, [[20, 0], *MODELS[1:]], rtol=1e-6)
    np.testing.assert_array_equal(found.local[2], LOCAL[2])


def test_by_its_own_solution_every_newcomer_finds_a_cluster_in_the_round() -> None:
    found = after([0, 2], state=given([0, 0, COLD, 1, 1]))
    np.testing.assert_array_equal(found.assignment, [0, 0, 0, 1, 1])


def test_newcomers_at_random() -> None:
    w = world(np.zeros((60, 2), np.float32))
    state = given([COLD] * 60, local=np.zeros((60, 2), np.float32))
    placed = FeSEM(newcomers="random").place(w, state, np.arange(60), STREAM)
    assert set(placed.assignment.tolist()) == {0, 1, 2}
    np.testing.assert_array_equal(placed.local, MODELS[placed.assignment])


# --- migration (FlexCFL, section 5.3)

LABELS = np.tile([10, 10, 0], (5, 1))


def shifting() -> FakeWorld:
    """Clients 1 and 4 have other labels than they noted."""
    w = world(counts=LABELS.copy())
    assert w.counts is not None
    w.counts[[1, 4]] = [20, 0, 0]
    return w


@pytest.mark.parametrize(("migration", "moves"), [("none", False), ("label_blind", True), ("label_aware", True)])
def test_shifted_clients_are_assigned_by_the_same_distance(migration: Any, moves: bool) -> None:
    w = shifting()
    found = after(NOBODY, w, given([2] * 5), migration=migration)
    np.testing.assert_array_equal(found.assignment, [2, 0, 2, 2, 1] if moves else [2] * 5)
    assert bool(w.shifted(EVERYBODY).any()) != moves


def test_only_a_first_cluster_notes_what_the_data_are() -> None:
    """Clients 1 and 4 have other labels than they noted. Client 4 had a cluster, and goes on comparing."""
    w = shifting()
    found = after([1, 4], w, given([2, COLD, 2, 2, 2]))
    np.testing.assert_array_equal(found.assignment, [2, 0, 2, 2, 1])
    np.testing.assert_array_equal(w.shifted(EVERYBODY), [False, False, False, False, True])


def test_with_migration_the_models_are_the_same() -> None:
    """What a client's data are has nothing to do with its cluster, so migration changes no model."""
    plain, moving = FeSEM(), FeSEMMig()
    a, b, w = given([2] * 5), given([2] * 5), shifting()
    for cohort in ([0, 3], [1, 2, 4], [0, 1], [3, 4]):
        a = plain.round(shifting(), a, np.array(cohort), STREAM)
        b = moving.round(w, b, np.array(cohort), STREAM)
    assert a.models.tobytes() == b.models.tobytes() and a.local.tobytes() == b.local.tobytes()


def test_the_variant_differs_in_one_default() -> None:
    assert vars(FeSEMMig()) == vars(FeSEM(migration="label_blind"))


# --- sharing between clusters


def test_clusters_that_have_clients_share() -> None:
    """Nothing moves but by eta = 2: clients have what they want. Norms 5 and 10; the third cluster is empty."""
    models = np.array([[3, 4], [0, 10], [80, 80]], np.float32)
    found = after([0, 1], world(models[:2]), given([0, 1], models, models[:2]), eta_g=2.0).models
    np.testing.assert_allclose(found, [[3 / 1.2, 5], [1.2 / 1.4, 11.6 / 1.4], [80, 80]], rtol=1e-6)


# --- communication (FlexCFL, Fig. 6)

CLIENTS = 12


def simulated() -> SimulatedWorld:
    """Twelve clients of six samples."""
    data = federation((6,) * CLIENTS)
    return SimulatedWorld(data, mlp(data, hidden=3), LocalWork(epochs=1, batch_size=3, lr=0.1))


@pytest.mark.parametrize("method", [FeSEM(clusters=4), FeSEMMig(clusters=4)], ids=["fesem", "fesem_mig"])
def test_one_model_goes_down_and_one_comes_up(method: FeSEM) -> None:
    """Placing newcomers, choosing clusters and migration are free: the server has all it needs."""
    w = simulated()
    state = method.place(w, method.init(w, Stream(3)), np.arange(CLIENTS), STREAM)
    w.recall({"noted_labels": np.full_like(w.memory()["noted_labels"], 9)})  # everybody has shifted
    for r in (1, 2, 3):
        state = method.round(w, state, np.arange(r, r + 5), Stream(3, r))
    assert w.ledger.total() == (3 * 5 * 4 * w.spec.parameters,) * 2


# --- what cannot be

IMPOSSIBLE = [{"clusters": 0}, {"clusters": -1}, {"threshold": -0.1}, {"eta_g": -1.0}, {"eta_g": float("nan")}]


@pytest.mark.parametrize("options", IMPOSSIBLE, ids=str)
@pytest.mark.parametrize("method", [FeSEM, FeSEMMig])
def test_refuses_what_cannot_be(method: type[FeSEM], options: dict[str, Any]) -> None:
    with pytest.raises(FedkinError, match=next(iter(options))):
        method(**options)


CHOICES = [(name, "anything") for name in ("part", "weighting", "newcomers", "migration")]


@pytest.mark.parametrize(("name", "value"), [*CHOICES, ("newcomers", "direction")])
def test_refuses_an_unknown_choice(name: str, value: str) -> None:
    """The tests' own type checks would refuse it first, so the field is changed behind their back. Directions need a
    start that clusters have in common."""
    method = FeSEM()
    object.__setattr__(method, name, value)
    with pytest.raises(FedkinError, match=f"{name} must be one of .*'{value}'"):
        method.__post_init__()


def test_refuses_more_clusters_than_clients() -> None:
    with pytest.raises(FedkinError, match=r"6 clusters .* got 5"):
        FeSEM(clusters=6).init(world(), Stream(3))


def test_states_are_left_alone() -> None:
    before = replace(given([2] * 5), models=MODELS.copy(), local=LOCAL.copy())
    for array in vars(before).values():
        array.flags.writeable = False
    FeSEM(migration="label_blind", eta_g=0.1).round(shifting(), before, EVERYBODY, STREAM)
    FeSEM(newcomers="loss").place(world(), before, EVERYBODY, STREAM)
