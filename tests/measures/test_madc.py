"""FlexCFL's MADC (eq. 6): two updates are near if they are equally like all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from fedkin.clustering.agglomerative import agglomerative
from fedkin.core.errors import MethodError
from fedkin.measures.cosine import cosine
from fedkin.measures.madc import _cityblock, madc

Oracle = Callable[[str], dict[str, Any]]


def slow(similarity: np.ndarray) -> np.ndarray:
    """Eq. 6 term by term."""
    n = len(similarity)
    total = np.zeros_like(similarity)
    for i, j, z in np.ndindex(n, n, n):
        total[i, j] += abs(similarity[i, z] - similarity[j, z]) * (z != i and z != j)
    return total * (1 - np.eye(n)) / (n - 2)


def test_matrix_of_the_authors(oracle: Oracle) -> None:
    case = oracle("flexcfl")["edc_madc"]
    np.testing.assert_allclose(
        madc(np.array(case["cosine_matrix"])), case["madc_matrix"], atol=1e-12
    )
    updates = np.array(case["update_matrix_n_by_d"], np.float32)
    np.testing.assert_allclose(madc(cosine(updates, updates)), case["madc_matrix"], atol=1e-5)


def test_labels_of_the_authors(oracle: Oracle) -> None:
    case = oracle("flexcfl")["edc_madc"]
    labels = agglomerative(
        madc(np.array(case["cosine_matrix"])), clusters=case["m"], linkage="complete"
    )
    expected = np.array(case["results"]["MADC"]["labels"])
    np.testing.assert_array_equal(labels[:, None] == labels, expected[:, None] == expected)


def test_by_hand() -> None:
    similarity = np.array([[1, 0.5, 0.1], [0.5, 1, -0.2], [0.1, -0.2, 1]])
    np.testing.assert_allclose(madc(similarity), [[0, 0.3, 0.7], [0.3, 0, 0.4], [0.7, 0.4, 0]])


@pytest.mark.parametrize("zeros", [0, 1, 3])
def test_against_the_sum_itself(zeros: int) -> None:
    """An update of zeros is like nothing, not even itself: the diagonal is 0 there."""
    updates = np.random.default_rng(zeros).normal(size=(8, 4))
    updates[:zeros] = 0
    similarity = cosine(updates, updates)
    np.testing.assert_allclose(madc(similarity), slow(similarity), atol=1e-12)


@pytest.mark.parametrize("n", [64, 65, 130])
def test_strips_are_the_whole(n: int) -> None:
    """Rows are compared in strips by several threads: no number differs from a single call's."""
    updates = np.random.default_rng(n).normal(size=(n, 4))
    similarity = cosine(updates, updates)
    np.testing.assert_array_equal(
        _cityblock(similarity), squareform(pdist(similarity, "cityblock"))
    )
    np.testing.assert_allclose(madc(similarity), slow(similarity), atol=1e-12)


def test_rounding_leaves_nothing_below_zero() -> None:
    """The first two are equally like the third; a cosine in float32 can miss 1 a little."""
    similarity = np.array([[1, 0.1, 0.5], [0.1, 0.999, 0.5], [0.5, 0.5, 1]])
    result = madc(similarity)
    assert result.min() == 0
    np.testing.assert_allclose(result[0, 1], 0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2])
def test_two_updates_have_no_others(n: int) -> None:
    with pytest.raises(MethodError, match=rf"at least 3 .*got {n}"):
        madc(np.eye(n))
