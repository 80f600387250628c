"""Variants of the same data: rotated images, permuted labels. Variant 0 is the unchanged data."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream


def rotate_images(
    x: Float[np.ndarray, "M H W *c"],
    variant: Int[np.ndarray, "M"],
    variants: int,
    pixels: tuple[float, float] = (0.0, 1.0),
) -> Float[np.ndarray, "M H W *c"]:
    """Rotate each image counter-clockwise by variant x 360 / variants degrees.

    With 3 variants it is 90 x variant degrees, so up to 4 variants need no interpolation.

    Args:
        x: square images.
        variant: variant of each image.
        variants: number of variants.
        pixels: lowest and highest pixel value; empty corners get the lowest.
    """
    from scipy import ndimage

    low, high = pixels
    step = 90.0 if variants == 3 else 360.0 / variants
    result = x.copy()
    for number in np.unique(variant[variant > 0]):
        rows = variant == number
        quarters = number * step / 90
        # Multiples of 90 degrees only move pixels, so they need no interpolation.
        if math.isclose(quarters, round(quarters)):
            result[rows] = np.rot90(x[rows], round(quarters), axes=(1, 2))
        else:
            interpolated = ndimage.rotate(
                x[rows], number * step, axes=(1, 2), reshape=False, order=1, cval=low
            )
            # Rounding may push interpolated pixels slightly out of the range.
            result[rows] = np.clip(interpolated, low, high)
    return result


def label_permutations(classes: int, variants: int, stream: Stream) -> Int[np.ndarray, "K C"]:
    """A permutation of the labels for each variant, all different; variant 0 keeps the true labels.

    Args:
        classes: number of classes C.
        variants: number of permutations.
        stream: random numbers.

    Raises:
        ConfigError: so many different permutations of these classes do not exist.
    """
    most = math.factorial(classes)
    if variants > most:
        raise ConfigError(
            f"{classes} labels have only {most} permutations, but {variants} are needed"
        )
    rng = stream.child("labels").rng()
    permutations = [tuple(range(classes))]
    while len(permutations) < variants:
        permutation = tuple(rng.permutation(classes).tolist())
        if permutation not in permutations:
            permutations.append(permutation)
    return np.array(permutations)


def label_swaps(classes: int, clusters: int) -> Int[np.ndarray, "K C"]:
    """The label of every class in each cluster, if cluster k swaps the labels 2 k and 2 k + 1.

    With two clusters, the second one swaps 6 and 7, if there are at least 8 classes.
    """
    labels = np.tile(np.arange(classes), (clusters, 1))
    for cluster in range(clusters):
        first = 6 if cluster == 1 and clusters == 2 and classes > 7 else 2 * cluster
        labels[cluster, [first, first + 1]] = first + 1, first
    return labels
