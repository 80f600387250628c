"""Subspaces of clients' samples: the client's work, its reply, and the cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.measures.principal_angles import leading_directions
from fedkin.models import mclr
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.pacfl import Subspace
from tests.simulation.small_federation import EVERYONE, federation, samples

DATA = federation()  # client 0 has one sample, client 1 has two


def world(**options: Any) -> SimulatedWorld:
    return SimulatedWorld(DATA, mclr(DATA), **options)


def test_it_is_the_clients_singular_vectors() -> None:
    basis = world().run(Subspace(3), EVERYONE).basis
    assert basis.shape == (7, 6, 3) and basis.dtype == np.float32
    for client in range(7):
        own = leading_directions(samples(DATA, client)[0], 3)
        np.testing.assert_array_equal(basis[client], own.astype(np.float32))


def test_columns_of_clients_with_few_samples_are_zero() -> None:
    norms = np.linalg.norm(world().run(Subspace(3), EVERYONE).basis, axis=1)
    np.testing.assert_allclose(norms, np.array([[1, 0, 0], [1, 1, 0], *[[1, 1, 1]] * 5]), atol=1e-6)


def test_more_directions_than_features() -> None:
    basis = world().run(Subspace(8), EVERYONE[-1:]).basis[0]
    np.testing.assert_allclose(basis.T @ basis, np.diag([1] * 6 + [0] * 2), atol=1e-6)


def test_bytes_are_those_of_the_vectors() -> None:
    """p x d numbers up from each, nothing down."""
    w = world()
    w.run(Subspace(2), EVERYONE[:5])
    assert (w.ledger.down, w.ledger.up) == ({"subspace": 0}, {"subspace": 5 * 2 * 6 * 4})


def test_samples_are_flattened() -> None:
    data = replace(DATA, x=DATA.x.reshape(-1, 2, 3))
    got = SimulatedWorld(data, mclr(data)).run(Subspace(2), EVERYONE).basis
    np.testing.assert_array_equal(got, world().run(Subspace(2), EVERYONE).basis)


def test_a_client_that_does_not_reply_has_nan() -> None:
    w = world(population=Population(dropout=0.5))
    reply = w.run(Subspace(2), EVERYONE)
    assert 0 < reply.arrived.sum() < 7
    np.testing.assert_array_equal(np.isnan(reply.basis).all(axis=(1, 2)), ~reply.arrived)


@pytest.mark.parametrize("p", [0, -1, True])
def test_as_many_vectors_as_there_can_be(p: Any) -> None:
    with pytest.raises(MethodError, match="p must be an integer of at least 1"):
        Subspace(p)
