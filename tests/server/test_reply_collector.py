"""The norm filter of updates: typical norms by kind of training. Invalid replies have a file of their own."""

from __future__ import annotations

import numpy as np

from fedkin.core.training import LocalTraining
from fedkin.server.reply_collector import NormFilter
from fedkin.tasks.train import train as train_clients
from tests.server.test_invalid_replies import MODELS, STREAM, WHICH, federation, train


def test_typical_norms_differ_by_training() -> None:
    norm_filter = NormFilter(10)
    for _ in range(2):
        assert not norm_filter.for_training("fifty batches").outliers(np.array([1e-3])).any()
        assert not norm_filter.for_training("five epochs").outliers(np.array([1.0])).any()
    assert norm_filter.for_training("fifty batches").outliers(np.array([1.0])).all()


def test_of_the_first_two_updates_the_longer_can_be_an_outlier() -> None:
    np.testing.assert_array_equal(NormFilter(100).outliers(np.array([1e30, 1.0])), [True, False])
    assert not NormFilter(100).outliers(np.array([3.0, 1.0])).any()


def test_the_typical_norm_can_change() -> None:
    norm_filter = NormFilter(10)
    norm_filter.outliers(np.array([1.0]))
    assert norm_filter.outliers(np.array([100.0])).all()
    assert not norm_filter.outliers(np.array([100.0])).any()


def test_pretraining_and_training_have_their_own_typical_norms() -> None:
    transport, world = federation()
    train(world)
    for station in transport.stations.values():
        station.tamper = lambda request, reply: reply
    few = np.array([0, 1])
    got = train_clients(world, MODELS, few, WHICH[:2], work=LocalTraining(lr=0.5, steps=50), stream=STREAM)
    assert got.arrived.all() and len(world._norm_filter.typical) == 2
