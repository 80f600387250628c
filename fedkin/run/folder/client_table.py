"""A run's table of clients as columns of arrays, and its file.

A run that only writes the table does without pandas, which is slow to import. pyarrow imports it as
soon as it looks at the entries of an array, so it gets buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Columns = Mapping[str, np.ndarray]


def to_parquet(columns: Columns) -> bytes:
    """The table as the content of a Parquet file.

    Args:
        columns: the columns, of one length: numbers, truth values, or texts in arrays of objects.
    """
    import pyarrow as pa
    from pyarrow import parquet

    arrays = [_arrow(column) for column in columns.values()]
    file = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_arrays(arrays, names=list(columns)), file)
    return file.getvalue().to_pybytes()


def from_parquet(content: bytes) -> dict[str, np.ndarray]:
    """The columns in the content of a Parquet file. Raises an error of pyarrow if it is damaged.

    Args:
        content: the bytes of the file.
    """
    import pyarrow as pa
    from pyarrow import parquet

    # In this thread. Another one could still hold the bytes when Python ends, and end the process
    # with an error.
    file = parquet.ParquetFile(pa.BufferReader(content))
    table = file.read(use_threads=False)
    return {name: table[name].to_numpy() for name in table.column_names}


def _arrow(column: np.ndarray) -> Any:
    """A column as an array of pyarrow, from its buffers."""
    import pyarrow as pa

    if column.dtype == object:
        texts = [str(text).encode() for text in column]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        buffers = [ends, b"".join(texts)]
        type_ = pa.string()
    elif column.dtype == bool:
        buffers = [np.packbits(column, bitorder="little")]
        type_ = pa.bool_()
    else:
        buffers = [np.ascontiguousarray(column)]
        type_ = pa.from_numpy_dtype(column.dtype)
    # The first buffer says which entries are missing; no entry is.
    return pa.Array.from_buffers(type_, len(column), [None, *map(pa.py_buffer, buffers)])
