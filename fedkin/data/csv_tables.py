"""CSV files as tables: encoding, separator and decimal mark are detected, and nothing is taken for
missing but an empty cell."""

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

from fedkin.core.display import shell_command
from fedkin.core.errors import DataError

Table = Any  # a pandas DataFrame: pandas is slow to import, and needed for tables only
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
UNNAMED = "Unnamed: "  # how pandas begins the name of a column without one
_HEAD = 2**20  # characters in which the header must end
_GZIP = b"\x1f\x8b"
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_OTHER_KINDS = {
    b"PAR1": "that of a Parquet file",
    b"PK\x03\x04": "that of a spreadsheet or an archive",
    b'{"': "JSON",
    b"[{": "JSON",
    b"[[": "JSON",
    b"<": "that of a web page",
}
_DECIMAL_COMMA = re.compile(r"\s*[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(,\d{3})+\s*")
_POINT_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(\.\d{3})+\s*")
_log = logging.getLogger("fedkin")


def read_csv(path: Path, names: str | None = None) -> Table:
    """A CSV file as a table, gzipped or not.

    Columns may be separated by commas, semicolons, tabs or bars. The text is UTF-8, or UTF-16 with
    a byte-order mark. Where columns are not separated by commas, numbers may have decimal commas.
    Words such as NA and None stay words: only an empty cell is missing.

    Args:
        path: the file.
        names: a column whose entries are names: they stay text where one is not written as the
            number that it would be read as (01, 1e3).

    Raises:
        DataError: another encoding, a column without a name or with that of another, rows longer
            than the header.
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
    if separator != ",":
        pointed = _with_decimal_points(table, names, path)
        if not pointed.dtypes.equals(table.dtypes):
            _refuse_pointed_thousands(table, path, encoding, separator)
        table = pointed
    return table if names is None else _typed_names(table, names)


def _encoding(path: Path) -> str:
    """The encoding that the first bytes of a file show. Raises DataError for what is no text."""
    with _binary(path) as file:
        first = file.read(4096)
    for mark, encoding in _MARKS.items():
        if first.startswith(mark):
            return encoding
    for start, kind in _OTHER_KINDS.items():
        if first.lstrip().startswith(start):
            raise DataError(
                f"{path}: expected a CSV file, but its content is {kind}; write it as CSV"
            )
    if b"\0" in first:
        raise DataError(
            f"{path}: expected a CSV file, but it holds zero bytes: it is no text, or UTF-16 "
            "without a byte-order mark; write it as UTF-8"
        )
    return "utf-8"


def _binary(path: Path) -> io.BufferedReader | gzip.GzipFile:
    """The file's bytes, unpacked where it is gzipped."""
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    return gzip.GzipFile(path) if packed else path.open("rb")


def _text(path: Path, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(_binary(path), encoding=encoding, newline="")


def _header(path: Path, encoding: str) -> tuple[list[str], str]:
    """The names of the columns, and what separates them: the separator that makes most columns."""
    with _text(path, encoding) as file:
        head = file.read(_HEAD)
    rows = {separator: _first_row(head, separator) for separator in SEPARATORS}
    separator = max(rows, key=lambda candidate: len(rows[candidate]))
    return rows[separator], separator


def _first_row(head: str, separator: str) -> list[str]:
    """The first line with a character in it, as csv splits it."""
    try:
        return next((row for row in csv.reader(io.StringIO(head), delimiter=separator) if row), [])
    except csv.Error:  # a cell longer than csv allows: no header of this separator
        return []


def _check_header(header: list[str], path: Path) -> None:
    """Refuse (DataError) a column name that occurs twice. pandas would rename the second one."""
    seen: set[str] = set()
    for name in header:
        if name and name in seen:
            raise DataError(
                f"{path}: expected columns of different names, got {name!r} twice; rename or "
                "remove one of them"
            )
        seen.add(name)


def _parse(path: Path, encoding: str, separator: str, names: str | None) -> Table:
    import pandas as pd

    with _text(path, encoding) as file:
        return pd.read_csv(
            file,
            sep=separator,
            dtype=None if names is None else {names: str},
            keep_default_na=False,
            na_values=[""],
            low_memory=False,  # one type per column
        )


def _check_width(table: Table, header: list[str], path: Path) -> None:
    """Refuse (DataError) rows with more cells than the header: pandas takes the first ones for an
    index."""
    import pandas as pd

    extra = (
        0
        if isinstance(table.index, pd.RangeIndex) and table.index.start == 0
        else table.index.nlevels
    )
    if extra:
        raise DataError(
            f"{path}: the header names {len(header)} columns, and rows have {len(header) + extra} "
            "cells; name every column, and end no line with a separator"
        )


def _without_empty_columns(table: Table) -> Table:
    """The table without columns that have no name and no entry, which a separator at the end of
    each line makes."""
    empty = [
        name for name in table.columns if name.startswith(UNNAMED) and table[name].isna().all()
    ]
    return table.drop(columns=empty)


def _with_decimal_points(table: Table, names: str | None, path: Path) -> Table:
    """The table with columns such as 1,5 and 2,25 as numbers."""
    import pandas as pd

    changed = {}
    for name in table.columns:
        column = table[name]
        if (
            name == names
            or pd.api.types.is_numeric_dtype(column)
            or not _has_decimal_commas(column)
        ):
            continue
        changed[name] = pd.to_numeric(column.str.replace(",", ".", regex=False))
    if changed:
        _log.warning("%s: read with decimal commas: %s", path, ", ".join(map(str, changed)))
    return table.assign(**changed)


def _refuse_pointed_thousands(table: Table, path: Path, encoding: str, separator: str) -> None:
    """Refuse (DataError) a column of numbers in which every point may separate thousands, such as
    1.200, where other columns have decimal commas."""
    import pandas as pd

    floats = [name for name in table.columns if pd.api.types.is_float_dtype(table[name])]
    with _text(path, encoding) as file:  # how they are written
        written = pd.read_csv(file, sep=separator, usecols=floats, dtype=str, keep_default_na=False)
    for name in floats:
        pointed = [(row, cell) for row, cell in enumerate(written[name]) if "." in cell]
        if pointed and all(_POINT_THOUSANDS.fullmatch(cell) for _, cell in pointed):
            row, cell = pointed[0]
            raise DataError(
                f"{path}: column {name}, row {row} (rows count from 0) holds {cell!r}, and other "
                "columns have decimal commas, so this point may separate thousands; write the "
                "number without it, or all numbers of the file with decimal points"
            )


def _has_decimal_commas(column: Any) -> bool:
    """Whether all cells of a column of text are numbers, some with a decimal comma. Where each
    comma may separate thousands (1,234), nothing is decided."""
    cells = [cell for cell in column.dropna() if isinstance(cell, str)]
    with_comma = [cell for cell in cells if "," in cell]
    if not with_comma or len(cells) < column.notna().sum():
        return False
    if all(_THOUSANDS.fullmatch(cell) for cell in with_comma):
        return False
    return all(_DECIMAL_COMMA.fullmatch(cell) for cell in cells)


def _typed_names(table: Table, names: str) -> Table:
    """The table with a column of names as numbers, where each is written as its number."""
    if names not in table:
        return table
    for kind in (np.int64, np.float64):
        try:
            numbers = table[names].astype(kind)
        except (ValueError, OverflowError):
            continue
        if np.array_equal(numbers.astype(str), table[names]):
            return table.assign(**{names: numbers})
    return table


def _wrong_encoding(path: Path, error: UnicodeDecodeError) -> str:
    """What to say of a file in another encoding."""
    wrong = error.object[error.start : error.start + 1].hex()
    cure = shell_command("iconv", "-f", "LATIN1", "-t", "UTF-8", str(path))
    return (
        f"{path}: expected a CSV file in UTF-8, found the byte {wrong}, which is none of UTF-8; "
        f"convert it, such as {cure} > utf8.csv (in place of LATIN1 the encoding that it has)"
    )
