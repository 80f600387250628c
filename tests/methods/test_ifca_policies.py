"""IFCA's newcomers, migration and sharing, its costs, and its refusals. Its rounds are in
``test_ifca``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import FedkinError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.methods.ifca import IFCA, IFCAMig
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.shift import Shifted
from tests.methods.ifca_clients import (
    CLIENTS,
    EVERYBODY,
    MODELS,
    STREAM,
    RecordingWorld,
    after,
    given,
    simulated,
    world,
)
from tests.methods.test_conformance import arrays

# --- newcomers


def test_newcomers_choose_in_the_round_itself() -> None:
    w = world()
    state = given()
    placed = IFCA().place(w, state, EVERYBODY, STREAM)
    np.testing.assert_array_equal(placed.assignment, [UNASSIGNED] * 5)
    assert not w.asked and not w.trained
    assert np.all(IFCA().round(w, placed, EVERYBODY, STREAM).assignment != UNASSIGNED)


def test_newcomers_by_loss() -> None:
    placed = IFCA(newcomers="loss").place(world(), given(), np.array([1, 4]), STREAM)
    np.testing.assert_array_equal(placed.assignment, [UNASSIGNED, 0, UNASSIGNED, UNASSIGNED, 1])
    assert placed.models.tobytes() == MODELS.tobytes()


def test_newcomers_at_random() -> None:
    w = world(np.zeros((60, 2), np.float32))
    placed = IFCA(newcomers="random").place(w, given([UNASSIGNED] * 60), np.arange(60), STREAM)
    assert set(placed.assignment.tolist()) == {0, 1, 2} and not w.asked


# --- migration (FlexCFL, Algorithm 2, l. 4-6)

LABELS = np.tile([10, 10, 0], (5, 1))


def shifting(relabelled: bool = False) -> RecordingWorld:
    """Clients 1 and 4 have other labels than they noted: other classes in the same numbers, or
    other numbers too."""
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
def test_shifted_clients_choose_again_selected_or_not(
    migration: Any, relabelled: bool, moves: bool
) -> None:
    result = after([0], shifting(relabelled), given([2] * 5), migration=migration)
    np.testing.assert_array_equal(result.assignment, [0, 0, 2, 2, 1] if moves else [0, 2, 2, 2, 2])


def test_only_shifted_clients_are_asked_and_only_once() -> None:
    w = shifting()
    method = IFCAMig()
    state = method.round(w, given([2] * 5), np.zeros(0, np.int64), STREAM)
    method.round(w, state, np.zeros(0, np.int64), STREAM)
    assert [clients for clients in w.asked if clients] == [[1, 4]]


def test_only_a_first_choice_notes_the_data() -> None:
    """Clients 1 and 4 have other labels than they noted. Client 4 had a cluster, and goes on
    comparing."""
    w = shifting()
    state = after([1, 4], w, given([2, UNASSIGNED, 2, 2, 2]))
    np.testing.assert_array_equal(state.assignment, [2, 0, 2, 2, 1])
    np.testing.assert_array_equal(
        w.run(Shifted(), EVERYBODY).shifted, [False, False, False, False, True]
    )


def test_a_shifted_client_that_gives_no_answer_keeps_its_cluster_and_finds_the_same_again() -> None:
    w = shifting()
    method = IFCAMig()
    w.silent = frozenset({1})
    state = method.round(w, given([2] * 5), np.zeros(0, np.int64), STREAM)
    np.testing.assert_array_equal(state.assignment, [2, 2, 2, 2, 1])
    np.testing.assert_array_equal(
        w.run(Shifted(), EVERYBODY).shifted, [False, True, False, False, False]
    )


def test_migration_goes_as_newcomers_do() -> None:
    """At random, so that no client is asked for losses."""
    w = shifting()
    result = IFCAMig(newcomers="random").round(w, given([2] * 5), np.zeros(0, np.int64), STREAM)
    assert not any(w.asked) and not w.run(Shifted(), EVERYBODY).shifted.any()
    np.testing.assert_array_equal(result.assignment[[0, 2, 3]], [2, 2, 2])


def test_the_variant_differs_in_one_default() -> None:
    assert vars(IFCAMig()) == vars(IFCA(migration="label_blind"))


# --- sharing between clusters


def test_clusters_that_have_clients_share() -> None:
    """Only sharing moves the models, by eta = 2: clients are at their targets. Norms 5 and 10; the
    third cluster is empty."""
    models = np.array([[3, 4], [0, 10], [80, 80]], np.float32)
    w = world(models[:2])
    result = after([0, 1], w, given([0, 1], models), eta_g=2.0).models
    np.testing.assert_allclose(result, [[3 / 1.2, 5], [1.2 / 1.4, 11.6 / 1.4], [80, 80]], rtol=1e-6)


# --- communication (FlexCFL, Fig. 6)


def messages(w: SimulatedWorld) -> tuple[float, float]:
    down, up = w.ledger.total()
    model = 4 * w.spec.parameters
    return down / model, up / model


def test_all_models_go_down_and_one_comes_up() -> None:
    w = simulated()
    method = IFCA(clusters=4)
    state = method.init(w, Stream(3))
    for r in (1, 2, 3):
        state = method.round(w, state, np.arange(r, r + 5), Stream(3, r))
    assert messages(w) == (3 * 5 * 4, 3 * 5)


def test_migration_costs_all_models_once_for_each_that_shifted() -> None:
    w = simulated()
    method = IFCAMig(clusters=4)
    state = method.round(w, method.init(w, Stream(3)), np.arange(CLIENTS), Stream(3, 1))
    before = messages(w)
    kept = w.memory()
    kept["clients/noted_labels"][[0, 5, 9]] = [6, 6, 0]  # twelve samples, where there are six now
    w.recall(kept)
    method.round(w, state, np.array([5, 6]), Stream(3, 2))
    assert messages(w) == (before[0] + 2 * 4 + 3 * 4, before[1] + 2)


# --- refusals

IMPOSSIBLE = [
    {"clusters": 0},
    {"clusters": -1},
    {"threshold": -0.1},
    {"eta_g": -1.0},
    {"eta_g": float("nan")},
]


@pytest.mark.parametrize("options", IMPOSSIBLE, ids=str)
@pytest.mark.parametrize("method", [IFCA, IFCAMig])
def test_invalid_options_are_refused(method: type[IFCA], options: dict[str, Any]) -> None:
    with pytest.raises(FedkinError, match=next(iter(options))):
        method(**options)


CHOICES = [
    (name, "anything")
    for name in ("averaging", "weighting", "shared_base", "newcomers", "migration")
]


@pytest.mark.parametrize(("name", "value"), [*CHOICES, ("newcomers", "direction")])
def test_refuses_an_unknown_choice(name: str, value: str) -> None:
    """The tests' own type checks would refuse it first, so the field is changed behind their back.
    Directions need a start that clusters have in common."""
    method = IFCA()
    object.__setattr__(method, name, value)
    with pytest.raises(FedkinError, match=f"{name} must be one of .*'{value}'"):
        method.__post_init__()


def test_refuses_more_clusters_than_clients() -> None:
    with pytest.raises(FedkinError, match=r"6 clusters .* got 5"):
        IFCA(clusters=6).init(world(), Stream(3))


def test_states_are_left_alone() -> None:
    before = given([2] * 5, MODELS.copy())
    for array in arrays(before).values():
        array.flags.writeable = False
    IFCA(migration="label_blind", eta_g=0.1).round(shifting(), before, EVERYBODY, STREAM)
    IFCA(newcomers="loss").place(world(), before, EVERYBODY, STREAM)
