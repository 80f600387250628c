"""Distance of clients' labels from earlier ones (FlexCFL, section 3.4; Alg. 2, l. 5). Shapes: n
clients, C classes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Real


def label_blind(
    new: Real[np.ndarray, "n C"], old: Real[np.ndarray, "n C"]
) -> Float64[np.ndarray, "n"]:
    """W_i = 1/C sum_c |sort(new_i)_c - sort(old_i)_c|, in samples.

    The authors' code takes the counts per class as samples of a distribution, and this is their
    Wasserstein distance. It is blind to which class has which count: renaming classes changes
    nothing.
    """
    return label_aware(np.sort(new, axis=1), np.sort(old, axis=1))


def label_aware(
    new: Real[np.ndarray, "n C"], old: Real[np.ndarray, "n C"]
) -> Float64[np.ndarray, "n"]:
    """1/C sum_c |new_ic - old_ic|, in samples: class by class, so that renaming classes counts. In
    no paper.

    Never below ``label_blind``: sorting is the cheapest way to match counts.
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
        fraction: of the samples; to take away more than that is a shift.
    """
    # Rounded, as a distance of exactly the fraction is no shift.
    return np.round(fraction * sizes, 9) / classes
