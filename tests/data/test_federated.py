from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.errors import DataError
from fedkin.data.federated import FederatedData, Ragged

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


@given(st.lists(st.lists(st.integers(0, 99), max_size=5), min_size=1, max_size=6), st.data())
def test_taken_gives_the_lists_of_these_clients_in_this_order(
    lists: list[list[int]], draw: st.DataObject
) -> None:
    ragged = Ragged.of([np.array(rows, np.int64) for rows in lists])
    clients = draw.draw(st.lists(st.integers(0, len(lists) - 1), max_size=8))
    taken = ragged.select(np.array(clients, np.int64))
    assert [taken[i].tolist() for i in range(len(taken))] == [lists[c] for c in clients]
    assert taken.owners().tolist() == [i for i, c in enumerate(clients) for _ in lists[c]]


@pytest.mark.parametrize("at_once", [1, 3, 2**20])
def test_labels_are_counted_for_some_clients_at_a_time(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    selected: list[int] = []
    select = Ragged.select
    monkeypatch.setattr("fedkin.data.federated._COUNTED_AT_ONCE", at_once)
    monkeypatch.setattr(
        Ragged, "select", lambda part, some: selected.append(len(some)) or select(part, some)
    )
    data = FederatedData(**GOOD)
    np.testing.assert_array_equal(data.label_counts(), [[1, 1, 0, 0], [1, 0, 0, 0]])
    assert max(selected) == (2 if at_once == 2**20 else 1)
    clients = np.array([1, 0, 1])
    counts = data.label_counts(clients=clients)
    np.testing.assert_array_equal(counts, [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0]])
    assert data.label_counts(clients=clients[:0]).shape == (0, 4)
    np.testing.assert_array_equal(data.label_counts("test"), [[0, 0, 1, 0], [0, 0, 0, 0]])


def test_with_rows_keeps_all_other_values() -> None:
    data = FederatedData(**GOOD, true_clusters=np.array([1, 0]), client_names=("a", "b"))
    train = Ragged.of([np.array([3]), np.array([1, 0])])
    other = data.with_rows(train, data.test)
    assert (
        other.train is train and other.test is data.test and other.x is data.x and other.y is data.y
    )
    assert (
        other.true_clusters is data.true_clusters
        and other.client_names == ("a", "b")
        and other.name == "toy"
    )
    assert data.train.rows.tolist() == [0, 1, 3]  # the first federation is unchanged
    swapped = data.with_rows(
        train, data.test, true_clusters=np.array([0, 1]), x=data.x + 1, y=data.y[::-1]
    )
    assert swapped.true_clusters is not None and swapped.true_clusters.tolist() == [0, 1]
    assert swapped.x.min() == 1 and swapped.y.tolist() == [0, 2, 1, 0]
    assert swapped.label_counts().tolist() == [[1, 0, 0, 0], [1, 0, 1, 0]]


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (
            Ragged.of([np.array([0, 1, 3]), np.array([], np.int64)]),
            "client 1 has no training sample",
        ),
        (Ragged.of([np.array([0]), np.array([4])]), r"outside 0..3"),
        (Ragged.of([np.array([0])]), "train has 1 clients, but test has 2"),
    ],
)
def test_with_rows_checks_the_owners(train: Ragged, message: str) -> None:
    data = FederatedData(**GOOD)
    with pytest.raises(DataError, match=message):
        data.with_rows(train, data.test)


def test_with_rows_does_not_read_the_samples() -> None:
    """A federation whose samples were spoilt after its making stands for one too large to read in
    every round."""
    good: dict[str, Any] = GOOD | {"x": np.zeros((4, 2), np.float32)}
    data = FederatedData(**good)
    data.x[2] = np.nan
    assert data.with_rows(data.train, data.test).x is data.x


def test_label_counts_by_hand() -> None:
    data = FederatedData(**GOOD)
    assert data.clients == 2
    # Class 3 is empty, client 1 has one sample.
    assert data.label_counts().tolist() == [
        [1, 1, 0, 0],
        [1, 0, 0, 0],
    ]
    assert data.label_counts("test").tolist() == [[0, 0, 1, 0], [0, 0, 0, 0]]
    with pytest.raises(DataError, match="split must be"):
        data.label_counts("valid")


def test_the_owner_of_each_row() -> None:
    owned = Ragged.of([np.array([4, 1]), np.array([], np.int64), np.array([0])])
    assert owned.owner_of_rows(6).tolist() == [2, 0, -1, -1, 0, -1]


def test_label_counts_of_some_clients() -> None:
    """In the order of the question; a client may be asked for twice."""
    data = FederatedData(**GOOD)
    assert data.label_counts(clients=np.array([1, 0, 1])).tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 0, 0, 0],
    ]
    assert data.label_counts("test", np.array([0])).tolist() == [[0, 0, 1, 0]]
    assert data.label_counts(clients=np.zeros(0, np.int64)).shape == (0, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": 2}, r"labels must be 0..1, got 0..2"),
        ({"y": np.array([0, -1, 2, 0])}, "got -1..2"),
        ({"test": Ragged.of([np.array([2])])}, "train has 2 clients, but test has 1"),
        ({"test": Ragged.of([np.array([4]), np.array([0])])}, "outside 0..3"),
        (
            {"train": Ragged.of([np.array([0, 1]), np.array([], np.int64)])},
            "client 1 has no training sample",
        ),
        ({"x": np.array([[0, 0], [0, 0], [np.nan, 0], [0, 0]], np.float32)}, "sample 2 holds NaN"),
        (
            {"x": np.array([[0, 0], [0, np.inf], [0, 0], [0, 0]], np.float32)},
            "sample 1 holds NaN or an infinite",
        ),
        (
            {"train": Ragged(np.array([0, 1]), np.array([0, 2, 4]))},
            r"train.offsets must rise from 0 to 2",
        ),
        (
            {"train": Ragged(np.array([0, 1]), np.array([0, 1, 1]))},
            r"train.offsets must rise from 0 to 2",
        ),
        (
            {"test": Ragged(np.array([0, 1, 3]), np.array([1, 2, 3]))},
            r"test.offsets must rise from 0 to 3",
        ),
        (
            {"test": Ragged(np.array([0, 1]), np.array([0, 3, 2]))},
            r"test.offsets must rise from 0 to 2",
        ),
        (
            {"test": Ragged(np.array([], np.int64), np.array([], np.int64))},
            r"test.offsets must rise from 0 to 0",
        ),
        (
            {"true_clusters": np.array([0, 1, 0])},
            "true_clusters must have one entry for each of 2 clients, got 3",
        ),
        ({"true_clusters": np.array([0, -1])}, "true_clusters must be integers from 0.*from -1"),
        ({"client_names": ("a",)}, "client_names must have one entry for each of 2 clients, got 1"),
        ({"classes": 0}, "classes must be an integer of at least 1, got 0"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        FederatedData(**(GOOD | change))


def test_labels_of_any_integer_type_are_counted() -> None:
    for kind in (np.int8, np.int32):
        data = FederatedData(**(GOOD | {"y": GOOD["y"].astype(kind)}))
        assert data.label_counts().tolist() == [[1, 1, 0, 0], [1, 0, 0, 0]]


WHOLE = (
    "FederatedData('toy', {x}, {y}, {classes}, {train}, Ragged.of([np.array([1]), np.array([0])]), "
    "true_clusters={true_clusters})"
)
TYPES = {  # one wrong type each, and the words of its message
    "": "made toy",
    "y=np.array([0.75, 1.5])": (
        "DataError: toy: labels must be integers in an array [M], got float64 of shape (2,)"
    ),
    "y=np.array(['a', 'b'])": (
        "DataError: toy: labels must be integers in an array [M], got <U1 of shape (2,)"
    ),
    "y=[0, 1]": "DataError: toy: labels must be integers in an array [M], got list",
    "y=np.array([[0], [1]])": (
        "DataError: toy: labels must be integers in an array [M], got int64 of shape (2, 1)"
    ),
    "x=np.array(['a', 'b'])": (
        "DataError: toy: x must be numbers in an array [M, ...], got <U1 of shape (2,)"
    ),
    "x=np.float32(1)": "DataError: toy: x must be numbers in an array [M, ...], got float32",
    "classes=2.5": "DataError: toy: classes must be an integer of at least 1, got 2.5",
    "train=[[0], [1]]": "DataError: toy: train must be a Ragged (Ragged.of makes one), got list",
    "train=Ragged(np.array([0.0, 1.0]), np.arange(3))": (
        "DataError: toy: train.rows must be signed integers"
    ),
    "train=Ragged(np.arange(2), np.array([0, 1.5, 2]))": (
        "DataError: toy: train.offsets must be signed integers"
    ),
    "train=Ragged(np.arange(2), np.arange(3, dtype=np.uint64))": (
        "DataError: toy: train.offsets must be signed"
    ),
    "y=np.zeros((0, 2), int)": (
        "DataError: toy: labels must be integers in an array [M], got int64 of shape (0, 2)"
    ),
    "true_clusters=np.array([0.5, 1])": (
        "DataError: toy: true_clusters must be integers from 0 in an array"
    ),
    "y=np.array([0, 1], np.uint64)": "made toy",
}


def test_types_are_checked_without_jaxtyping_too(
    plainly: Callable[[Sequence[str]], list[str]],
) -> None:
    good = {"x": "np.zeros((2, 1))", "y": "np.arange(2)", "classes": "2", "true_clusters": "None"}
    good["train"] = "Ragged.of([np.array([0]), np.array([1])])"
    came = plainly(
        [
            WHOLE.format(**(good | dict([change.split("=", 1)] if change else [])))
            for change in TYPES
        ]
    )
    for (change, expected), got in zip(TYPES.items(), came, strict=True):
        assert got.startswith(expected), change


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"label_names": ("a",)}, "label_names must be 2 different names, got 1: a"),
        ({"label_names": ("a", "a")}, "label_names must be 2 different names"),
        ({"feature_names": ("age",)}, "feature_names must be 2 different names, got 1: age"),
        ({"feature_names": ("age", "age")}, "feature_names must be 2 different names"),
    ],
)
def test_names_must_fit(
    tiny: FederatedData, names: dict[str, tuple[str, ...]], message: str
) -> None:
    with pytest.raises(DataError, match=f"tiny: {message}"):
        replace(tiny, **names)  # type: ignore[arg-type]


def test_names_are_kept_by_everything_that_keeps_classes_and_features(tiny: FederatedData) -> None:
    named = replace(tiny, label_names=("ill", "well"), feature_names=("age", "weight"))
    for data in (
        named.with_rows(named.train, named.test),
        named.with_validation(0.2),
        named.select(np.array([1])),
    ):
        assert data.label_names == ("ill", "well") and data.feature_names == ("age", "weight")
