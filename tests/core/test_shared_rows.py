"""A table whose versions share rows."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.core.shared_rows import SharedRows

ARRAY = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_it_reads_as_the_array_of_its_rows() -> None:
    table = SharedRows.of(ARRAY)
    assert (table.shape, table.dtype, len(table)) == ((4, 3), np.float32, 4)
    np.testing.assert_array_equal(table, ARRAY)
    np.testing.assert_array_equal(table[np.array([3, 0, 3])], ARRAY[[3, 0, 3]])
    np.testing.assert_array_equal(table[[True, False, True, False]], ARRAY[[0, 2]])
    np.testing.assert_array_equal(table[2], ARRAY[2])
    np.testing.assert_array_equal(table[1:3], ARRAY[1:3])
    np.testing.assert_array_equal(table[...], ARRAY)
    assert (table.ndim, len(table[4:])) == (2, 0)
    assert np.asarray(table, np.float64).dtype == np.float64
    assert SharedRows.of(table) is table


def test_arrays_that_would_not_be_rows_are_refused() -> None:
    table = SharedRows.of(ARRAY)
    for index in (np.array([[0, 1]]), (slice(None), 0)):
        with pytest.raises(IndexError):
            table[index]
    with pytest.raises(ValueError, match="copy"):
        np.asarray(table, copy=False)


def test_rows_cannot_be_written_to() -> None:
    """All clients of a shared row, and all earlier versions, would change."""
    table = SharedRows.of(ARRAY)
    for row in (
        table[0],
        table.replaced(np.array([0]), ARRAY[1:2])[0],
        SharedRows([np.zeros(2)])[0],
    ):
        with pytest.raises(ValueError, match="read-only"):
            row[0] = 1


def test_new_rows_have_the_type_of_the_table() -> None:
    assert SharedRows.of(ARRAY).replaced(np.array([0]), np.ones((1, 3))).dtype == np.float32


@pytest.mark.parametrize("rows", [1, 3])
def test_no_rows_at_all(rows: int) -> None:
    """Also for a square table, which NumPy would turn into a matrix."""
    table = SharedRows.of(np.ones((rows, rows), np.float32))
    assert table[np.zeros(0, int)].shape == (0, rows)
    assert table[np.zeros(0, int)].dtype == np.float32
    assert np.asarray(SharedRows([])).shape == (0, 0)


def test_a_version_leaves_the_one_before_as_it_is_and_shares_its_rows() -> None:
    before = SharedRows.of(ARRAY)
    rows = np.full((2, 3), 7, np.float32)
    after = before.replaced(np.array([2, 0]), rows)
    rows[:] = 9
    np.testing.assert_array_equal(before, ARRAY)
    np.testing.assert_array_equal(after, [[7, 7, 7], ARRAY[1], [7, 7, 7], ARRAY[3]])
    assert after[1] is before[1] and after[0] is not before[0]


def test_an_array_changed_later_changes_no_row() -> None:
    array = ARRAY.copy()
    table = SharedRows.of(array)
    array[:] = 0
    np.testing.assert_array_equal(table, ARRAY)


def test_equal_rows_are_in_memory_once() -> None:
    row = np.zeros(1_000, np.float32)
    table = SharedRows([row] * 50)
    assert all(table[i] is row for i in range(50))
    again = SharedRows.of(np.asarray(table))
    assert all(again[i] is again[0] for i in range(50))


def test_a_value_computed_of_a_shared_row_serves_all_that_share_it() -> None:
    row = np.zeros(2, np.float32)
    other = np.ones(2, np.float32)
    table = SharedRows([row, other, row, row, row.copy()])
    rows, own = table.distinct(np.array([2, 1, 0, 4, 1]))
    assert len(rows) == 3
    np.testing.assert_array_equal(rows[own], [row, other, row, row, other])
    rows, own = table.distinct(np.zeros(0, int))
    assert (rows.shape, own.shape) == ((0, 2), (0,))
