"""Peers whose labels are numbers: they score by their task type, and work only with peers that have
the same task type, loss and label scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.methods.gossip import Gossip
from fedkin.p2p.messages import MODEL, Message, PeerMessageError, Request, decode, encode
from fedkin.simulation.engine import SimulatedWorld
from fedkin.task_types.label_words import scaled_label_words
from tests.p2p.memory_network import MemoryNetwork
from tests.p2p.small_federations import make_peer


def numbers(**how: Any) -> fk.data.FederatedData:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)).astype(np.float32)
    y = 10 + 3 * x[:, 0] + 0.1 * rng.normal(size=60)
    return fk.data.from_arrays(x, y, clients=np.repeat([0, 1, 2], 20), **how)


def world_of(data: fk.data.FederatedData) -> SimulatedWorld:
    return SimulatedWorld(data, fk.models.mclr(data), fk.LocalTraining(epochs=3, lr=0.1))


def test_peers_exchange_models_and_score_errors() -> None:
    network = MemoryNetwork()
    world = world_of(numbers(task="regression"))
    peers = [make_peer(world, network, client, Gossip(neighbours=2)) for client in range(3)]
    for _ in range(4):
        for peer in peers:
            peer.round()
    record = peers[0]._storage.records[-1]  # type: ignore[attr-defined]
    assert record["failures"] == {} and record["answered"]
    assert record["root_mean_squared_error"] < 1.5 and "accuracy" not in record


@pytest.mark.parametrize("other", [{"loss": "huber"}, {"task": "quantile", "quantiles": [0.5]}])
def test_a_peer_with_another_loss_is_left_out(other: dict[str, Any]) -> None:
    network = MemoryNetwork()
    first = make_peer(world_of(numbers(task="regression")), network, 0, Gossip(neighbours=1))
    second = make_peer(world_of(numbers(**other)), network, 1, Gossip(neighbours=1))
    for _ in range(2):
        first.round()
        second.round()
    record = first._storage.records[-1]  # type: ignore[attr-defined]
    assert record["failures"] == {"labels": 1} and not record["answered"]


def test_another_label_scale_is_another_task() -> None:
    data = numbers(task="regression")
    label = replace(data.task_type.label, mean=data.task_type.label.mean + 1)
    mine = scaled_label_words(data.task_type)
    theirs = scaled_label_words(replace(data.task_type, label=label))
    message = Message("p1", 1, 20, {"model": np.zeros(3, np.float32)})
    request = Request("trial", "p1", MODEL, 3, labels=mine)
    assert decode(encode(message, "trial", labels=mine), request).round == 1
    with pytest.raises(PeerMessageError, match=r"labels: 'regression, .*data\.label_scale_from"):
        decode(encode(message, "trial", labels=theirs), request)
    with pytest.raises(PeerMessageError, match="labels: 'classes' there"):
        decode(encode(message, "trial"), request)


def series_of(shop: str, lags: list[int]) -> fk.data.FederatedData:
    """The table of a peer: a series at a level that no other peer has."""
    rng = np.random.default_rng(len(shop))
    sales = 10.0 ** len(shop) * (5 + np.sin(np.arange(60)) + 0.1 * rng.normal(size=60))
    table = pd.DataFrame({"shop": shop, "month": np.arange(60), "sales": sales})
    return fk.data.from_pandas(
        table,
        label="sales",
        client="shop",
        task="forecast",
        time="month",
        frequency="step",
        lags=lags,
        test_from=50,
        scale="none",
    )


def test_peers_forecast_from_tables_with_other_levels() -> None:
    """Each peer has a table, and scales its series by its past. A peer with other lags is left
    out, although its model has the same size."""
    network = MemoryNetwork()
    lags = {"a": [1, 2], "bb": [1, 2], "ccc": [1, 3]}
    peers = [
        make_peer(world_of(series_of(shop, own)), network, 0, Gossip(neighbours=2), name=shop)
        for shop, own in lags.items()
    ]
    for _ in range(4):
        for peer in peers:
            peer.round()
    record = peers[0]._storage.records[-1]  # type: ignore[attr-defined]
    assert record["failures"] == {"labels": 1}
    assert list(record["answered"]) == ["bb"]
    assert record["mean_absolute_scaled_error"] > 0


def patients_of(clinic: str, **options: Any) -> fk.data.FederatedData:
    """The table of a peer: patients whose risk grows with age."""
    rng = np.random.default_rng(len(clinic))
    age = rng.normal(size=60)
    months = np.ceil(12 * rng.exponential(np.exp(-2 * age)))
    table = pd.DataFrame({"clinic": clinic, "age": age, "months": months, "died": months < 40})
    return fk.data.from_pandas(
        table,
        label="months",
        event="died",
        client="clinic",
        loss_options=options,
        scale="none",
        test=0.4,
    )


def test_peers_learn_risks_from_tables_of_patients() -> None:
    """A peer with another treatment of ties has another loss, and is left out."""
    network = MemoryNetwork()
    options = {"a": {}, "bb": {"at_risk": 5}, "ccc": {"ties": "efron"}}
    peers = []
    for clinic, own in options.items():
        data = patients_of(clinic, **own)
        world = SimulatedWorld(data, fk.models.cox(data), fk.LocalTraining(epochs=3, lr=0.1))
        peers.append(make_peer(world, network, 0, Gossip(neighbours=2), name=clinic))
    for _ in range(4):
        for peer in peers:
            peer.round()
    record = peers[0]._storage.records[-1]  # type: ignore[attr-defined]
    assert record["failures"] == {"labels": 1} and list(record["answered"]) == ["bb"]
    assert record["concordance_index"] > 0.7 and "accuracy" not in record


@pytest.mark.parametrize("date", ["2019-03", "2019-03-01", "2019/3/1", "March 2019"])
def test_a_date_is_the_same_however_it_is_written(date: str) -> None:
    months = pd.date_range("2015-01-01", periods=60, freq="MS")
    table = pd.DataFrame({"shop": "a", "month": months, "sales": np.arange(60.0)})
    data = fk.data.from_pandas(
        table, label="sales", client="shop", task="forecast", time="month", test_from=date
    )
    assert "tested from 2019-03-01, " in scaled_label_words(data.task_type)
    assert data.test.sizes.tolist() == [10]
