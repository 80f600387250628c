"""Distance between clients' current and earlier label counts (FlexCFL, section 3.4; Alg. 2, l. 5).
Shapes: n clients, C classes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Real


def label_blind(
    new: Real[np.ndarray, "n C"], old: Real[np.ndarray, "n C"]
) -> Float64[np.ndarray, "n"]:
    """W_i = 1/C sum_c |sort(new_i)_c - sort(old_i)_c|, in samples.

    The authors' code treats the counts per class as samples of a distribution, and this is their
    Wasserstein distance. It ignores which class has which count: permuting classes changes nothing.
    """
    return label_aware(np.sort(new, axis=1), np.sort(old, axis=1))


def label_aware(
    new: Real[np.ndarray, "n C"], old: Real[np.ndarray, "n C"]
) -> Float64[np.ndarray, "n"]:
    """1/C sum_c |new_ic - old_ic|, in samples: class by class, so permuting classes matters. Not in
    a paper.

    It is never below ``label_blind``, because sorting is the optimal matching of counts.
    """
    return np.abs(np.subtract(new, old, dtype=np.float64)).mean(axis=1)


def shift_threshold(
    sizes: Real[np.ndarray, "n"], classes: int, fraction: float = 0.2
) -> Float64[np.ndarray, "n"]:
    """tau_i = fraction n_i / C, in samples (eq. 9); labels have shifted if their distance is
    *above* it.

    Args:
        sizes: the clients' numbers of samples at the start.
        classes: C.
        fraction: of the samples; removing more than this is a shift.
    """
    # Rounded, because a distance of exactly the fraction is not a shift.
    return np.round(fraction * sizes, 9) / classes
