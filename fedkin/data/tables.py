"""Converts a table (DataFrame) to samples. The table's columns are features, the label, the client
and the split."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.core.object_repr import listed
from fedkin.data.client_ids import client_ids
from fedkin.data.csv_tables import UNNAMED
from fedkin.data.files import Table
from fedkin.data.user_samples import OwnSamples

# The name that pyarrow gives to an index without a name.
_INDEX = re.compile(r"__index_level_\d+__")
# A number with commas or with several points, such as 1,5 or 1.000,5, or a word that stands for a
# missing value.
_MARKED = re.compile(
    r"\s*([+-]?[\d.]*,[\d.,]+|[+-]?\d{1,3}(\.\d{3}){2,}|NA|N/A|n/a|NaN|nan|None|null|NULL|-|\?)\s*"
)
_log = logging.getLogger("fedkin")


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
    """

    label: Any
    client: Any = None
    features: Sequence[Any] | None = None
    split: Any = None
    unused: tuple[Any, ...] = ()
    exposure: Any = None
    weight: Any = None

    @property
    def named(self) -> list[Any]:
        """The columns that the user has named for another role than a feature."""
        roles = (self.label, self.client, self.split, self.exposure, self.weight)
        return [name for name in roles if name is not None]


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
    return with_features(
        table=table,
        columns=columns,
        features=features,
        x=numbers(table, features, place),
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
    check_columns(table, [*named, *(columns.features or ())], place)
    features = columns.features
    if features is None:
        others = (*named, *columns.unused)
        candidates = [name for name in table.columns if name not in others]
        features = without_row_numbers(candidates, place)
    clash = [name for name in named if name in features]
    if clash:
        raise ConfigError(
            f"{place}: column {clash[0]!r} cannot be a feature and also the label, the client, the "
            "split, the exposure or the weight"
        )
    if len(set(named)) < len(named):
        raise ConfigError(
            f"{place}: label, client, split, exposure and weight must be different columns, got "
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
        exposure=resolved(columns.exposure),
        weight=resolved(columns.weight),
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
    return OwnSamples(
        place=place,
        title=title,
        x=x,
        labels=labels,
        owners=owners,
        split=split,
        feature_names=names,
        columns=facts,
        exposure=None if columns.exposure is None else table[columns.exposure],
        weight=None if columns.weight is None else table[columns.weight],
        **more,
    )


def column_facts(columns: Columns) -> dict[str, str]:
    """The names of a table's columns by their roles, which are needed to read new samples for
    predictions.

    Args:
        columns: roles of the columns.
    """
    facts = {"label": str(columns.label)}
    for role in ("client", "exposure", "weight"):
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


def check_columns(
    table: Table, names: Sequence[Any], place: Path | str, cures: Mapping[str, str] | None = None
) -> None:
    """Raise DataError for a column that does not exist. The message names the column with the most
    similar name.

    Args:
        table: a DataFrame.
        names: columns that the table must have.
        place: file or name with which error messages begin.
        cures: advice for a column that does not exist, by the column's name.
    """
    for name in names:
        if name not in table.columns:
            message = unknown("column", str(name), map(str, table.columns))
            cure = (cures or {}).get(name)
            if cure:
                message += f"; {cure}"
            raise DataError(f"{place}: {message}")


def _text(column: np.ndarray) -> np.ndarray:
    """A column of a table, converted to text if its entries are Python objects."""
    return column.astype(str) if column.dtype == object else column


def numbers(
    table: Table, features: list[Any], place: Path | str, start: int = 0
) -> Float64[np.ndarray, "M d"]:
    """Feature columns as numbers.

    Args:
        table: a DataFrame.
        features: names of the feature columns.
        place: file or name with which error messages begin.
        start: number of the first row, if the table is a part of a larger one.

    Raises:
        DataError: a cell is missing, infinite or not a number; the message names column and row.
    """
    import pandas as pd

    if not features:
        raise DataError(f"{place}: expected numeric feature columns, got none")
    for name in features:
        column = table[name]
        _refuse_marks(column, name, place, start)
        _check_text(column, name, place, start)
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
        _check_size(column.to_numpy(np.float64), name, place, start)
    return table[features].to_numpy(np.float64)


def _check_text(column: Any, name: Any, place: Path | str, start: int) -> None:
    """Raise DataError for a column of text in which most cells are numbers but some are not."""
    import pandas as pd

    is_text = pd.api.types.is_object_dtype(column) or pd.api.types.is_string_dtype(column)
    if pd.api.types.is_numeric_dtype(column) or not is_text:
        return
    present = column.notna().to_numpy()
    wrong = present & np.asarray(pd.isna(pd.to_numeric(column, errors="coerce")))
    if 0 < wrong.sum() < present.sum() / 2:
        row = int(np.argmax(wrong))
        raise DataError(
            f"{place}: column {name}, row {start + row} (rows count from 0) holds "
            f"{column.iloc[row]!r}, which is not a number ({wrong.sum()} such rows); correct it, "
            "leave these rows out, or name the other columns with features="
        )


def first_text(column: Any) -> str:
    """The first cell of a column that is no number, with its row; empty if there is none."""
    import pandas as pd

    unread = np.asarray(pd.isna(pd.to_numeric(column, errors="coerce")))
    wrong = column.notna().to_numpy() & unread
    if not wrong.any():
        return ""
    row = int(np.argmax(wrong))
    return f"{column.iloc[row]!r} in row {row} (rows count from 0)"


def _refuse_marks(column: Any, name: Any, place: Path | str, start: int) -> None:
    """Raise DataError for a column of numbers with commas, or with words for missing values."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column):
        return
    present = [str(cell) for cell in column.dropna()]
    marked = np.array([bool(_MARKED.fullmatch(cell)) for cell in present], bool)
    readable = ~np.asarray(
        pd.isna(pd.to_numeric(pd.Series(present, dtype=object), errors="coerce"))
    )
    has_numbers = readable.any() or any("," in cell for cell in present)
    if not marked.any() or not has_numbers or not (marked | readable).all():
        return
    row = int(np.argmax([bool(_MARKED.fullmatch(str(cell))) for cell in column]))
    raise DataError(
        f"{place}: column {name}, row {start + row} (rows count from 0) holds "
        f"{column.iloc[row]!r}, which is not a number. It may have a decimal comma or thousands "
        "separators, or be a word for a missing value. Write numbers as 1234.5, leave out rows "
        "without a value, or name the other columns with features="
    )


def _check_size(values: Float64[np.ndarray, "M"], name: Any, place: Path | str, start: int) -> None:
    """Raise DataError for infinity, and for numbers that are infinite as float32."""
    large = np.abs(values) > np.finfo(np.float32).max
    if large.any():
        row = int(np.argmax(large))
        what = "a number too large for float32, over 3.4e38; scale the features"
        if np.isinf(values[row]):
            what = "infinity"
        raise DataError(
            f"{place}: column {name}, row {start + row} holds {what} ({large.sum()} such rows)"
        )
