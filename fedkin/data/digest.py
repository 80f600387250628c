"""A digest of federated data, by which a run knows its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fedkin.data.federated import FederatedData

_BLOCK_BYTES = 2**26  # that are read at a time: of data in files, memory holds no more
_BLOCK_NAMES = 2**16


def data_digest(data: FederatedData) -> str:
    """A digest of all that federated data hold: features, labels, owners, names, true clusters,
    words. Of packed data it was taken when they were packed."""
    if data.packed is not None:
        return data.packed.digest
    digest = hashlib.sha256(f"({data.name!r}, {data.classes!r}, ".encode())
    for text in _tuple_text(data.client_names):
        digest.update(text.encode())
    digest.update(b")")
    parts = [data.train, data.test, *([] if data.validation is None else [data.validation])]
    owners = [array for part in parts for array in (part.rows, part.offsets)]
    words = () if data.vocabulary is None else (np.array(data.vocabulary), data.vectors)
    for part in (data.x, data.y, *owners, data.true_clusters, *words):
        add_array(digest, part)
    return digest.hexdigest()


def _tuple_text(names: Sequence[str] | None) -> Iterator[str]:
    """What ``repr`` says of a tuple of these names, a block of them at a time."""
    if names is None or len(names) < 2:
        yield repr(names if names is None else tuple(names))
        return
    for start in range(0, len(names), _BLOCK_NAMES):
        yield ("(" if start == 0 else ", ") + ", ".join(
            map(repr, names[start : start + _BLOCK_NAMES])
        )
    yield ")"


def add_array(digest: Any, part: np.ndarray | None) -> None:
    """Add an array, with its type and shape, or its absence, to a digest of hashlib's."""
    if part is None:
        return digest.update(b"none;")
    digest.update(f"{part.dtype.str} {part.shape};".encode())
    rows = max(1, _BLOCK_BYTES // max(1, part[:1].nbytes)) if part.ndim else 1
    for start in range(0, len(part) if part.ndim else 1, rows):
        block = part[start : start + rows] if part.ndim else part
        digest.update(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)
