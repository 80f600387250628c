from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedkin.core.errors import DataError
from fedkin.data.labels import encode_labels


@pytest.mark.parametrize(
    ("values", "y", "classes", "names"),
    [
        (["b", "a", "b"], [1, 0, 1], 2, ("a", "b")),
        (np.array(["10", "9"]), [0, 1], 2, ("10", "9")),  # text is sorted as text
        (np.array([b"no", b"yes", b"no"]), [0, 1, 0], 2, ("no", "yes")),
        (pd.Series(["well", "ill"], dtype="category"), [1, 0], 2, ("ill", "well")),
        ([True, False, False], [1, 0, 0], 2, ("False", "True")),
        (np.array([True, True]), [1, 1], 2, ("False", "True")),  # both are classes, whichever occur
        (pd.Series([True, False], dtype="boolean"), [1, 0], 2, ("False", "True")),
        ([1.0, 0.0], [1, 0], 2, None),
        (np.array([2, 0, 0], np.uint8), [2, 0, 0], 3, None),
        (pd.Series([1, 0], dtype="Int64"), [1, 0], 2, None),
        (np.array([1, 0.0], object), [1, 0], 2, None),
    ],
)
def test_labels_of_any_one_type(
    values: Any, y: list[int], classes: int, names: tuple[str, ...] | None
) -> None:
    encoded = encode_labels(values, "here")
    assert encoded.y.dtype == np.int64
    assert (encoded.y.tolist(), encoded.classes, encoded.names) == (y, classes, names)


def test_given_names_decide_the_order_of_text_and_number_of_classes() -> None:
    encoded = encode_labels(["b", "a"], "here", names=("b", "c", "a"))
    assert (encoded.y.tolist(), encoded.classes) == ([0, 2], 3)
    encoded = encode_labels([0, 1], "here", names=("cat", "dog", "cow"))
    assert (encoded.y.tolist(), encoded.classes, encoded.names) == (
        [0, 1],
        3,
        ("cat", "dog", "cow"),
    )
    assert encode_labels([True, False], "here", names=("True", "False")).y.tolist() == [0, 1]
    assert encode_labels(["b", "a"], "here", classes=2).classes == 2


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (
            [1, "1", 1],
            {},
            r"one type, got 1 in row 0 \(a number\) and '1' in row 1 \(text\); make all of them",
        ),
        (
            np.array(["a", "a", 2.5], object),
            {},
            r"'a' in row 0 \(text\) and 2.5 in row 2 \(a number\)",
        ),
        (
            np.array([True, 1], object),
            {},
            r"True in row 0 \(a boolean\) and 1 in row 1 \(a number\)",
        ),
        (["a", None, None], {}, r"missing in row 1 \(2 such rows\)"),
        (["a", ""], {}, r"missing in row 1 \(1 such rows\)"),
        (pd.Series(["a", np.nan]), {}, "missing in row 1"),
        (
            pd.Series([1, pd.NA], dtype="Int64"),
            {},
            r"missing in row 1 \(1 such rows\); drop these rows",
        ),
        (pd.Series([True, None], dtype="boolean"), {}, "missing in row 1"),
        (pd.Series(["a", None, ""], dtype="string"), {}, r"missing in row 1 \(2 such rows\)"),
        (pd.Series(["a", None]).convert_dtypes(), {}, "missing in row 1"),
        (["a", pd.NA], {}, "missing in row 1"),
        ([0.5, 1.0], {}, "whole numbers from 0, but row 0 has 0.5"),
        (np.array([0.0, np.nan]), {}, "missing in row 1"),
        ([0, -1], {}, "row 1 has -1"),
        (
            [0, 5],
            {},
            "label 5 in row 1 is larger than the number of samples, 2; .* set classes=6",
        ),
        (np.zeros((2, 1)), {}, r"an array \[M\], one for each sample, got shape \(2, 1\)"),
        ([{"a": 1}], {}, "must be text, booleans or whole numbers, got a dict in row 0"),
        (
            ["ill", "wel"],
            {"names": ("ill", "well")},
            "row 1 has the label 'wel', expected ill, well; did you mean 'well'",
        ),
        ([0, 2], {"names": ("a", "b")}, "0 to 1, but row 1 has 2"),
        (["a", "b"], {"classes": 3}, r"classes = 3, but there are 2 names of classes \(a, b\)"),
        (["a", "b"], {"names": ("a", "a")}, "must be different"),
        (
            [True, False],
            {"names": ("ill", "well")},
            "booleans, such as True in row 0, .* named ill, well, .* write these",
        ),
        (
            ["well", "ILL"],
            {"names": ("ill", "well")},
            "row 1 has the label 'ILL', .*did you mean 'ill'",
        ),
    ],
)
def test_refused_labels(values: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=rf"^here: .*{message}"):
        encode_labels(values, "here", **options)
