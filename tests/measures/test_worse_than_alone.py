"""The share of clients that lose more than 2% against their own model, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedkin.measures.worse_than_alone import loses, worse_than_alone

MANY = np.array([20, 20, 20])


def test_three_clients_by_hand() -> None:
    """One of three clients loses 3%, which is 0.015; the others gain. A margin of 0.02 of loss
    would count none, the other direction two, and the means of the losses none."""
    own = np.array([0.5, 1.0, 2.0])
    shared = np.array([0.515, 0.7, 1.5])
    assert worse_than_alone(shared, own, MANY) == pytest.approx(1 / 3)
    assert not (shared - own > 0.02).any() and shared.mean() < own.mean()
    assert worse_than_alone(own, shared, MANY) == pytest.approx(2 / 3)


def test_clients_have_the_same_weight() -> None:
    own = np.ones(3)
    shared = np.array([1.5, 0.9, 0.9])
    assert worse_than_alone(shared, own, np.array([970, 15, 15])) == pytest.approx(1 / 3)


def test_the_margin_is_more_than_two_percent() -> None:
    own = np.array([1.0, 1.0, 100.0, 0.0, 0.0])
    shared = np.array([1.02, 1.0201, 101.0, 0.0, 0.001])
    assert loses(shared, own).tolist() == [False, True, False, False, True]


def test_clients_with_few_test_samples_do_not_count() -> None:
    own = np.ones(3)
    shared = np.array([2.0, 2.0, 0.5])
    assert worse_than_alone(shared, own, np.array([10, 9, 10])) == 0.5
    assert math.isnan(worse_than_alone(shared, own, np.array([9, 9, 0])))


def test_models_that_diverged() -> None:
    """A loss that is not finite is worse than a finite one, and never better. A client without an
    own model does not count."""
    nan = math.nan
    inf = math.inf
    own = np.array([1.0, 1.0, inf, inf, nan])
    shared = np.array([nan, inf, 1.0, inf, 1.0])
    assert loses(shared, own).tolist() == [True, True, False, False, False]
    assert worse_than_alone(shared, own, np.full(5, 10)) == 0.5
