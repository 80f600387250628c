"""Checks and converts the client ids that users give, one for each sample. Ids are numbers, text or
bytes, and none may be missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from fedkin.core.errors import DataError
from fedkin.core.plain import plain
from fedkin.data.user_arrays import decoded, missing_rows, user_array

_LARGEST_WHOLE = 2**53  # a float64 represents every whole number up to this one


def client_ids(values: Any, place: Path | str, name: str = "client_id") -> Shaped[np.ndarray, "M"]:
    """Convert the ids of clients to an array of numbers or of text. Entries of a list keep their
    types.

    Args:
        values: the client id of each sample.
        place: file or name with which error messages begin.
        name: name of the ids in error messages.

    Raises:
        DataError: an id is missing or infinite, ids have several types, or bytes are not UTF-8; the
            message names the row.
    """
    is_array = hasattr(values, "dtype")
    ids = user_array(values, place, name) if is_array else _of_list(values)
    if ids.ndim != 1:
        raise DataError(
            f"{place}: {name} must be one id for each sample, got an array of shape {ids.shape}"
        )
    check_owners(ids, place, name)
    if ids.dtype.kind == "S" or (ids.dtype == object and len(ids) and isinstance(ids[0], bytes)):
        return decoded(ids, place, name)
    if ids.dtype != object:
        return ids
    kinds = {type(entry) for entry in ids}
    return np.array(ids.tolist()) if kinds <= {str} or kinds <= {int} else ids


def _of_list(values: Any) -> Shaped[np.ndarray, "..."]:
    """A list of client ids as an object array, because NumPy would convert the 1 in [1, "1"] to
    text."""
    entries = [plain(entry) for entry in values]
    ids = np.empty(len(entries), object)
    for row, entry in enumerate(entries):
        ids[row] = entry
    return ids


def check_owners(
    owners: Shaped[np.ndarray, "..."], place: Path | str, name: str = "client_id"
) -> None:
    """Raise DataError if client ids are missing or infinite, or have several types.

    Args:
        owners: the client id of each sample.
        place: file or name with which error messages begin.
        name: name of the ids in error messages.
    """
    if owners.dtype.kind in "Vc":
        raise DataError(f"{place}: {name} must be numbers or text, got {owners.dtype}")
    missing = missing_rows(owners)
    if len(missing):
        raise DataError(
            f"{place}: {name} is empty in row {missing[0]} ({len(missing)} such rows); drop these "
            "rows, or name their clients"
        )
    infinite = _infinite_rows(owners)
    if len(infinite):
        raise DataError(
            f"{place}: {name} is infinite in row {infinite[0]} ({len(infinite)} such rows); give "
            "the client a name or a number"
        )
    if owners.dtype != object:
        return
    kinds = [_kind(owner) for owner in owners]
    for row, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise DataError(
                f"{place}: {name} must be of one type, got {owners[0]!r} in row 0 and "
                f"{owners[row]!r} in row {row}; make all of them text, or all numbers"
            )


def _infinite_rows(owners: Shaped[np.ndarray, "M"]) -> Int[np.ndarray, "m"]:
    """The rows (samples) in which a client's id is an infinite number."""
    if owners.dtype.kind == "f":
        return np.flatnonzero(np.isinf(owners))
    if owners.dtype != object:
        return np.zeros(0, np.int64)
    infinite = [isinstance(owner, (float, np.floating)) and np.isinf(owner) for owner in owners]
    return np.flatnonzero(np.array(infinite, bool))


def whole_ids(owners: Shaped[np.ndarray, "M"]) -> Shaped[np.ndarray, "M"]:
    """Client ids without decimals: 1.0 becomes 1.

    pandas stores whole numbers as floats in a column that once had a missing entry.
    """
    numbers = owners
    if owners.dtype.kind == "O" and all(
        isinstance(owner, (float, np.floating)) for owner in owners
    ):
        numbers = owners.astype(np.float64)
    if numbers.dtype.kind != "f" or not len(numbers) or not np.isfinite(numbers).all():
        return owners
    is_whole = (numbers == np.floor(numbers)).all() and np.abs(numbers).max() < _LARGEST_WHOLE
    return numbers.astype(np.int64) if is_whole else owners


def _kind(owner: Any) -> str:
    """The type of a client's id; all types of numbers count as one."""
    for kind in (str, bytes):
        if isinstance(owner, kind):
            return kind.__name__
    is_number = isinstance(owner, (bool, int, float, np.number, np.bool_))
    return "number" if is_number else type(owner).__name__
