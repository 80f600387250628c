"""A digest of federated data, by which a run knows its own."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from fedkin.data.federated import FederatedData

_BLOCK_BYTES = 2**26  # that are read at a time: of data in files, memory holds no more


def data_digest(data: FederatedData) -> str:
    """A digest of all that federated data hold: features, labels, owners, names, true clusters, words. Of packed data
    it was taken when they were packed."""
    if data.packed is not None:
        return data.packed.digest
    digest = hashlib.sha256(repr((data.name, data.classes, data.client_names)).encode())
    parts = [data.train, data.test, *([] if data.validation is None else [data.validation])]
    owners = [array for part in parts for array in (part.rows, part.offsets)]
    words = () if data.vocabulary is None else (np.array(data.vocabulary), data.vectors)
    for part in (data.x, data.y, *owners, data.true_clusters, *words):
        add_array(digest, part)
    return digest.hexdigest()


def add_array(digest: Any, part: np.ndarray | None) -> None:
    """Add an array, with its type and shape, or its absence, to a digest of hashlib's."""
    if part is None:
        return digest.update(b"none;")
    digest.update(f"{part.dtype.str} {part.shape};".encode())
    rows = max(1, _BLOCK_BYTES // max(1, part[:1].nbytes)) if part.ndim else 1
    for start in range(0, len(part) if part.ndim else 1, rows):
        block = part[start : start + rows] if part.ndim else part
        digest.update(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)
