"""Principal angles of subspaces: the paper's two forms, the authors' code, and vectors that count
as a direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.linalg import subspace_angles as scipy_angles

from fedkin.core.errors import MethodError
from fedkin.measures.principal_angles import (
    FORMS,
    angles_between,
    leading_directions,
    orthonormal,
    subspace_angles,
)

ORACLE = {
    "smallest": "smallest_principal_angle_degrees",
    "sum": "sum_of_principal_angles_degrees",
    "same_rank": "sum_of_angles_between_same_rank_vectors_degrees",
    "as_coded": "adjacency_code_degrees",
}


def drawn(clients: int = 6, d: int = 9, p: int = 3, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([np.linalg.qr(rng.normal(size=(d, p)))[0] for _ in range(clients)])


@pytest.mark.parametrize("form", FORMS)
def test_oracle(form: str, oracle: Callable[[str], dict[str, Any]]) -> None:
    for case in oracle("methods2")["pacfl"]:
        angles = subspace_angles(np.array(case["bases_U"]), form)
        np.testing.assert_allclose(angles, case[ORACLE[form]], atol=case["tolerance"])
        np.testing.assert_array_equal(angles.diagonal(), 0)


def test_against_scipy() -> None:
    bases = drawn()
    # Descending.
    expected = np.array([[np.degrees(scipy_angles(a, b)) for b in bases] for a in bases])
    np.testing.assert_allclose(subspace_angles(bases), expected[..., -1], atol=1e-5)
    np.testing.assert_allclose(subspace_angles(bases, "sum"), expected.sum(axis=2), atol=1e-5)


def test_a_turned_plane_by_hand() -> None:
    """Span(x, y) and span(x, y cos 30 + z sin 30) share x; the other angle is 30 degrees."""
    turned = np.array([[1, 0], [0, np.sqrt(3) / 2], [0, 0.5]])
    bases = np.stack([np.eye(3)[:, :2], turned, turned[:, ::-1]])
    np.testing.assert_allclose(subspace_angles(bases)[0], [0, 0, 0], atol=1e-5)
    np.testing.assert_allclose(subspace_angles(bases, "sum")[0], [0, 30, 30], atol=1e-5)
    np.testing.assert_allclose(subspace_angles(bases, "same_rank")[0], [0, 30, 180], atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_it_is_symmetric_to_the_bit(form: str) -> None:
    angles = subspace_angles(drawn(), form)
    np.testing.assert_array_equal(angles, angles.T)


@pytest.mark.parametrize("form", ["smallest", "sum"])
def test_principal_angles_do_not_depend_on_signs_or_order(form: str) -> None:
    bases = drawn()
    other = bases.copy()
    other[0] = bases[0][:, ::-1] * np.array([1, -1, 1])
    np.testing.assert_allclose(
        subspace_angles(other, form), subspace_angles(bases, form), atol=1e-6
    )


@pytest.mark.parametrize("form", ["same_rank", "as_coded"])
def test_angles_between_vectors_depend_on_signs(form: str) -> None:
    bases = drawn()
    other = bases * np.where(np.arange(len(bases)) == 0, -1, 1)[:, None, None]
    assert not np.allclose(subspace_angles(other, form)[0, 1:], subspace_angles(bases, form)[0, 1:])
    np.testing.assert_array_equal(subspace_angles(-bases, form), subspace_angles(bases, form))


def test_the_smallest_entry_is_never_below_the_smallest_principal_angle() -> None:
    bases = drawn(12)
    assert np.all(subspace_angles(bases, "as_coded") >= subspace_angles(bases) - 1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_missing_directions_count_as_nothing(form: str) -> None:
    """A client with one direction is compared by it alone; one with none, or without a reply, is
    not compared."""
    bases = np.zeros((4, 3, 2))
    bases[0] = np.eye(3)[:, :2]
    bases[1, :, 0] = [np.sqrt(0.5), 0, np.sqrt(0.5)]
    bases[3] = np.nan
    angles = subspace_angles(bases, form)
    np.testing.assert_allclose(angles[:2, :2], [[0, 45], [45, 0]], atol=1e-5)
    assert np.isnan(angles[2:]).all() and np.isnan(angles[:, 2:]).all()


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(MethodError, match="form must be one of 'smallest'"):
        subspace_angles(drawn(), "largest")


# --- directions of samples


@pytest.mark.parametrize(("samples", "d"), [(40, 7), (7, 40), (12, 12)])
def test_directions_are_the_left_singular_vectors(samples: int, d: int) -> None:
    x = np.random.default_rng(1).normal(size=(samples, d)).astype(np.float32)
    basis = leading_directions(x, 4)
    left = np.linalg.svd(x.T.astype(np.float64), full_matrices=False)[0][:, :4]
    np.testing.assert_allclose(np.abs(basis), np.abs(left), atol=1e-9)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-9)
    assert np.all(basis[np.abs(basis).argmax(axis=0), np.arange(4)] > 0)


def test_they_do_not_change_when_all_samples_change_their_sign() -> None:
    x = np.random.default_rng(2).normal(size=(9, 5))
    np.testing.assert_allclose(leading_directions(-x, 3), leading_directions(x, 3), atol=1e-12)


def test_by_hand() -> None:
    """Samples along two axes, the second three times as strong: no centring, whole numbers as they
    are."""
    np.testing.assert_allclose(
        leading_directions(np.array([[1, 0, 0], [0, -3, 0]]), 2), [[0, 1], [1, 0], [0, 0]]
    )


@pytest.mark.parametrize(
    "x", [np.ones((1, 4)), np.ones((6, 4)), np.ones((2, 1)), np.zeros((3, 4)), np.ones((0, 4))]
)
def test_directions_that_are_not_there_are_zero(x: np.ndarray) -> None:
    basis = leading_directions(x, 3)
    rank = np.linalg.matrix_rank(x) if x.size else 0
    assert basis.shape == (x.shape[1], 3) and not basis[:, rank:].any()
    np.testing.assert_allclose(basis[:, :rank], np.full((x.shape[1], rank), x.shape[1] ** -0.5))


def test_factors_of_adapters_as_subspaces(oracle: Callable[[str], dict[str, Any]]) -> None:
    """Spans of two factors B are near, although the factors themselves are not alike."""
    case = oracle("adapters")["subspace"]
    factors = np.stack([case["B1"], case["B2"]])
    bases = orthonormal(factors)
    expected = np.degrees(np.arccos(case["cosines_of_principal_angles"]))
    smallest = angles_between(bases[:1], bases[1:], "smallest")[0, 0]
    assert smallest == pytest.approx(expected[0], abs=1e-4)
    assert angles_between(bases[:1], bases[1:], "sum")[0, 0] == pytest.approx(
        expected.sum(), abs=1e-4
    )
    one, other = (factor.ravel() for factor in factors)
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert cosine == pytest.approx(case["cosine_flattened"], abs=1e-9)
