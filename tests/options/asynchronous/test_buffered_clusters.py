"""Buffered asynchronous clusters: steps by hand, whole runs, replays, and refusals."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.run import load
from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.method import State
from fedkin.core.randomness import Stream
from fedkin.core.requirements import requirements_of
from fedkin.core.training import LocalTraining
from fedkin.methods import METHODS
from fedkin.methods.fedavg import FedAvg
from fedkin.methods.ifca import IFCA
from fedkin.options.asynchronous.buffered_clusters import refusal
from fedkin.reporting.progress import table
from fedkin.simulation.fake_world import FakeWorld
from tests.option_lists import simulate_arguments, with_options

# Clients 0 and 1 reply after 1 and 2 seconds, clients 2 and 3 after 3 and 10.
SECONDS = (1.0, 2.0, 3.0, 10.0)
WANTED = np.array([[0.0], [4.0], [8.0], [16.0]], np.float32)


def world(silent: frozenset[int] = frozenset()) -> FakeWorld:
    """Clients with 1, 1, 2 and 1 samples; a step goes half of the way to what a client wants."""
    return FakeWorld(
        WANTED,
        np.array([1, 1, 2, 1]),
        LocalTraining(lr=0.5),
        silent=silent,
        start=lambda stream: np.zeros(1),
    )


def steps(
    rounds: int, clients: FakeWorld | None = None, **settings: Any
) -> list[tuple[State, dict[str, Any]]]:
    """The state and record after each step of FedAvg with all clients."""
    clients = clients or world()
    option = fk.BufferedClusters(measured=SECONDS, spread=0.0, **settings)
    runner = with_options(FedAvg(), option, world=clients)
    state = runner.init(clients, Stream(0))
    found = []
    for number in range(1, rounds + 1):
        state = runner.round(clients, state, np.arange(4), Stream(0, number))
        found.append((state, runner.options.record(state)))
    return found


def model(state: State) -> float:
    return float(state.models[0, 0])


def clients_of(record: dict[str, Any]) -> list[int]:
    return [client for client, _, _ in record["arrivals"]]


def test_a_model_steps_when_its_buffer_is_full() -> None:
    """Step 1: clients 0 (+0) and 1 (+2), at second 2. Step 2: they are asked again, with the model
    1. Client 0 replies at second 3 (-0.5), and so does client 2 (+4, of the model 0), whose two
    samples count half of their way: 1 + (-0.5 + 2 * 4 / sqrt 2) / 3."""
    (first, one), (second, two) = steps(2, buffer=2)
    assert model(first) == 1.0
    assert (one["stepped"], one["simulated_seconds"]) == (0, 2.0)
    assert one["asked"] == [0, 1, 2, 3]
    assert clients_of(one) == [0, 1]
    assert two["asked"] == [0, 1]
    assert clients_of(two) == [0, 2]
    assert two["simulated_seconds"] == 3.0
    assert [version for _, version, _ in two["arrivals"]] == [1, 0]
    assert model(second) == pytest.approx(1 + (-0.5 + 8 / np.sqrt(2)) / 3)
    # Without the factor of staleness, the step would be another one.
    (_, _), (plain, _) = steps(2, buffer=2, exponent=0.0)
    assert model(plain) == pytest.approx(1 + (-0.5 + 8) / 3)
    assert (two["replies_used"], two["replies_dropped"]) == (4, 0)


def test_the_learning_rate_is_a_factor_of_each_step() -> None:
    ((first, _),) = steps(1, buffer=2, lr=0.5)
    assert model(first) == 0.5


def test_a_reply_that_is_too_stale_is_dropped() -> None:
    """Client 3 needs ten seconds, and the model steps more often."""
    _, last = steps(12, buffer=2, max_staleness=2)[-1]
    assert last["simulated_seconds"] >= 10
    assert last["replies_dropped"] == 1
    _, last = steps(12, buffer=2)[-1]
    assert last["replies_dropped"] == 0


def test_a_step_of_all_clients_is_a_synchronous_round() -> None:
    state, record = steps(1, buffer=4)[0]
    clients = world()
    plain = with_options(FedAvg(), world=clients)
    after = plain.round(clients, plain.init(clients, Stream(0)), np.arange(4), Stream(0, 1))
    assert state.models.tobytes() == after.models.tobytes()
    assert record["simulated_seconds"] == 10.0


def test_without_enough_replies_no_model_changes() -> None:
    """Two clients never reply, so the buffer of three stays open."""
    silent = world(silent=frozenset({2, 3}))
    for state, record in steps(3, silent, buffer=3):
        assert model(state) == 0.0
        assert record["stepped"] is None
    assert record["replies_used"] == record["replies_dropped"] == 0


def chosen(
    option: fk.BufferedClusters, rounds: int, method: Any = None, models: Any = None
) -> list[tuple[State, dict[str, Any]]]:
    """Steps of IFCA from the models 0 and 16, which clients choose by loss."""
    clients = replace(world(), start=None)
    runner = with_options(method or IFCA(clusters=2, weighting="examples"), option, world=clients)
    state = runner.init(clients, Stream(0))
    start = np.array(models or [[0.0], [16.0]], np.float32)
    state = State(start, state.assignment, extras=state.extras)
    found = []
    for number in range(1, rounds + 1):
        state = runner.round(clients, state, np.arange(4), Stream(0, number))
        found.append((state, runner.options.record(state)))
    return found


def test_clients_that_choose_their_cluster_join_it_when_they_reply() -> None:
    """Clients 0 and 1 choose the model 0, clients 2 (a tie) too, and client 3 the model 16."""
    option = fk.BufferedClusters(buffer=2, measured=SECONDS, spread=0.0)
    (first, one), (second, two), (third, three) = chosen(option, 3)
    assert first.assignment.tolist() == [0, 0, -1, -1]
    assert first.models.tolist() == [[1.0], [16.0]]
    # The other cluster's model stays, and so does its version.
    assert second.assignment.tolist() == [0, 0, 0, -1]
    assert [one["stepped"], two["stepped"], three["stepped"]] == [0, 0, 0]
    assert third.extras["asynchronous"]["versions"].tolist() == [3, 0]


class Moving(FedAvg):
    """FedAvg in two clusters, where client 2 moves to the second after its first request."""

    def round(self, world: Any, state: State, cohort: Any, stream: Stream) -> State:
        after = super().round(world, state, cohort, stream)
        assignment = after.assignment.copy()
        assignment[2] = 1
        return State(after.models, assignment, extras=after.extras)


def test_the_reply_of_a_client_that_has_moved_is_dropped() -> None:
    clients = world()
    option = fk.BufferedClusters(buffer=2, measured=SECONDS, spread=0.0)
    runner = with_options(Moving(), option, world=clients)
    state = runner.init(clients, Stream(0))
    models = np.zeros((2, 1), np.float32)
    state = State(models, np.array([0, 0, 0, 1]), extras=state.extras)
    state = runner.round(clients, state, np.arange(4), Stream(0, 1))
    state = runner.round(clients, state, np.arange(4), Stream(0, 2))
    record = runner.options.record(state)
    # Its reply was the second to arrive, and the buffer waits for client 1.
    assert clients_of(record) == [0, 2, 1]
    assert record["replies_dropped"] == 1
    # It is asked again for its present cluster.
    state = runner.round(clients, state, np.arange(4), Stream(0, 3))
    assert 2 in runner.options.record(state)["asked"]


def planted(clients: int = 12) -> Any:
    return fk.planted(
        base="digits",
        kind="label_permutation",
        clusters=2,
        samples=20,
        test_samples=10,
        clients=clients,
        seed=1,
    )


COMMON: dict[str, Any] = {
    "cohort": 12,
    "local": fk.SGD(epochs=1, lr=0.1),
    "progress": False,
    "checkpoint_every": 1,
}
SLOW = {"slow_share": 0.1, "buffer": 2}


def test_a_run_that_goes_on_is_the_whole_one(tmp_path: Path) -> None:
    data = planted()
    net = fk.models.mclr(data)
    method = fk.FlexCFL(clusters=2)
    options = [fk.BufferedClusters(**SLOW)]
    arguments = simulate_arguments(COMMON)
    whole = fk.simulate(method, data, net, rounds=12, options=options, **arguments)
    out = tmp_path / "run"
    fk.simulate(method, data, net, rounds=5, options=options, out=out, **arguments)
    rest = fk.simulate(
        method, data, net, rounds=12, options=options, out=out, resume=True, **arguments
    )
    assert rest.models.tobytes() == whole.models.tobytes()
    assert rest.records[-1] == whole.records[-1]
    summary = whole.summary()
    assert summary["replies_used"] == 24
    assert summary["simulated_seconds"] > 0
    assert "buffered clusters: 24 replies used, 0 dropped" in str(table([summary]).caption)
    stepped = {record["stepped"] for record in whole.records[1:]}
    assert stepped == {0, 1}


@pytest.mark.parametrize("method", [fk.FlexCFL(clusters=2), IFCA(clusters=2, weighting="examples")])
def test_a_recorded_order_of_arrivals_gives_the_same_bits(tmp_path: Path, method: Any) -> None:
    """The replay draws other times, which do not matter. Some clients drop out."""
    data = planted()
    net = fk.models.mclr(data)
    arguments: dict[str, Any] = simulate_arguments(COMMON)
    arguments["scenario"] = fk.Population(dropout=0.2)
    out = tmp_path / "run"
    options = [fk.BufferedClusters(**SLOW)]
    run = fk.simulate(method, data, net, rounds=10, options=options, out=out, **arguments)
    again = fk.BufferedClusters(buffer=2, reply_seconds=7.0, spread=0.1, replay=str(out))
    replayed = fk.simulate(method, data, net, rounds=10, options=[again], **arguments)
    assert replayed.models.tobytes() == run.models.tobytes()
    assert replayed.assignment.tolist() == run.assignment.tolist()
    assert replayed.records == run.records
    other_times = fk.BufferedClusters(buffer=2, reply_seconds=7.0, spread=2.0)
    other = fk.simulate(method, data, net, rounds=10, options=[other_times], **arguments)
    assert other.models.tobytes() != run.models.tobytes()


def test_a_replay_that_differs_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = planted()
    net = fk.models.mclr(data)
    method = fk.FlexCFL(clusters=2)
    arguments = simulate_arguments(COMMON)
    out = tmp_path / "run"
    options = [fk.BufferedClusters(**SLOW)]
    fk.simulate(method, data, net, rounds=3, options=options, out=out, **arguments)
    replay = fk.BufferedClusters(replay=str(out / "metrics.jsonl"), **SLOW)

    def repeat(rounds: int = 3, option: fk.BufferedClusters = replay, **changed: Any) -> None:
        fk.simulate(method, data, net, rounds=rounds, options=[option], **arguments | changed)

    with pytest.raises(ConfigError, match=r"has no round 4; set run.rounds to at most 3"):
        repeat(rounds=4)
    with pytest.raises(ConfigError, match=r"reply \d+ of round \d+ came from client \d+ with"):
        repeat(scenario=fk.Population(dropout=0.5))
    with caplog.at_level(logging.WARNING, "fedkin"):
        repeat(local=fk.SGD(epochs=1, lr=0.2))
    assert "has other bits than the recorded one" in caplog.text
    with pytest.raises(ConfigError, match=r"there is no file .*; name the folder of a run"):
        repeat(option=fk.BufferedClusters(replay=str(tmp_path / "none"), **SLOW))
    lines = (out / "metrics.jsonl").read_text().splitlines()
    damaged = json.loads(lines[2])
    del damaged["arrivals"]
    lines[2] = json.dumps(damaged)
    other = tmp_path / "other.jsonl"
    other.write_text("\n".join(lines) + "\n")
    with pytest.raises(ConfigError, match=r"line 3 of .*other.jsonl has no order of arrivals"):
        repeat(option=fk.BufferedClusters(replay=str(other), **SLOW))


def test_a_configuration_has_a_section() -> None:
    config = load(None, ["asynchronous.name=buffered", "asynchronous.buffer=4"])
    assert config.options["asynchronous"] == fk.BufferedClusters(buffer=4)
    assert config.description().section("asynchronous")["max_staleness"] == 10


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"buffer": 0}, "buffer must be an integer of at least 1"),
        ({"exponent": -0.5}, "exponent must be a number from 0 up"),
        ({"max_staleness": -1}, "max_staleness must be an integer of at least 1"),
        ({"lr": 0.0}, "lr must be a number above 0"),
    ],
)
def test_impossible_values_are_refused(option: dict[str, Any], words: str) -> None:
    with pytest.raises(MethodError, match=words):
        fk.BufferedClusters(**option)


def test_methods_say_whether_their_clusters_can_be_asynchronous() -> None:
    """The list follows from what methods declare."""
    arguments = {
        "fedgroup": {"eta_g": 0.0},
        "fedgrouprox": {"eta_g": 0.0},
        "ifca": {"weighting": "examples"},
        "ifca_mig": {"weighting": "examples"},
    }
    allowed = set()
    for name, kind in METHODS.items():
        method = kind(**arguments.get(name, {}))
        if not refusal(method):
            allowed.add(name)
            assert requirements_of(method).separation.models != "unknown"
    assert allowed == {
        "fedavg", "fedprox", "fedgroup", "fedgrouprox", "flexcfl", "ifca", "pacfl", "given",
    }  # fmt: skip
    assert "eta_g" in refusal(fk.FedGroup())
    assert "of its option averaging, weighting" in refusal(IFCA())
    assert "no server that could keep buffers" in refusal(fk.PANM())
    assert "name = 'first_replies'" in refusal(fk.FedSim(clusters=2))
    assert "set migration='none'" in refusal(fk.IFCAMig(clusters=2, weighting="examples"))


OTHERS = {
    "robust": fk.RobustAggregation("median"),
    "late": fk.LateReplies(),
    "quorum": fk.MinimumReplies(),
    "server_optimizer": fk.FedAdam(lr=0.1),
    "personal": fk.PersonalHead(),
    "monitor": fk.Monitor(act="watch"),
    "privacy": fk.ClientDP(noise_multiplier=1.0),
    "secret": fk.SecretSums(),
}


@pytest.mark.parametrize("section", OTHERS)
def test_options_that_need_rounds_are_refused(section: str) -> None:
    data = fk.data.digits(clients=6).with_validation(0.2)
    options = [fk.BufferedClusters(), OTHERS[section]]
    with pytest.raises(ConfigError, match=f"leave out asynchronous, or {section}"):
        fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=4, options=options)


def test_buffers_that_would_never_be_full_are_refused() -> None:
    data = planted()
    net = fk.models.mclr(data)
    arguments = simulate_arguments(COMMON)
    with pytest.raises(
        ConfigError, match="a buffer of 13 replies would never be full, because there are 12"
    ):
        options = [fk.BufferedClusters(buffer=13)]
        fk.simulate(fk.FedAvg(), data, net, rounds=1, options=options, **arguments)
    names = data.client_names or [str(client) for client in range(12)]
    groups = {name: "small" if place < 3 else "large" for place, name in enumerate(names)}
    method = fk.Given(groups=groups)
    with pytest.raises(MethodError, match="cluster 0 has 3 clients, so a buffer of 4 replies"):
        options = [fk.BufferedClusters(buffer=4)]
        fk.simulate(method, data, net, rounds=1, options=options, **arguments)
    # If more clients come, a cluster's buffer is full when all its clients have replied.
    options = [fk.BufferedClusters(buffer=4)]
    later = fk.Population(arrivals={3: 1})
    run = fk.simulate(method, data, net, rounds=8, options=options, scenario=later, **arguments)
    assert {record["stepped"] for record in run.records[1:]} == {0, 1}
    options = [fk.BufferedClusters(buffer=3)]
    run = fk.simulate(method, data, net, rounds=2, options=options, **arguments)
    assert run.records[-1]["replies_used"] == 6


def test_a_buffer_is_full_when_the_client_that_it_waits_for_has_left() -> None:
    """Client 0 never replies, so that the buffer of its cluster waits until it has left."""
    data = planted()
    names = data.client_names or [str(client) for client in range(12)]
    groups = {name: "small" if place < 3 else "large" for place, name in enumerate(names)}
    run = fk.simulate(
        fk.Given(groups=groups),
        data,
        fk.models.mclr(data),
        rounds=12,
        options=[fk.BufferedClusters(buffer=3)],
        scenario=fk.Population(silent=(0,), departures={6: 1}),
        **simulate_arguments(COMMON),
    )
    stepped = [record["stepped"] for record in run.records[1:]]
    assert 0 not in stepped[:5] and 0 in stepped[5:]


class TrainsTwice(FedAvg):
    """A method with two trainings in a round."""

    def round(self, world: Any, state: State, cohort: Any, stream: Stream) -> State:
        after = super().round(world, state, cohort, stream)
        return super().round(world, after, cohort, stream.child("again"))


def test_a_method_that_trains_twice_or_averages_itself_is_refused_in_its_first_round() -> None:
    data = fk.data.digits(clients=6)
    net = fk.models.mclr(data)
    options = [fk.BufferedClusters(buffer=2)]
    with pytest.raises(MethodError, match="trains twice in a round"):
        fk.simulate(TrainsTwice(), data, net, rounds=1, cohort=6, options=options)


def test_newcomers_join_while_others_work() -> None:
    """Clients that are placed before a step keep the requests of the others."""
    data = planted()
    run = fk.simulate(
        fk.FlexCFL(clusters=2),
        data,
        fk.models.mclr(data),
        rounds=8,
        cohort=8,
        options=[fk.BufferedClusters(**SLOW)],
        scenario=fk.Population(arrivals={3: 4}),
        callbacks=fk.Progress(False),
    )
    assert (run.assignment >= 0).all()
    assert run.records[-1]["replies_used"] == 16
