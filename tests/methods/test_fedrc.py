"""FedRC: components by the meaning of labels, and not by their frequency."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.fedrc import FedRC, FedRCState, label_shares
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.fedem import label_masses, sample_weights

Oracle = Callable[[str], Any]
STREAM = Stream(3, 1, "method")


def test_weights_and_label_shares_are_those_of_the_authors_code(oracle: Oracle) -> None:
    for case in oracle("methods2")["fedrc"]:
        clusters = case["K"]
        classes = case["classes"]
        labels = [np.array(own) for own in case["labels"]]
        sizes = np.array([len(own) for own in labels])
        every = np.concatenate(labels)
        # A constant C cancels.
        omega = np.full((len(labels), clusters), 1 / clusters)
        shares = None
        for given in case["rounds"]:
            losses = np.concatenate([np.array(own) for own in given["losses_K_by_samples"]], axis=1)
            weights = sample_weights(losses, np.repeat(omega, sizes, axis=0).T, shares, every)
            own = np.split(weights, np.cumsum(sizes)[:-1], axis=1)
            for got, expected in zip(own, given["gamma_K_by_samples"], strict=True):
                np.testing.assert_allclose(got, expected, atol=case["tolerance"])
            omega = np.stack([part.mean(axis=1) for part in own])
            np.testing.assert_allclose(omega, given["omega"], atol=case["tolerance"])
            masses = label_masses(weights, every, sizes, classes).sum(axis=0)
            np.testing.assert_allclose(masses, given["label_mass_sent_summed"], atol=1e-5)
            shares = label_shares(masses)
            np.testing.assert_allclose(
                shares, given["C_label_given_cluster"], atol=case["tolerance"]
            )


def test_an_absent_label_is_floored_and_keeps_weights_finite() -> None:
    shares = label_shares(np.array([[3.0, 0.0], [1.0, 1.0]]))
    np.testing.assert_allclose(shares, [[1 - 1e-8 / 3, 1e-8 / 3], [0.5, 0.5]], rtol=1e-6)
    weights = sample_weights(np.zeros((2, 1)), np.full((2, 1), 0.5), shares, np.array([1]))
    # The rare label counts more: C divides.
    assert np.isfinite(weights).all() and weights[0, 0] > 0.99


def state(world: FakeWorld, models: np.ndarray, shares: np.ndarray) -> FedRCState:
    total = world.total_clients
    even = np.full((total, len(models)), 0.5)
    return FedRCState(
        models=models,
        assignment=np.zeros(total, np.int64),
        membership=even,
        samples=np.zeros(total, np.int64),
        shares=shares,
        hard=np.zeros(1, np.int64),
    )


def test_a_round_uses_the_shares_of_the_last_one_and_the_mean_is_over_the_cohort() -> None:
    world = FakeWorld(
        np.zeros((3, 1), np.float32),
        np.array([1, 3, 9]),
        LocalTraining(1, lr=1.0),
        counts=np.array([[1, 0], [0, 1], [1, 0]]),
    )
    models = np.array([[1.0], [1.5]], np.float32)
    shares = np.array([[0.8, 0.2], [0.5, 0.5]])
    after = FedRC(2).round(world, state(world, models, shares), np.array([0, 1]), STREAM)
    unlike = 0.5 * np.exp(-0.5 * np.array([1.0, 2.25])) / shares.T  # of label 0, of label 1
    g = unlike / unlike.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(after.membership[:2], g, atol=1e-7)
    np.testing.assert_allclose(after.shares, (g / g.sum(axis=0)).T, atol=1e-6)
    np.testing.assert_allclose(
        after.models[:, 0], models[:, 0] * (1 - np.array([1, 3]) @ g / 4), atol=1e-6
    )
    np.testing.assert_array_equal(after.membership[2], [0.5, 0.5])


def test_newcomers_are_weighed_with_the_present_shares() -> None:
    world = FakeWorld(np.zeros((1, 1), np.float32), np.ones(1, np.int64), counts=np.array([[1, 0]]))
    models = np.array([[1.0], [1.0]], np.float32)
    shares = np.array([[0.8, 0.2], [0.2, 0.8]])
    after = FedRC(2).place(world, state(world, models, shares), np.array([0]), STREAM)
    np.testing.assert_allclose(after.membership, [[0.2, 0.8]], atol=1e-12)
    assert after.assignment[0] == 1 and after.models is models


@pytest.mark.parametrize("hard", [False, True])
def test_clients_are_tested_with_the_mixture_or_with_one_component(hard: bool) -> None:
    world = FakeWorld(
        np.random.default_rng(1).normal(size=(4, 2)).astype(np.float32), np.ones(4, np.int64)
    )
    made = FedRC(2, hard=hard).init(world, STREAM)
    assert (made.evaluation(world.spec, np.arange(4)) is None) == hard


def test_components_that_start_equal_are_refused() -> None:
    world = FakeWorld(
        np.zeros((4, 2), np.float32), np.ones(4, np.int64), start=lambda stream: np.ones(2)
    )
    with pytest.raises(MethodError, match="must start from different models"):
        FedRC(2).init(world, STREAM)


def test_without_label_skew_it_finds_the_permutations() -> None:
    data = fk.planted("digits", "label_permutation", clusters=2, clients=12, seed=0)
    run = fk.simulate(
        FedRC(2),
        data,
        fk.models.mclr(data),
        rounds=15,
        cohort=12,
        local=fk.SGD(epochs=3, lr=0.1),
        scoring=fk.Scoring(evaluate_every=15),
    )
    assert run.summary()["ari"] == 1.0
