"""Labels of other samples as the classes that a run knows, wherever they are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.export.known_labels import encoded_labels, numbers_are_classes

X = np.arange(16, dtype=np.float32).reshape(8, 2)
OUTCOMES = np.array(["ill", "well"] * 4)
HOSPITALS = np.arange(8) // 4


def trained(y: Any, **options: Any) -> fk.Run:
    data = fk.data.from_arrays(X, y, clients=HOSPITALS, test=0, **options)
    return fk.simulate(
        fk.IFCA(clusters=2),
        data,
        fk.models.mclr(data),
        rounds=1,
        cohort=2,
        callbacks=fk.Progress(False),
    )


@pytest.mark.parametrize(
    ("y", "names", "expected"),
    [
        ([True, False], ("False", "True"), [1, 0]),
        (np.array([True, False]), ("True", "False"), [0, 1]),
        ([1.0, 0.0], None, [1, 0]),
        (pd.Series([1.0, 0.0]), ("ill", "well"), [1, 0]),
        ([1, 0], ("1", "0"), [0, 1]),
        ([5, 3.0], ("3", "5"), [1, 0]),
        (["5", "3"], ("3", "5"), [1, 0]),
        ([1, 0], ("0", "1"), [1, 0]),
    ],
)
def test_labels_are_read_as_data_read_them(y: Any, names: Any, expected: list[int]) -> None:
    assert encoded_labels(y, names, 2, by_number=True).tolist() == expected


@pytest.mark.parametrize(
    ("y", "names"), [([0.5, 0], None), ([np.inf], None), ([1], ("3", "5")), (["1", 1], None)]
)
def test_labels_that_data_would_refuse_are_refused(y: Any, names: Any) -> None:
    with pytest.raises(fk.DataError, match="label"):
        encoded_labels(y, names, 2, by_number=True)


@pytest.mark.parametrize("by_number", [False, True])
@pytest.mark.parametrize("y", [[True, False], pd.Series([True, False], dtype="boolean")])
def test_booleans_are_no_positions(y: Any, by_number: bool) -> None:
    with pytest.raises(
        fk.DataError, match=r"booleans, such as True .* named ill, well, .* write these names"
    ):
        encoded_labels(y, ("ill", "well"), 2, by_number)


@pytest.mark.parametrize("label", ["ILL", "ill ", "il"])
def test_an_unseen_label_is_named_with_its_row_and_the_nearest(label: str) -> None:
    with pytest.raises(fk.DataError, match=f"row 7: unknown label '{label}'; did you mean 'ill'"):
        encoded_labels(["well", label], ("ill", "well"), 2, by_number=False, rows=np.array([3, 7]))


def test_a_number_in_place_of_a_name_is_named_with_its_row() -> None:
    with pytest.raises(fk.DataError, match="the label 1 in row 7 is a number"):
        encoded_labels([1, 0], ("ill", "well"), 2, by_number=False, rows=np.array([7, 9]))
    with pytest.raises(fk.DataError, match=r"integers 0\.\.1.*; got 2 in row 9"):
        encoded_labels([1, 2], None, 2, by_number=False, rows=np.array([7, 9]))


def test_data_say_whether_their_named_labels_were_numbers() -> None:
    assert not numbers_are_classes(trained(OUTCOMES).trained.parts.data.columns)
    numbers = pd.Series([0, 1] * 4, dtype="Int64")
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=numbers.to_numpy(), c=HOSPITALS)
    for y in (frame["y"], frame["y"].astype("Int64"), frame["y"].astype(object)):
        data = fk.data.from_pandas(
            frame.assign(y=y), label="y", client="c", label_names=["well", "ill"]
        )
        assert numbers_are_classes(data.columns)
        assert data.label_names == ("well", "ill")


@pytest.mark.parametrize(
    ("y", "cure"),
    [
        ([0, 1] * 4, "use these labels"),
        ([1.0, 0.0] * 4, "use these labels"),
        (np.array([True, False] * 4), "write these names"),
    ],
)
def test_a_newcomers_labels_are_names_where_those_of_the_run_were(y: Any, cure: str) -> None:
    run = trained(OUTCOMES)
    for refused in (lambda: run.place(X, y), lambda: run.fine_tune(cluster=0, x=X, y=y)):
        with pytest.raises(fk.DataError, match=f"ill, well.* {cure}"):
            refused()
    assert run.place(X, OUTCOMES).cluster in (0, 1)
    run.fine_tune(cluster=0, x=X, y=OUTCOMES)


def test_a_newcomers_labels_are_numbers_where_those_of_the_run_were() -> None:
    numbers = np.array([0, 1] * 4)
    run = trained(numbers, label_names=["well", "ill"])
    names = np.array(["well", "ill"])[numbers]
    by_number, by_name = (run.fine_tune(cluster=0, x=X, y=y).vector for y in (numbers, names))
    assert np.array_equal(by_number, by_name)
    assert not np.array_equal(by_number, run.fine_tune(cluster=0, x=X, y=1 - numbers).vector)
