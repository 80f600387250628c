"""Sattler's CFL on quadratic clients of two parameters.

One epoch of lr 0.5 goes half the way from the model to the client's target, so from a model of
zeros a client whose target is 2 D sends D. Expectations are worked out from the paper and the
published description of the authors' code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.sattler import SattlerCFL, SattlerState
from fedkin.simulation.fake_world import FakeWorld

# A cut wherever there is one to make.
EVERY_TIME: dict[str, Any] = {
    "eps1": 9.0,
    "eps2": 0.5,
    "first_split": 0,
}
APART = [[1, 0], [-1, 0], [1, 0.1], [-1, 0.1]]


def world(updates: Any, **options: Any) -> FakeWorld:
    target = 2 * np.asarray(updates, np.float32)
    examples = 10 * (1 + np.arange(len(target)))
    return FakeWorld(
        target,
        examples,
        LocalTraining(lr=0.5),
        start=lambda _: np.zeros(target.shape[1]),
        **options,
    )


def initial_state(w: FakeWorld, assignment: Any = None, models: Any = None) -> SattlerState:
    """The state at the start, or one that is given."""
    nothing = np.zeros((1, w.spec.parameters), np.float32)
    assignment = np.zeros(w.total_clients, np.int64) if assignment is None else np.array(assignment)
    return SattlerState(
        nothing if models is None else np.array(models, np.float32), assignment, nothing[0]
    )


def one_round(
    method: SattlerCFL, w: FakeWorld, state: Any = None, cohort: Any = None, round: int = 30
) -> SattlerState:
    cohort = np.arange(w.total_clients) if cohort is None else np.array(cohort, np.int64)
    return method.round(
        w, initial_state(w) if state is None else state, cohort, Stream(1, round, "method")
    )


def cut_into(updates: Any, **options: Any) -> list[int]:
    """The assignment after one round with everybody."""
    method = replace(SattlerCFL(**EVERY_TIME), **options)
    return one_round(method, world(updates)).assignment.tolist()


# --- when to cut


def test_it_starts_with_one_model_for_everybody() -> None:
    w = world(APART)
    state = SattlerCFL().init(w, Stream(1, 0, "init"))
    np.testing.assert_array_equal(state.models, np.zeros((1, 2)))
    np.testing.assert_array_equal(state.assignment, np.zeros(4))
    np.testing.assert_array_equal(state.start, np.zeros(2))


def test_the_norm_of_the_mean_decides_and_not_the_mean_of_norms() -> None:
    """All norms are about 1; the mean is (0, 0.05)."""
    assert cut_into(APART, eps1=0.06) == [0, 1, 0, 1]
    assert cut_into(APART, eps1=0.04) == [0, 0, 0, 0]


def test_clients_that_pull_together_are_not_cut() -> None:
    assert cut_into([[1, 0], [1, 0.1], [1, -0.1]], eps1=0.9) == [0, 0, 0]


def test_the_longest_update_decides_and_not_the_mean_length() -> None:
    some = [[0.1, 0], [-0.1, 0], [0, 0.1], [0, 1.0]]
    assert len(set(cut_into(some, eps1=0.3, eps2=0.9))) == 2
    assert len(set(cut_into(some, eps1=0.3, eps2=1.1))) == 1


@pytest.mark.parametrize(("round", "clusters"), [(19, 1), (20, 1), (21, 2)])
def test_no_cut_up_to_and_including_first_split(round: int, clusters: int) -> None:
    state = one_round(SattlerCFL(eps1=1.0, eps2=0.5), world(APART), round=round)
    assert len(state.models) == clusters


@pytest.mark.parametrize(("min_size", "clusters"), [(2, 2), (3, 2), (4, 1)])
def test_small_clusters_are_not_cut(min_size: int, clusters: int) -> None:
    assert len(set(cut_into(APART, min_size=min_size))) == clusters


def test_it_is_the_answers_that_count_and_not_the_members() -> None:
    state = one_round(
        SattlerCFL(**EVERY_TIME), world(APART, silent=frozenset({2}), garbage=frozenset({3}))
    )
    assert len(state.models) == 1


# --- where to cut


def at(degrees: Sequence[float]) -> np.ndarray:
    return np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=1)


def test_the_cut_equals_complete_linkage() -> None:
    """Merges: 0-20, 41-63, and 86 to these (45 apart); by single linkage 86 would be left alone."""
    assert cut_into(at([0, 20, 41, 63, 86])) == [0, 0, 1, 1, 1]


def test_the_length_of_updates_does_not_matter() -> None:
    assert cut_into(at([0, 20, 41, 63, 86]) * [[1], [30], [1], [0.01], [5]], eps1=99.0) == [
        0,
        0,
        1,
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("gamma_max", "clusters"), [(None, 2), (0.0, 2), (0.49, 2), (0.51, 1), (1.0, 1)]
)
def test_gamma_max_refuses_a_cut_across_which_clients_are_alike(
    gamma_max: float | None, clusters: int
) -> None:
    """Similarity across the cut is cos 60 = 1/2, and sqrt((1 - 1/2) / 2) = 1/2."""
    assert len(set(cut_into(at([0, 5, 65, 70]), gamma_max=gamma_max))) == clusters


@pytest.mark.parametrize(
    ("degrees", "gamma_max", "clusters"), [((0, 2, 36, 38), 0.1, 2), ((0, 2, 122, 124), 0.9, 1)]
)
def test_gamma_max_bounds_the_gradients_and_not_the_similarity(
    degrees: tuple[int, ...], gamma_max: float, clusters: int
) -> None:
    """Cut where gamma_max < sqrt((1 - a) / 2): a = cos 34 gives 0.29, and a = cos 120 gives 0.87.
    With the two exchanged, a < sqrt((1 - gamma_max) / 2), the first would not be cut (0.83, 0.67),
    and the second would."""
    assert len(set(cut_into(at(degrees), gamma_max=gamma_max))) == clusters


def test_a_client_without_direction_stays_where_the_number_stays() -> None:
    assert cut_into([[0, 0], [1, 0], [-1, 0], [1, 0], [0, 0]]) == [0, 0, 1, 0, 0]


@pytest.mark.parametrize("updates", [[[0, 0]] * 3, [[0, 0], [0, 0], [1, 0]]])
def test_one_direction_alone_is_not_cut(updates: Any) -> None:
    assert cut_into(updates, eps2=0.0) == [0, 0, 0]


# --- clusters after a cut


def test_both_parts_go_on_from_the_parents_model_by_their_own_simple_mean() -> None:
    state = one_round(SattlerCFL(**EVERY_TIME), world(APART))
    np.testing.assert_allclose(state.models, [[1, 0.05], [-1, 0.05]], rtol=1e-6)
    np.testing.assert_array_equal(state.assignment, [0, 1, 0, 1])


def test_means_can_be_weighted_by_examples() -> None:
    """Examples 10, 20, 30, 40."""
    state = one_round(SattlerCFL(**EVERY_TIME, weighting="examples"), world(APART))
    np.testing.assert_allclose(state.models, [[1, 0.075], [-1, 0.2 / 3]], rtol=1e-6)


def test_the_lowest_client_id_keeps_the_number_in_any_order() -> None:
    state = one_round(SattlerCFL(**EVERY_TIME), world(APART), cohort=[3, 0, 2, 1])
    np.testing.assert_array_equal(state.assignment, [0, 1, 0, 1])


def test_clients_keep_their_ids_in_later_cuts() -> None:
    """Cluster 1 is clients 1, 3, 4 and 6, so its rows are not its ids."""
    updates = [[9, 9], [1, 0], [9, 9], [-1, 0], [1, 0], [9, 9], [-1, 0]]
    w = world(updates)
    before = initial_state(w, [0, 1, 0, 1, 1, 0, 1], [[9, 9], [0, 0]])
    state = one_round(SattlerCFL(**EVERY_TIME), w, before, cohort=[1, 3, 4, 6])
    np.testing.assert_array_equal(state.assignment, [0, 1, 0, 2, 1, 0, 2])
    np.testing.assert_allclose(state.models, [[9, 9], [1, 0], [-1, 0]])


def test_two_clusters_can_be_cut_in_one_round() -> None:
    w = world([[1, 0], [0, 1], [-1, 0], [0, -1], [1, 0], [0, 1]])
    state = one_round(
        SattlerCFL(**EVERY_TIME), w, initial_state(w, [0, 1, 0, 1, 0, 1], [[0, 0], [0, 0]])
    )
    np.testing.assert_array_equal(state.assignment, [0, 1, 2, 3, 0, 1])
    np.testing.assert_allclose(state.models, [[1, 0], [0, 1], [-1, 0], [0, -1]])


def test_a_new_cluster_is_not_cut_in_the_round_that_made_it() -> None:
    """Three clusters: the first cut leaves two of them together."""
    cluster_means = [*at([0, 10, 20]), *at([120, 130, 140]), *at([240, 250, 260])]
    assert len(set(cut_into(cluster_means))) == 2


def test_whoever_was_absent_or_silent_is_cold_and_placed_later() -> None:
    """Client 2 is silent, client 5 not selected, client 6 in another cluster."""
    w = world([[1, 0], [-1, 0], [1, 0], [-1, 0], [1, 0], [-1, 0], [5, 5]], silent=frozenset({2}))
    method = SattlerCFL(**EVERY_TIME)
    before = initial_state(w, [0, 0, 0, 0, 0, 0, 1], [[0, 0], [10, 10]])
    state = one_round(method, w, before, cohort=[0, 1, 2, 3, 4])
    np.testing.assert_array_equal(state.assignment, [0, 2, UNASSIGNED, 2, 0, UNASSIGNED, 1])
    w.silent = frozenset()
    placed = method.place(w, state, np.array([2, 5]), Stream(1, 31, "place"))
    np.testing.assert_array_equal(placed.assignment, [0, 2, 0, 2, 0, 2, 1])
    np.testing.assert_array_equal(placed.models, state.models)


def test_a_cluster_without_cut_keeps_all_clients() -> None:
    state = one_round(SattlerCFL(), world(APART), cohort=[0, 1])
    np.testing.assert_array_equal(state.assignment, np.zeros(4))


# --- rounds in which little happens


def test_a_cluster_that_emptied_keeps_its_model() -> None:
    w = world(APART)
    state = one_round(SattlerCFL(**EVERY_TIME), w, initial_state(w, [0, 0, 0, 0], [[0, 0], [7, 7]]))
    np.testing.assert_allclose(state.models, [[1, 0.05], [7, 7], [-1, 0.05]], rtol=1e-6)
    np.testing.assert_array_equal(state.assignment, [0, 2, 0, 2])


def test_a_cohort_of_one_moves_its_own_cluster() -> None:
    w = world(APART)
    before = initial_state(w, [0, 1, 0, 1], [[0, 0], [0, 0]])
    state = one_round(SattlerCFL(**EVERY_TIME, min_size=1), w, before, cohort=[3])
    np.testing.assert_allclose(state.models, [[0, 0], [-1, 0.1]])
    np.testing.assert_array_equal(state.assignment, before.assignment)


@pytest.mark.parametrize(("cohort", "silent"), [([], ()), ([0, 1, 2, 3], (0, 1, 2, 3)), ([2], ())])
def test_a_round_without_reply_or_with_a_cold_cohort_changes_nothing(
    cohort: list[int], silent: tuple
) -> None:
    w = world(APART, silent=frozenset(silent))
    before = initial_state(w, [0, 1, UNASSIGNED, 1], [[0, 3], [3, 0]])
    state = one_round(SattlerCFL(**EVERY_TIME), w, before, cohort)
    np.testing.assert_array_equal(state.models, before.models)
    np.testing.assert_array_equal(state.assignment, before.assignment)


# --- policies


def test_newcomers_by_direction_go_where_the_models_have_gone() -> None:
    w = world([[1, 0], [-1, 0]])
    # By loss client 1 would go to the second.
    before = initial_state(w, [UNASSIGNED, UNASSIGNED], [[-4, 0], [0.1, 0]])
    placed = SattlerCFL(newcomers="direction").place(
        w, before, np.array([0, 1]), Stream(1, 30, "place")
    )
    np.testing.assert_array_equal(placed.assignment, [1, 0])


@pytest.mark.parametrize(("migration", "cluster"), [("none", 0), ("label_blind", 1)])
def test_a_client_whose_data_shift_moves(migration: Any, cluster: int) -> None:
    w = world(APART, counts=np.full((4, 2), 5))
    before = initial_state(w, [0, 1, 0, 1], [[1, 0], [-1, 0]])
    w.counts = np.array([[10, 0], [5, 5], [5, 5], [5, 5]])
    w.target = w.target * np.array([[-1], [1], [1], [1]], np.float32)
    state = one_round(SattlerCFL(migration=migration), w, before)
    np.testing.assert_array_equal(state.assignment, [cluster, 1, 0, 1])


def test_clusters_can_share() -> None:
    """Models come to (1, 0) and (0, 2): w_0 + eta w_1 / |w_1| over 1 + eta / |w_1|, and the other
    way round."""
    w = world([[1, 0], [0, 1]])
    before = initial_state(w, [0, 1], [[0, 0], [0, 2]])
    state = one_round(SattlerCFL(eta_g=0.5), w, before)
    np.testing.assert_allclose(
        state.models, [[1 / 1.25, 0.5 / 1.25], [0.5 / 1.5, 2 / 1.5]], rtol=1e-6
    )


def test_the_first_split_is_after_a_whole_number_of_rounds() -> None:
    with pytest.raises(MethodError, match=r"first_split must be an integer from 0 up, got 2\.5"):
        SattlerCFL(first_split=2.5)  # pyright: ignore
