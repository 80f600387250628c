"""Fairness across clients, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedkin.measures.fairness import fairness_measures, jain_index


def test_fairness_of_four_clients() -> None:
    found = fairness_measures(np.array([0.2, 0.4, 0.6, 0.8]))
    # Over N; over N - 1 it would be 0.0667.
    assert found["accuracy_variance"] == pytest.approx(0.05)
    assert found["accuracy_std"] == pytest.approx(math.sqrt(0.05))
    assert found["bottom_decile"] == 0.2 and found["top_decile"] == 0.8
    assert found["jain_index"] == pytest.approx(4 / 4.8)
    assert all(math.isnan(value) for value in fairness_measures(np.zeros(0)).values())


def test_deciles_are_means_of_a_tenth_rounded_up() -> None:
    found = fairness_measures(np.arange(11) / 10)
    assert found["bottom_decile"] == pytest.approx(0.05) and found["top_decile"] == pytest.approx(
        0.95
    )


def test_the_index_goes_from_one_in_n_to_one() -> None:
    assert jain_index(np.array([0.3, 0.3, 0.3])) == pytest.approx(1)
    assert jain_index(np.array([0.7, 0, 0, 0])) == pytest.approx(1 / 4)
    assert math.isnan(jain_index(np.zeros(3)))
