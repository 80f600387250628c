"""Distances between a client's current and earlier label counts, by which it detects that its data
have shifted (FlexCFL, section 3.4; Alg. 2, l. 5). Shapes: n clients, C classes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Real


def label_blind(
    new: Real[np.ndarray, "n C"], old: Real[np.ndarray, "n C"]
) -> Float64[np.ndarray, "n"]:
    """Distance W_i = 1/C sum_c |sort(new_i)_c - sort(old_i)_c|, in samples.

    The authors' code treats the counts of the classes as samples of a distribution; this is the
    Wasserstein distance of two such distributions. It ignores which class has which count, so a
    permutation of the classes does not change it.
    """
    return label_aware(np.sort(new, axis=1), np.sort(old, axis=1))


def label_aware(
    new: Real[np.ndarray, "n C"], old: Real[np.ndarray, "n C"]
) -> Float64[np.ndarray, "n"]:
    """Distance 1/C sum_c |new_ic - old_ic|, in samples. This distance compares the counts class by
    class, and is not from a paper.

    It is never below ``label_blind``, because sorting is the optimal matching of counts.
    """
    return np.abs(np.subtract(new, old, dtype=np.float64)).mean(axis=1)


def shift_threshold(
    sizes: Real[np.ndarray, "n"], classes: int, fraction: float = 0.2
) -> Float64[np.ndarray, "n"]:
    """Threshold tau_i = fraction n_i / C, in samples (eq. 9). A client's labels have shifted if the
    distance of its label counts is *above* the threshold.

    Args:
        sizes: each client's number of samples at the start.
        classes: C, the number of classes.
        fraction: the share of a client's samples whose removal is still no shift.
    """
    # Rounding makes sure that a distance of exactly the fraction is not a shift.
    return np.round(fraction * sizes, 9) / classes
