"""The privacy-preserving non-IID index, from equations 16 to 18 of FedSim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.errors import MethodError
from fedkin.measures.pni import client_pni, pni


def by_pairs(rmse: np.ndarray) -> np.ndarray:
    """Eq. 17 as it is written: for each client, all others."""
    return np.array(
        [
            np.sqrt(sum((a - b) ** 2 for j, b in enumerate(rmse) if j != i))
            for i, a in enumerate(rmse)
        ]
    )


@pytest.mark.parametrize("case", [0, 1])
def test_vectors(oracle: Callable[[str], Any], case: int) -> None:
    vector = oracle("others")["pni"][case]
    rmse = np.array(vector["rmse"])
    np.testing.assert_allclose(client_pni(rmse), vector["pni_i"], rtol=1e-9)
    assert pni(rmse) == pytest.approx(vector["pni"], rel=1e-9)


def test_by_hand() -> None:
    """Errors 0, 3 and 4: each client's distances to the other two are (3, 4), (3, 1) and (4, 1)."""
    rmse = np.array([0.0, 3.0, 4.0])
    np.testing.assert_allclose(client_pni(rmse), [5, np.sqrt(10), np.sqrt(17)])
    assert pni(rmse) == pytest.approx((5 + np.sqrt(10) + np.sqrt(17)) / 3)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=25))
def test_the_sum_over_pairs(errors: list[float]) -> None:
    rmse = np.array(errors)
    np.testing.assert_allclose(client_pni(rmse), by_pairs(rmse), rtol=1e-9, atol=1e-9)
    assert pni(rmse) == pytest.approx(by_pairs(rmse).mean(), rel=1e-9, abs=1e-9)


def test_small_differences_between_large_errors() -> None:
    """The squares agree in fifteen digits; their differences do not cancel."""
    rmse = 1e6 + np.array([0.0, 1.0, 2.0, 5.0]) * 1e-3
    np.testing.assert_allclose(client_pni(rmse), by_pairs(rmse), rtol=1e-6)


def test_float32_errors_are_summed_in_float64() -> None:
    rmse = np.random.default_rng(0).uniform(1, 5, 200).astype(np.float32)
    np.testing.assert_allclose(client_pni(rmse), by_pairs(rmse.astype(np.float64)), rtol=1e-9)


@pytest.mark.parametrize("error", [0.0, 0.1, 7.3])
def test_equal_errors(error: float) -> None:
    np.testing.assert_allclose(client_pni(np.full(7, error)), 0, atol=1e-13)
    assert pni(np.full(7, error)) == pytest.approx(0, abs=1e-13)


def test_a_single_client_has_index_zero() -> None:
    np.testing.assert_array_equal(client_pni(np.array([2.5])), [0])


def test_no_client() -> None:
    assert pni(np.zeros(0)) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_client_that_gave_no_error(bad: float) -> None:
    for index in (client_pni, pni):
        with pytest.raises(MethodError, match=r"2 have none, such as client 1"):
            index(np.array([1.0, bad, 2.0, bad]))
