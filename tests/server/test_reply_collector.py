"""Outliers in norm among the replies of nodes, and a message's account of its rows."""

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


def test_pretraining_and_training_have_their_own_typical_norms() -> None:
    transport, world = federation()
    train(world)
    for station in transport.stations.values():
        station.tamper = lambda request, reply: reply
    few = np.array([0, 1])
    got = train_clients(
        world, MODELS, few, WHICH[:2], work=LocalTraining(lr=0.5, steps=50), stream=STREAM
    )
    kinds = {name.rpartition(" model ")[0] for name in world._norm_filter.typical}
    assert got.arrived.all() and len(kinds) == 2


# --- rows of a message


@dataclass(frozen=True)
class Told(Task):
    """Each client replies with the model that it was told."""

    model_index: Any = each()
    up = Rows(model_index=integers(), loss=floats())


def collector() -> ReplyCollector:
    return ReplyCollector(
        task=Told(np.array([4, 1, 0])),
        rows=3,
        sizes={},
        norm_filter=NormFilter(10),
        samples=np.ones(3, np.int64),
    )


def test_a_client_replies_with_its_assigned_model() -> None:
    rows = np.array([0, 2])
    loss = np.array([0.5, 0.25])
    with pytest.raises(TaskError, match="told: a client's reply has another model_index"):
        collector().read(rows, {"model_index": np.array([4, 1]), "loss": loss}, None)
    reading = collector()
    flags = {"arrived": np.array([True, False]), "nonfinite": np.array([False, True])}
    # What did not arrive is not read.
    reading.read(rows, {"model_index": np.array([4, 1]), "loss": loss, **flags}, None)
    reply = reading.reply()
    np.testing.assert_array_equal(reply.loss, [0.5, np.nan, np.nan])
    np.testing.assert_array_equal(reply.arrived, [True, False, False])
    np.testing.assert_array_equal(reply.nonfinite, [False, False, True])


def test_no_row_both_arrives_and_is_not_finite() -> None:
    flags = {"arrived": np.array([True, True]), "nonfinite": np.array([False, True])}
    arrays = {"model_index": np.array([4, 0]), "loss": np.array([0.5, 0.25]), **flags}
    reading = collector()
    with pytest.raises(
        TaskError, match="told: nonfinite marks clients that are also marked as arrived"
    ):
        reading.read(np.array([0, 2]), arrays, None)
    assert not reading.arrived.any() and np.isnan(reading.reply().loss).all()
