"""FlexCFL's EDC (eq. 7): cosines to the first m singular directions, and their distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.clustering.kmeans import kmeans
from fedkin.core.errors import MethodError
from fedkin.measures.edc import edc, edc_embedding


@pytest.fixture
def case(oracle: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    return oracle("flexcfl")["edc_madc"]


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 1e-6)])
def test_embedding_of_the_authors(case: dict[str, Any], dtype: type, tolerance: float) -> None:
    expected = np.array(case["edc_embedding_n_by_m"])
    result = edc_embedding(np.array(case["update_matrix_n_by_d"], dtype), case["m"])
    signs = np.sign(np.sum(result * expected, axis=0))
    np.testing.assert_allclose(result * signs, expected, atol=tolerance)


def test_distances_of_the_paper(case: dict[str, Any]) -> None:
    result = edc(edc_embedding(np.array(case["update_matrix_n_by_d"]), case["m"]))
    np.testing.assert_allclose(result, case["edc_pairwise_paper_eq7_with_1_over_m"], atol=1e-9)


def test_labels_of_the_authors(case: dict[str, Any]) -> None:
    labels = kmeans(
        edc_embedding(np.array(case["update_matrix_n_by_d"]), case["m"]),
        case["m"],
        seed=case["seed"],
    )
    expected = np.array(case["results"]["EDC"]["labels"])
    np.testing.assert_array_equal(labels[:, None] == labels, expected[:, None] == expected)


def test_embedding_by_hand() -> None:
    """The columns 3 e_x, -4 e_x, 2 e_y, 1 e_z have directions x, y, z; the strongest entry of each
    is positive."""
    updates = np.array([[3, 0, 0], [-4, 0, 0], [0, -2, 0], [0, 0, 1]], np.float32)
    result = edc_embedding(updates, 3)
    np.testing.assert_allclose(
        np.abs(result), [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], atol=1e-12
    )
    assert result[0, 0] == -result[1, 0] and result[2, 1] > 0 and result[3, 2] > 0


def test_the_strongest_entry_gives_the_sign() -> None:
    updates = np.random.default_rng(2).normal(size=(9, 40)).astype(np.float32)
    result = edc_embedding(updates, 4)
    assert np.all(result.max(axis=0) > -result.min(axis=0))
    np.testing.assert_allclose(edc_embedding(-updates, 4), result, atol=1e-12)


def test_distances_by_hand() -> None:
    result = edc(np.array([[0.0, 0.0], [0.6, 0.8], [0.0, 0.8]]))
    np.testing.assert_allclose(result, [[0, 0.5, 0.4], [0.5, 0, 0.3], [0.4, 0.3, 0]])


def test_a_direction_a_thousand_times_weaker() -> None:
    """All updates share a direction; that in which they differ has a thousandth of its singular
    value."""
    shared, own = np.eye(2, 5000, dtype=np.float32)
    side = np.array([1, -1] * 10, np.float32)
    result = edc_embedding(shared + np.outer(side, own) / np.float32(1000), 2)
    np.testing.assert_allclose(result[:, 0], 1, atol=1e-5)
    np.testing.assert_allclose(result[:, 1] * result[0, 1], side * 1e-6, rtol=1e-4)


def test_a_small_update_keeps_its_digits() -> None:
    updates = np.random.default_rng(0).normal(size=(6, 50))
    result = edc_embedding(np.concatenate([updates * 1e-12, updates]), 6)
    np.testing.assert_allclose(result[:6], result[6:], atol=1e-9)


@pytest.mark.parametrize("parameters", [1, 2, 5])
def test_rank_too_low(parameters: int) -> None:
    updates = np.random.default_rng(0).normal(size=(6, parameters)).astype(np.float32)
    result = edc_embedding(updates, 6)
    np.testing.assert_array_equal(result[:, parameters:], 0)
    # All there is of an update lies in those directions.
    np.testing.assert_allclose(np.sum(result**2, axis=1), 1)


def test_updates_of_zeros() -> None:
    updates = np.diag(np.array([0, 1, 2], np.float32))
    np.testing.assert_allclose(edc_embedding(updates, 2), [[0, 0], [0, 1], [1, 0]])
    np.testing.assert_array_equal(edc_embedding(np.zeros((4, 3), np.float32), 2), np.zeros((4, 2)))


@pytest.mark.parametrize("directions", [0, 4])
def test_as_many_directions_as_there_can_be(directions: int) -> None:
    with pytest.raises(MethodError, match=rf"directions .*updates, 3; got {directions}"):
        edc_embedding(np.eye(3, dtype=np.float32), directions)


@given(st.integers(0, 10_000), st.integers(3, 12), st.integers(4, 30))
def test_against_a_full_decomposition(seed: int, clients: int, parameters: int) -> None:
    updates = np.random.default_rng(seed).normal(size=(clients, parameters))
    updates[:, :3] *= [400, 60, 20]
    directions = np.linalg.svd(updates.T, full_matrices=False)[0][:, :3]
    expected = updates @ directions / np.linalg.norm(updates, axis=1, keepdims=True)
    result = edc_embedding(updates, 3)
    np.testing.assert_allclose(np.abs(result), np.abs(expected), atol=1e-6)
    np.testing.assert_array_equal(edc_embedding(updates.copy(), 3), result)
