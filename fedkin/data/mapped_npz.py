"""Memory-maps arrays in an npz file."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

# Size in bytes of a zip member's header, before its name.
_HEADER = 30
# Bytes that are checked at a time.
_BLOCK_BYTES = 2**26


def map_member(path: Path, member: zipfile.ZipInfo) -> Shaped[np.ndarray, "..."]:
    """An uncompressed array of an npz file, memory-mapped after its checksum is verified.

    Args:
        path: path of the npz file.
        member: entry of the array in the file.

    Raises:
        ValueError: the checksum differs from the stored one, the array holds objects, or the file
            is too short.
    """
    with path.open("rb") as file:
        file.seek(member.header_offset)
        # The content begins after the fixed header, the name and an extra field.
        name_bytes, extra_bytes = struct.unpack("<HH", file.read(_HEADER)[26:])
        start = member.header_offset + _HEADER + name_bytes + extra_bytes
        _check(np.memmap(path, np.uint8, "r", start, (member.file_size,)), member)
        file.seek(start)
        if np.lib.format.read_magic(file) == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
        if dtype.hasobject:
            raise ValueError("object arrays need pickle, and are not read")
        # An array without elements cannot be mapped.
        if not np.prod(shape):
            return np.empty(shape, dtype)
        order = "F" if fortran else "C"
        return np.memmap(path, dtype, "r", offset=file.tell(), shape=shape, order=order)


def _check(content: Shaped[np.ndarray, "b"], member: zipfile.ZipInfo) -> None:
    """Compute the checksum of an array's bytes, a block at a time. Raises ValueError if the
    checksum differs from the one that the npz file stores."""
    checksum = 0
    for start in range(0, len(content), _BLOCK_BYTES):
        checksum = zlib.crc32(content[start : start + _BLOCK_BYTES].data, checksum)
    if checksum != member.CRC:
        raise ValueError(f"the checksum of {member.filename} differs from the stored one")
