"""FeSEM's newcomers, migration and sharing, its costs, and its refusals. Its rounds are in
``test_fesem``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import FedkinError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.methods.fesem import FeSEM, FeSEMMig
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.shift import Shifted
from tests.methods.fesem_clients import (
    CLIENTS,
    EVERYBODY,
    LOCAL,
    MODELS,
    NO_CLIENTS,
    STREAM,
    after,
    given,
    simulated,
    world,
)

# --- newcomers by other policies


def test_a_newcomer_holds_the_model_of_the_cluster_it_was_given() -> None:
    """By loss: targets (40, 0), (0, 2) and (8, 2) are nearest to the third,
    first and second model."""
    method = FeSEM(newcomers="loss")
    placed = method.place(world(), given(), np.array([0, 1, 2]), STREAM)
    np.testing.assert_array_equal(placed.assignment, [2, 0, 1, UNASSIGNED, UNASSIGNED])
    np.testing.assert_array_equal(
        placed.local, [MODELS[2], MODELS[0], MODELS[1], LOCAL[3], LOCAL[4]]
    )
    assert placed.models.tobytes() == MODELS.tobytes()
    np.testing.assert_array_equal(after([0, 1, 2], state=placed).assignment[:3], [2, 0, 1])


@pytest.mark.parametrize("newcomers", ["loss", "random"])
def test_a_newcomer_that_could_not_be_placed_waits(newcomers: Any) -> None:
    """Client 0 alone trains in cluster 0, half the way from (0, 0) to (40, 0); client 2 is still
    cold."""
    result = after([0, 2], state=given([0, 0, UNASSIGNED, 1, 1]), newcomers=newcomers)
    np.testing.assert_array_equal(result.assignment, [0, 0, UNASSIGNED, 1, 1])
    np.testing.assert_allclose(result.models, [[20, 0], *MODELS[1:]], rtol=1e-6)
    np.testing.assert_array_equal(result.local[2], LOCAL[2])


def test_by_its_own_solution_every_newcomer_finds_a_cluster_in_the_round() -> None:
    result = after([0, 2], state=given([0, 0, UNASSIGNED, 1, 1]))
    np.testing.assert_array_equal(result.assignment, [0, 0, 0, 1, 1])


def test_newcomers_at_random() -> None:
    w = world(np.zeros((60, 2), np.float32))
    state = given([UNASSIGNED] * 60, local=np.zeros((60, 2), np.float32))
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


@pytest.mark.parametrize(
    ("migration", "moves"), [("none", False), ("label_blind", True), ("label_aware", True)]
)
def test_shifted_clients_are_assigned_by_the_same_distance(migration: Any, moves: bool) -> None:
    w = shifting()
    result = after(NO_CLIENTS, w, given([2] * 5), migration=migration)
    np.testing.assert_array_equal(result.assignment, [2, 0, 2, 2, 1] if moves else [2] * 5)
    assert bool(w.run(Shifted(), EVERYBODY).shifted.any()) != moves


def test_only_a_first_cluster_notes_the_data() -> None:
    """Clients 1 and 4 have other labels than they noted. Client 4 had a cluster, and goes on
    comparing."""
    w = shifting()
    result = after([1, 4], w, given([2, UNASSIGNED, 2, 2, 2]))
    np.testing.assert_array_equal(result.assignment, [2, 0, 2, 2, 1])
    np.testing.assert_array_equal(
        w.run(Shifted(), EVERYBODY).shifted, [False, False, False, False, True]
    )


def test_with_migration_the_models_are_the_same() -> None:
    """What a client's data are has nothing to do with its cluster,
    so migration changes no model."""
    plain = FeSEM()
    moving = FeSEMMig()
    a = given([2] * 5)
    b = given([2] * 5)
    w = shifting()
    for cohort in ([0, 3], [1, 2, 4], [0, 1], [3, 4]):
        a = plain.round(shifting(), a, np.array(cohort), STREAM)
        b = moving.round(w, b, np.array(cohort), STREAM)
    assert (
        a.models.tobytes() == b.models.tobytes()
        and np.asarray(a.local).tobytes() == np.asarray(b.local).tobytes()
    )


def test_the_variant_differs_in_one_default() -> None:
    assert vars(FeSEMMig()) == vars(FeSEM(migration="label_blind"))


# --- sharing between clusters


def test_clusters_that_have_clients_share() -> None:
    """Only sharing moves the models, by eta = 2: clients are at their targets. Norms 5 and 10; the
    third cluster is empty."""
    models = np.array([[3, 4], [0, 10], [80, 80]], np.float32)
    result = after([0, 1], world(models[:2]), given([0, 1], models, models[:2]), eta_g=2.0).models
    np.testing.assert_allclose(result, [[3 / 1.2, 5], [1.2 / 1.4, 11.6 / 1.4], [80, 80]], rtol=1e-6)


# --- communication (FlexCFL, Fig. 6)


@pytest.mark.parametrize(
    "method", [FeSEM(clusters=4), FeSEMMig(clusters=4)], ids=["fesem", "fesem_mig"]
)
def test_one_model_goes_down_and_one_comes_up(method: FeSEM) -> None:
    """Placing newcomers, choosing clusters and migration are free: the server has all it needs."""
    w = simulated()
    state = method.place(w, method.init(w, Stream(3)), np.arange(CLIENTS), STREAM)
    kept = w.memory()
    # Everybody has shifted.
    w.recall(kept | {"clients/noted_labels": np.full_like(kept["clients/noted_labels"], 9)})
    for r in (1, 2, 3):
        state = method.round(w, state, np.arange(r, r + 5), Stream(3, r))
    assert w.ledger.total() == (3 * 5 * 4 * w.spec.parameters,) * 2


# --- refusals

IMPOSSIBLE = [
    {"clusters": 0},
    {"clusters": -1},
    {"threshold": -0.1},
    {"eta_g": -1.0},
    {"eta_g": float("nan")},
]


@pytest.mark.parametrize("options", IMPOSSIBLE, ids=str)
@pytest.mark.parametrize("method", [FeSEM, FeSEMMig])
def test_invalid_options_are_refused(method: type[FeSEM], options: dict[str, Any]) -> None:
    with pytest.raises(FedkinError, match=next(iter(options))):
        method(**options)


CHOICES = [(name, "anything") for name in ("part", "weighting", "newcomers", "migration")]


@pytest.mark.parametrize(("name", "value"), [*CHOICES, ("newcomers", "direction")])
def test_refuses_an_unknown_choice(name: str, value: str) -> None:
    """The tests' own type checks would refuse it first, so the field is changed behind their back.
    Directions need a start that clusters have in common."""
    method = FeSEM()
    object.__setattr__(method, name, value)
    with pytest.raises(FedkinError, match=f"{name} must be one of .*'{value}'"):
        method.__post_init__()


def test_refuses_more_clusters_than_clients() -> None:
    with pytest.raises(FedkinError, match=r"6 clusters .* got 5"):
        FeSEM(clusters=6).init(world(), Stream(3))


def test_states_are_left_alone() -> None:
    before = replace(given([2] * 5), models=MODELS.copy(), local=LOCAL.copy())
    # The rows of ``local`` are read-only as they are.
    for array in (
        before.models,
        before.assignment,
    ):
        array.flags.writeable = False
    FeSEM(migration="label_blind", eta_g=0.1).round(shifting(), before, EVERYBODY, STREAM)
    FeSEM(newcomers="loss").place(world(), before, EVERYBODY, STREAM)
