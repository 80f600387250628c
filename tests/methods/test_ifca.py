"""IFCA on quadratic clients, worked by hand from Algorithm 1 of the paper, and in the simulator where bytes count.

One epoch of lr 0.5 goes half the way from the model to the client's target; the loss is half the squared distance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.errors import FedkinError
from fedkin.fake_world import FakeWorld
from fedkin.method import COLD, State
from fedkin.methods.ifca import IFCA, IFCAMig
from fedkin.models import mlp
from fedkin.randomness import Stream
from fedkin.simulator import SimulatedWorld
from fedkin.world import LocalWork, ModelSpec
from tests.simulator.small import federation

STREAM = Stream(3, 2, "method")
# models at 0, 8 and 40 on a line; clients 0 1 2 are nearest to the first, 3 and 4 to the second, nobody to the third
MODELS = np.array([[0, 0], [8, 0], [40, 0]], np.float32)
TARGET = np.array([[2, 0], [0, 2], [1, 1], [8, 4], [10, 0]], np.float32)
EXAMPLES = np.array([10, 20, 30, 40, 60])
NEAREST = np.array([0, 0, 0, 1, 1])
EVERYBODY = np.arange(5)


class Watched(FakeWorld):
    """A fake world that remembers what it was asked."""

    def train(self, models: Any, clients: Any, which: Any = None, *, work: Any = None, **options: Any) -> Any:
        self.trained = [*getattr(self, "trained", []), (clients.tolist(), which, work or self.work)]
        return super().train(models, clients, which, work=work, **options)

    def losses(self, models: Any, clients: Any) -> Any:
        self.asked = [*getattr(self, "asked", []), clients.tolist()]
        return super().losses(models, clients)


def world(target: Any = TARGET, **options: Any) -> Watched:
    return Watched(target, np.resize(EXAMPLES, len(target)), LocalWork(lr=0.5), **options)


def given(assignment: Any = (COLD,) * 5, models: np.ndarray = MODELS) -> State:
    return State(models, np.array(assignment))


def after(cohort: Any = EVERYBODY, w: FakeWorld | None = None, state: State | None = None, **options: Any) -> Any:
    return IFCA(**options).round(w or world(), state or given(), np.asarray(cohort), STREAM)


# --- start


def test_clusters_start_from_different_random_models_and_nobody_is_in_one() -> None:
    state = IFCA(clusters=3).init(world(), Stream(3))
    assert len({model.tobytes() for model in state.models}) == 3
    np.testing.assert_array_equal(state.assignment, [COLD] * 5)


def test_a_cluster_starts_the_same_whatever_the_number_of_clusters() -> None:
    few, many = (IFCA(clusters=k).init(world(), Stream(3)).models for k in (2, 4))
    np.testing.assert_array_equal(few, many[:2])


# --- a round (Algorithm 1)


def test_every_client_takes_the_model_of_its_lowest_loss() -> None:
    np.testing.assert_array_equal(after().assignment, NEAREST)


def test_all_models_are_offered_to_the_whole_cohort_at_once() -> None:
    w = world()
    after([0, 3], w)
    assert [(clients, which) for clients, which, _ in w.trained] == [([0, 3], None)]


def test_a_cluster_is_the_simple_mean_of_its_clients_solutions() -> None:
    """Half the way to (2,0), (0,2), (1,1) from 0: mean (0.5, 0.5). To (8,4), (10,0) from (8,0): mean (8.5, 1)."""
    np.testing.assert_allclose(after().models[:2], [[0.5, 0.5], [8.5, 1]], rtol=1e-6)


def test_a_cluster_that_nobody_chose_keeps_its_model() -> None:
    assert after().models[2].tobytes() == MODELS[2].tobytes()
    assert after([3]).models[[0, 2]].tobytes() == MODELS[[0, 2]].tobytes()


def test_a_tie_goes_to_the_first_model() -> None:
    w = world(np.array([[4, 0]], np.float32))
    np.testing.assert_array_equal(after([0], w, given([1])).assignment, [0])


def test_clients_choose_anew_in_every_round() -> None:
    state = after(state=given([1, 1, 1, 0, 0]))
    np.testing.assert_array_equal(state.assignment, NEAREST)
    moved = replace(state, models=np.array([[90, 0], [60, 0], [1, 1]], np.float32))
    np.testing.assert_array_equal(after(state=moved).assignment, [2, 2, 2, 2, 2])


def test_clients_outside_the_cohort_keep_their_cluster() -> None:
    np.testing.assert_array_equal(after([0, 3], state=given([2, 2, COLD, 2, 2])).assignment, [0, 2, COLD, 1, 2])


# --- weights


def test_the_mean_by_examples() -> None:
    """Solutions (1,0), (0,1), (.5,.5) by 10, 20, 30; and (8,2), (9,0) by 40, 60."""
    expected = [[25 / 60, 35 / 60], [8.6, 0.8]]
    np.testing.assert_allclose(after(weighting="examples").models[:2], expected, rtol=1e-6)


def test_the_first_client_as_coded() -> None:
    np.testing.assert_allclose(after(weighting="first_client").models[:2], [[1, 0], [8, 2]], rtol=1e-6)


def test_first_is_the_lowest_id_of_those_that_answered() -> None:
    shuffled = after([4, 2, 3, 1, 0], weighting="first_client")
    np.testing.assert_allclose(shuffled.models[:2], [[1, 0], [8, 2]], rtol=1e-6)
    silent = after(w=world(silent=frozenset({0, 3})), weighting="first_client")
    np.testing.assert_allclose(silent.models[:2], [[0, 1], [9, 0]], rtol=1e-6)


# --- averaging of gradients


def test_gradients_are_divided_by_all_clients_of_the_round() -> None:
    """theta_j - lr/M sum of gradients: lr 0.5, M 5, sums (-3, -3) and (-2, -4)."""
    expected = [[0.3, 0.3], [8.2, 0.4], [40, 0]]
    np.testing.assert_allclose(after(averaging="gradients").models, expected, rtol=1e-6)


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_gradients_are_divided_by_those_that_answered(how: str) -> None:
    """Without clients 1 and 4: M 3, sums (-3, -1) and (0, -4)."""
    lost = world(**{how: frozenset({1, 4})})
    expected = [[0.5, 1 / 6], [8, 2 / 3], [40, 0]]
    np.testing.assert_allclose(after(w=lost, averaging="gradients").models, expected, rtol=1e-6)


def test_a_gradient_is_one_plain_step_on_all_samples() -> None:
    w = world()
    w.work = LocalWork(7, batch_size=3, lr=0.25, optimizer="adam", momentum=0.9, mu=1.0, steps=9)
    after(w=w, averaging="gradients")
    [(_, _, work)] = w.trained
    assert work == LocalWork(1, batch_size=work.batch_size, lr=0.25) and work.batch_size >= 10**9


def test_the_work_of_the_run_is_done_where_models_are_averaged() -> None:
    w = world()
    after(w=w)
    assert w.trained[0][2] == w.work


def test_gradient_averaging_in_the_simulator() -> None:
    """The same as asking for gradients and stepping by hand, though the run's work is mini-batches of Adam."""
    w = simulated(LocalWork(epochs=3, batch_size=4, lr=0.05, optimizer="adam"))
    state, everybody = IFCA(clusters=2).init(w, Stream(3)), np.arange(CLIENTS)
    which = np.argmin(w.losses(state.models, everybody), axis=1)
    gradient = w.gradients(state.models, everybody, which)
    expected = state.models.astype(float)
    np.add.at(expected, which, -0.05 / CLIENTS * gradient)
    found = IFCA(clusters=2, averaging="gradients").round(w, state, everybody, STREAM)
    np.testing.assert_allclose(found.models, expected, rtol=1e-5, atol=1e-6)
    assert np.any(found.models != state.models)


# --- a shared base


def with_head(w: Watched, head: slice | None = slice(1, 2)) -> Watched:
    w.spec = ModelSpec(2, head=head)
    return w


def test_a_shared_base_is_one_from_the_start() -> None:
    models = IFCA(clusters=3, shared_base=True).init(with_head(world()), Stream(3)).models
    assert len(set(models[:, 0].tolist())) == 1 and len(set(models[:, 1].tolist())) == 3


BASED = np.array([[4, 0], [4, 8], [4, 40]], np.float32)  # a base of one number, 4, and heads 0, 8, 40
BASED_TARGET = np.array([[6, 0], [0, 2], [4, 1], [8, 8], [4, 10]], np.float32)


@pytest.mark.parametrize("averaging", ["models", "gradients"])
def test_a_shared_base_learns_from_everybody(averaging: Any) -> None:
    """Half the way to 6, 0, 4, 8, 4 from 4, over five clients: 4 + 0.5 * 2 / 5 = 4.2, in every model.
    Heads: 0.5 * 3 to cluster 0 and 0.5 * 2 to cluster 1, over its own clients (models) or all (gradients)."""
    w = with_head(world(BASED_TARGET))
    found = after(w=w, state=given(models=BASED), shared_base=True, averaging=averaging).models
    heads = {"models": [0.5, 8.5, 40], "gradients": [0.3, 8.2, 40]}[averaging]
    np.testing.assert_allclose(found, np.stack([[4.2] * 3, heads], axis=1), rtol=1e-6)


def test_a_shared_base_needs_a_last_layer() -> None:
    with pytest.raises(FedkinError, match="last layer"):
        IFCA(shared_base=True).init(with_head(world(), None), Stream(3))


def test_a_base_is_shared_in_the_simulator() -> None:
    w, method = simulated(), IFCA(clusters=2, shared_base=True)
    before = method.init(w, Stream(3))
    found = method.round(w, before, np.arange(CLIENTS), STREAM).models
    assert w.spec.head is not None
    base, heads = np.split(found, [w.spec.head.start], axis=1)
    assert base[0].tobytes() == base[1].tobytes() and np.any(base[0] != before.models[0, : base.shape[1]])
    assert np.any(heads[0] != heads[1])


# --- what does not come


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_a_client_that_does_not_answer_keeps_its_cluster(how: str) -> None:
    found = after(w=world(**{how: frozenset({1, 4})}), state=given([2, 2, 2, 2, COLD]))
    np.testing.assert_array_equal(found.assignment, [0, 2, 0, 1, COLD])
    np.testing.assert_allclose(found.models[:2], [[0.75, 0.25], [8, 2]], rtol=1e-6)


@pytest.mark.parametrize("averaging", ["models", "gradients"])
@pytest.mark.parametrize("cohort", [[], [0, 1]])
def test_without_any_answer_nothing_changes(cohort: Any, averaging: Any) -> None:
    w = world(silent=frozenset(range(5)))
    found = after(np.array(cohort, np.int64), w, averaging=averaging, weighting="examples")
    assert found.models.tobytes() == MODELS.tobytes()
    np.testing.assert_array_equal(found.assignment, [COLD] * 5)


@pytest.mark.parametrize("migration", ["none", "label_blind"])
def test_a_client_without_a_finite_loss_is_left_out(migration: Any) -> None:
    w = simulated()
    w.data.x[w.data.train[2]] = np.nan
    method = IFCA(clusters=2, migration=migration)
    state = method.init(w, Stream(3))
    found = method.round(w, state, np.array([1, 2, 3]), STREAM)
    without = method.round(w, state, np.array([1, 3]), STREAM)
    assert found.assignment[2] == COLD and np.isfinite(found.models).all()
    np.testing.assert_allclose(found.models, without.models, rtol=1e-6)


@pytest.mark.parametrize("cohort", [[], [4]])
def test_a_cohort_of_one_or_none_in_the_simulator(cohort: Any) -> None:
    w, method = simulated(), IFCA(clusters=2)
    state = method.init(w, Stream(3))
    found = method.round(w, state, np.array(cohort, np.int64), STREAM)
    assert np.sum(np.any(found.models != state.models, axis=1)) == len(cohort)
    assert np.isfinite(found.models).all()


# --- newcomers


def test_newcomers_choose_in_the_round_itself() -> None:
    w, state = world(), given()
    placed = IFCA().place(w, state, EVERYBODY, STREAM)
    np.testing.assert_array_equal(placed.assignment, [COLD] * 5)
    assert not hasattr(w, "asked") and not hasattr(w, "trained")
    assert np.all(IFCA().round(w, placed, EVERYBODY, STREAM).assignment != COLD)


def test_newcomers_by_loss() -> None:
    placed = IFCA(newcomers="loss").place(world(), given(), np.array([1, 4]), STREAM)
    np.testing.assert_array_equal(placed.assignment, [COLD, 0, COLD, COLD, 1])
    assert placed.models.tobytes() == MODELS.tobytes()


def test_newcomers_at_random() -> None:
    w = world(np.zeros((60, 2), np.float32))
    placed = IFCA(newcomers="random").place(w, given([COLD] * 60), np.arange(60), STREAM)
    assert set(placed.assignment.tolist()) == {0, 1, 2} and not hasattr(w, "asked")


# --- migration (FlexCFL, Algorithm 2, l. 4-6)

LABELS = np.tile([10, 10, 0], (5, 1))


def shifting(relabelled: bool = False) -> Watched:
    """Clients 1 and 4 have other labels than they noted: other classes in the same numbers, or other numbers too."""
    w = world(counts=LABELS.copy())
    assert w.counts is not None
    w.counts[[1, 4]] = [0, 10, 10] if relabelled else [20, 0, 0]
    return w


@pytest.mark.parametrize(
    ("migration", "relabelled", "moves"),
    [
        ("none", False, False),
        ("label_blind", False, True),
        ("label_blind", True, False),
        ("label_aware", True, True),
    ],
)
def test_shifted_clients_choose_anew_selected_or_not(migration: Any, relabelled: bool, moves: bool) -> None:
    found = after([0], shifting(relabelled), given([2] * 5), migration=migration)
    np.testing.assert_array_equal(found.assignment, [0, 0, 2, 2, 1] if moves else [0, 2, 2, 2, 2])


def test_only_shifted_clients_are_asked_and_only_once() -> None:
    w, method = shifting(), IFCAMig()
    state = method.round(w, given([2] * 5), np.zeros(0, np.int64), STREAM)
    method.round(w, state, np.zeros(0, np.int64), STREAM)
    assert [clients for clients in w.asked if clients] == [[1, 4]]


def test_only_a_first_choice_notes_what_the_data_are() -> None:
    """Clients 1 and 4 have other labels than they noted. Client 4 had a cluster, and goes on comparing."""
    w = shifting()
    state = after([1, 4], w, given([2, COLD, 2, 2, 2]))
    np.testing.assert_array_equal(state.assignment, [2, 0, 2, 2, 1])
    np.testing.assert_array_equal(w.shifted(EVERYBODY), [False, False, False, False, True])


def test_a_shifted_client_that_gives_no_answer_keeps_its_cluster_and_finds_the_same_again() -> None:
    w, method = shifting(), IFCAMig()
    w.silent = frozenset({1})
    state = method.round(w, given([2] * 5), np.zeros(0, np.int64), STREAM)
    np.testing.assert_array_equal(state.assignment, [2, 2, 2, 2, 1])
    np.testing.assert_array_equal(w.shifted(EVERYBODY), [False, True, False, False, False])


def test_migration_goes_as_newcomers_do() -> None:
    """At random, so that nobody's losses are asked for."""
    w = shifting()
    found = IFCAMig(newcomers="random").round(w, given([2] * 5), np.zeros(0, np.int64), STREAM)
    assert not any(w.asked) and not w.shifted(EVERYBODY).any()
    np.testing.assert_array_equal(found.assignment[[0, 2, 3]], [2, 2, 2])


def test_the_variant_differs_in_one_default() -> None:
    assert vars(IFCAMig()) == vars(IFCA(migration="label_blind"))


# --- sharing between clusters


def test_clusters_that_have_clients_share() -> None:
    """Nothing moves but by eta = 2: clients have what they want. Norms 5 and 10; the third cluster is empty."""
    models = np.array([[3, 4], [0, 10], [80, 80]], np.float32)
    w = world(models[:2])
    found = after([0, 1], w, given([0, 1], models), eta_g=2.0).models
    np.testing.assert_allclose(found, [[3 / 1.2, 5], [1.2 / 1.4, 11.6 / 1.4], [80, 80]], rtol=1e-6)


# --- communication (FlexCFL, Fig. 6)

CLIENTS = 12


def simulated(work: LocalWork | None = None) -> SimulatedWorld:
    """Twelve clients of six samples."""
    data = federation((6,) * CLIENTS)
    return SimulatedWorld(data, mlp(data, hidden=3), work or LocalWork(epochs=1, batch_size=3, lr=0.1))


def messages(w: SimulatedWorld) -> tuple[float, float]:
    return tuple(count / (4 * w.spec.parameters) for count in w.ledger.total())  # type: ignore[return-value]


def test_all_models_go_down_and_one_comes_up() -> None:
    w, method = simulated(), IFCA(clusters=4)
    state = method.init(w, Stream(3))
    for r in (1, 2, 3):
        state = method.round(w, state, np.arange(r, r + 5), Stream(3, r))
    assert messages(w) == (3 * 5 * 4, 3 * 5)


def test_migration_costs_all_models_once_for_each_that_shifted() -> None:
    w, method = simulated(), IFCAMig(clusters=4)
    state = method.round(w, method.init(w, Stream(3)), np.arange(CLIENTS), Stream(3, 1))
    before = messages(w)
    noted = w.memory()["noted_labels"].copy()
    noted[[0, 5, 9]] = [6, 6, 0]  # twelve samples, where there are six now
    w.recall({"noted_labels": noted})
    method.round(w, state, np.array([5, 6]), Stream(3, 2))
    assert messages(w) == (before[0] + 2 * 4 + 3 * 4, before[1] + 2)


# --- what cannot be

IMPOSSIBLE = [{"clusters": 0}, {"clusters": -1}, {"threshold": -0.1}, {"eta_g": -1.0}, {"eta_g": float("nan")}]


@pytest.mark.parametrize("options", IMPOSSIBLE, ids=str)
@pytest.mark.parametrize("method", [IFCA, IFCAMig])
def test_refuses_what_cannot_be(method: type[IFCA], options: dict[str, Any]) -> None:
    with pytest.raises(FedkinError, match=next(iter(options))):
        method(**options)


CHOICES = [(name, "anything") for name in ("averaging", "weighting", "shared_base", "newcomers", "migration")]


@pytest.mark.parametrize(("name", "value"), [*CHOICES, ("newcomers", "direction")])
def test_refuses_an_unknown_choice(name: str, value: str) -> None:
    """The tests' own type checks would refuse it first, so the field is changed behind their back. Directions need a
    start that clusters have in common."""
    method = IFCA()
    object.__setattr__(method, name, value)
    with pytest.raises(FedkinError, match=f"{name} must be one of .*'{value}'"):
        method.__post_init__()


def test_refuses_more_clusters_than_clients() -> None:
    with pytest.raises(FedkinError, match=r"6 clusters .* got 5"):
        IFCA(clusters=6).init(world(), Stream(3))


def test_states_are_left_alone() -> None:
    before = given([2] * 5, MODELS.copy())
    for array in vars(before).values():
        array.flags.writeable = False
    IFCA(migration="label_blind", eta_g=0.1).round(shifting(), before, EVERYBODY, STREAM)
    IFCA(newcomers="loss").place(world(), before, EVERYBODY, STREAM)
