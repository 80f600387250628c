"""Reads samples from a Parquet file. Features are read one row group at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from fedkin.core.errors import DataError
from fedkin.data.files import reading
from fedkin.data.raw_tables import is_complete
from fedkin.data.table_options import TableOptions
from fedkin.data.table_scaling import TableScaling
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
    small = list(dict.fromkeys([*columns.named, *columns.client_columns]))
    with reading(path, KIND, whole=False):
        table = pd.read_parquet(path, columns=[options.file_name(name) for name in small])
        table = table.set_axis(small, axis=1)
    clients = None if columns.client is None else table[columns.client]
    x: ParquetColumns = ParquetFeatures(path, features, options, clients)
    scaling = more.get("scaling")
    if scaling is not None and scaling.encodes(_is_complete(x, scaling)):
        x = ParquetTable(path, features, options, clients)
    return with_features(
        table=table,
        columns=columns,
        features=features,
        x=x,
        place=path,
        title=path.stem,
        **more,
    )


class ParquetColumns:
    """Feature columns of a Parquet file, with one row group in memory at a time.

    Args:
        path: path of the file.
        features: names of the columns.
        options: the options of the table; None: no column is renamed.
        clients: column with the client of each sample, for messages; None if there is none.
    """

    dtype = np.dtype(np.float64)

    def __init__(
        self,
        path: Path,
        features: list[Any],
        options: TableOptions | None = None,
        clients: Any = None,
    ) -> None:
        import pyarrow.parquet as pq

        options = options or TableOptions()
        self.place = path
        self.features = features
        self.clients = clients
        self._in_file = [str(options.file_name(name)) for name in features]
        with reading(path, KIND, whole=False), pq.ParquetFile(path) as file:
            sizes = [
                file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)
            ]
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self.shape = (int(self._starts[-1]), len(features))
        self._group = -1
        self._table: Any = None

    def group(self, group: int) -> Any:
        """The columns of one row group, as a DataFrame."""
        import pyarrow.parquet as pq

        if group != self._group:
            with reading(self.place, KIND, whole=False), pq.ParquetFile(self.place) as file:
                table = _as_pandas(file.read_row_group(group, columns=self._in_file))
                table.columns = [str(name) for name in table.columns]
                # Damaged names differ from those of the file's first reading.
                self._table = table[self._in_file].set_axis(self.features, axis=1)
            self._group = group
        return self._table

    @property
    def groups(self) -> int:
        """Number of row groups."""
        return len(self._starts) - 1

    def _pieces(self, rows: slice) -> list[tuple[int, slice]]:
        """The row groups that have these rows, and the rows within each group."""
        begin, end, _ = rows.indices(self.shape[0])
        first, last = np.searchsorted(self._starts, [begin, end - 1], side="right") - 1
        pieces = []
        for group in range(first, last + 1):
            start = int(self._starts[group])
            pieces.append((group, slice(max(begin - start, 0), end - start)))
        return pieces


class ParquetTable(ParquetColumns):
    """Feature columns of a Parquet file as they are (``RawTable``)."""

    def frame(self, rows: slice) -> Any:
        """The columns of some samples, as a DataFrame."""
        import pandas as pd

        parts = [self.group(group).iloc[own] for group, own in self._pieces(rows)]
        return pd.concat(parts) if len(parts) > 1 else parts[0]


class ParquetFeatures(ParquetColumns):
    """Feature columns of a Parquet file as numbers [M d] without missing values."""

    def __getitem__(self, rows: slice) -> Float64[np.ndarray, "b d"]:
        parts = []
        for group, own in self._pieces(rows):
            table = self.group(group).iloc[own]
            start = int(self._starts[group]) + own.start
            parts.append(
                numbers(table, self.features, place=self.place, start=start, clients=self.clients)
            )
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


def _is_complete(table: ParquetColumns, scaling: TableScaling) -> bool:
    """Whether the columns are numbers without missing values. They are not read if given
    statistics decide how the table is read."""
    if scaling.statistics is not None:
        return True
    groups = range(table.groups)
    return all(is_complete(table.group(group), table.features, table.place) for group in groups)
