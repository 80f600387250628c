"""Copies of large tables: equal to NumPy's, and never in memory that an array still refers to."""

from __future__ import annotations

import gc
import pickle

import numpy as np

from fedkin.core.reused_memory import appended

WIDTH = 2**20  # three rows of float32 take 12 MB


def table(rows: int, start: float = 0.0) -> np.ndarray:
    return np.repeat(np.arange(start, start + rows, dtype=np.float32)[:, None], WIDTH, axis=1)


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def test_a_copy_equals_numpys_concatenation() -> None:
    first = appended(table(3), table(2, start=7.0))
    np.testing.assert_array_equal(first[:, 0], [0, 1, 2, 7, 8])
    np.testing.assert_array_equal(first[:, -1], [0, 1, 2, 7, 8])
    second = appended(first, first[:0])
    np.testing.assert_array_equal(second, first)
    assert address(second) != address(first)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(second)), first)


def test_the_memory_of_an_earlier_copy_is_used_again() -> None:
    first = appended(table(3), table(0))
    second = appended(first, table(0))
    before = address(first)
    del first
    gc.collect()
    third = appended(second, table(1))
    assert address(third) == before
    np.testing.assert_array_equal(third[:, 0], [0, 1, 2, 0])


def test_memory_with_a_view_is_not_used_again() -> None:
    first = appended(table(3), table(0))
    second = appended(first, table(0))
    view = first[1:2].T
    before = address(first)
    del first
    third = appended(second, table(0))
    assert address(third) != before
    third[:] = -1.0
    assert (view == 1.0).all()


def test_a_larger_table_gets_new_memory() -> None:
    first = appended(table(3), table(0))
    second = appended(first, table(0))
    before = address(first)
    del first
    third = appended(second, table(9))
    assert address(third) != before
    np.testing.assert_array_equal(third[:, 0], [0, 1, 2, *range(9)])


def test_the_largest_memory_is_kept() -> None:
    small = appended(table(3), table(0))
    large = appended(small, table(9))
    last = appended(large, table(0))
    before = address(large)
    del large
    del small  # its memory is smaller than the one that is kept already
    assert address(appended(last, table(0))) == before


def test_small_tables_and_other_types_are_concatenated() -> None:
    small = np.ones((2, 3), np.float32)
    assert appended(small, small).shape == (4, 3)
    mixed = appended(table(3), np.ones((1, WIDTH)))
    assert mixed.dtype == np.float64
