"""FedSim compared with FedAvg, in the simulator, cut and resumed, and from a configuration."""

from __future__ import annotations

import io
import logging
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

import fedkin as fk
from fedkin.config.run import from_dict
from fedkin.core.errors import ConfigError, FedkinError, MethodError
from fedkin.core.randomness import Stream
from fedkin.core.train_call import TrainCall
from fedkin.core.training import LocalTraining
from fedkin.methods.fedavg import FedAvg
from fedkin.methods.fedsim import QUIRKS, FedSim, FedSimState
from fedkin.models import mclr
from fedkin.run.simulate import execute
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.jax.trainer import JaxTrainer
from fedkin.tasks.train import train
from tests.methods.fedsim_clients import same, world
from tests.methods.test_conformance import arrays
from tests.option_lists import simulate_arguments
from tests.simulation import numpy_reference
from tests.simulation.small_federation import federation, samples

STREAM = Stream(3, 2, "method/round")

# --- one cluster is FedAvg (section 3.2.2)


def assert_fedavg(make: Callable[[], Any], cohort: int, method: FedSim) -> None:
    w = make()
    other = make()
    plain = FedAvg()
    state = method.init(w, Stream(5, 0, "init"))
    expected = plain.init(other, Stream(5, 0, "init"))
    for r in range(1, 6):
        stream = Stream(5, r, "method")
        drawn = np.sort(stream.child("cohort").rng().choice(w.total_clients, cohort, replace=False))
        state = method.round(w, state, drawn, stream)
        expected = plain.round(other, expected, drawn, stream)
        assert state.models.tobytes() == expected.models.tobytes(), f"round {r}"
    assert expected.models.tobytes() != plain.init(other, Stream(5, 0, "init")).models.tobytes()


ONE = {
    "as published": FedSim(clusters=1),
    "as coded": FedSim(clusters=1, as_coded=QUIRKS),
    "dealt": FedSim(clusters=1, clustering="round_robin"),
}
each_one = pytest.mark.parametrize("method", ONE.values(), ids=ONE.keys())


@each_one
@pytest.mark.parametrize("lost", [frozenset(), frozenset({1, 4})], ids=["all", "some are lost"])
def test_one_cluster_is_fedavg(method: FedSim, lost: frozenset[int]) -> None:
    target = np.random.default_rng(0).normal(size=(6, 7))
    assert_fedavg(lambda: world(target=target, silent=lost), 4, method)
    assert_fedavg(lambda: world(target=target, garbage=lost), 4, method)


DATA = federation()
LOCAL = {
    "sgd": LocalTraining(epochs=2, batch_size=10, lr=0.1),
    "steps": LocalTraining(steps=5, batch_size=10, lr=0.1),
    "momentum": LocalTraining(epochs=2, batch_size=10, lr=0.05, momentum=0.5),
    "adam": LocalTraining(epochs=2, batch_size=10, lr=0.01, optimizer="adam"),
}
POPULATIONS = {
    "all": Population(),
    "dropout and stragglers": Population(dropout=0.3, stragglers=0.3),
}


def simulated(work: LocalTraining = LOCAL["sgd"], **options: Any) -> SimulatedWorld:
    return SimulatedWorld(DATA, mclr(DATA), work, **options)


@pytest.mark.parametrize("population", POPULATIONS.values(), ids=POPULATIONS.keys())
@pytest.mark.parametrize("work", LOCAL.values(), ids=LOCAL.keys())
def test_one_cluster_is_fedavg_in_the_simulator(
    work: LocalTraining, population: Population
) -> None:
    assert_fedavg(lambda: simulated(work, population=population), 5, ONE["as published"])


@each_one
def test_one_cluster_is_fedavg_in_the_simulator_as(method: FedSim) -> None:
    assert_fedavg(simulated, 5, method)


@pytest.mark.parametrize("work", LOCAL.values(), ids=LOCAL.keys())
def test_a_simulated_round_by_hand(work: LocalTraining) -> None:
    """The gradients from NumPy, the clusters from scikit-learn,
    the means from equations 13 and 14."""
    w = simulated(work)
    method = FedSim(clusters=3)
    state = method.init(w, Stream(5, 0, "init"))
    everybody = np.arange(DATA.clients)
    model_index = np.zeros(DATA.clients, np.int64)
    updates = train(
        simulated(work), state.models, everybody, model_index, stream=STREAM.child("train")
    )
    compute = numpy_reference.loss_and_gradient
    gradients = [compute(state.models[0], (6, 3), *samples(DATA, c))[1] for c in everybody.tolist()]
    scores = PCA(n_components=0.95, svd_solver="full").fit_transform(np.stack(gradients))
    kmeans = KMeans(3, n_init=50, random_state=0)  # pyright: ignore[reportArgumentType]
    labels = kmeans.fit_predict(scores)
    solutions = state.models + updates.update.astype(float)
    n = DATA.train.sizes
    cluster_means = [
        n[labels == k] @ solutions[labels == k] / n[labels == k].sum() for k in range(3)
    ]
    result = method.round(w, state, everybody, STREAM)
    np.testing.assert_allclose(
        result.models, [np.mean(cluster_means, axis=0)], rtol=1e-5, atol=1e-6
    )


def test_a_gradient_and_an_update_are_two_messages_up() -> None:
    w = simulated()
    state = FedSim(clusters=2).init(w, Stream(5, 0, "init"))
    FedSim(clusters=2).round(w, state, np.arange(5), STREAM)
    each = 5 * 4 * w.spec.parameters
    assert w.ledger.total() == (each, 2 * each)


# --- a run

RESUMED = {"as published": FedSim(clusters=3), "as coded": FedSim(clusters=3, as_coded=QUIRKS)}
each_resumed = pytest.mark.parametrize("method", RESUMED.values(), ids=RESUMED.keys())


@each_resumed
@pytest.mark.parametrize("make", [world, simulated], ids=["fake", "simulated"])
def test_a_state_goes_on_bit_for_bit(make: Callable[[], Any], method: FedSim) -> None:
    def rounds(state: Any, first: int, last: int) -> Any:
        w = make()
        for r in range(first, last + 1):
            state = method.round(w, state, np.arange(r % 2, 6), Stream(5, r, "method"))
        return state

    start = method.init(make(), Stream(5, 0, "init"))
    half = rounds(start, 1, 2)
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays(half))
    file.seek(0)
    loaded = FedSimState(**np.load(file, allow_pickle=False))
    assert same(rounds(loaded, 3, 5), rounds(start, 1, 5))


def go(method: Any, **options: Any) -> Any:
    settings: dict[str, Any] = {
        "rounds": 5,
        "cohort": 5,
        "local": LOCAL["sgd"],
        "seed": 1,
        "checkpoint_every": 2,
    }
    return fk.simulate(method, DATA, mclr(DATA), **simulate_arguments(settings | options))


def groups_of(run: Any) -> np.ndarray:
    return run.state.groups


class Stopped(Exception):
    pass


@each_resumed
def test_a_run_that_was_cut_goes_on_bit_for_bit(method: FedSim, tmp_path: Path) -> None:
    def stop(record: Any) -> None:
        if record["round"] == 3:
            raise Stopped

    whole = go(method)
    with pytest.raises(Stopped):
        go(method, out=tmp_path / "cut", on_round=stop)
    again = go(method, out=tmp_path / "cut", resume=True)
    assert again.records == whole.records
    assert same(again.state, whole.state)


def test_one_cluster_against_fedavg() -> None:
    run = go(
        FedSim(clusters=1), against=[FedAvg()], scenario=Population(dropout=0.2, stragglers=0.2)
    )
    plain = run.against["fedavg"]
    assert run.models.tobytes() == plain.models.tobytes()
    ours, theirs = ([record["accuracy"] for record in one.records] for one in (run, plain))
    assert ours == theirs
    assert run.records[-1]["bytes_down"] == plain.records[-1]["bytes_down"]
    assert run.records[-1]["bytes_up"] == 2 * plain.records[-1]["bytes_up"] > 0


def test_a_nonfinite_client_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gradient alone is not finite: the client is excluded, counted, and the run goes on."""
    train = JaxTrainer.train

    def with_nan(self: JaxTrainer, call: TrainCall) -> Any:
        result = train(self, call)
        bad = np.where(call.clients[: len(result.gradient)] == 3, np.nan, 0).astype(np.float32)
        return result._replace(gradient=result.gradient + bad[:, None])

    monkeypatch.setattr(JaxTrainer, "train", with_nan)
    with caplog.at_level(logging.WARNING, "fedkin"):
        run = go(FedSim(clusters=2), rounds=1, cohort=7)
    assert "client 3" in caplog.text and np.isfinite(run.models).all()
    groups = groups_of(run)
    assert groups[3] == -1 and (np.delete(groups, 3) >= 0).all()


# --- its configuration


def test_it_survives_toml() -> None:
    method = {
        "name": "fedsim",
        "clusters": 4,
        "variance": 0.9,
        "as_coded": ["leftover_model", "configured_count"],
    }
    config = from_dict({"method": method, "run": {"cohort": 6}})
    made = config.method.made
    assert made == FedSim(clusters=4, variance=0.9, as_coded=("leftover_model", "configured_count"))
    again = from_dict(tomllib.loads(tomli_w.dumps(config.description().sections)))
    assert again == config and again.method.made == made


def test_a_configuration_and_python_come_to_the_same() -> None:
    raw = {
        "data": {"name": "digits", "clients": 8},
        "method": {"name": "fedsim", "clusters": 2, "as_coded": list(QUIRKS)},
        "local": {"epochs": 1, "lr": 0.1},
        "run": {"rounds": 2, "cohort": 3},
    }
    configured = execute(from_dict(raw), out=None)
    data = fk.data.digits(clients=8)
    called = fk.simulate(
        FedSim(2, as_coded=QUIRKS),
        data,
        mclr(data),
        local=fk.SGD(epochs=1, lr=0.1),
        rounds=2,
        cohort=3,
    )
    assert configured.records == called.records


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"as_coded": ["leftover"]}, "as_coded"),
        ({"as_coded": "leftover_model"}, "as_coded"),
        ({"clustering": "random"}, "clustering"),
        ({"clusters": 2.5}, "clusters"),
        ({"variance": "most"}, "variance"),
    ],
    ids=str,
)
def test_a_configuration_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=rf"method\.{words}"):
        from_dict({"method": {"name": "fedsim", **options}})


def test_more_clusters_than_a_cohort() -> None:
    words = (
        r"cohort of at least 5 clients \(clusters = 5\).* is 4: "
        r"set run\.cohort=5 or (method\.)?clusters=4"
    )
    settings: dict[str, Any] = {"rounds": 1, "cohort": 4, "local": LOCAL["sgd"]}
    with pytest.raises(ConfigError, match=words):
        fk.simulate(FedSim(clusters=5), DATA, mclr(DATA), **simulate_arguments(settings))
    with pytest.raises(ConfigError, match=words):
        fk.simulate(
            FedAvg(), DATA, mclr(DATA), against=[FedSim(clusters=5)], **simulate_arguments(settings)
        )
    with pytest.raises(ConfigError, match=r"at least 8 clients \(clusters = 8\), and there are 7"):
        fk.simulate(FedSim(clusters=8), DATA, mclr(DATA), **simulate_arguments(settings))
    run = fk.simulate(FedSim(clusters=4), DATA, mclr(DATA), **simulate_arguments(settings))
    groups = groups_of(run)
    assert sorted(groups[groups >= 0]) == [0, 1, 2, 3]


# --- refusals


@pytest.mark.parametrize(
    "options",
    [{"clusters": 0}, {"clusters": -1}, {"variance": 0.0}, {"variance": -0.5}, {"variance": 1.5}]
    + [{"variance": float("nan")}],
    ids=str,
)
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(FedkinError, match=next(iter(options))):
        FedSim(**options)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clusters", 2.0),
        ("clusters", True),
        ("clusters", "3"),
        ("variance", True),
        ("variance", "0.95"),
        ("variance", None),
        ("clustering", "random"),
        ("clustering", None),
        ("as_coded", "leftover_model"),
        ("as_coded", ["leftover_model"]),
        ("as_coded", ("leftover",)),
        ("as_coded", (1,)),
        ("as_coded", None),
    ],
    ids=str,
)
def test_refuses_other_types(name: str, value: object) -> None:
    """The tests' own type checks would refuse them first, so the field is changed behind their
    back."""
    method = FedSim()
    object.__setattr__(method, name, value)
    with pytest.raises(MethodError, match=name):
        method.__post_init__()
