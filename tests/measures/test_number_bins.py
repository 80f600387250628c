"""Bins of numbers by pooled quantiles, and their divergence against random deals."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.measures.number_bins import bin_counts, quantile_edges


def test_bins_hold_about_equal_numbers() -> None:
    values = np.random.default_rng(0).permutation(1000).astype(float)
    edges = quantile_edges(values)
    assert len(edges) == 9
    counts = bin_counts(values, np.zeros(1000, np.int64), 1, edges)
    assert counts.tolist() == [[100] * 10]


def test_equal_quantiles_are_one_edge() -> None:
    """Counts: 60 zeros, 30 ones, 10 twos. Quantiles are 0 up to 0.5, then 1; 0 is no edge, because
    nothing is below it."""
    values = np.repeat([0, 1, 2], [60, 30, 10])
    edges = quantile_edges(values)
    assert edges.tolist() == pytest.approx([0.4, 1, 1.1]) or edges.tolist() == [1.0]
    counts = bin_counts(values, np.zeros(100, np.int64), 1, edges)
    assert counts.sum() == 100
    assert counts[0, 0] == 60


def test_equal_values_have_one_bin() -> None:
    edges = quantile_edges(np.full(7, 3.0))
    assert not len(edges)
    client = np.array([0, 0, 1, 1, 1, 1, 1])
    assert bin_counts(np.full(7, 3.0), client, 2, edges).tolist() == [[2], [5]]


def test_a_value_at_an_edge_is_above_it_and_outer_bins_are_open() -> None:
    values = np.array([-9.0, 1.0, 1.5, 2.0, 99.0])
    client = np.array([0, 0, 1, 1, 1])
    assert bin_counts(values, client, 2, np.array([1.0, 2.0])).tolist() == [[1, 1, 0], [0, 1, 2]]


def test_no_samples_have_no_bins() -> None:
    with pytest.raises(MethodError, match="at least one sample"):
        quantile_edges(np.zeros(0))
    with pytest.raises(MethodError, match="bins"):
        quantile_edges(np.zeros(3), 0)
