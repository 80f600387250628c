"""Converts a table (DataFrame) to samples. The table's columns are features, the label, the client
and the split."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.object_repr import listed
from fedkin.data.client_ids import client_ids
from fedkin.data.column_checks import (
    check_columns,
    check_size,
    refuse_marks,
    refuse_mostly_numbers,
)
from fedkin.data.csv_tables import UNNAMED
from fedkin.data.files import Table
from fedkin.data.raw_tables import FrameTable, is_complete
from fedkin.data.user_samples import ROLES, OwnSamples

# The name that pyarrow gives to an index without a name.
_INDEX = re.compile(r"__index_level_\d+__")
_log = logging.getLogger("fedkin")
# Roles that one column has, which is no feature.
_SINGLE = ("label", "client", "split", *ROLES)


class Columns(NamedTuple):
    """The roles of a table's columns.

    Attributes:
        label: column of the labels.
        client: column of the clients; None without one.
        features: columns of the features; None for all other columns.
        split: column of train, test or validation, or of 0, 1 or 2; None without one.
        unused: columns that are not features.
        exposure: column of the exposure of counts; None without one.
        weight: column of the weights of samples; None without one.
        event: of survival, column of the events; None without one.
        client_columns: columns that describe clients, such as their sector.
        unit: column of the units of samples, such as the patient; None without one.
    """

    label: Any
    client: Any = None
    features: Sequence[Any] | None = None
    split: Any = None
    unused: tuple[Any, ...] = ()
    exposure: Any = None
    weight: Any = None
    event: Any = None
    client_columns: tuple[Any, ...] = ()
    unit: Any = None

    @property
    def named(self) -> list[Any]:
        """The columns that the user has named for another role than a feature."""
        names = [getattr(self, role) for role in _SINGLE]
        return [name for name in names if name is not None]


def table_samples(
    table: Table, columns: Columns, place: Path | str, title: str, **more: Any
) -> OwnSamples:
    """The samples of a table.

    Args:
        table: a table with one row per sample.
        columns: roles of the columns.
        place: file or name with which error messages begin.
        title: name of the data set.
        more: further fields of ``OwnSamples``, by name.

    Raises:
        DataError: a column does not exist or cannot be used, or a value is missing; the message
            names column and row.
    """
    check_table(table, place)
    columns = resolved_columns(table, columns)
    features = feature_columns(table, columns, place)
    clients = None if columns.client is None else table[columns.client]
    scaling = more.get("scaling")
    x: Any
    if scaling is not None and scaling.encodes(is_complete(table, features, place)):
        x = FrameTable(table, features, place, clients)
    else:
        x = numbers(table, features, place, clients=clients)
    return with_features(
        table=table,
        columns=columns,
        features=features,
        x=x,
        place=place,
        title=title,
        **more,
    )


def feature_columns(table: Table, columns: Columns, place: Path | str) -> list[Any]:
    """The columns of the features, in order.

    Args:
        table: a DataFrame with all columns; it needs no rows.
        columns: roles of the columns.
        place: file or name with which error messages begin.

    Raises:
        DataError: a column does not exist.
        ConfigError: a column has two roles.
    """
    named = columns.named
    check_columns(table, [*named, *columns.client_columns, *(columns.features or ())], place)
    features = columns.features
    if features is None:
        others = (*named, *columns.unused, *columns.client_columns)
        candidates = [name for name in table.columns if name not in others]
        features = without_row_numbers(candidates, place)
    clash = [name for name in named if name in features]
    if clash:
        raise ConfigError(
            f"{place}: column {clash[0]!r} cannot be a feature and also the "
            f"{', the '.join(_SINGLE[:-1])} or the {_SINGLE[-1]}"
        )
    if len(set(named)) < len(named):
        raise ConfigError(
            f"{place}: {', '.join(_SINGLE[:-1])} and {_SINGLE[-1]} must be different columns, got "
            f"{named}"
        )
    return list(features)


def without_row_numbers(names: Sequence[Any], place: Path | str) -> list[Any]:
    """The given names of columns, without the names of columns that hold the row numbers of pandas.
    As a feature, a row number would identify its sample.

    A column with a name such as ``__index_level_0__`` is the index of a DataFrame, and is left out.
    A column without a name may be an index or something else, so it is refused.

    Args:
        names: names of columns that may be features.
        place: file or name with which error messages begin.

    Raises:
        DataError: a column has no name.
    """
    index = [name for name in names if _INDEX.fullmatch(str(name))]
    if index:
        _log.warning(
            "%s: left out %s, the row numbers of a DataFrame", place, ", ".join(map(str, index))
        )
    unnamed = [name for name in names if str(name).startswith(UNNAMED) or not str(name).strip()]
    if unnamed:
        raise DataError(
            f"{place}: expected a name for every column, got {unnamed[0]!r}: probably the row "
            "numbers that pandas writes; leave them out with to_csv(..., index=False), give the "
            "column a name, or name the others with features="
        )
    return [name for name in names if name not in index]


def resolved_columns(table: Table, columns: Columns) -> Columns:
    """The columns with the names that the table has. The user may write 1 for a column named "1",
    and "1" for a column named 1."""
    by_text = {str(name): name for name in table.columns}

    def resolved(name: Any) -> Any:
        """The name of a column as the table has it; unchanged if the table has no such column."""
        return name if name is None or name in table.columns else by_text.get(str(name), name)

    features = columns.features
    return columns._replace(
        label=resolved(columns.label),
        client=resolved(columns.client),
        features=None if features is None else [resolved(name) for name in features],
        split=resolved(columns.split),
        unused=tuple(resolved(name) for name in columns.unused),
        **{role: resolved(getattr(columns, role)) for role in ROLES},
        client_columns=tuple(resolved(name) for name in columns.client_columns),
    )


def with_features(
    table: Table,
    columns: Columns,
    features: list[Any],
    x: Any,
    place: Path | str,
    title: str,
    **more: Any,
) -> OwnSamples:
    """Samples with a table's labels, clients and split, and features from the table or elsewhere.

    Args:
        table: a table with these columns.
        columns: roles of the columns.
        features: names of the feature columns.
        x: the features.
        place, title, more: as in ``table_samples``.
    """
    owners = None
    if columns.client is not None:
        owners = client_ids(table[columns.client], place, str(columns.client))
    split = None if columns.split is None else _text(table[columns.split].to_numpy())
    names = tuple(str(name) for name in features)
    if len(set(names)) < len(names):
        # The columns 1 and "1" would have the same name.
        names = None
    labels = table[columns.label]
    facts = column_facts(columns)
    named = {role: getattr(columns, role) for role in ROLES}
    by_role = {role: table[name] for role, name in named.items() if name is not None}
    return OwnSamples(
        place=place,
        title=title,
        x=x,
        labels=labels,
        owners=owners,
        split=split,
        feature_names=names,
        columns=facts,
        **by_role,
        client_columns={str(name): table[name] for name in columns.client_columns} or None,
        **more,
    )


def column_facts(columns: Columns) -> dict[str, str]:
    """The names of a table's columns by their roles, which are needed to read new samples for
    predictions.

    Args:
        columns: roles of the columns.
    """
    facts = {"label": str(columns.label)}
    for role in ("client", "exposure", "weight", "event"):
        name = getattr(columns, role)
        if name is not None:
            facts[role] = str(name)
    return facts


def check_table(table: Table, place: Path | str) -> None:
    """Raise DataError for a table without rows, or with two columns of the same name."""
    if not len(table):
        raise DataError(f"{place}: expected one row per sample, found none")
    check_different(table, place)


def check_different(table: Table, place: Path | str) -> None:
    """Raise DataError for a table with two columns of the same name."""
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise DataError(f"{place}: expected columns of different names, got {twice[0]!r} twice")


def _text(column: np.ndarray) -> np.ndarray:
    """A column of a table, converted to text if its entries are Python objects."""
    return column.astype(str) if column.dtype == object else column


def numbers(
    table: Table, features: list[Any], place: Path | str, start: int = 0, clients: Any = None
) -> Float64[np.ndarray, "M d"]:
    """Feature columns as numbers.

    Args:
        table: a DataFrame.
        features: names of the feature columns.
        place: file or name with which error messages begin.
        start: number of the first row, if the table is a part of a larger one.
        clients: the client of each row of the whole table, for messages; None if it is unknown.

    Raises:
        DataError: a cell is missing, infinite or not a number; the message names column and row.
    """
    import pandas as pd

    if not features:
        raise DataError(f"{place}: expected numeric feature columns, got none")
    for name in features:
        column = table[name]
        refuse_marks(column, name, place, start)
        refuse_mostly_numbers(column, name, place, start)
        if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_complex_dtype(column):
            first = column.dropna().head(1).tolist()
            what = "text" if first and isinstance(first[0], str) else str(column.dtype)
            raise DataError(
                f"{place}: expected numeric feature columns, got {name} of {what}, such as "
                f"{listed(first)!r}; encode it (pandas.get_dummies(table, columns=[{name!r}])), "
                "or name the other columns with features="
            )
        absent = pd.isna(column).to_numpy()
        if absent.any():
            row = start + int(np.argmax(absent))
            raise DataError(
                f"{place}: column {name}, row {row} holds NaN, a missing value ({absent.sum()} "
                "such rows); fill it in, drop these rows, or name the other columns with features="
            )
        values = column.to_numpy(np.float64)
        check_size(values, name=name, place=place, start=start, clients=clients)
    return table[features].to_numpy(np.float64)


def first_text(column: Any) -> str:
    """The first cell of a column that is no number, with its row; empty if there is none."""
    import pandas as pd

    unread = np.asarray(pd.isna(pd.to_numeric(column, errors="coerce")))
    wrong = column.notna().to_numpy() & unread
    if not wrong.any():
        return ""
    row = int(np.argmax(wrong))
    return f"{column.iloc[row]!r} in row {row} (rows count from 0)"
