"""Reads samples from a Parquet file. Features are read one row group at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from fedkin.core.errors import DataError
from fedkin.data.files import reading
from fedkin.data.table_options import TableOptions
from fedkin.data.tables import Columns, check_different, feature_columns, numbers, with_features
from fedkin.data.user_samples import OwnSamples

KIND = "a Parquet file"


def column_names(path: Path) -> Any:
    """An empty DataFrame with the columns of a Parquet file.

    Raises:
        DataError: the file does not exist, is damaged, or has no rows.
    """
    import pyarrow.parquet as pq

    with reading(path, KIND, whole=False):
        with pq.ParquetFile(path) as file:
            rows = file.metadata.num_rows
            names = _as_pandas(file.schema_arrow.empty_table())
    if not rows:
        raise DataError(f"{path}: expected one row per sample, found none")
    check_different(names, path)
    return names


def _as_pandas(table: Any) -> Any:
    """Convert a pyarrow table to a DataFrame.

    Raises:
        ValueError: the description of the columns, which pandas has written, is damaged.
    """
    try:
        return table.to_pandas()
    except TypeError as error:
        raise ValueError(str(error)) from error


def parquet_samples(
    path: Path, names: Any, columns: Columns, options: TableOptions, **more: Any
) -> OwnSamples:
    """The samples of a Parquet file. Labels, clients and split are read at once; features are read
    later, one row group at a time.

    Args:
        path: the file.
        names: a DataFrame with the file's columns, renamed.
        columns: the roles of the columns.
        options: the options of the table, which tell a column's name in the file.
        more: further fields of ``OwnSamples``, by name.

    Raises:
        DataError: a column does not exist, or cannot be used.
    """
    import pandas as pd

    features = feature_columns(names, columns, path)
    small = columns.named
    with reading(path, KIND, whole=False):
        table = pd.read_parquet(path, columns=[options.file_name(name) for name in small])
        table = table.set_axis(small, axis=1)
    return with_features(
        table=table,
        columns=columns,
        features=features,
        x=ParquetFeatures(path, features, options),
        place=path,
        title=path.stem,
        **more,
    )


class ParquetFeatures:
    """Feature columns of a Parquet file as numbers [M d], with one row group in memory at a time.

    Args:
        path: path of the file.
        features: names of the columns.
        options: the options of the table; None: no column is renamed.
    """

    dtype = np.dtype(np.float64)

    def __init__(
        self, path: Path, features: list[Any], options: TableOptions | None = None
    ) -> None:
        import pyarrow.parquet as pq

        options = options or TableOptions()
        self._path = path
        self._in_file = [str(options.file_name(name)) for name in features]
        self._features = features
        with reading(path, KIND, whole=False), pq.ParquetFile(path) as file:
            sizes = [
                file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)
            ]
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self.shape = (int(self._starts[-1]), len(features))
        self._group = -1
        self._values = np.zeros((0, len(features)))

    def __getitem__(self, rows: slice) -> Float64[np.ndarray, "b d"]:
        begin, end, _ = rows.indices(self.shape[0])
        first, last = np.searchsorted(self._starts, [begin, end - 1], side="right") - 1
        parts = []
        for group in range(first, last + 1):
            start = self._starts[group]
            parts.append(self._read(group)[max(begin - start, 0) : end - start])
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def _read(self, group: int) -> Float64[np.ndarray, "g d"]:
        """Read the feature columns of one row group as numbers."""
        import pyarrow.parquet as pq

        if group != self._group:
            with reading(self._path, KIND, whole=False), pq.ParquetFile(self._path) as file:
                table = _as_pandas(file.read_row_group(group, columns=self._in_file))
                table.columns = [str(name) for name in table.columns]
                # Damaged names differ from those of the file's first reading.
                table = table[self._in_file].set_axis(self._features, axis=1)
            self._values = numbers(table, self._features, self._path, int(self._starts[group]))
            self._group = group
        return self._values
