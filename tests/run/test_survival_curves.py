"""Survival curves and C-indices of clusters, from sums over clients that secret sums carry too."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError, DataError, MethodError
from fedkin.data.federated import FederatedData
from fedkin.measures.concordance import concordance, concordance_within
from fedkin.measures.survival_curves import kaplan_meier, survival_sums
from fedkin.run.trained.survival import cluster_survival
from fedkin.simulation.engine import SimulatedWorld
from tests.task_vectors import task_case

Oracle = Callable[[str], dict[str, Any]]
CLIENTS = 8


@cache
def patients() -> FederatedData:
    """Clients of two clusters, whose features act in other directions. Times are months, so many
    are equal."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(CLIENTS * 40, 2))
    owner = np.repeat(np.arange(CLIENTS), 40)
    risk = np.where(owner % 2, -1.0, 1.0) * x[:, 0]
    times = np.ceil(12 * rng.exponential(np.exp(-risk)))
    return fk.data.from_patients(
        x, np.minimum(times, 60), times <= 60, clients=owner, test=0.4, at_risk=6, draws=2
    )


@cache
def run() -> fk.Run:
    data = patients()
    local = fk.LocalTraining(epochs=2, batch_size=10, lr=0.1)
    return fk.simulate(
        fk.FedGroup(clusters=2, alpha=4),
        data,
        fk.models.cox(data),
        rounds=4,
        cohort=CLIENTS,
        local=local,
    )


def members(cluster: int) -> list[int]:
    return np.flatnonzero(run().state.assignment == cluster).tolist()


def test_records_name_the_c_index_within_clients() -> None:
    record = run().records[-1]
    assert 0.5 < record["concordance_index"] <= 1 and "accuracy" not in record


@pytest.mark.parametrize("secret", [None, fk.SecretSums(examples_cap=100)], ids=["clear", "secret"])
def test_curves_are_those_of_the_pooled_patients(secret: Any) -> None:
    data = patients().patients
    assert data is not None
    found = fk.survival_curves(run(), secret=secret)
    assert [one.cluster for one in found] == [0, 1]
    for one in found:
        rows = np.concatenate([data.test[client] for client in members(one.cluster)])
        times, died = data.times[rows], data.died[rows]
        expected = kaplan_meier(survival_sums(times, died, one.curve.grid), one.curve.grid)
        np.testing.assert_allclose(one.curve.survival, expected.survival, rtol=1e-12)
        np.testing.assert_allclose(one.curve.variance, expected.variance, rtol=1e-12)
        assert one.patients == len(rows) and one.clients == len(members(one.cluster))


@pytest.mark.parametrize("secret", [None, fk.SecretSums(examples_cap=100)], ids=["clear", "secret"])
def test_the_c_index_counts_pairs_within_clients(secret: Any) -> None:
    data = patients()
    assert data.patients is not None
    for one in fk.survival_curves(run(), secret=secret):
        weights = run().state.models[one.cluster]
        parts = []
        for client in members(one.cluster):
            rows = data.patients.test[client]
            features = data.x[data.patients.samples[rows], 0, :2]
            risks = features @ weights[:2]
            parts.append(concordance(risks, data.patients.times[rows], data.patients.died[rows]))
        expected = concordance_within(parts)
        assert one.pairs == expected
        # The score of the records is the same index, over the same pairs.
        assert f"C-index within clients {expected.index:.3f}" in str(one)


def test_secret_sums_hide_the_counts_of_clients() -> None:
    data = patients()
    world = SimulatedWorld(data, fk.models.cox(data))
    clients = np.arange(CLIENTS)
    cluster_survival(
        world=world,
        models=run().state.models,
        clients=clients,
        clusters=run().state.assignment,
        grid=np.arange(1.0, 61),
        secret=fk.SecretSums(examples_cap=100),
    )
    asked = {*world.ledger.down, *world.ledger.up}
    assert "secret_survival_counts" in asked and "survival_counts" not in asked


def test_the_oracle_curve_from_clients(oracle: Oracle) -> None:
    case = task_case(oracle, "kaplan_meier_from_client_sums")
    given = {name: np.array(values) for name, values in case["inputs"].items()}
    known = case["outputs"]
    data = patients()
    assert data.patients is not None
    clients = len(np.unique(given["client"]))
    owned = [np.flatnonzero(given["client"] == client) for client in np.unique(given["client"])]
    rows = fk.data.Ragged.of(owned)
    of_case = replace(
        data.patients,
        samples=data.patients.samples[: len(given["time"])],
        times=given["time"].astype(float),
        died=given["event"] == 1,
        train=rows,
        test=rows,
    )
    some = replace(data.select(np.arange(clients)), patients=of_case)
    (found,) = cluster_survival(
        world=SimulatedWorld(some, fk.models.cox(data)),
        models=run().state.models[:1],
        clients=np.arange(clients),
        clusters=np.zeros(clients, np.int64),
        grid=np.array(known["grid"], float),
    )
    np.testing.assert_allclose(found.curve.survival, known["survival"], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.curve.hazard, known["nelson aalen"], rtol=1e-12)


def test_a_coarse_grid_is_a_life_table() -> None:
    found = fk.survival_curves(run(), grid=[12, 24, 36, 48, 60], split="train")
    assert all(len(one.curve.survival) == 5 for one in found)
    assert sum(one.patients for one in found) == CLIENTS * 24


def test_other_data_and_grids_are_refused() -> None:
    digits = fk.data.digits(clients=4)
    other = fk.simulate(fk.FedAvg(), digits, fk.models.mclr(digits), rounds=1, cohort=4)
    with pytest.raises(MethodError, match="need a simulated run on patients"):
        fk.survival_curves(other)
    with pytest.raises(ConfigError, match="ascending order"):
        fk.survival_curves(run(), grid=[24, 12])
    with pytest.raises(ConfigError, match="test or train"):
        fk.survival_curves(run(), split="validation")


def test_a_client_without_events_is_left_out_and_reported(caplog: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 1))
    owner = np.repeat(["a", "b", "c"], 20)
    died = owner != "b"
    with caplog.at_level(logging.WARNING, "fedkin"):
        data = fk.data.from_patients(x, rng.exponential(size=60), died, clients=owner)
    assert list(data.client_names or ()) == ["a", "c"]
    assert "left out b, where no event was observed" in caplog.text
    with pytest.raises(DataError, match="no client has an event"):
        fk.data.from_patients(x, np.ones(60), np.zeros(60), clients=owner)


def test_an_event_at_the_same_time_is_in_the_risk_set() -> None:
    """Two patients with the event at one time, and a third one before them, who is not at risk."""
    x = np.array([[1.0], [2.0], [3.0]] * 2)
    times = np.array([5.0, 5.0, 1.0] * 2)
    died = np.array([True, True, False] * 2)
    data = fk.data.from_patients(
        x, times, died, clients=[0, 0, 0, 1, 1, 1], test=0.01, at_risk=3, draws=1
    )
    for row in data.train[0]:
        patient, weight = data.x[row].T
        assert sorted(patient[weight > 0]) == [1.0, 2.0]
    assert len(data.train[0]) == 2
