"""Angles between clients' subspaces: PACFL's picture of a federation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.analysis.subspace_angles import subspace_angles
from fedkin.clustering.agglomerative import agglomerative
from fedkin.core.errors import MethodError
from fedkin.data.federated import FederatedData, Ragged
from fedkin.measures import principal_angles
from fedkin.measures.principal_angles import FORMS
from fedkin.models import mclr
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.pacfl import Subspace


def federation() -> FederatedData:
    """Eight clients in two planes of a space of twelve dimensions, with some noise."""
    rng = np.random.default_rng(0)
    planes = np.linalg.qr(rng.normal(size=(12, 4)))[0].T.reshape(2, 2, 12)
    cluster = np.repeat(np.arange(8) % 2, 30)
    x = np.einsum("mk,mkd->md", rng.normal(size=(240, 2)), planes[cluster]) + 0.02 * rng.normal(
        size=(240, 12)
    )
    rows = Ragged.of(list(np.arange(240).reshape(8, 30)))
    return FederatedData(
        name="planes",
        x=x.astype(np.float32),
        y=rng.integers(0, 2, 240),
        classes=2,
        train=rows,
        test=rows,
        true_clusters=np.arange(8) % 2,
    )


DATA = federation()


def world(**options: Any) -> SimulatedWorld:
    return SimulatedWorld(DATA, mclr(DATA), **options)


@pytest.mark.parametrize("form", FORMS)
def test_it_equals_the_measure_of_the_clients_replies(form: str) -> None:
    bases = world().run(Subspace(2), np.arange(8)).basis
    np.testing.assert_array_equal(
        fk.subspace_angles(world(), 2, form), principal_angles.subspace_angles(bases, form)
    )


@pytest.mark.parametrize("form", ["smallest", "sum"])
def test_it_tells_the_planes_apart(form: str) -> None:
    angles = subspace_angles(world(), 2, form)
    same = DATA.true_clusters[:, None] == DATA.true_clusters  # type: ignore[index]
    assert angles[same].max() < 10 < 45 < angles[~same].min()
    labels = agglomerative(angles, clusters=2, linkage="average")
    np.testing.assert_array_equal(labels[:, None] == labels, same)


def test_newcomers_and_silent_clients_have_no_angle() -> None:
    angles = subspace_angles(world(population=Population(arrivals={2: 3})), 2)
    assert angles.shape == (8, 8) and np.isfinite(angles[:5, :5]).all()
    assert np.isnan(angles[5:]).all() and np.isnan(angles[:, 5:]).all()
    angles = subspace_angles(world(population=Population(dropout=0.5)), 2)
    assert 0 < np.isnan(angles.diagonal()).sum() < 8


def test_its_traffic_is_no_methods() -> None:
    w = world()
    subspace_angles(w, 2)
    assert w.ledger.up == {"scoring.subspace": 8 * 2 * 12 * 4} and w.ledger.total() == (0, 0)


def test_impossible_settings_are_refused_before_anybody_is_asked() -> None:
    w = world()
    for options in ({"p": 0}, {"form": "largest"}):
        with pytest.raises(MethodError, match=next(iter(options))):
            subspace_angles(w, **options)  # type: ignore[arg-type]
    assert not w.ledger.up


def test_rotated_digits_are_found() -> None:
    """Digits turned by 0, 90, 180 and 270 degrees: all clients of a cluster are nearer than any of
    another."""
    digits = fk.planted("digits", "rotation", clusters=4, clients=20)
    angles = subspace_angles(SimulatedWorld(digits, mclr(digits)))
    assert digits.true_clusters is not None
    same = digits.true_clusters[:, None] == digits.true_clusters
    assert angles[same].max() < angles[~same].min()
