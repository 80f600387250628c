"""The client of each sample: none missing, of one type, and with the names that users gave."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.core.errors import DataError
from fedkin.data.client_ids import client_ids

X = np.zeros((4, 2), np.float32)
Y = np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    "ids",
    [
        ["a", "a", "b", None],
        ["a", "a", "b", ""],
        ["a", "a", "b", "  "],
        [1, 1, 2, None],
        [1, 1, 2, np.ma.masked],
        [b"a", b"a", b"b", b""],
        np.array([1, 1, 2, np.nan]),
        np.array(["a", "a", "b", " "]),
        np.array(["2024-01-01", "2024-01-01", "2024-01-02", "NaT"], "datetime64[D]"),
        pd.Series([1, 1, 2, None], dtype="Int64"),
        pd.Series(["a", "a", "b", pd.NA], dtype="string"),
        pd.Series(["a", "a", "b", None], dtype="category"),
    ],
)
def test_a_missing_client_is_refused_with_its_row(ids: Any) -> None:
    with pytest.raises(
        DataError, match=r"clients is empty in row 3 \(1 such rows\); drop these rows"
    ):
        fk.data.from_arrays(X, Y, clients=ids)


def test_masked_clients_are_refused_with_their_row() -> None:
    ids = np.ma.masked_array([1, 1, 2, 2], mask=[False, False, True, False])
    with pytest.raises(DataError, match=r"clients is masked in row 2 \(1 such entries\)"):
        fk.data.from_arrays(X, Y, clients=ids)


@pytest.mark.parametrize(
    ("ids", "row"),
    [([1, "1", 1, 1], 1), (["a", "a", b"a", b"a"], 2), ([1, 1, pd.Timestamp("2024"), 2], 2)],
)
def test_ids_of_several_types_are_refused(ids: list[Any], row: int) -> None:
    with pytest.raises(
        DataError, match=f"clients must be of one type, got .* in row 0 and .* in row {row}"
    ):
        fk.data.from_arrays(X, Y, clients=ids)


@pytest.mark.parametrize(
    "ids",
    [
        [b"a", b"a", "süd".encode(), "süd".encode()],
        np.array([b"a", b"a", "süd".encode(), "süd".encode()]),
        np.array([b"a", b"a", "süd".encode(), "süd".encode()], object),
    ],
)
def test_bytes_are_the_text_that_they_encode(ids: Any) -> None:
    data = fk.data.from_arrays(X, Y, clients=ids)
    assert data.client_names == ["a", "süd"]  # and not "b'a'"


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(
        DataError, match=r"clients in row 1 is b'\\xff', bytes that are not UTF-8.*latin-1"
    ):
        client_ids([b"a", b"\xff"], "place", "clients")


def test_numbers_of_any_type_are_ordered_as_numbers() -> None:
    for ids in (
        [10, 10, 9, 9],
        np.array([10, 10, 9, 9], object),
        pd.Series([10, 10, 9, 9], dtype="Int64"),
    ):
        assert fk.data.from_arrays(X, Y, clients=ids).client_names == ["9", "10"]


def test_ids_that_are_no_numbers_or_text_are_refused() -> None:
    with pytest.raises(DataError, match="clients must be numbers or text, got complex128"):
        client_ids(np.zeros(4, complex), "place", "clients")
    with pytest.raises(
        DataError, match=r"clients must be one id for each sample, got an array of shape \(2, 2\)"
    ):
        client_ids(np.zeros((2, 2)), "place", "clients")


def test_a_table_with_a_missing_client_is_refused() -> None:
    table = pd.DataFrame(
        {"f": np.arange(4.0), "y": Y, "c": pd.Series([1, 1, 2, None], dtype="Int64")}
    )
    with pytest.raises(DataError, match="c is empty in row 3"):
        fk.data.from_pandas(table, label="y", client="c")


@pytest.mark.parametrize(
    "ids", [[1.0, np.inf], np.array([1.0, -np.inf]), np.array([1.0, np.inf], object)]
)
def test_infinite_clients_are_refused_with_their_row(ids: Any) -> None:
    with pytest.raises(DataError, match=r"place: client is infinite in row 1 \(1 such rows\)"):
        client_ids(ids, "place", "client")
