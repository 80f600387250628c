"""Shared vocabularies from clients' counts: the oracle vectors, scikit-learn, and cases by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import OneHotEncoder

from fedkin.core.errors import ConfigError, DataError
from fedkin.data.categories import Vocabulary, category_counts, vocabulary
from tests.task_vectors import task_case


def test_the_oracle(oracle: Callable[[str], dict[str, Any]]) -> None:
    known = task_case(oracle, "categories")
    inputs = known["inputs"]
    counts = [category_counts(values) for values in inputs["clients"]]
    fitted = vocabulary(counts, "x", min_frequency=inputs["min_frequency"])
    printed = [name.removesuffix("_sklearn") for name in known["outputs"]["columns"]]
    assert list(fitted.names) == printed
    assert fitted.apply(inputs["new"]).tolist() == known["outputs"]["new rows"]


@pytest.mark.parametrize("min_frequency", [1, 5, 30])
def test_it_is_scikit_learns_encoder_of_the_pooled_column(min_frequency: int) -> None:
    rng = np.random.default_rng(0)
    clients = [rng.choice(list("abcdefg"), p=np.arange(1, 8) / 28, size=n) for n in (9, 30, 60)]
    fitted = vocabulary([category_counts(c) for c in clients], "x", min_frequency=min_frequency)
    encoder = OneHotEncoder(
        min_frequency=min_frequency,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
    ).fit(np.concatenate(clients)[:, None])
    new = np.array([*"abcdefgz"])
    np.testing.assert_array_equal(fitted.apply(new), encoder.transform(new[:, None]))


def test_an_unknown_category_without_infrequent_ones_is_a_row_of_zeros() -> None:
    fitted = vocabulary([category_counts(["a", "b"])], "x")
    assert fitted.names == ("x_a", "x_b")
    assert fitted.apply(["z", "b"]).tolist() == [[0, 0], [0, 1]]


def test_a_category_of_one_client_can_be_kept_out() -> None:
    """The name of a category that only one client has may name a person."""
    counts = [category_counts(["a", "a", "c", "c"]), category_counts(["a", "b"])]
    fitted = vocabulary(counts, "x", min_frequency=2, min_clients=2)
    assert fitted.categories == ("a",)
    assert fitted.infrequent


@pytest.mark.parametrize("gap", [None, float("nan"), pd.NA, pd.NaT])
def test_missing_values_have_a_feature_if_they_are_not_rare(gap: Any) -> None:
    fitted = vocabulary([category_counts(["a", gap]), category_counts(["b"])], "x")
    assert fitted.names == ("x_a", "x_b", "x_missing")
    assert fitted.apply([gap, "a", "z"]).tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]

    rare = vocabulary([category_counts(["a"] * 200 + [gap])], "x")
    assert rare.names == ("x_a",)
    assert rare.apply([gap]).tolist() == [[0]]


def test_a_missing_value_is_not_infrequent() -> None:
    fitted = vocabulary([category_counts(["a"] * 500 + ["b"])], "x", min_frequency=2)
    assert fitted.apply([None, "b"]).tolist() == [[0, 0], [0, 1]]


def test_a_category_with_a_reserved_name_keeps_it() -> None:
    counts = [category_counts(["infrequent", "infrequent", "a"])]
    fitted = vocabulary(counts, "x", min_frequency=2)
    assert fitted.names == ("x_infrequent", "x_infrequent_")
    assert fitted.apply(["infrequent", "a"]).tolist() == [[1, 0], [0, 1]]


def test_numbers_are_categories_by_their_text() -> None:
    fitted = vocabulary([category_counts([1, 12, 2])], "month")
    assert fitted.categories == ("1", "12", "2")
    assert fitted.apply([12]).tolist() == [[0, 1, 0]]


def test_all_categories_may_be_infrequent() -> None:
    fitted = vocabulary([category_counts(["a", "b"])], "x", min_frequency=2)
    assert fitted.names == ("x_infrequent",)
    assert fitted.apply(["q"]).tolist() == [[1]]


def test_identifiers_and_empty_columns_are_refused() -> None:
    names = [f"id{number}" for number in range(10_000)]
    with pytest.raises(DataError, match=r"'x' has 10000 categories, more than 50.*drop = \['x'\]"):
        vocabulary([category_counts(names)], "x")
    assert vocabulary([category_counts(names)], "x", min_frequency=2).names == ("x_infrequent",)
    with pytest.raises(DataError, match="column 'x' has no value"):
        vocabulary([category_counts([None]), category_counts([])], "x")
    with pytest.raises(ConfigError, match="min_frequency must be at least 1"):
        vocabulary([category_counts(["a"])], "x", min_frequency=0)


def test_it_survives_json() -> None:
    fitted = Vocabulary("x", ("a", "b"), infrequent=True)
    assert Vocabulary.of_values(json.loads(json.dumps(fitted.values()))) == fitted
