"""Reads CSV files as tables. It detects encoding, separator and decimal mark. Only an empty cell
counts as missing."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.core.errors import DataError
from fedkin.core.object_repr import shell_command

# A pandas DataFrame. pandas is slow to import, so it is imported only where tables are read.
Table = Any
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
# Prefix of the names that pandas gives to unnamed columns.
UNNAMED = "Unnamed: "
# The header must end within this number of characters.
_HEAD = 2**20
_GZIP = b"\x1f\x8b"
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_OTHER_KINDS = {
    b"PAR1": "a Parquet file",
    b"PK\x03\x04": "a spreadsheet or an archive",
    b'{"': "JSON",
    b"[{": "JSON",
    b"[[": "JSON",
    b"<": "a web page",
}
_DECIMAL_COMMA = re.compile(r"\s*[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(,\d{3})+\s*")
_POINT_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(\.\d{3})+\s*")
_TO_UTF8 = ("iconv", "-f", "LATIN1", "-t", "UTF-8")
_log = logging.getLogger("fedkin")


def read_csv(path: Path, names: str | None = None) -> Table:
    """Read a CSV file, which may be gzipped, as a table.

    Columns may be separated by commas, semicolons, tabs or bars. The text is UTF-8, or UTF-16 with
    a byte-order mark. If columns are not separated by commas, numbers may have decimal commas.
    Words such as NA and None stay text.

    Args:
        path: path of the file.
        names: a column whose entries are names. They stay text if reading an entry such as 01 or
            1e3 as a number would change it.

    Returns:
        A DataFrame with a row for each line below the header.

    Raises:
        DataError: the file is not text, or neither UTF-8 nor UTF-16; two columns have the same
            name; rows have more cells than the header; or points may be thousands separators.
    """
    encoding = _encoding(path)
    try:
        header, separator = _header(path, encoding)
        _check_header(header, path)
        table = _parse(path, encoding, separator, names)
    except UnicodeDecodeError as error:
        raise DataError(_wrong_encoding(path, error)) from None
    _check_width(table, header, path)
    table = _without_empty_columns(table)
    # If commas separated the columns, they could not be decimal commas.
    if separator != ",":
        pointed = _with_decimal_points(table, names, path)
        if not pointed.dtypes.equals(table.dtypes):
            _refuse_pointed_thousands(table, path, encoding, separator)
        table = pointed
    return table if names is None else _typed_names(table, names)


def _encoding(path: Path) -> str:
    """The encoding of a file, from its first bytes. Raises DataError if the bytes are not text."""
    with _binary(path) as file:
        first = file.read(4096)
    for mark, encoding in _MARKS.items():
        if first.startswith(mark):
            return encoding
    for start, kind in _OTHER_KINDS.items():
        if first.lstrip().startswith(start):
            raise DataError(f"{path}: expected a CSV file, but it is {kind}; write it as CSV")
    if b"\0" in first:
        raise DataError(
            f"{path}: expected a CSV file, but it holds NUL bytes, so it is not text, or it is "
            "UTF-16 without a byte-order mark; write it as UTF-8"
        )
    return "utf-8"


def _binary(path: Path) -> io.BufferedReader | gzip.GzipFile:
    """The CSV file, opened for reading bytes, decompressed if it is gzipped."""
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    return gzip.GzipFile(path) if packed else path.open("rb")


def _text(path: Path, encoding: str) -> io.TextIOWrapper:
    """The CSV file, opened for reading text, decompressed if it is gzipped."""
    return io.TextIOWrapper(_binary(path), encoding=encoding, newline="")


def _header(path: Path, encoding: str) -> tuple[list[str], str]:
    """The column names, and the separator: the character that gives the most columns."""
    with _text(path, encoding) as file:
        head = file.read(_HEAD)
    rows = {separator: _first_row(head, separator) for separator in SEPARATORS}
    separator = max(rows, key=lambda candidate: len(rows[candidate]))
    return rows[separator], separator


def _first_row(head: str, separator: str) -> list[str]:
    """The first line of a CSV file that is not empty, split into cells."""
    rows = csv.reader(io.StringIO(head), delimiter=separator)
    try:
        return next((row for row in rows if row), [])
    except csv.Error:
        # If a cell exceeds the limit of csv, this character is not the separator.
        return []


def _check_header(header: list[str], path: Path) -> None:
    """Raise DataError for a duplicate column name, because pandas would rename the second one."""
    seen: set[str] = set()
    for name in header:
        if name and name in seen:
            raise DataError(
                f"{path}: expected columns of different names, got {name!r} twice; rename or "
                "remove one of them"
            )
        seen.add(name)


def _parse(path: Path, encoding: str, separator: str, names: str | None) -> Table:
    """Read the file as a table with pandas. Only empty cells count as missing, since words such as
    NA may be names."""
    import pandas as pd

    with _text(path, encoding) as file:
        return pd.read_csv(
            file,
            sep=separator,
            dtype=None if names is None else {names: str},
            keep_default_na=False,
            na_values=[""],
            # A column then gets one type, instead of a type for each block of rows.
            low_memory=False,
        )


def _check_width(table: Table, header: list[str], path: Path) -> None:
    """Raise DataError for rows with more cells than the header."""
    import pandas as pd

    # pandas uses the first cells of such rows as the index; otherwise rows are numbered from 0.
    numbered = isinstance(table.index, pd.RangeIndex) and table.index.start == 0
    if not numbered:
        extra = table.index.nlevels
        raise DataError(
            f"{path}: the header names {len(header)} columns, but rows have {len(header) + extra} "
            "cells; name every column, and end no line with a separator"
        )


def _without_empty_columns(table: Table) -> Table:
    """The table without columns that have neither a name nor a filled cell.

    Such a column comes from a separator at the end of each line.
    """
    unnamed = [name for name in table.columns if name.startswith(UNNAMED)]
    empty = [name for name in unnamed if table[name].isna().all()]
    return table.drop(columns=empty)


def _with_decimal_points(table: Table, names: str | None, path: Path) -> Table:
    """The table with columns of decimal commas, such as 1,5 and 2,25, converted to numbers."""
    import pandas as pd

    changed = {}
    for name in table.columns:
        column = table[name]
        if name == names or pd.api.types.is_numeric_dtype(column):
            continue
        if _has_decimal_commas(column):
            changed[name] = pd.to_numeric(column.str.replace(",", ".", regex=False))
    if changed:
        _log.warning(
            "%s: these columns were read as numbers with decimal commas: %s",
            path,
            ", ".join(map(str, changed)),
        )
    return table.assign(**changed)


def _refuse_pointed_thousands(table: Table, path: Path, encoding: str, separator: str) -> None:
    """Raise DataError for a column in which every point may be a thousands separator (1.200).

    It is called if other columns have decimal commas, because points are then probably thousands
    separators, and 1.200 would be read as 1.2.
    """
    import pandas as pd

    floats = [name for name in table.columns if pd.api.types.is_float_dtype(table[name])]

    # The cells are read as text, since 1.200 as a number is 1.2.
    with _text(path, encoding) as file:
        written = pd.read_csv(file, sep=separator, usecols=floats, dtype=str, keep_default_na=False)
    for name in floats:
        pointed = [(row, cell) for row, cell in enumerate(written[name]) if "." in cell]
        if pointed and all(_POINT_THOUSANDS.fullmatch(cell) for _, cell in pointed):
            row, cell = pointed[0]
            raise DataError(
                f"{path}: column {name}, row {row} (rows count from 0) holds {cell!r}, but other "
                "columns have decimal commas, so this point may separate thousands; write the "
                "number without it, or all numbers of the file with decimal points"
            )


def _has_decimal_commas(column: Any) -> bool:
    """Whether all cells of a column of text are numbers, some with a decimal comma.

    False if every comma may be a thousands separator (1,234).
    """
    cells = [cell for cell in column.dropna() if isinstance(cell, str)]
    with_comma = [cell for cell in cells if "," in cell]
    if not with_comma or len(cells) < column.notna().sum():
        return False
    if all(_THOUSANDS.fullmatch(cell) for cell in with_comma):
        return False
    return all(_DECIMAL_COMMA.fullmatch(cell) for cell in cells)


def _typed_names(table: Table, names: str) -> Table:
    """The table with its column ``names`` converted to numbers. The column stays text if a number,
    written as text again, would differ from its cell: 01 would become 1."""
    if names not in table:
        return table
    for kind in (np.int64, np.float64):
        try:
            numbers = table[names].astype(kind)
        except (ValueError, OverflowError):
            continue
        # Written as text again, every name must be the same.
        if np.array_equal(numbers.astype(str), table[names]):
            typed = table.copy()
            typed[names] = numbers
            return typed
    return table


def _wrong_encoding(path: Path, error: UnicodeDecodeError) -> str:
    """The error message about a CSV file that is not UTF-8."""
    wrong = error.object[error.start : error.start + 1].hex()
    cure = shell_command(*_TO_UTF8, str(path))
    return (
        f"{path}: expected a CSV file in UTF-8, but the byte {wrong} is not UTF-8; convert the "
        f"file, for example with {cure} > utf8.csv (with its encoding in place of LATIN1)"
    )
