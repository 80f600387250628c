"""Hierarchical clustering in the simulated world and through the runner: traffic, narrow heads,
late arrivals, clients excluded, configurations, and runs that go on."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.plan import Plan
from fedkin.core.errors import ConfigError
from fedkin.core.method import UNASSIGNED
from fedkin.core.training import LocalTraining
from fedkin.methods.fedavg import FedAvg
from fedkin.methods.hierarchical import Hierarchical
from fedkin.models import as_model, mclr, mlp
from fedkin.run.loop import run
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.train import train
from tests.methods.last_layer_clients import (
    CLIENTS,
    INIT,
    ROUND,
    clustered_data,
    groups,
    simulated,
    started,
    world,
)
from tests.simulation.numpy_detectors import linear

KMEANS: dict[str, Any] = {"algorithm": "kmeans", "clusters": 3, "pretraining": 2}
BY_KIND = [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
SGD = LocalTraining(epochs=1, batch_size=4, lr=0.1)


# --- traffic


@pytest.mark.parametrize(("layer", "numbers"), [("bias", 6), ("last_layer", 5 * 6 + 6)])
def test_only_the_last_layer_travels_up(layer: Any, numbers: int) -> None:
    """A network of five hidden units: 6 x 5 + 5 + 5 x 6 + 6 numbers go down, C or (inputs + 1) C
    come up."""
    w = SimulatedWorld(clustered_data(), mlp(clustered_data(), hidden=5), SGD)
    state = started(Hierarchical(**KMEANS, layer=layer), w)
    assert w.ledger.total() == (CLIENTS * 71 * 4, CLIENTS * numbers * 4)
    assert state.layers.shape == (CLIENTS, numbers)


def test_ten_classes_are_ten_numbers() -> None:
    data = replace(clustered_data(), classes=10)
    w = SimulatedWorld(data, mclr(data), SGD)
    started(Hierarchical(**KMEANS), w)
    assert w.ledger.total()[1] == CLIENTS * 10 * 4


@pytest.mark.parametrize("layer", ["bias", "last_layer"])
def test_a_newcomer_sends_its_last_layer_only(layer: Any) -> None:
    w = simulated(population=Population(arrivals={1: 2}))
    method = Hierarchical(**KMEANS, layer=layer)
    state = started(method, w)
    before = w.ledger.total()
    method.place(w, state, np.array([7, 8]), ROUND)
    down, up = np.subtract(w.ledger.total(), before)
    assert (down, up) == (2 * 42 * 4, 2 * (6 if layer == "bias" else 42) * 4)


def test_the_layers_are_those_of_the_whole_update() -> None:
    w = simulated()
    state = started(Hierarchical(**KMEANS), w)
    whole = train(
        w,
        state.start[None],
        np.arange(CLIENTS),
        np.zeros(CLIENTS, np.int64),
        work=replace(SGD, epochs=2),
        stream=INIT.child("last_layer"),
    )
    np.testing.assert_array_equal(state.layers, whole.update[:, w.spec.head_bias])


@pytest.mark.parametrize(
    "options", [KMEANS, {"eps": 0.1, "pretraining": 2}, {"algorithm": "optics", "pretraining": 2}]
)
def test_true_clusters_are_found(options: Any) -> None:
    assert groups(started(Hierarchical(**options), simulated())) == BY_KIND


# --- hyper-parameters of a cluster


def test_own_hyper_parameters_change_that_cluster_alone() -> None:
    plain = Hierarchical(**KMEANS)
    own = Hierarchical(**KMEANS, own={1: {"lr": 0.01, "epochs": 3}})
    one = plain.round(simulated(), started(plain, simulated()), np.arange(CLIENTS), ROUND)
    other = own.round(simulated(), started(own, simulated()), np.arange(CLIENTS), ROUND)
    np.testing.assert_array_equal(one.assignment, other.assignment)
    assert one.models[[0, 2]].tobytes() == other.models[[0, 2]].tobytes()
    assert (one.models[1] != other.models[1]).any()


def test_own_hyper_parameters_that_are_the_common_ones_change_nothing() -> None:
    """No number of the run: neither its clusters nor its measures."""
    tracks = [
        run(simulated(), Hierarchical(**KMEANS, own=own), Plan(3, 6))
        for own in ({}, {1: {"lr": 0.1}})
    ]
    assert tracks[0].state.models.tobytes() == tracks[1].state.models.tobytes()
    assert tracks[0].records == tracks[1].records


# --- through the runner


@pytest.mark.parametrize("algorithm", ["kmeans", "dbscan"])
def test_late_arrivals_are_placed_with_their_kind(algorithm: str) -> None:
    options: Any = KMEANS if algorithm == "kmeans" else {"eps": 0.1, "pretraining": 2}
    track = run(
        simulated(population=Population(arrivals={2: 3})), Hierarchical(**options), Plan(4, CLIENTS)
    )
    assert groups(track.state) == BY_KIND
    partial = [record["partial"] for record in track.records]
    assert partial == [False] * 5, "in round 2 all are drawn, and placed before they are scored"


@pytest.mark.simulation
def test_a_suspicious_client_is_in_no_round_and_in_no_score() -> None:
    """Client 9 has features twenty times as large, with another sign."""
    data = clustered_data(strange=True)
    method = Hierarchical(**KMEANS, suspicious=0.1)
    result = fk.simulate(method, data, mclr(data), rounds=3, cohort=10, local=SGD)
    assert groups(result.state) == BY_KIND
    assert result.assignment[9] == UNASSIGNED
    assert [record["excluded"] for record in result.records] == [1] * 4
    assert not any(record["partial"] for record in result.records)
    assert result.summary()["best_accuracy"] is not None
    assert sorted(result.clients["client"]) == list(range(9))
    without = fk.simulate(
        replace(method, suspicious=None),
        clustered_data(),
        mclr(data),
        rounds=3,
        cohort=9,
        local=SGD,
    )
    each_round = [
        np.diff([r["bytes_up"] for r in one.records]).tolist() for one in (result, without)
    ]
    assert each_round[0] == each_round[1], "it sends nothing after the clustering round"


def test_a_suspicious_newcomer_is_asked_once_and_not_counted_as_partial() -> None:
    w = world([[0, 0], [1, 0], [10, 0], [11, 0], [90, 0]], late={2: 1})
    track = run(w, Hierarchical(eps=2.0, suspicious=20.0), Plan(5, 5))
    asked = [clients for clients, work, part in w.calls if part is not None]
    assert asked == [[0, 1, 2, 3], [4]]
    assert not any(record["partial"] for record in track.records)
    assert [record.get("excluded", 0) for record in track.records] == [0, 0, 1, 1, 1, 1]
    assert sum(4 in clients for clients, *_ in w.calls) == 1


def test_a_newcomer_that_stays_silent_makes_rounds_partial() -> None:
    w = world([[0, 0], [1, 0], [10, 0], [11, 0]], late={2: 1}, silent=frozenset({3}))
    track = run(w, Hierarchical(eps=2.0), Plan(4, 4))
    assert [record["partial"] for record in track.records] == [False, False, True, True, True]
    assert sum(clients == [3] for clients, *_ in w.calls) == 3, "it is asked again in every round"


def test_remarks_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="fedkin"):
        run(
            world([[0, 0], [1, 0], [10, 0], [11, 0]]),
            Hierarchical(eps=50.0),
            Plan(3, 4),
            name="mine",
        )
    [record] = caplog.records
    assert record.getMessage().startswith("mine: eps = 50 puts all clients into one cluster")
    assert "from 1 to 9" in record.getMessage()


def test_nothing_to_remark_is_nothing_logged(caplog: pytest.LogCaptureFixture) -> None:
    run(world([[0, 0], [1, 0], [10, 0], [11, 0]]), Hierarchical(eps=2.0), Plan(3, 4))
    assert not caplog.records


def test_detectors_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    for method in (Hierarchical(**KMEANS), FedAvg()):
        with pytest.raises(ConfigError, match="detector"):
            fk.simulate(
                method, clustered_data(), linear(), rounds=1, cohort=3, out=tmp_path / "run"
            )
        assert not (tmp_path / "run").exists()


def test_odd_leaves_are_no_last_layer(tmp_path: Path) -> None:
    """Its scores come from one matrix and a scale, and nothing says which classes they are of."""
    import jax.numpy as jnp

    odd = as_model(
        (
            lambda key: {"a": jnp.ones((6, 6)), "b": jnp.ones(())},
            lambda p, x, key: p["b"] * x @ p["a"],
        )
    )
    assert odd.spec.head is None
    with pytest.raises(
        ConfigError, match=r"Hierarchical needs the model's last layer, .* last in its parameters"
    ):
        fk.simulate(
            Hierarchical(**KMEANS), clustered_data(), odd, rounds=1, cohort=3, out=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()
