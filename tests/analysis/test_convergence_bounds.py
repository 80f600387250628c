"""The quantities of FlexCFL's convergence theorem: by hand on quadratic clients, and their
inequalities on a convex model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.analysis.convergence_bounds import convergence_bounds, growth
from fedkin.core.errors import MethodError
from fedkin.core.training import LocalTraining
from fedkin.simulation.fake_world import FakeWorld
from tests.methods.quadratics import quadratic_world

# Clients a (w - b)^2 / 2 of one parameter. Group 3 has clients 0 and 1: F(w) = w^2 - 2w + 4 from
# w = 0. Group 5 has client 3: F(w) = (w + 3)^2 from w = -1. Client 2 and group 4 are in neither.
A = np.array([1, 3, 7, 2])
B = np.array([4, 0, 9, -3])
ASSIGNMENT = np.array([3, 3, -1, 5])
MODELS = np.array([[50], [50], [50], [0], [50], [-1]], np.float32)


def by_hand(**options: Any) -> Any:
    work = LocalTraining(epochs=2, lr=0.1)
    world = quadratic_world(A.reshape(4, 1, 1), B.reshape(4, 1), np.zeros(1), work)
    return convergence_bounds(world, MODELS, ASSIGNMENT, **options)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_divergence_by_hand() -> None:
    """v of group 3 is 0, 0.2, 0.36, where its clients' gradients are 2 + w from the group's. Steps
    start at 0 and 0.2, so the maximum is 2.2: neither 2 (at the start) nor 2.36 (at the end)."""
    bounds = by_hand()
    assert bounds.clients.tolist() == [0, 1, 3] and bounds.groups.tolist() == [3, 5]
    close(bounds.virtual, [[0.36], [-1.72]])
    close(bounds.client_divergence, [2.2, 2.2, 0])
    close(bounds.group_divergence, [2.2, 0])
    close(bounds.divergence, 2 / 3 * 2.2)


def test_theorem_1_by_hand() -> None:
    """Clients go to 0.4, 0.76 and stay at 0, so w = 0.38. L is 3, of client 1 at 0 and 0.2; M is 4,
    the slope of group 5 at -1."""
    bounds = by_hand()
    close(bounds.federated, [[0.38], [-1.72]])
    close((bounds.smoothness, bounds.lipschitz), (3, 4))
    close(bounds.distance, [0.02, 0])
    close(bounds.distance_bound, [2.2 / 3 * (1.3**2 - 1), 0])
    close(bounds.loss_gap, [3.4096 - 3.3844, 0])
    close(bounds.loss_bound, [4 * 2.2 / 3 * 0.69, 0])
    close(bounds.shared, bounds.federated)
    close(bounds.shared_loss_bound, bounds.loss_bound)


def test_inter_group_aggregation_by_hand() -> None:
    """With eta_g = 0.5 the models go half a unit towards the other's sign. Group 5 shows that
    eq. 22 as printed, without M before eta_g (K - 1), is no bound."""
    bounds = by_hand(eta_g=0.5)
    close(bounds.federated, [[0.38], [-1.72]])
    close(bounds.shared, [[-0.12], [-1.22]])
    close(bounds.shared_distance, [0.48, 0.5])
    close(bounds.shared_distance_bound, [0.506 + 0.5, 0.5])
    close(bounds.shared_loss_gap, [4.2544 - 3.4096, 1.78**2 - 1.28**2])
    close(bounds.shared_loss_bound, [4 * 1.006, 4 * 0.5])
    close(bounds.printed_loss_bound, [4 * 0.506 + 0.5, 0.5])
    assert bounds.printed_loss_bound[1] < bounds.shared_loss_gap[1] <= bounds.shared_loss_bound[1]


def test_known_constants_are_used() -> None:
    bounds = by_hand(smoothness=5.0, lipschitz=10.0)
    close((bounds.smoothness, bounds.lipschitz), (5, 10))
    close(bounds.distance_bound, [2.2 / 5 * (1.5**2 - 1), 0])
    close(bounds.loss_bound, [22 / 5 * 1.25, 0])


def test_clients_count_by_their_samples() -> None:
    """Targets 0 and 8 with 1 and 3 samples: the group's minimum is 6, from which clients are 6 and
    2. Group 1 has as many samples as group 0, and its clients differ from it by 1."""
    target = np.array([[0], [8], [1], [3]], np.float32)
    world = FakeWorld(target, np.array([1, 3, 2, 2]), LocalTraining(epochs=3, lr=0.5))
    bounds = convergence_bounds(world, np.zeros((2, 1), np.float32), np.array([0, 0, 1, 1]))
    close(bounds.client_divergence, [6, 2, 1, 1])
    close(bounds.group_divergence, [6 / 4 + 2 * 3 / 4, 1])
    close(bounds.divergence, (3 + 1) / 2)
    close(bounds.virtual, [[6 * 7 / 8], [2 * 7 / 8]])
    close(bounds.distance, [0, 0])
    close(bounds.smoothness, 1)


def test_the_bound_of_a_linear_loss_is_the_limit() -> None:
    assert growth(0.0, 0.1, 5) == 0.5
    assert growth(1e-9, 0.1, 5) == pytest.approx(0.5)
    assert growth(2.0, 0.5, 3) == pytest.approx(3.5)


@pytest.fixture(scope="module")
def digits() -> tuple[Any, Any, Any]:
    data = fk.data.digits(clients=8, classes_per_client=2)
    return data, fk.models.mclr(data), fk.SGD(epochs=5, lr=0.2)


def test_all_inequalities_hold_for_a_run(digits: tuple[Any, Any, Any]) -> None:
    data, model, local = digits
    method = fk.FlexCFL(clusters=2, alpha=4)
    run = fk.simulate(method, data, model, rounds=2, cohort=8, local=local)
    world = fk.SimulatedWorld(data, model, local)
    bounds = convergence_bounds(world, run.models, run.assignment, eta_g=0.1)
    for name in ("distance", "loss_gap", "shared_distance", "shared_loss_gap"):
        measured = getattr(bounds, name)
        bound = getattr(bounds, f"{name.removesuffix('_gap')}_bound")
        assert (0 < measured).all() and (measured <= bound).all(), name
    table = bounds.table()
    assert table.index.tolist() == [0, 1] and table["loss_bound"].tolist() == [*bounds.loss_bound]
    assert world.ledger.total() == (0, 0)


def test_it_can_be_a_measure_of_a_run(digits: tuple[Any, Any, Any]) -> None:
    data, model, local = digits
    world = fk.SimulatedWorld(data, model, local)

    def divergence(scored: fk.ScoredClients) -> float:
        state = scored.state
        return convergence_bounds(world, state.models, state.assignment).divergence

    run = fk.simulate(
        fk.FlexCFL(clusters=2, alpha=4),
        data,
        model,
        rounds=1,
        cohort=8,
        local=local,
        scoring=fk.Scoring(measures=[fk.Measure("divergence", of=divergence)]),
    )
    last = convergence_bounds(world, run.models, run.assignment).divergence
    assert run.history["divergence"].tolist()[1] == last > 0


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(MethodError, match="eta_g"):
        by_hand(eta_g=-1.0)
    with pytest.raises(MethodError, match="smoothness"):
        by_hand(smoothness=-1.0)
    world = FakeWorld(np.zeros((2, 1), np.float32), np.ones(2, int))
    with pytest.raises(MethodError, match="no client has a group"):
        convergence_bounds(world, np.zeros((1, 1), np.float32), np.array([-1, -1]))
    with pytest.raises(MethodError, match="not finite"):
        convergence_bounds(world, np.full((1, 1), np.inf, np.float32), np.array([0, 0]))
