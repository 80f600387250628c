"""FlexCFL's two cold starts and its refusals. Its rounds are in ``test_flexcfl_rounds``.

Expectations are worked out from the paper's algorithms and the published description of the code.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.metrics import adjusted_rand_score

from fedkin.core.errors import FedkinError, MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.methods.flexcfl import FlexCFL
from fedkin.models import mclr
from fedkin.simulation.engine import SimulatedWorld
from tests.methods.flexcfl_clients import (
    ONE,
    ROUND,
    STREAM,
    TRUE_CLUSTERS,
    UPDATE,
    given,
    many,
    world,
)

# --- group cold start (Algorithm 3)


@pytest.mark.parametrize("measure", ["edc", "madc"])
def test_group_cold_start_finds_the_true_clusters(measure: Any) -> None:
    state = FlexCFL(measure=measure).init(world(), STREAM)
    order = state.assignment[:3]
    assert sorted(order) == [0, 1, 2]
    np.testing.assert_array_equal(state.assignment, order[TRUE_CLUSTERS])
    np.testing.assert_allclose(
        state.models[order], ONE + [[2, 0, 0], [0, 4, 0], [0, 0, 1.5]], rtol=1e-6
    )
    np.testing.assert_allclose(
        state.directions[order], [[2, 0, 0], [0, 4, 0], [0, 0, 1.5]], rtol=1e-6
    )
    np.testing.assert_array_equal(state.start, ONE)


def test_madc_is_clustered_by_complete_linkage() -> None:
    """Against MADC term by term and SciPy's linkage, on updates that single and average linkage
    part otherwise."""
    updates = np.random.default_rng(3).normal(size=(10, 3)).astype(np.float32)
    unit = updates / np.linalg.norm(updates, axis=1, keepdims=True)
    s = unit @ unit.T
    n = len(updates)
    pairs = [
        sum(abs(s[i, z] - s[j, z]) for z in range(n) if z not in (i, j))
        for i, j in combinations(range(n), 2)
    ]
    complete, average, single = (
        fcluster(linkage(pairs, method), 3, "maxclust")
        for method in ("complete", "average", "single")
    )
    result = FlexCFL(measure="madc").init(world(updates), STREAM).assignment
    assert adjusted_rand_score(complete, result) == 1
    assert adjusted_rand_score(complete, average) < 1 and adjusted_rand_score(complete, single) < 1


@pytest.mark.parametrize("measure", ["edc", "madc"])
@pytest.mark.parametrize(
    "updates", [[[1, 0, 0], [2, 0, 0]], [[1, 0, 0], [0, 1, 0], [0, 2, 0]]], ids=["two", "three"]
)
def test_with_as_many_updates_as_clusters_every_client_is_a_cluster(
    measure: Any, updates: Any
) -> None:
    """Two that point the same way too; and MADC needs three to say anything."""
    updates = np.array(updates, np.float32)
    state = FlexCFL(clusters=len(updates), measure=measure).init(world(updates), STREAM)
    assert sorted(state.assignment) == list(range(len(updates)))
    np.testing.assert_allclose(state.models[state.assignment], ONE + updates, rtol=1e-6)


def test_pretraining_is_fifty_mini_batches() -> None:
    w = world()
    FlexCFL().init(w, STREAM)
    FlexCFL(steps=7).place(w, given([UNASSIGNED] * 6), np.arange(6), STREAM)
    assert [work.steps for _, work in w.calls] == [50, 7]


def test_alpha_m_clients_are_clustered_and_the_others_wait() -> None:
    w = world(many())
    state = FlexCFL(alpha=4).init(w, STREAM)
    [(asked, _)] = w.calls
    assert len(asked) == 12 and asked == sorted(set(asked))
    np.testing.assert_array_equal(np.flatnonzero(state.assignment != UNASSIGNED), asked)


def test_only_clients_that_may_migrate_are_sent_the_directions() -> None:
    """No client keeps directions that it will never compare itself with."""
    cases = [("direction", "label_blind", 4 * 6 * 3 * 3), ("direction", "none", 0)]
    cases += [("loss", "label_blind", 0), ("random", "label_blind", 0)]
    for newcomers, migration, sent in cases:
        w = world()
        method = FlexCFL(
            newcomers=newcomers,  # pyright: ignore[reportArgumentType]
            migration=migration,  # pyright: ignore[reportArgumentType]
        )
        state = method.init(w, STREAM)
        assert w.ledger.down.get("send", 0) == sent
        assert state.informed.all() == state.informed.any() == bool(sent)


def test_answers_without_a_direction_are_left_out() -> None:
    """Clients 6 and 7 answer zeros and NaN, client 8 nothing. The groups are formed from the
    others."""
    w = world(
        np.concatenate([UPDATE, np.zeros((1, 3)), UPDATE[:2]]),
        garbage=frozenset({7}),
        silent=frozenset({8}),
    )
    state = FlexCFL().init(w, STREAM)
    np.testing.assert_array_equal(state.assignment[6:], UNASSIGNED)
    alone = FlexCFL().init(world(), STREAM)
    assert sorted(map(tuple, state.models)) == sorted(map(tuple, alone.models))
    assert not state.informed[6:].any()


def test_fewer_sound_answers_than_clusters() -> None:
    w = world(
        np.where(np.arange(6)[:, None] == 5, 0, UPDATE),
        garbage=frozenset({0, 1}),
        silent=frozenset({2}),
    )
    with pytest.raises(
        MethodError, match="cold start of 3 clusters: only 2 of 6 clients sent an update"
    ):
        FlexCFL().init(w, STREAM)


def test_clients_of_one_class_each_are_found_by_their_class() -> None:
    label = np.arange(9) % 3
    rows = np.arange(45).reshape(9, 5)
    x = np.random.default_rng(0).normal(size=(45, 2)).astype(np.float32) + 1
    whole = Ragged.of(list(rows))
    data = FederatedData(
        name="one class", x=x, y=np.repeat(label, 5), classes=3, train=whole, test=whole
    )
    state = FlexCFL().init(SimulatedWorld(data, mclr(data), LocalTraining(lr=0.1)), STREAM)
    np.testing.assert_array_equal(state.assignment, state.assignment[:3][label])
    assert sorted(state.assignment[:3]) == [0, 1, 2]


# --- client cold start (eq. 8)


def test_a_newcomer_goes_where_its_update_points() -> None:
    """Its distance to the models would say cluster 0; the direction of its update from w_0 says
    cluster 1."""
    w = world(np.array([[0.1, 1, 0], [5, 1, 0]], np.float32))
    state = given(
        [UNASSIGNED, UNASSIGNED],
        ONE + [[0, 1, 0], [100, 0, 0]],
        [[1, 0, 0], [0, 0.01, 0]],
        informed=False,
    )
    after = FlexCFL(clusters=2).place(w, state, np.arange(2), STREAM)
    np.testing.assert_array_equal(after.assignment, [1, 0])
    np.testing.assert_array_equal(after.models, state.models)
    assert after.informed.all() and w.ledger.down == {"send": 4 * 2 * 2 * 3}


def test_one_without_an_answer_stays_unassigned_and_is_sent_the_directions_again() -> None:
    """Those that replied have them: client 2, whose update is not finite, and client 4, whose is
    zero."""
    w = world(
        np.where(np.arange(6)[:, None] == 4, 0, UPDATE),
        silent=frozenset({1}),
        garbage=frozenset({2}),
    )
    after = FlexCFL().place(w, given([UNASSIGNED] * 6, informed=False), np.arange(6), STREAM)
    np.testing.assert_array_equal(after.assignment, [0, UNASSIGNED, UNASSIGNED, 0, UNASSIGNED, 2])
    assert after.informed.tolist() == [True, False, True, True, True, True]
    w.silent = w.garbage = frozenset()
    again = FlexCFL().place(w, after, np.array([1, 2, 4]), ROUND)
    np.testing.assert_array_equal(again.assignment, [0, 1, 2, 0, UNASSIGNED, 2])
    assert again.informed.all() and w.ledger.down["send"] == 4 * (6 + 1) * 3 * 3


# --- RCC and RAC (Section 5)


def test_random_centres_are_single_clients() -> None:
    w = world(many())
    state = FlexCFL(centers="random").init(w, STREAM)
    [(centres, _)] = w.calls
    assert len(centres) == 3
    np.testing.assert_array_equal(np.flatnonzero(state.assignment != UNASSIGNED), centres)
    np.testing.assert_allclose(
        state.directions[state.assignment[centres]], many()[centres], rtol=1e-6
    )
    np.testing.assert_allclose(state.models, ONE + state.directions, rtol=1e-6)


def test_random_assignment_asks_nothing_and_sends_nothing() -> None:
    w = world(many())
    after = FlexCFL(newcomers="random").place(
        w, given([UNASSIGNED] * 60, informed=False), np.arange(60), STREAM
    )
    # 20 expected, standard deviation 3.7.
    assert np.bincount(after.assignment, minlength=3).min() > 5
    assert not hasattr(w, "calls") and w.ledger.total() == (0, 0)


# --- refusals


IMPOSSIBLE = [
    *({name: 0} for name in ("clusters", "alpha", "steps")),
    {"eta_g": float("nan")},
    {"threshold": -0.1},
]


@pytest.mark.parametrize("options", IMPOSSIBLE, ids=str)
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(FedkinError, match=next(iter(options))):
        FlexCFL(**options)


@pytest.mark.parametrize("name", ["measure", "migration", "centers", "newcomers", "normalize"])
def test_refuses_an_unknown_choice(name: str) -> None:
    """The tests' own type checks would refuse it first,
    so the field is changed behind their back."""
    method = FlexCFL()
    object.__setattr__(method, name, "anything")
    with pytest.raises(FedkinError, match=f"{name} must be one of .*'anything'"):
        method.__post_init__()


def test_refuses_more_clusters_than_clients() -> None:
    with pytest.raises(MethodError, match="7 clusters need at least as many clients, got 6"):
        FlexCFL(clusters=7).init(world(), STREAM)
