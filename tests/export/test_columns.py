"""Tables as samples: columns are taken by name, in every way to predict from Python."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.export.input_samples import as_samples
from fedkin.export.reader import Export
from tests.mappings import merged

SAMPLES: Any = SimpleNamespace(
    name="here", x=np.zeros((1, 2), np.float32), classes=2, feature_names=("age", "dose")
)
TABLE = pd.DataFrame({"age": [1.0, 2.0], "dose": [3.0, 4.0]})


@pytest.mark.parametrize(
    "table",
    [
        TABLE,
        TABLE[["dose", "age"]],
        TABLE[["dose", "age"]].assign(outcome="well"),
        TABLE.convert_dtypes(),
        TABLE.astype(np.uint8),  # columns are not pixels
    ],
)
def test_columns_are_taken_by_name(table: pd.DataFrame) -> None:
    assert as_samples(table, SAMPLES).tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            TABLE.rename(columns={"dose": "doze"}),
            "samples: unknown column 'dose'; did you mean 'doze'.*model needs it",
        ),
        (TABLE.assign(dose="a"), "expected numbers in column 'dose', got 'a' in row 0"),
        (TABLE.assign(dose=["3", "old"]), "got 'old' in row 1"),
        (TABLE[["age", "dose", "age"]], "'age' twice"),
        (
            TABLE.assign(dose=pd.Series([1, None], dtype="Int64")),
            r"samples: column 'dose', row 1 .* holds NaN",
        ),
    ],
)
def test_columns_that_do_not_fit_are_refused(table: pd.DataFrame, message: str) -> None:
    with pytest.raises(fk.DataError, match=message):
        as_samples(table, SAMPLES)


def test_without_names_columns_keep_their_order() -> None:
    nameless = SimpleNamespace(**merged(vars(SAMPLES), {"feature_names": None}))
    samples = as_samples(TABLE[["dose", "age"]], nameless)  # type: ignore[arg-type]
    assert samples.tolist() == [[3, 1], [4, 2]]


def test_an_export_knows_the_names_of_its_columns(tmp_path: Any) -> None:
    card: dict[str, Any] = {
        "data": "d",
        "classes": 2,
        "input": {"shape": [2], "dtype": "float32", "features": None},
    }
    named = {**card, "input": {**card["input"], "features": ["age", "dose"]}}
    assert Export(tmp_path, card).samples.feature_names is None
    assert as_samples(TABLE[["dose", "age"]], Export(tmp_path, named).samples).tolist() == [
        [1, 3],
        [2, 4],
    ]
