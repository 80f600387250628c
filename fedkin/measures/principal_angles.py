"""Principal angles between subspaces of clients' samples (PACFL). Shapes: N, n and m clients, d
numbers of a sample, s samples, p directions, C classes. Angles are in degrees.

S. Vahidian et al.: Efficient Distribution Similarity Identification in Clustered Federated Learning
via Principal Angles Between Client Data Subspaces. AAAI 2023, arXiv 2209.10526.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Num

from fedkin.core.validation import check_choice
from fedkin.measures.gram import gram, leading_eigenpairs

_WEAKEST = 0.5  # directions have length 1; a shorter column is empty (zero or NaN)
# Directions of a basis below this share of the largest singular value are float32 rounding noise.
_DEPENDENT = 1e-5
_BLOCK = 2**23  # number of cosines in memory at a time


def leading_directions(samples: Num[np.ndarray, "s d"], p: int) -> Float64[np.ndarray, "d p"]:
    """The first p left singular vectors of the d x s sample matrix.

    They are computed from the d x d or the s x s Gram matrix, whichever is smaller. Samples are
    neither centred nor scaled, as in the authors' code, so the first direction is close to the mean
    sample. The sign of a direction is chosen so that its largest component is positive (the first
    of ties). If there are fewer than p directions, because samples are few or equal, the last
    columns are zero.
    """
    rows = samples.astype(np.float64)
    is_wide = len(rows) <= rows.shape[1]
    count = min(p, *rows.shape)
    basis = np.zeros((rows.shape[1], p))
    if count:
        # The Gram matrix of the samples or of the features, whichever is smaller.
        values, vectors = leading_eigenpairs(gram(rows if is_wide else rows.T), count)
        lengths = np.sqrt(np.where(values > 0, values, 1))
        basis[:, :count] = rows.T @ vectors / lengths if is_wide else vectors
    largest = np.take_along_axis(basis, np.abs(basis).argmax(axis=0)[None], axis=0)
    return np.where(largest < 0, -basis, basis)


def directions_by_label(
    samples: Num[np.ndarray, "s d"], labels: Int[np.ndarray, "s"], classes: int, p: int
) -> Float64[np.ndarray, "d C p"]:
    """The first p directions of the samples of each label; zero for a label without samples.

    Args:
        samples: samples, one per row.
        labels: labels of the samples.
        classes: C, the number of classes.
        p: number of directions for each label.
    """
    bases = [leading_directions(samples[labels == label], p) for label in range(classes)]
    return np.stack(bases, axis=1)


def side_by_side(bases: Float[np.ndarray, "N d C p"]) -> Float[np.ndarray, "N d q"]:
    """Arrange each client's directions of all labels as the q = C p columns of one matrix, in the
    order of labels.

    Columns that are not directions become zero and are moved to the end.
    """
    columns = bases.reshape(*bases.shape[:2], -1)
    is_direction = _directions(columns)
    columns = np.where(is_direction[:, None], columns, 0)
    order = np.argsort(~is_direction, axis=1, kind="stable")
    return np.take_along_axis(columns, order[:, None], axis=2)


def orthonormal(bases: Float[np.ndarray, "N d q"]) -> Float64[np.ndarray, "N d r"]:
    """An orthonormal basis of the span of each client's columns, as principal angles need it.
    Columns beyond the dimension of the span are zero."""
    left, values, _ = np.linalg.svd(np.nan_to_num(bases.astype(np.float64)), full_matrices=False)
    in_span = values > _DEPENDENT * np.maximum(values[:, :1], _WEAKEST)
    return left * in_span[:, None]


def _directions(bases: Float[np.ndarray, "N d p"]) -> Bool[np.ndarray, "N p"]:
    """Which columns of each client are directions. Columns without a direction are zero, and NaN
    for a client that did not reply."""
    return np.einsum("ndp,ndp->np", bases, bases, dtype=np.float64) > _WEAKEST


def angles_between(
    first: Float[np.ndarray, "n d p"], second: Float[np.ndarray, "m d p"], form: str = "smallest"
) -> Float64[np.ndarray, "n m"]:
    """Angles between each client of the first set and each client of the second set, in bounded
    memory.

    Args:
        first, second: the directions of each client, as columns; they must be orthonormal for
            principal angles.
        form: form of the angle, as in ``subspace_angles``.

    Raises:
        MethodError: the form is unknown.
    """
    check_choice("form", form, tuple(FORMS))
    exists_first = _directions(first)
    exists_second = _directions(second)
    clients = len(second)
    p = second.shape[2]
    angles = np.full((len(first), clients), np.nan)
    if not clients:
        return angles

    # The directions of all clients of the second set, as columns of one matrix.
    columns = np.where(exists_second[:, None], second, 0).astype(np.float64).transpose(1, 0, 2)
    columns = columns.reshape(columns.shape[0], -1)

    # A few clients of the first set at a time, so that their cosines fit into memory.
    rows = max(1, _BLOCK // max(1, clients * p * p))
    for start in range(0, len(first), rows):
        block = slice(start, start + rows)
        exists = exists_first[block]
        bases = np.where(exists[:, None], first[block], 0).astype(np.float64)
        cosines = bases.transpose(0, 2, 1) @ columns
        cosines = cosines.reshape(len(bases), p, clients, p).transpose(0, 2, 1, 3)
        both = exists[:, None, :, None] & exists_second[None, :, None, :]
        values = FORMS[form](cosines.reshape(-1, p, p), both.reshape(-1, p, p))
        values = values.reshape(len(bases), clients)
        angles[block] = np.where(both.any(axis=(2, 3)), values, np.nan)
    return angles


def subspace_angles(
    bases: Float[np.ndarray, "N d p"], form: str = "smallest"
) -> Float64[np.ndarray, "N N"]:
    """Angles between the subspaces of all pairs of clients.

    * ``smallest``: the smallest principal angle (eq. 2), from the singular values of U_i^T U_j.
    * ``sum``: the sum of all principal angles. Their number is the dimension of the smaller
      subspace.
    * ``same_rank``: tr arccos(U_i^T U_j) (eq. 3), the sum of angles between vectors of the same
      rank.
    * ``as_coded``: the smallest angle between any two vectors, as in the authors' code. It is never
      below ``smallest``.

    The last two forms depend on the signs of the vectors. Zero columns are ignored in all forms. A
    client without any direction, or without a reply (NaN), has NaN. A client's angle with itself is
    0.

    Args:
        bases: orthonormal columns of each client. With float32, angles below some hundredths of a
            degree are rounding errors.
        form: form of the angle, from the list above.

    Raises:
        MethodError: the form is unknown.
    """
    check_choice("form", form, tuple(FORMS))
    exists = _directions(bases)
    first, second = np.triu_indices(len(bases), 1)
    cosines = _cosines(np.where(exists[:, None], bases, 0))[first, second]
    both = exists[first, :, None] & exists[second, None, :]
    pairs = np.where(both.any(axis=(1, 2)), FORMS[form](cosines, both), np.nan)

    angles = np.full((len(bases), len(bases)), np.nan)
    angles[first, second] = pairs
    angles[second, first] = pairs
    np.fill_diagonal(angles, np.where(exists.any(axis=1), 0.0, np.nan))
    return angles


def _cosines(bases: Float[np.ndarray, "N d p"]) -> Float64[np.ndarray, "N N p p"]:
    """The cosines of all pairs of directions of all pairs of clients: the matrices U_i^T U_j, where
    U_i has the directions of client i as columns, by one matrix product."""
    clients, _, p = bases.shape
    vectors = bases.transpose(0, 2, 1).reshape(clients * p, -1)
    return gram(vectors).reshape(clients, p, clients, p).transpose(0, 2, 1, 3)


def _degrees(cosines: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Angles in degrees from their cosines. Rounding may push a cosine beyond 1, hence the clip."""
    return np.degrees(np.arccos(np.clip(cosines, -1, 1)))


def _principal(
    cosines: Float[np.ndarray, "m p p"], both: Bool[np.ndarray, "m p p"]
) -> tuple[Float[np.ndarray, "m p"], Bool[np.ndarray, "m p"]]:
    """The principal angles of each pair of clients, ascending, and a mask of the angles that exist
    (``both`` marks the entries for which both clients have a direction)."""
    angles = _degrees(np.linalg.svd(cosines, compute_uv=False))
    # The smaller subspace determines how many principal angles a pair has.
    dimensions_first = both.any(axis=2).sum(axis=1)
    dimensions_second = both.any(axis=1).sum(axis=1)
    dimensions = np.minimum(dimensions_first, dimensions_second)
    exists = np.arange(both.shape[1]) < dimensions[:, None]
    return angles, exists


def _smallest(
    cosines: Float[np.ndarray, "m p p"], both: Bool[np.ndarray, "m p p"]
) -> Float[np.ndarray, "m"]:
    """The smallest principal angle of each pair of clients (form ``smallest``)."""
    angles, _ = _principal(cosines, both)
    return angles[:, 0]


def _sum(
    cosines: Float[np.ndarray, "m p p"], both: Bool[np.ndarray, "m p p"]
) -> Float[np.ndarray, "m"]:
    """The sum of all principal angles of each pair of clients (form ``sum``)."""
    angles, exists = _principal(cosines, both)
    return np.where(exists, angles, 0).sum(axis=1)


def _same_rank(
    cosines: Float[np.ndarray, "m p p"], both: Bool[np.ndarray, "m p p"]
) -> Float[np.ndarray, "m"]:
    """The sum of the angles between the first, the second, ... vectors of both clients
    (``same_rank``)."""
    angles = np.diagonal(_degrees(cosines), axis1=1, axis2=2)
    exists = np.diagonal(both, axis1=1, axis2=2)
    return np.where(exists, angles, 0).sum(axis=1)


def _as_coded(
    cosines: Float[np.ndarray, "m p p"], both: Bool[np.ndarray, "m p p"]
) -> Float[np.ndarray, "m"]:
    """The smallest angle between any vector of one client and any of the other (``as_coded``)."""
    return np.where(both, _degrees(cosines), np.inf).min(axis=(1, 2))


FORMS = {"smallest": _smallest, "sum": _sum, "same_rank": _same_rank, "as_coded": _as_coded}
