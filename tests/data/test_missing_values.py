"""Missing values from clients' sums: the oracle vectors, scikit-learn, and cases by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.impute import SimpleImputer

from fedkin.core.errors import DataError
from fedkin.data.missing_values import (
    Imputation,
    absent_columns,
    imputation,
    present_sums,
    stacked,
)
from tests.task_vectors import task_case

COLUMNS = ("a", "b")


def test_the_oracle(oracle: Callable[[str], dict[str, Any]]) -> None:
    known = task_case(oracle, "missing_values")
    clients = [np.array(rows, np.float64) for rows in known["inputs"]["clients"]]
    printed = known["outputs"]
    sums = stacked([present_sums(x) for x in clients])
    assert sums.present.tolist() == printed["present"]
    assert sums.total.tolist() == printed["sum"]
    fitted = imputation(sums, COLUMNS)
    assert list(fitted.mean) == pytest.approx(printed["pooled mean"], rel=1e-12)
    for x, filled in zip(clients, printed["filled"], strict=True):
        np.testing.assert_allclose(fitted.apply(x)[:, :2], filled, rtol=1e-12)
    np.testing.assert_allclose(fitted.apply(clients[0]), printed["with indicators"], rtol=1e-12)
    assert fitted.names == ("a", "b", "a_missing", "b_missing")


def test_it_is_scikit_learns_imputer_of_the_pooled_table() -> None:
    rng = np.random.default_rng(0)
    clients = []
    for rows in (7, 20, 1):
        x = rng.normal(size=(rows, 4))
        x[rng.random((rows, 4)) < 0.3] = np.nan
        x[:, 1] = 2.0
        clients.append(x)
    pooled = np.concatenate(clients)
    sums = stacked([present_sums(x) for x in clients])
    found = imputation(sums, ("a", "b", "c", "d")).apply(pooled)
    expected = SimpleImputer(strategy="mean", add_indicator=True).fit_transform(pooled)
    np.testing.assert_allclose(found, expected)


def test_a_column_that_hardly_misses_is_filled_without_an_indicator() -> None:
    """One of 200 values is 0.5%, two of 200 are more."""
    x = np.ones((200, 2))
    x[0, 0] = np.nan
    x[:2, 1] = np.nan
    fitted = imputation(present_sums(x), COLUMNS)
    assert fitted.indicated == ("b",)
    assert fitted.apply(np.array([[np.nan, np.nan]])).tolist() == [[1, 1, 1]]


def test_the_indicators_do_not_depend_on_the_client() -> None:
    """The first client is complete, and has the columns of all."""
    complete = np.array([[1.0, 2.0]])
    other = np.array([[np.nan, 4.0]])
    fitted = imputation(stacked([present_sums(complete), present_sums(other)]), COLUMNS)
    assert fitted.apply(complete).tolist() == [[1, 2, 0]]


def test_a_column_without_values_is_refused_and_one_of_a_client_is_named() -> None:
    empty = np.array([[1.0, np.nan], [2.0, np.nan]])
    full = np.array([[3.0, 4.0]])
    with pytest.raises(DataError, match=r"column 'b' has no value.*drop = \['b'\]"):
        imputation(present_sums(empty), COLUMNS)
    sums = stacked([present_sums(full), present_sums(empty), present_sums(np.zeros((0, 2)))])
    assert imputation(sums, COLUMNS).mean == (2.0, 4.0)
    absent = absent_columns(sums, COLUMNS)
    assert {name: clients.tolist() for name, clients in absent.items()} == {"b": [1]}


def test_infinite_values_are_refused() -> None:
    with pytest.raises(DataError, match="row 1, column 0 is inf"):
        present_sums(np.array([[1.0, np.nan], [np.inf, 2.0]]))


def test_it_survives_json() -> None:
    fitted = imputation(present_sums(np.array([[1.0, np.nan], [0.1, 2.0]])), COLUMNS)
    assert Imputation.of_values(json.loads(json.dumps(fitted.values()))) == fitted
