"""The feature columns of a table as they are: numbers, booleans and text, with missing values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64

from fedkin.core.errors import DataError
from fedkin.data.files import Table
from fedkin.data.table_encoding import TableEncoding

# Bytes of a cell of text in memory, for the size of blocks.
CELL_BYTES = 64


@runtime_checkable
class RawTable(Protocol):
    """Feature columns of a table, of which rows (samples) are read a block at a time.

    It has the shape and type of the numbers that it will become, as ``Features`` has.
    """

    place: Path | str
    features: list[Any]
    clients: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of samples M, and of columns d."""
        ...

    @property
    def dtype(self) -> Any:
        """The type of the numbers."""
        ...

    def frame(self, rows: slice) -> Table:
        """The columns of some samples, as a DataFrame with the columns of the features."""
        ...


class FrameTable:
    """Feature columns of a DataFrame.

    Args:
        table: the DataFrame.
        features: names of the feature columns.
        place: file or name with which error messages begin.
        clients: column with the client of each sample, for messages; None if there is none.
    """

    dtype = np.dtype(np.float64)

    def __init__(
        self, table: Table, features: list[Any], place: Path | str, clients: Any = None
    ) -> None:
        self.place = place
        self.features = features
        self.clients = clients
        self._table = table[features]
        self.shape = (len(table), len(features))

    def frame(self, rows: slice) -> Table:
        """The columns of some samples."""
        return self._table.iloc[rows]


class EncodedTable(NamedTuple):
    """A raw table as complete numbers [M f], which are computed when they are read.

    Attributes:
        table: the raw table.
        encoding: how its columns become features.
    """

    table: RawTable
    encoding: TableEncoding

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples M, and of features f."""
        return self.table.shape[0], len(self.encoding.names)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers."""
        return np.dtype(np.float64)

    def __getitem__(self, rows: slice) -> Float64[np.ndarray, "b f"]:  # type: ignore[override]
        start, _, _ = rows.indices(self.table.shape[0])
        frame = self.table.frame(rows)
        return self.encoding.apply(frame, self.table.place, start, self.table.clients)


def is_complete(table: Table, features: Sequence[Any], place: Path | str) -> bool:
    """Whether all feature columns are numbers or booleans without missing values.

    Args:
        table: a DataFrame.
        features: names of the feature columns.
        place: file or name with which the message begins.

    Raises:
        DataError: there are no feature columns.
    """
    import pandas as pd

    if not len(features):
        raise DataError(f"{place}: expected feature columns, got none")
    return all(
        pd.api.types.is_numeric_dtype(table[name]) and not table[name].isna().any()
        for name in features
    )
