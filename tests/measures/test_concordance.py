"""The C-index from sums within clients: the oracle vectors, and cases by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import DataError
from fedkin.measures.concordance import Concordance, concordance, concordance_within
from tests.task_vectors import task_case


def test_the_oracle(oracle: Callable[[str], dict[str, Any]]) -> None:
    known = task_case(oracle, "c_index")
    inputs = known["inputs"]
    printed = known["outputs"]
    scores = np.array(inputs["risk"])
    times = np.array(inputs["time"])
    died = np.array(inputs["event"]) == 1
    client = np.array(inputs["client"])
    together = concordance(scores, times, died)
    assert list(together) == printed["concordant, discordant, tied risk"]
    assert together.index == pytest.approx(printed["concordance_index_censored"], rel=1e-12)
    of_lifelines = printed["lifelines concordance_index(time, -risk, event)"]
    assert together.index == pytest.approx(of_lifelines, rel=1e-12)

    parts = []
    for number in range(3):
        own = client == number
        parts.append(concordance(scores[own], times[own], died[own]))
    assert [list(part) for part in parts] == printed["by client: concordant, discordant, tied"]
    within = concordance_within(parts)
    assert within.index == pytest.approx(printed["within clients"], rel=1e-12)


def test_equal_times_by_hand() -> None:
    """Two deaths at the same time are no pair; a death and a censoring are."""
    scores = np.array([0.3, 0.9])
    times = np.ones(2)
    assert concordance(scores, times, np.array([True, True])).pairs == 0
    assert concordance(scores, times, np.array([False, True])) == (1, 0, 0)
    assert concordance(scores, times, np.array([True, False])) == (0, 1, 0)
    assert concordance(np.zeros(2), times, np.array([True, False])) == (0, 0, 1)


def test_an_order_of_risks_as_of_deaths_is_perfect_and_the_reverse_is_the_worst() -> None:
    times = np.arange(5.0)
    died = np.ones(5, bool)
    assert concordance(-times, times, died) == (10, 0, 0)
    assert concordance(times, times, died).index == 0


def test_fewer_than_two_pairs_have_no_index_but_count_in_the_sum() -> None:
    single = Concordance(1, 0, 0)
    assert single.index is None
    assert Concordance(0, 0, 0).index is None
    assert concordance_within([single, Concordance(0, 1, 0), Concordance(0, 0, 0)]).index == 0.5
    assert concordance_within([]).index is None


def test_scores_must_be_finite() -> None:
    with pytest.raises(DataError, match="finite"):
        concordance(np.array([np.nan]), np.ones(1), np.ones(1, bool))
