"""Angles between clients' subspaces of each class (FedDAG). Shapes: N clients, d numbers of a
sample, C classes, p directions. Angles are in degrees.

A. Pramanik, M. Kantarcioglu, V. Oria, S. Sharma: FedDAG. ICLR 2026, arXiv 2602.23504. Only the
comparison of clients is here, without the second encoder.

    V'_ijc  the smallest angle of a direction of client i and one of client j, both of class c
    V_ij    the mean of V'_ijc W_ijc over all classes

Unlike the angles of all classes together, V sees clients that give the same samples other labels.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from fedkin.measures.principal_angles import angles_between

Form = Literal["paper", "as_coded"]
_ABSENT = {"paper": 90.0, "as_coded": 180.0}  # angle for a class that only one of two clients has
_EPS = 1e-8  # is added to counts before their logarithm


def classwise_angles(
    bases: Float[np.ndarray, "N d C p"],
    counts: Int[np.ndarray, "N C"] | None = None,
    *,
    rows: Int[np.ndarray, "n"] | None = None,
    spread: float = 0.5,
    form: Form = "paper",
) -> Float64[np.ndarray, "n N"]:
    """V: the mean over classes of the smallest angles between directions, weighted by how much the
    counts of the class differ.

    A class of only one of two clients has 90 degrees, and a class of neither has 0, both with
    weight 1. The authors' code takes 180 degrees, and cosines with their sign.

    Args:
        bases: directions of length 1 of each client and class; zero for a class without samples.
        counts: samples of each class; None: all weights are 1.
        rows: clients that are compared with all clients; None: all clients [N N].
        spread: delta of the paper: weights lie in 1 - delta .. 1 + delta. In the authors' code they
            lie in 1 .. 1 + spread.
        form: equations of the ``paper``, or the authors' code.
    """
    rows = np.arange(len(bases)) if rows is None else rows
    is_direction = np.einsum("ndcp,ndcp->ncp", bases, bases, dtype=np.float64) > 0.25
    has_class = is_direction.any(axis=2)
    both = has_class[rows, None] & has_class
    either = has_class[rows, None] | has_class
    angles = np.where(either, _ABSENT[form], 0.0)
    for label in range(bases.shape[2]):
        of_class = bases[:, :, label]
        if form == "paper":
            # With a direction and its opposite, the smallest angle has the absolute cosine.
            of_class = np.concatenate([of_class, -of_class], axis=2)
        between = angles_between(of_class[rows], of_class, "as_coded")
        angles[:, :, label] = np.where(both[:, :, label], between, angles[:, :, label])
    if counts is not None:
        # The range of the weights is over all pairs.
        pairs = has_class[:, None] & has_class
        angles = angles * _weights(counts, pairs, spread, form)[rows]
    distances = angles.mean(axis=2)
    distances[np.arange(len(rows)), rows] = 0.0
    return distances


def _weights(
    counts: Int[np.ndarray, "N C"], both: Bool[np.ndarray, "N N C"], spread: float, form: Form
) -> Float64[np.ndarray, "N N C"]:
    """W: ratios of the larger to the smaller logarithm of counts (authors' code: of counts), scaled
    by their range over all pairs of clients and classes that both have; 1 elsewhere."""
    sizes = counts.astype(np.float64)
    if form == "paper":
        sizes = np.log(sizes + _EPS)
    larger = np.maximum(sizes[:, None], sizes)
    smaller = np.minimum(sizes[:, None], sizes)
    ratios = np.divide(larger, smaller, out=np.ones_like(larger), where=both & (smaller != 0))
    compared = ratios[both & ~np.eye(len(counts), dtype=bool)[:, :, None]]
    if not len(compared) or compared.max() == compared.min():
        return np.ones_like(ratios)
    share = (ratios - compared.min()) / (compared.max() - compared.min())
    lowest = 1 - spread if form == "paper" else 1.0
    return np.where(both, lowest + share * (1 + spread - lowest), 1.0)
