"""Descriptors of clients' data: means and standard deviations of a model's outputs on a client's
samples (FLUX, FEROMA). Shapes: n clients, t samples, C classes, C numbers per sample, H inputs of a
model's last layer, D numbers of a descriptor, which are B blocks of C numbers.

D. Fenoglio, M. Li, et al.: FLUX: Efficient Descriptor-Driven Clustered Federated Learning under
Arbitrary Distribution Shifts. NeurIPS 2025, arXiv 2511.22305.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float64, Int

ABSENT = -1.0  # moments of a class with fewer than two samples at a client
_POINTS = 200  # number of random points that define the projection
_SEED = 1


def random_axes(numbers: int, count: int) -> Float64[np.ndarray, "C H"]:
    """A fixed projection from H to C numbers: the first principal axes of 200 random points in the
    unit cube.

    The axes are orthonormal and depend only on H and C, so all clients compute the same ones. The
    largest entry of each axis is positive. If there are fewer than C axes, the others are zero.

    Args:
        numbers: H, the dimension of the points.
        count: C, the number of axes.
    """
    points = np.random.RandomState(_SEED).uniform(size=(_POINTS, numbers))
    _, _, directions = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    directions = directions[:count]
    # The sign of an axis is arbitrary, so the largest entry is made positive.
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1)
    axes = np.zeros((count, numbers))
    axes[: len(directions)] = np.where(largest < 0, -directions, directions)
    return axes


def group_moments(
    values: Float[np.ndarray, "t C"], group: Int[np.ndarray, "t"], groups: int, least: int = 2
) -> Float64[np.ndarray, "2 groups C"]:
    """Mean and standard deviation of the samples of each group; ``ABSENT`` for fewer than ``least``
    samples.

    Args:
        values: C numbers for each sample.
        group: group of each sample, from 0.
        groups: number of groups.
        least: smallest number of samples of a group with moments, at least 1.
    """
    count = np.bincount(group, minlength=groups)[:, None]
    # Groups without samples are divided by 1, not by 0; the last line makes them ABSENT.
    divisor = np.maximum(count, 1)

    def sums(rows: Float[np.ndarray, "t C"]) -> Float64[np.ndarray, "groups C"]:
        """The sum of the rows (samples) of each group, column by column."""
        columns = [np.bincount(group, column, groups) for column in rows.T]
        return np.stack(columns, axis=1).astype(np.float64)

    mean = sums(values.astype(np.float64)) / divisor
    deviation = np.sqrt(sums((values - mean[group]) ** 2) / divisor)
    return np.where(count < least, ABSENT, np.stack([mean, deviation]))


def value_ranges(descriptors: Float[np.ndarray, "n D"], classes: int) -> Float64[np.ndarray, "2 B"]:
    """The lowest and the highest number of each block of C columns, over all clients. Row 0 of the
    result has the minima, row 1 the maxima.

    Args:
        descriptors: finite descriptors, one row a client, in blocks of C columns.
        classes: C, the number of columns of a block.
    """
    blocks = descriptors.astype(np.float64).reshape(len(descriptors), -1, classes)
    return np.stack([blocks.min(axis=(0, 2)), blocks.max(axis=(0, 2))])


def scaled(
    descriptors: Float[np.ndarray, "n D"], ranges: Float[np.ndarray, "2 B"], classes: int
) -> Float64[np.ndarray, "n D"]:
    """Scale each block of the descriptors to [0, 1] by its range. Clients that did not contribute
    to the ranges may get values outside of [0, 1].

    Args:
        descriptors: the first D / C blocks; D may be smaller than B C.
        ranges: result of ``value_ranges``.
        classes: C, the number of columns of a block.
    """
    count = descriptors.shape[1] // classes
    blocks = descriptors.astype(np.float64).reshape(len(descriptors), count, classes)
    low, high = ranges[:, :count, None]
    # A block without variation is not scaled, only shifted to 0.
    widths = np.where(high > low, high - low, 1)
    return ((blocks - low) / widths).reshape(descriptors.shape)


def inverse_distances(
    first: Float[np.ndarray, "n D"], second: Float[np.ndarray, "m D"]
) -> Float64[np.ndarray, "n m"]:
    """For each ``first`` descriptor, a weight for each ``second`` one: 1 / (distance + 1e-8),
    divided by the sum over all ``second`` ones, so that close descriptors weigh most (FEROMA)."""
    from scipy.spatial.distance import cdist

    distances = cdist(first.astype(np.float64), second.astype(np.float64))
    weights = 1 / (distances + 1e-8)
    return weights / weights.sum(axis=1, keepdims=True)
