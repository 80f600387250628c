"""FedGroup's ternary cosine similarity (eq. 7): three directions,
and each update's angle to them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.errors import MethodError
from fedkin.measures.ternary import base_directions, ternary_similarity


def test_directions_are_left_singular_vectors_times_singular_values() -> None:
    """Columns 3 e_x, 4 e_x, 2 e_y, 1 e_z: singular values 5, 2, 1 along x, y, z."""
    updates = np.array([[3, 0, 0], [4, 0, 0], [0, 2, 0], [0, 0, 1]], np.float32)
    np.testing.assert_allclose(
        np.abs(base_directions(updates)), np.diag([5.0, 2.0, 1.0]), atol=1e-5
    )


def test_nothing_is_centred() -> None:
    """Equal updates: centring would leave no direction at all; the first one is theirs."""
    updates = (
        np.tile(np.array([[1, 2, 2]], np.float32), (4, 1)) + np.diag([1e-3, 2e-3, 3e-3, 0])[:, :3]
    )
    first = base_directions(updates.astype(np.float32))[0]
    np.testing.assert_allclose(np.abs(first), 2 * np.array([1, 2, 2]), rtol=1e-2)


def test_similarity_by_hand() -> None:
    updates = np.array([[3, 4], [0, -2]], np.float32)
    directions = np.array([[10, 0], [0, 0.1], [-1, 0]], np.float32)
    np.testing.assert_allclose(
        ternary_similarity(updates, directions), [[0.2, 0.1, 0.8], [0.5, 1, 0.5]], atol=1e-6
    )


def test_a_zero_update_stands_in_the_middle() -> None:
    updates = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3]], np.float32)
    similarity = ternary_similarity(updates, base_directions(updates))
    np.testing.assert_allclose(similarity[0], 0.5)
    assert np.isfinite(similarity).all()


@pytest.mark.parametrize("parameters", [1, 2, 5])
def test_fewer_parameters_than_directions(parameters: int) -> None:
    """A direction that no update has is zero, not rounding noise blown up to a unit vector."""
    updates = np.random.default_rng(0).normal(size=(6, parameters)).astype(np.float32)
    directions = base_directions(updates)
    similarity = ternary_similarity(updates, directions)
    assert directions.shape == (3, parameters) and similarity.shape == (6, 3)
    np.testing.assert_allclose(similarity[:, parameters:], 0.5, atol=1e-5)


def test_updates_of_two_clusters_have_two_directions() -> None:
    cluster_means = np.random.default_rng(1).normal(size=(2, 40)).astype(np.float32)
    updates = np.repeat(cluster_means, 5, axis=0)
    np.testing.assert_allclose(
        ternary_similarity(updates, base_directions(updates))[:, 2], 0.5, atol=1e-5
    )


def test_fewer_updates_than_directions() -> None:
    updates = np.array([[1, 0, 0], [0, 2, 0]], np.float32)
    with pytest.raises(MethodError, match=r"updates, 2; got 3"):
        base_directions(updates)
    np.testing.assert_allclose(
        np.abs(base_directions(updates, 2)), [[0, 2, 0], [1, 0, 0]], atol=1e-6
    )


def test_only_zero_updates() -> None:
    updates = np.zeros((4, 3), np.float32)
    np.testing.assert_allclose(ternary_similarity(updates, base_directions(updates)), 0.5)


@given(st.integers(0, 10_000), st.integers(4, 12), st.integers(4, 30))
def test_against_a_full_decomposition(seed: int, clients: int, parameters: int) -> None:
    updates = np.random.default_rng(seed).normal(size=(clients, parameters))
    # Three directions that stand out, as clients of three clusters give.
    updates[:, :3] *= [40, 20, 10]
    directions = base_directions(updates.astype(np.float32))
    u, s, _ = np.linalg.svd(updates.T, full_matrices=False)
    cosines = np.abs(np.sum(directions * (u[:, :3] * s[:3]).T, axis=1)) / s[:3] ** 2
    np.testing.assert_allclose(cosines, 1, rtol=1e-3)
    gram = directions @ directions.T
    np.testing.assert_allclose(np.diag(gram), s[:3] ** 2, rtol=1e-3)
    np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0, atol=1e-3 * s[0] ** 2)


def test_the_same_updates_give_the_same_bits() -> None:
    updates = np.random.default_rng(0).normal(size=(20, 50)).astype(np.float32)
    np.testing.assert_array_equal(base_directions(updates), base_directions(updates.copy()))
