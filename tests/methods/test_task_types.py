"""Every method on numbers, counts and survival: it trains, or it is refused with the cure if it
declares that it needs class labels."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError
from fedkin.core.requirements import requirements_of
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.survival import comparable_pairs, risk_sets
from fedkin.methods import METHODS
from fedkin.models.model import Model
from fedkin.task_types.survival import Survival
from tests.methods.test_conformance import CASES, make

CLIENTS = 24
PER_CLIENT = 15
TASKS = ("regression", "count", "survival")
FEATURES = 3
TRUE_CLUSTERS = np.arange(CLIENTS) % 2


@cache
def data_of(task: str, missing: bool = False) -> FederatedData:
    """Clients of two clusters, whose labels depend on the features with other signs.

    Args:
        task: the task type.
        missing: whether 30% of all cells of a table of numbers are missing.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(CLIENTS * PER_CLIENT, FEATURES)).astype(np.float32)
    owner = np.repeat(np.arange(CLIENTS), PER_CLIENT)
    slope = np.where(owner % 2 == 0, 1.0, -1.0)
    score = 0.8 * slope * x[:, 0] + 0.3 * x[:, 1]
    if task == "survival":
        return survival(x, rng.exponential(np.exp(-score)), rng.random(len(x)) < 0.7)
    noise = rng.normal(scale=0.3, size=len(x))
    y = 5 + 3 * (score + noise) if task == "regression" else rng.poisson(2 * np.exp(score))
    if missing:
        data = table_of(x, y, owner, task)
    else:
        data = fk.data.from_arrays(x, y.astype(float), clients=owner, task=task)
    return replace(data, true_clusters=TRUE_CLUSTERS)


def table_of(x: np.ndarray, y: np.ndarray, owner: np.ndarray, task: str) -> FederatedData:
    """A table of which 30% of all cells are missing."""
    table = pd.DataFrame(x, columns=["a", "b", "c"])
    missing = np.random.default_rng(2).random(table.shape) < 0.3
    table = table.mask(missing).assign(y=y.astype(float), owner=owner)
    return fk.data.from_pandas(table, label="y", client="owner", task=task)


def survival(x: np.ndarray, times: np.ndarray, died: np.ndarray) -> FederatedData:
    """Risk sets of each client for training, and its comparable pairs for testing."""
    rng = np.random.default_rng(1)
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    for client in range(CLIENTS):
        rows = np.arange(client * PER_CLIENT, (client + 1) * PER_CLIENT)
        known, held = rows[:11], rows[11:]
        who = f"client {client}"
        parts.append(
            risk_sets(x[known], times[known], died[known], size=4, draws=2, rng=rng, who=who)
        )
        parts.append(comparable_pairs(x[held], times[held], died[held], size=4, rng=rng))
    ends = np.cumsum([len(labels) for _, labels in parts])
    rows = [np.arange(end - len(labels), end) for end, (_, labels) in zip(ends, parts, strict=True)]
    return FederatedData(
        name="patients",
        x=np.concatenate([samples for samples, _ in parts]),
        y=np.concatenate([labels for _, labels in parts]),
        classes=4,
        train=Ragged.of(rows[::2]),
        test=Ragged.of(rows[1::2]),
        task_type=Survival(),
        true_clusters=TRUE_CLUSTERS,
    )


@cache
def model_of(task: str, hidden: bool, missing: bool = False) -> Model:
    """A model for a method that needs layers before the last one, or for others."""
    data = data_of(task, missing)
    if task == "survival":
        return fk.models.cox(data, hidden=(4,) if hidden else ())
    return fk.models.mlp(data, hidden=(4,)) if hidden else fk.models.mclr(data)


def trained(
    method: Any, task: str, hidden: bool = False, missing: bool = False, **arguments: Any
) -> fk.Run:
    local = fk.LocalTraining(epochs=1, batch_size=10, lr=0.05)
    return fk.simulate(
        method,
        data_of(task, missing),
        model_of(task, hidden, missing),
        rounds=3,
        cohort=CLIENTS,
        local=local,
        **arguments,
    )


def method_of(name: str) -> Any:
    """A method with its options of the conformance tests, and fewer neighbours than clients."""
    fewer = {"neighbours": 5} if "neighbours" in CASES[name].options else {}
    return make(name, **fewer)


def refusal(name: str, task: str) -> str:
    """Words of the message that refuses a method, by what it declares; empty if it must train."""
    needs = requirements_of(method_of(name))
    if needs.model.detectors:
        return "trains a detector"
    # A Cox model has one risk for all patients of a risk set, and no output for each class.
    needs_head = task == "survival" and needs.model.last_layer
    if needs.data.classes:
        return "needs class labels.*such as fedgroup|needs the model's last layer"
    return "needs the model's last layer.*take another method" if needs_head else ""


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_or_is_refused(name: str, task: str) -> None:
    method = method_of(name)
    hidden = CASES[name].hidden
    if words := refusal(name, task):
        with pytest.raises(ConfigError, match=words):
            trained(method, task, hidden, missing=True)
        return
    run = trained(method, task, hidden, missing=True)
    score = data_of(task).task_type.names.score
    assert all(np.isfinite(record[score]) for record in run.records[1:])
    assert np.isfinite(run.models).all()
