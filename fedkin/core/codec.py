"""Encoding of arrays and plain values for files and messages: safetensors with a JSON header. No
pickle.

Checkpoints, the files of clients and peers, and all network messages use this encoding. ``decode``
refuses bytes that ``encode`` did not make, but does not know which values a header must have: each
reader checks that itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

_KEY = "fedkin"  # key of the header in safetensors' metadata
_LENGTH = 8  # leading bytes: the length of safetensors' header
_HEADER_LIMIT = 100_000_000  # largest header in bytes, the limit of safetensors


class Archive(NamedTuple):
    """Decoded contents of a file or message: plain values (``header``) and named arrays."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


def encode(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Bytes of plain values and named arrays. Equal contents give equal bytes.

    Args:
        header: plain JSON values; NaN is refused (ValueError).
        arrays: arrays by name, of any shape and of a number type or bool.
    """
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return save(
        {name: np.asarray(array, order="C") for name, array in arrays.items()}, {_KEY: text}
    )


def decode(data: bytes) -> Archive:
    """Decode bytes that ``encode`` made.

    Raises:
        ValueError: any other bytes, such as a truncated or damaged file, or another program's.
    """
    try:
        length = int.from_bytes(data[:_LENGTH], "little")
        if length > min(_HEADER_LIMIT, len(data) - _LENGTH):
            raise ValueError("the data are truncated: shorter than their header says")
        header = json.loads(json.loads(data[_LENGTH : _LENGTH + length])["__metadata__"][_KEY])
        arrays = load(data)
    except (SafetensorError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from error
    if not isinstance(header, dict):
        raise ValueError("the header is not a JSON object, so fedkin did not write these data")
    return Archive(header, arrays)


def digest(value: Mapping[str, Any] | list[Any]) -> str:
    """A short digest of plain values, independent of the order of keys."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def content_digest(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of plain values and arrays, including array types and shapes, independent of the
    order of names."""
    content = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        content.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape};".encode())
        content.update(arrays[name].tobytes())
    return content.hexdigest()
