"""FedProx's B^2 (Li et al. 2020, definition 3), term by term."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.measures.gradient_dissimilarity import gradient_dissimilarity


def test_term_by_term() -> None:
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(5, 8)) + 1
    sizes = np.array([3, 1, 4, 1, 5])
    shares = sizes / sizes.sum()
    mean = np.sum([share * g for share, g in zip(shares, gradients, strict=True)], axis=0)
    expected = sum(share * (g @ g) for share, g in zip(shares, gradients, strict=True)) / (
        mean @ mean
    )
    assert gradient_dissimilarity(gradients, sizes.astype(float)) == pytest.approx(expected)


def test_by_hand() -> None:
    """Orthogonal gradients of length 1: 1 / (1/n); alike ones: 1; opposite ones cancel."""
    assert gradient_dissimilarity(np.eye(4)) == pytest.approx(4)
    assert gradient_dissimilarity(np.ones((3, 2))) == pytest.approx(1)
    assert gradient_dissimilarity(np.array([[1.0, 0.0], [-1.0, 0.0]])) == np.inf


def test_it_is_n_times_the_gradient_diversity_of_yin_et_al() -> None:
    """Their definition 1: sum |g|^2 / |sum g|^2, without weights."""
    gradients = np.random.default_rng(1).normal(size=(6, 4)) + 1
    total = gradients.sum(axis=0)
    diversity = sum(g @ g for g in gradients) / (total @ total)
    assert gradient_dissimilarity(gradients) == pytest.approx(6 * diversity)


@pytest.mark.parametrize("gradients", [np.zeros((3, 2)), np.zeros((0, 2)), np.array([[np.nan]])])
def test_no_gradients(gradients: np.ndarray) -> None:
    with pytest.raises(MethodError, match="needs finite gradients"):
        gradient_dissimilarity(gradients)


def test_no_weights() -> None:
    for weights in ([1.0], [-1.0, 2.0], [0.0, 0.0]):
        with pytest.raises(MethodError, match="weights must be 2 numbers"):
            gradient_dissimilarity(np.ones((2, 2)), np.array(weights))
