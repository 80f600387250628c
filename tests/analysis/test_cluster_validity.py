"""The clustering validity of a cold start, against the papers' formulas with NumPy's SVD."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.analysis.cluster_validity import cold_start_squares
from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods import FedAvg, FedGroup, FlexCFL
from fedkin.simulation.fake_world import FakeWorld

UPDATES = np.random.default_rng(5).normal(size=(12, 6)) + 2 * np.eye(6)[np.arange(12) % 3]


def world() -> FakeWorld:
    """One epoch of lr 0.5 goes half the way from w_0 = 0 to a target."""
    return FakeWorld(
        (2 * UPDATES).astype(np.float32),
        np.ones(12, int),
        LocalTraining(lr=0.5),
        start=lambda _: np.zeros(6),
    )


def by_the_papers(directions: int, groups: np.ndarray, scale: float) -> float:
    """Cosines of updates and left singular vectors, times a scale; squares around group means."""
    vectors, _, _ = np.linalg.svd(UPDATES.T, full_matrices=False)
    unit = UPDATES / np.linalg.norm(UPDATES, axis=1, keepdims=True)
    points = scale * (unit @ vectors[:, :directions])
    return sum(
        ((points[groups == k] - points[groups == k].mean(axis=0)) ** 2).sum()
        for k in np.unique(groups)
    )


# FedGroup's M is (1 - cos) / 2, of three directions whatever m is; FlexCFL has the cosines.
@pytest.mark.parametrize(
    ("method", "directions", "scale"),
    [
        (FedGroup(clusters=4, alpha=3), 3, 0.5),
        (FlexCFL(clusters=4, alpha=3), 4, 1.0),
        (FlexCFL(clusters=4, alpha=3, measure="madc"), 4, 1.0),
    ],
    ids=["fedgroup", "edc", "madc"],
)
@pytest.mark.parametrize("seed", [0, 3])
def test_it_is_of_the_groups_of_a_run(
    method: Any, directions: int, scale: float, seed: int
) -> None:
    groups = method.init(world(), Stream(seed, 0, "method/init")).assignment
    assert (groups >= 0).all()
    expected = by_the_papers(directions, groups, scale)
    assert expected > 0.1
    assert cold_start_squares(world(), method, seed) == pytest.approx(expected, rel=1e-4)


def test_random_centres_are_alone() -> None:
    assert cold_start_squares(world(), FlexCFL(clusters=4, centers="random")) == 0


def test_it_is_counted_as_evaluation() -> None:
    w = world()
    cold_start_squares(w, FedGroup(clusters=3))
    assert w.ledger.total() == (0, 0)
    assert w.ledger.down["scoring.train"] == 12 * 6 * 4


def test_other_methods_are_refused() -> None:
    with pytest.raises(MethodError, match="FedAvg has no group cold start"):
        cold_start_squares(world(), FedAvg())
