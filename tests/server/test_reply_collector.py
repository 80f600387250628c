"""The norm filter of updates, and what a message says of its rows. Invalid replies have a file of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import TaskError
from fedkin.core.schema import Rows, floats, integers
from fedkin.core.task import Task, each
from fedkin.core.training import LocalTraining
from fedkin.server.reply_collector import NormFilter, ReplyCollector
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


def test_updates_without_length_leave_the_typical_norm() -> None:
    norm_filter = NormFilter(10)
    assert not norm_filter.outliers(np.zeros(4)).any() and not norm_filter.typical
    norm_filter.outliers(np.array([1.0, 2.0, 3.0]))
    assert not norm_filter.outliers(np.zeros(4)).any() and norm_filter.typical == {"": 2.0}


# --- rows of a message


@dataclass(frozen=True)
class Told(Task):
    """Each client replies with the model that it was told."""

    model_index: Any = each()
    up = Rows(model_index=integers(), loss=floats())


def collector() -> ReplyCollector:
    return ReplyCollector(Told(np.array([4, 1, 0])), 3, {}, NormFilter(10), np.ones(3, np.int64))


def test_a_client_replies_with_the_model_that_it_was_told() -> None:
    rows, loss = np.array([0, 2]), np.array([0.5, 0.25])
    with pytest.raises(TaskError, match="told: model_index is another than it was told"):
        collector().read(rows, {"model_index": np.array([4, 1]), "loss": loss}, None)
    reading = collector()
    flags = {"arrived": np.array([True, False]), "nonfinite": np.array([False, True])}
    reading.read(
        rows, {"model_index": np.array([4, 1]), "loss": loss, **flags}, None
    )  # what did not arrive is not read
    reply = reading.reply()
    np.testing.assert_array_equal(reply.loss, [0.5, np.nan, np.nan])
    np.testing.assert_array_equal(reply.arrived, [True, False, False])
    np.testing.assert_array_equal(reply.nonfinite, [False, False, True])


def test_no_row_both_arrives_and_is_not_finite() -> None:
    flags = {"arrived": np.array([True, True]), "nonfinite": np.array([False, True])}
    arrays = {"model_index": np.array([4, 0]), "loss": np.array([0.5, 0.25]), **flags}
    reading = collector()
    with pytest.raises(TaskError, match="told: nonfinite has rows that arrived"):
        reading.read(np.array([0, 2]), arrays, None)
    assert not reading.arrived.any() and np.isnan(reading.reply().loss).all()
