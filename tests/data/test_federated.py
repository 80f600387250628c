from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.data.federated import FederatedData, Ragged
from fedkin.errors import DataError

GOOD: dict[str, Any] = {
    "name": "toy",
    "x": np.zeros((4, 2), np.float32),
    "y": np.array([0, 1, 2, 0]),
    "classes": 4,
    "train": Ragged.of([np.array([0, 1]), np.array([3])]),
    "test": Ragged.of([np.array([2]), np.array([], np.int64)]),
}


@given(st.lists(st.lists(st.integers(0, 99), max_size=5), max_size=6))
def test_ragged_gives_back_its_lists(lists: list[list[int]]) -> None:
    ragged = Ragged.of([np.array(rows, np.int64) for rows in lists])
    assert len(ragged) == len(lists) and ragged.sizes.tolist() == [len(rows) for rows in lists]
    assert [ragged[i].tolist() for i in range(len(lists))] == lists


def test_label_counts_by_hand() -> None:
    data = FederatedData(**GOOD)
    assert data.clients == 2
    assert data.label_counts().tolist() == [[1, 1, 0, 0], [1, 0, 0, 0]]  # class 3 is empty, client 1 has one sample
    assert data.label_counts("test").tolist() == [[0, 0, 1, 0], [0, 0, 0, 0]]
    with pytest.raises(DataError, match="split must be"):
        data.label_counts("valid")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": 2}, r"labels must be 0..1, got 0..2"),
        ({"y": np.array([0, -1, 2, 0])}, "got -1..2"),
        ({"test": Ragged.of([np.array([2])])}, "train names 2 clients, test names 1"),
        ({"test": Ragged.of([np.array([4]), np.array([0])])}, "outside 0..3"),
        ({"train": Ragged.of([np.array([0, 1]), np.array([], np.int64)])}, "client 1 has no training sample"),
        ({"x": np.array([[0, 0], [0, 0], [np.nan, 0], [0, 0]], np.float32)}, "sample 2 holds NaN"),
        ({"x": np.array([[0, 0], [0, np.inf], [0, 0], [0, 0]], np.float32)}, "sample 1 holds NaN or an infinite"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        FederatedData(**(GOOD | change))
