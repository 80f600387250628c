"""Pooled moments and the variance between clients: the oracle vectors, and cases by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.measures.moments import (
    Moments,
    between_share,
    intraclass_correlation,
    moments,
    moments_of_sums,
)
from tests.task_vectors import task_case

Oracle = Callable[[str], dict[str, Any]]


def of_lists(*clients: list[float]) -> Moments:
    """The moments of clients with these values."""
    sizes = [len(values) for values in clients]
    client = np.repeat(np.arange(len(clients)), sizes)
    return moments(np.concatenate([np.array(v, float) for v in clients]), client, len(clients))


def test_the_oracle(oracle: Oracle) -> None:
    known = task_case(oracle, "pooled_moments")
    printed = known["outputs"]
    parts = of_lists(*known["inputs"]["clients"])
    assert parts.count.tolist() == printed["n"]
    np.testing.assert_allclose(parts.mean, printed["mean"], rtol=1e-12)
    np.testing.assert_allclose(parts.squares, printed["M2"], rtol=1e-12)
    pooled = parts.pooled()
    assert pooled.mean[0] == pytest.approx(printed["pooled mean"], rel=1e-12)
    assert pooled.deviation[0] == pytest.approx(printed["pooled std (ddof 0)"], rel=1e-12)
    share = printed["between share of variance"]
    assert between_share(parts) == pytest.approx(share, rel=1e-12)
    r2 = 1 - 10 / pooled.squares[0]
    assert r2 == pytest.approx(printed["total r2 of a model with squared error SSE = 10"])


def test_a_large_mean_costs_no_digits() -> None:
    """Sums of squares about 0 would lose the variance of 2/3."""
    values = np.array([1.0, 2.0, 3.0]) + 1e9
    parts = moments(values, np.zeros(3, np.int64), 1)
    assert parts.squares.tolist() == [2.0]
    sums = (np.array([3, 2]), np.array([6.0, 0.0]), np.array([14.0, 8.0]))
    found = moments_of_sums(*sums, centre=np.array([1e9, 5.0]))
    assert found.mean.tolist() == [1e9 + 2, 5.0]
    assert found.deviation == pytest.approx([(2 / 3) ** 0.5, 2.0])


def test_merging_is_the_same_in_any_order_and_with_empty_clients() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(5, 2, 40)
    client = rng.integers(0, 4, 40)
    parts = moments(values, client, 6)
    assert parts.count[4:].tolist() == [0, 0]
    pooled = parts.pooled()
    assert pooled.mean[0] == pytest.approx(values.mean())
    assert pooled.deviation[0] == pytest.approx(values.std())
    halves = Moments(*(np.concatenate([a, b]) for a, b in zip(parts, pooled, strict=True))).pooled()
    assert halves.count.tolist() == [80]
    assert halves.deviation[0] == pytest.approx(values.std())


def test_the_intraclass_correlation_by_hand() -> None:
    """Clients (1, 3) and (5, 7): between 16, within 2, of size 2; so 7 / (7 + 2)."""
    assert intraclass_correlation(of_lists([1, 3], [5, 7])) == pytest.approx(7 / 9)


def test_the_intraclass_correlation_is_corrected_for_unequal_sizes() -> None:
    """Clients (0, 2) and (4, 4, 4, 8): the means are 1 and 5, the mean of all is 22/6. Between:
    2 (1 - 11/3)^2 + 4 (5 - 11/3)^2 = 64/3; within: (2 + 12) / 4 = 3.5; n0 = 6 - 20/6 = 8/3."""
    between = (64 / 3 - 3.5) / (8 / 3)
    assert intraclass_correlation(of_lists([0, 2], [4, 4, 4, 8])) == pytest.approx(
        between / (between + 3.5)
    )


def test_clients_that_do_not_differ_have_no_correlation_but_a_share_between() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=2000)
    parts = moments(values, np.arange(2000) % 200, 200)
    assert intraclass_correlation(parts) < 0.05
    assert between_share(parts) == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize(
    "clients",
    [[[1.0, 2.0]], [[1.0], [2.0]], [[3.0, 3.0], [3.0, 3.0]], [[], [1.0, 2.0]]],
    ids=["one client", "one sample each", "equal values", "one client with samples"],
)
def test_there_is_no_correlation(clients: list[list[float]]) -> None:
    assert np.isnan(intraclass_correlation(of_lists(*clients)))


def test_equal_values_within_clients_are_a_correlation_of_one() -> None:
    assert intraclass_correlation(of_lists([1, 1], [2, 2])) == 1.0
