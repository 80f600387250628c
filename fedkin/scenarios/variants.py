"""Variants of the same data: images turned, classes called by other names. Variant 0 is the data as given."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream


def rotated(
    x: Float[np.ndarray, "M H W *c"],
    variant: Int[np.ndarray, "M"],
    kinds: int,
    pixels: tuple[float, float] = (0.0, 1.0),
) -> Float[np.ndarray, "M H W *c"]:
    """Each image turned counter-clockwise by variant x 360 / kinds degrees (90 x variant where there are 3 kinds, so
    that up to 4 kinds need no interpolation). ``pixels`` are the lowest and the highest: corners that open get the
    lowest."""
    from scipy import ndimage

    low, high = pixels
    step = 90.0 if kinds == 3 else 360.0 / kinds
    result = x.copy()
    for kind in np.unique(variant[variant > 0]):
        mine, quarters = variant == kind, kind * step / 90
        if math.isclose(quarters, round(quarters)):
            result[mine] = np.rot90(x[mine], round(quarters), axes=(1, 2))
        else:
            soft = ndimage.rotate(x[mine], kind * step, axes=(1, 2), reshape=False, order=1, cval=low)
            result[mine] = np.clip(soft, low, high)
    return result


def label_permutations(classes: int, kinds: int, stream: Stream) -> Int[np.ndarray, "K C"]:
    """One naming of the classes per variant, no two alike; variant 0 keeps the true names.

    Raises ConfigError where there are not as many namings.
    """
    most = math.factorial(classes)
    if kinds > most:
        raise ConfigError(f"{classes} labels have only {most} permutations, {kinds} kinds of clients asked for")
    rng, known = stream.child("labels").rng(), [tuple(range(classes))]
    while len(known) < kinds:
        naming = tuple(rng.permutation(classes).tolist())
        if naming not in known:
            known.append(naming)
    return np.array(known)


def swapped(classes: int, clusters: int) -> Int[np.ndarray, "K C"]:
    """What each cluster calls every class: cluster k gives 2 k and 2 k + 1 each other's names; of two clusters the
    second does so with 6 and 7, where there are as many."""
    names = np.tile(np.arange(classes), (clusters, 1))
    for cluster in range(clusters):
        first = 6 if cluster == 1 and clusters == 2 and classes > 7 else 2 * cluster
        names[cluster, [first, first + 1]] = first + 1, first
    return names
