"""Columns of a table that describe clients and not samples, such as the sector or the region of a
client: one value for each client."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.core.errors import DataError
from fedkin.data.column_lists import column_list
from fedkin.data.ragged import Ragged


def names_of(client_columns: Any) -> tuple[str, ...]:
    """The names of columns that describe clients.

    Args:
        client_columns: a name, a list of names, or None.

    Raises:
        ConfigError: it is neither.
    """
    return tuple(map(str, column_list("client_columns", client_columns, "['sector']")))


def values_by_client(
    columns: Mapping[str, Any] | None,
    owned: Ragged,
    names: Any,
    place: Path | str,
) -> dict[str, tuple[str, ...]] | None:
    """The value of each client in each column, as text; None without columns.

    Args:
        columns: the value of each sample, by the column's name.
        owned: the samples of each client.
        names: names of the clients; None for their numbers.
        place: file or name with which messages begin.

    Raises:
        DataError: a value is missing, or differs between samples of a client.
    """
    if not columns:
        return None
    import pandas as pd

    found = {}
    for column, values in columns.items():
        entries = pd.Series(np.asarray(values))
        by_client = []
        for client in range(len(owned)):
            of_client = entries.iloc[owned[client]]
            who = client if names is None else names[client]
            if of_client.isna().any():
                raise DataError(
                    f"{place}: column {column!r} is missing in a sample of client {who}; a column "
                    "of clients needs a value in all samples of a client, such as 'unknown'"
                )
            distinct = of_client.astype(str).unique()
            if len(distinct) != 1:
                raise DataError(
                    f"{place}: column {column!r} has {len(distinct)} values in the samples of "
                    f"client {who}, such as {distinct[0]!r} and {distinct[1]!r}; a column of "
                    "clients must have the same value in all samples of a client"
                )
            by_client.append(str(distinct[0]))
        found[column] = tuple(by_client)
    return found
