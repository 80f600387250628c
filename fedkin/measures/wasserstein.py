"""How far the labels of clients have moved (FlexCFL, Section 3.4; Algorithm 2, l. 5). Letters: n clients, C classes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Real


def label_blind(new: Real[np.ndarray, "n C"], old: Real[np.ndarray, "n C"]) -> Float64[np.ndarray, "n"]:
    """W_i = 1/C sum_c |sort(new_i)_c - sort(old_i)_c|, in samples.

    The authors' code takes the counts per class as samples of a distribution, and this is their Wasserstein distance.
    It is blind to which class has which count: classes that change names move nothing.
    """
    return label_aware(np.sort(new, axis=1), np.sort(old, axis=1))


def label_aware(new: Real[np.ndarray, "n C"], old: Real[np.ndarray, "n C"]) -> Float64[np.ndarray, "n"]:
    """1/C sum_c |new_ic - old_ic|, in samples: class by class, so that a change of names is seen. In no paper.

    Never below ``label_blind``: sorting is the cheapest way to match counts.
    """
    return np.abs(np.subtract(new, old, dtype=np.float64)).mean(axis=1)


def shift_threshold(sizes: Real[np.ndarray, "n"], classes: int, fraction: float = 0.2) -> Float64[np.ndarray, "n"]:
    """tau_i = fraction n_i / C, in samples (eq. 9); labels have shifted if their distance is *above* it.

    ``sizes`` are the numbers of samples at the start. To take away more than this fraction of them is a shift.
    """
    return (
        np.round(fraction * sizes, 9) / classes
    )  # a distance of exactly the fraction is no shift, whatever rounding says
