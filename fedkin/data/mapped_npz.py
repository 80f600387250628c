"""Arrays in an npz file that are read where they lie."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

_HEADER = 30  # bytes of a zip member's own header, before its name
_BLOCK_BYTES = 2**26  # that are checked at a time


def map_member(path: Path, member: zipfile.ZipInfo) -> Shaped[np.ndarray, "..."]:
    """An array that an npz file has uncompressed, mapped and not read into memory. Its checksum is
    compared.

    Args:
        path: of the npz file.
        member: of the array.

    Raises ValueError for a checksum that differs, an object array, and a file that is shorter than
    it says.
    """
    with path.open("rb") as file:
        file.seek(member.header_offset)
        name, more = struct.unpack("<HH", file.read(_HEADER)[26:])
        start = member.header_offset + _HEADER + name + more
        _check(np.memmap(path, np.uint8, "r", start, (member.file_size,)), member)
        file.seek(start)
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read(file)
        if dtype.hasobject:
            raise ValueError("object arrays need pickle, and are not read")
        if not np.prod(shape):
            return np.empty(shape, dtype)
        return np.memmap(path, dtype, "r", file.tell(), shape, "F" if fortran else "C")


def _check(content: Shaped[np.ndarray, "b"], member: zipfile.ZipInfo) -> None:
    """Compare the checksum, a block at a time."""
    checksum = 0
    for start in range(0, len(content), _BLOCK_BYTES):
        checksum = zlib.crc32(content[start : start + _BLOCK_BYTES].data, checksum)
    if checksum != member.CRC:
        raise ValueError(f"the checksum of {member.filename} differs")
