"""Narrow heads, runs that go on, and configurations of hierarchical clustering, in the simulated
world."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

import fedkin as fk
from fedkin.config.run import from_dict, load
from fedkin.core.errors import ConfigError
from fedkin.core.method import UNASSIGNED
from fedkin.core.training import LocalTraining
from fedkin.methods.hierarchical import EXCLUDED_BIAS, Hierarchical
from fedkin.models import mclr
from fedkin.models.model import Model
from fedkin.run.folder import run_folder
from fedkin.run.simulate import execute
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import evaluate
from tests.methods.last_layer_clients import CLIENTS, ROUND, clustered_data, simulated, started
from tests.methods.test_conformance import assert_same
from tests.methods.test_hierarchical_runs import KMEANS, SGD
from tests.option_lists import simulate_arguments

# --- narrow heads


def narrow(
    adam: bool = False, model: Model | None = None, **options: Any
) -> tuple[Any, SimulatedWorld]:
    work = LocalTraining(epochs=2, batch_size=4, lr=0.05, optimizer="adam" if adam else "sgd")
    w = SimulatedWorld(clustered_data(), model or mclr(clustered_data()), work)
    return Hierarchical(**KMEANS, narrow=True, **options), w


def classes_of(state: Any, cluster: int) -> np.ndarray:
    """Which classes a cluster has: two for each cluster of its clients."""
    members = np.flatnonzero(state.assignment == cluster)
    return np.isin(np.arange(6) // 2, members % 3)


def head(models: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights [K, 6, inputs] and biases [K, 6]."""
    return models[:, :-6].reshape(len(models), 6, -1), models[:, -6:]


@pytest.mark.parametrize("adam", [False, True], ids=["sgd", "adam"])
def test_the_numbers_of_other_classes_never_move(adam: bool) -> None:
    method, w = narrow(adam)
    state = started(method, w)
    after = state
    for r in range(1, 4):
        after = method.round(w, after, np.arange(CLIENTS), ROUND.at(r))
    for k in range(3):
        own = classes_of(state, k)
        for before, now in zip(head(state.models), head(after.models), strict=True):
            assert now[k, ~own].tobytes() == before[k, ~own].tobytes()
            assert (now[k, own] != before[k, own]).all()


def test_other_classes_are_never_predicted() -> None:
    """Every client tries the models of the two other clusters: none of its samples is ever of their
    classes."""
    method, w = narrow()
    state = method.round(w, started(method, w), np.arange(CLIENTS), ROUND)
    everybody = np.arange(CLIENTS)
    for k in range(3):
        scores = evaluate(w, state.models, everybody, np.full(CLIENTS, k), split="train")
        assert not scores.correct[state.assignment != k].any()
        assert scores.correct[state.assignment == k].any()


def test_a_narrow_head_is_never_worse_on_its_own_classes() -> None:
    """At the start, where all else is the same: a class that is out of the way cannot be mistaken
    for the right one."""
    wide = Hierarchical(**KMEANS)
    method, w = narrow()
    one = started(wide, w)
    other = started(method, w)
    np.testing.assert_array_equal(one.assignment, other.assignment)
    everybody = np.arange(CLIENTS)
    correct = [
        evaluate(w, s.models, everybody, s.assignment, split="train").correct for s in (one, other)
    ]
    assert np.all(correct[1] >= correct[0]) and correct[1].sum() > correct[0].sum()


def test_a_narrow_head_sends_as_many_bytes() -> None:
    method, w = narrow()
    wide = Hierarchical(**KMEANS)
    v = simulated()
    method.round(w, started(method, w), np.arange(CLIENTS), ROUND)
    wide.round(v, started(wide, v), np.arange(CLIENTS), ROUND)
    assert (w.ledger.down, w.ledger.up) == (v.ledger.down, v.ledger.up)


def test_only_biases_of_missing_classes_differ_from_the_start() -> None:
    method, w = narrow()
    state = started(method, w)
    moved = state.models != state.start
    expected = np.zeros_like(moved)
    expected[:, -6:] = [~classes_of(state, k) for k in range(3)]
    np.testing.assert_array_equal(moved, expected)


def test_a_newcomer_with_another_class_is_let_into_the_head() -> None:
    """Its class is learned, in its own cluster; else its samples would push the layers below for
    ever."""
    data = clustered_data()
    y = data.y.copy()
    # Half of a cluster, half of another.
    y[data.train[8]] = np.where(y[data.train[8]] == 4, 0, y[data.train[8]])
    data = replace(data, y=y)
    w = SimulatedWorld(data, mclr(data), SGD, population=Population(arrivals={1: 1}))
    method = Hierarchical(**KMEANS, narrow=True)
    state = method.place(w, started(method, w), np.array([8]), ROUND)
    cluster = int(state.assignment[8])
    assert cluster != UNASSIGNED
    after = state
    for r in range(1, 4):
        after = method.round(w, after, np.arange(CLIENTS), ROUND.at(r))
    assert np.isfinite(after.models).all()
    bias = after.models[:, w.spec.head_bias]
    own = np.array(
        [(data.label_counts()[state.assignment == k] > 0).any(axis=0) for k in range(len(bias))]
    )
    np.testing.assert_array_equal(bias > EXCLUDED_BIAS / 2, own)  # and in no other
    scores = evaluate(w, after.models, np.array([8]), np.array([cluster]), split="train")
    assert scores.loss[0] < 10


# --- runs that go on, and configurations


@pytest.mark.simulation
def test_a_run_that_goes_on_ends_with_the_same_bits(tmp_path: Path) -> None:
    method = Hierarchical(
        **KMEANS, narrow=True, fraction=0.5, own={1: {"lr": 0.01}}, suspicious=0.1
    )
    data = clustered_data(strange=True)

    def go(rounds: int, out: Path | None = None, resume: bool = False) -> Any:
        scenario = Population(arrivals={3: 2})
        settings = {"cohort": 7, "local": SGD, "checkpoint_every": 1}
        more = {"rounds": rounds, "scenario": scenario, "out": out, "resume": resume}
        return fk.simulate(method, data, mclr(data), **simulate_arguments(settings | more))

    whole = go(5)
    go(2, tmp_path / "run")
    again = go(5, tmp_path / "run", resume=True)
    assert_same(whole.state, again.state)
    assert whole.records == again.records


TOML = """
[data]
name = "planted"
base = "digits"
clients = 6
[method]
name = "hierarchical"
algorithm = "kmeans"
clusters = 2
pretraining = 1
[method.own.1]
lr = 0.01
epochs = 2
[method.own.0]
optimizer = "adam"
[run]
rounds = 1
cohort = 6
"""


@pytest.mark.simulation
def test_hyper_parameters_of_clusters_in_a_configuration(tmp_path: Path) -> None:
    """From TOML, whose keys are text, to integers, and from the run's own config.toml again."""
    path = tmp_path / "run.toml"
    path.write_text(TOML)
    config = load(path)
    own = {0: {"optimizer": "adam"}, 1: {"lr": 0.01, "epochs": 2}}
    method = config.method.made
    assert method.own == own and all(isinstance(key, int) for key in method.own)
    path.write_text(tomli_w.dumps(config.description().sections))
    assert load(path).method.made == method
    first = execute(config, out=tmp_path / "run")
    kept = from_dict(run_folder.read_config(tmp_path / "run").sections)
    assert kept.method.made == method
    longer = from_dict(kept.description().with_run(rounds=2).sections)
    again = execute(longer, out=tmp_path / "run", resume=True)
    assert again.records[: len(first.records)] == first.records and len(again.records) == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[method.own.x]\nlr = 0.1", "method.own"),
        ("[method.own.1]\nlearning_rate = 0.1", "own"),
        ("[method.own.1]\nlr = 0.0", "lr"),
        ("own = 3", "method.own"),
        ("eps = 0.0", "eps"),
        ("eps = nan", "eps"),
        ('algorithm = "kmeans"', "clusters"),
        ('layer = "first"', "layer"),
    ],
)
def test_mistakes_in_a_configuration(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(f'[method]\nname = "hierarchical"\n{line}\n')
    with pytest.raises(ConfigError, match=message):
        load(path)
