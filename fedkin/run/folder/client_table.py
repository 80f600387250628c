"""A run's table of clients as columns of arrays, and its file.

pandas is slow to import, so a run that only writes the table does without it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Columns = Mapping[str, np.ndarray]


def to_parquet(columns: Columns) -> bytes:
    """The table as the content of a Parquet file.

    Args:
        columns: the columns, of one length. Texts are in arrays of objects.
    """
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(dict(columns)), sink)
    return sink.getvalue().to_pybytes()


def from_parquet(content: bytes) -> dict[str, np.ndarray]:
    """The columns in the content of a Parquet file. Raises an error of pyarrow if it is damaged.

    Args:
        content: the bytes of the file.
    """
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(pa.BufferReader(content))
    return {name: table[name].to_numpy() for name in table.column_names}
