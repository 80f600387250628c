"""Descriptors of FLUX and weights of FEROMA, by the authors' code and by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedkin.measures.descriptors import (
    ABSENT,
    group_moments,
    inverse_distances,
    random_axes,
    scaled,
    value_ranges,
)


def test_oracle(oracle: Callable[[str], dict[str, Any]]) -> None:
    """Axes up to sign, descriptors from the code's own axes and centre, scaling, and FEROMA's
    weights."""
    for case in oracle("methods2")["flux"]:
        classes = case["classes"]
        axes = np.array(case["pca_components"])
        np.testing.assert_allclose(
            np.abs(random_axes(axes.shape[1], classes)), np.abs(axes), atol=1e-9
        )
        descriptors = []
        for latents, labels in zip(case["latents"], case["labels"], strict=True):
            z = (np.array(latents) - case["pca_mean"]) @ axes.T
            overall = group_moments(z, np.zeros(len(z), np.int64), 1)
            by_class = group_moments(z, np.array(labels), classes)
            descriptors.append(np.concatenate([overall.ravel(), by_class.ravel()]))
        found = np.stack(descriptors)
        np.testing.assert_allclose(found, case["descriptors"], atol=case["tolerance"])
        ranges = value_ranges(found, classes)
        np.testing.assert_allclose(
            scaled(found, ranges, classes), case["scaled"], atol=case["tolerance"]
        )
        np.testing.assert_allclose(
            scaled(found[:, : 2 * classes], ranges, classes),
            np.array(case["scaled"])[:, : 2 * classes],
            atol=case["tolerance"],
        )
        weights = inverse_distances(
            np.array(case["feroma_current_profiles"]), np.array(case["scaled"])
        )
        np.testing.assert_allclose(weights, case["feroma_weights"], atol=case["tolerance"])


def test_moments_by_hand() -> None:
    """Group 0 has 1 and 3, group 1 one sample, group 2 none."""
    moments = group_moments(
        np.array([[1.0, 5], [9, 9], [3, 5]], np.float32), np.array([0, 1, 0]), 3
    )
    np.testing.assert_array_equal(moments[0], [[2, 5], [ABSENT] * 2, [ABSENT] * 2])
    np.testing.assert_array_equal(moments[1], [[1, 0], [ABSENT] * 2, [ABSENT] * 2])
    assert group_moments(np.zeros((0, 2)), np.zeros(0, np.int64), 2).shape == (2, 2, 2)


def test_deviations_of_large_numbers_keep_their_digits() -> None:
    values = np.array([[1e6], [1e6 + 1]])
    np.testing.assert_allclose(group_moments(values, np.zeros(2, np.int64), 1)[1], 0.5, rtol=1e-9)


def test_axes_are_orthonormal_and_missing_ones_zero() -> None:
    axes = random_axes(7, 4)
    np.testing.assert_allclose(axes @ axes.T, np.eye(4), atol=1e-12)
    np.testing.assert_array_equal(axes, random_axes(7, 4))
    assert np.all(axes[np.arange(4), np.abs(axes).argmax(axis=1)] > 0)
    assert np.linalg.norm(random_axes(2, 4), axis=1).round(9).tolist() == [1, 1, 0, 0]


def test_a_block_is_scaled_as_a_whole() -> None:
    """One lowest and highest for all columns of a block;
    a block of one number stays where it is."""
    descriptors = np.array([[0.0, 4, 7, 7], [2, 3, 7, 7]])
    ranges = value_ranges(descriptors, 2)
    np.testing.assert_array_equal(ranges, [[0, 7], [4, 7]])
    np.testing.assert_array_equal(scaled(descriptors, ranges, 2), [[0, 1, 0, 0], [0.5, 0.75, 0, 0]])
    np.testing.assert_array_equal(scaled(np.array([[8.0, -4]]), ranges, 2), [[2, -1]])


def test_an_unchanged_profile_gets_all_the_weight() -> None:
    weights = inverse_distances(np.array([[0.0, 0], [1, 0]]), np.array([[0.0, 0], [0, 0], [3, 0]]))
    np.testing.assert_allclose(weights[0], [0.5, 0.5, 0], atol=1e-8)
    np.testing.assert_allclose(weights[1], [0.4, 0.4, 0.2], atol=1e-7)
