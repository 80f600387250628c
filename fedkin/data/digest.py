"""Computes a digest (checksum) of federated data. It is part of the fingerprint that a run folder
stores. A run is only resumed on data with the same digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedkin.data.federated import FederatedData
from fedkin.task_types.catalogue import values_of
from fedkin.task_types.classification import CLASSIFICATION

# Bytes and names that are read at a time, since data in files may be larger than memory.
_BLOCK_BYTES = 2**26
_BLOCK_NAMES = 2**16


def data_digest(data: FederatedData) -> str:
    """A digest of the data: features, labels, which samples each client has, names, number of
    classes, true clusters, vocabulary with its vectors, the scaling of a table, the task type of
    labels that are no classes, and units.

    The digest of packed data is computed at packing and read from their description.
    """
    if data.packed is not None:
        return data.packed.digest
    digest = hashlib.sha256(f"({data.name!r}, {data.classes!r}, ".encode())
    for text in _tuple_text(data.client_names):
        digest.update(text.encode())
    digest.update(b")")
    arrays: list[np.ndarray | None] = [data.x, data.y]
    parts = [data.train, data.test]
    if data.validation is not None:
        parts.append(data.validation)
    for part in parts:
        arrays += [part.rows, part.offsets]
    arrays.append(data.true_clusters)
    if data.vocabulary is not None:
        arrays += [np.array(data.vocabulary), data.vectors]
    for array in arrays:
        add_array(digest, array)
    if data.transform is not None:
        # Tables in other units may have equal features after scaling.
        digest.update(json.dumps(data.transform.values(), sort_keys=True).encode())
    if data.task_type != CLASSIFICATION:
        # The same statistics make the same data, whether they are given or computed.
        task_type = replace(data.task_type.as_given(), is_given=False)
        digest.update(json.dumps(values_of(task_type), sort_keys=True).encode())
    if data.unit is not None:
        # Data without units keep the digests that older runs stored.
        digest.update(b"units;")
        add_array(digest, data.unit)
    return digest.hexdigest()


def _tuple_text(names: Sequence[str] | None) -> Iterator[str]:
    """The ``repr`` of a tuple of these names, a block of names at a time.

    Client names once were a tuple, and its ``repr`` is part of the digests that older runs stored.
    With the same text, these runs can still be resumed.
    """
    if names is None:
        yield repr(None)
        return
    # The repr of a tuple with one entry has a comma at the end: ("a",).
    if len(names) < 2:
        yield repr(tuple(names))
        return
    for start in range(0, len(names), _BLOCK_NAMES):
        block = names[start : start + _BLOCK_NAMES]
        separator = "(" if start == 0 else ", "
        yield separator + ", ".join(map(repr, block))
    yield ")"


def add_array(digest: Any, array: np.ndarray | None) -> None:
    """Add an array to a digest of ``hashlib``, with its type and shape. ``None``, for a missing
    array, changes the digest too."""
    if array is None:
        digest.update(b"none;")
        return
    digest.update(f"{array.dtype.str} {array.shape};".encode())
    rows = array if array.ndim else array[None]
    step = max(1, _BLOCK_BYTES // max(1, rows[:1].nbytes))
    for start in range(0, len(rows), step):
        block = np.ascontiguousarray(rows[start : start + step])
        digest.update(block.reshape(-1).view(np.uint8).data)
