"""Checks of a federation's fields: types, shapes, and indices of samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkin.core.errors import DataError
from fedkin.core.object_repr import client_list, listed
from fedkin.data.array_checks import first_not_finite, is_array, type_of
from fedkin.data.patient_columns import column_count
from fedkin.data.ragged import Ragged as Ragged


def check_federation(data: Any) -> None:
    """Raise DataError if a field of the federation is invalid."""
    # Types are checked too: only tests check annotations, and NumPy would truncate a label 1.5
    # to 1.
    _check_samples(data)
    _check_vocabulary(data)
    check_owners(data)


def check_owners(data: Any) -> None:
    """Check which rows (samples) clients own in every split, and the number of clients."""
    for split in data.splits:
        _check_part(data, split)
    _check_clients(data)
    _check_units(data)


def _check_units(data: Any) -> None:
    """Check that each sample has a unit, if there are any."""
    if data.unit is None:
        return
    if not is_array(data.unit, "iu", 1) or len(data.unit) != len(data.y):
        raise DataError(
            f"{data.name}: unit must have an integer for each of {len(data.y)} samples, got "
            f"{type_of(data.unit)}"
        )


def _check_classes(data: Any) -> None:
    """Check the type of class labels."""
    if not is_array(data.y, "iu", 1):
        raise DataError(
            f"{data.name}: labels must be integers in an array [M], got {type_of(data.y)}"
        )


def _check_numbers(data: Any) -> None:
    """Check labels that are numbers, with their offsets and weights."""
    if not is_array(data.y, "f") or data.y.ndim not in (1, 2):
        raise DataError(
            f"{data.name}: labels of {data.task_type.name} must be numbers in an array [M] or "
            f"[M q], got {type_of(data.y)}"
        )
    bad = first_not_finite(data.y)
    if bad is not None:
        raise DataError(f"{data.name}: the label in row {bad} is not finite")


def _check_samples(data: Any) -> None:
    """Check features, labels, and names of classes and features."""
    if not is_array(data.x, "biuf") or not data.x.ndim:
        raise DataError(
            f"{data.name}: x must be numbers in an array [M, ...], got {type_of(data.x)}"
        )
    if data.task_type.loss is None:
        _check_classes(data)
    else:
        _check_numbers(data)
    if not isinstance(data.classes, (int, np.integer)) or data.classes < 1:
        raise DataError(
            f"{data.name}: classes must be an integer of at least 1, got {data.classes!r}"
        )
    for what, names, number in (
        ("label_names", data.label_names, data.classes),
        ("feature_names", data.feature_names, column_count(data)),
    ):
        if names is not None and (len(names) != number or len(set(names)) != number):
            raise DataError(
                f"{data.name}: {what} must be {number} different names, got {len(names)}: "
                f"{listed(names)}"
            )
    if len(data.x) != len(data.y):
        raise DataError(f"{data.name}: {len(data.x)} samples but {len(data.y)} labels")
    classified = data.task_type.loss is None
    if (
        classified
        and len(data.y)
        and not 0 <= int(data.y.min()) <= int(data.y.max()) < data.classes
    ):
        raise DataError(
            f"{data.name}: labels must be 0..{data.classes - 1}, got {data.y.min()}..{data.y.max()}"
        )
    if np.issubdtype(data.x.dtype, np.floating):
        bad = first_not_finite(data.x)
        if bad is not None:
            raise DataError(f"{data.name}: sample {bad} holds NaN or an infinite feature")


def _check_vocabulary(data: Any) -> None:
    """Check the vocabulary of a text, and the vectors of its words."""
    if data.vocabulary is None:
        if data.vectors is not None:
            raise DataError(
                f"{data.name}: vectors need a vocabulary, but there is none; give it, or leave "
                "vectors out"
            )
        return
    V = len(data.vocabulary)
    words = is_array(data.x, "iu", 2)
    if words and data.x.size:
        words = 0 <= int(data.x.min()) <= int(data.x.max()) < V
    if not words:
        raise DataError(
            f"{data.name}: x of text must be word numbers 0..{V - 1} in an array [M, L]"
        )
    if data.vectors is None:
        return
    if not is_array(data.vectors, "f", 2) or len(data.vectors) != V:
        raise DataError(
            f"{data.name}: vectors must be an array [{V}, D] of floats, got {type_of(data.vectors)}"
        )


def _check_part(data: Any, split: str) -> None:
    """Check the index of one split (the sample rows of each client): its type, and that the
    rows exist."""
    part = data.part(split)
    if not isinstance(part, Ragged):
        raise DataError(
            f"{data.name}: {split} must be a Ragged (Ragged.of makes one), got {type_of(part)}"
        )
    for name, array in (("rows", part.rows), ("offsets", part.offsets)):
        if not is_array(array, "i", 1):
            raise DataError(
                f"{data.name}: {split}.{name} must be signed integers [n], got {type_of(array)}"
            )
    rows = part.rows
    offsets = part.offsets
    rising = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(rows)
    if not rising or (np.diff(offsets) < 0).any():
        raise DataError(
            f"{data.name}: {split}.offsets must rise from 0 to {len(rows)}, the number of "
            f"rows; got {offsets}"
        )
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(data.y):
        raise DataError(f"{data.name}: a client owns a sample row outside 0..{len(data.y) - 1}")


def _check_clients(data: Any) -> None:
    """Check that all fields have the same clients, and that each has a training sample."""
    N = len(data.train)
    for split in data.splits[1:]:
        if N != len(data.part(split)):
            raise DataError(
                f"{data.name}: train has {N} clients, but {split} has {len(data.part(split))}"
            )
    if data.true_clusters is not None:
        integers = is_array(data.true_clusters, "i", 1)
        if not integers or data.true_clusters.min(initial=0) < 0:
            raise DataError(
                f"{data.name}: true_clusters must be integers from 0 in an array [N], got "
                f"{type_of(data.true_clusters)}"
            )
    for name, entries in (
        ("true_clusters", data.true_clusters),
        ("client_names", data.client_names),
    ):
        if entries is not None and len(entries) != N:
            raise DataError(
                f"{data.name}: {name} must have one entry for each of {N} clients, got "
                f"{len(entries)}"
            )
    empty = np.flatnonzero(data.train.sizes == 0)
    if len(empty):
        first = client_list(empty[:1], data.client_names)
        raise DataError(
            f"{data.name}: client {first} has no training sample ({len(empty)} such clients)"
        )
