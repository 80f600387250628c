"""Buffered clusters of real clients: which replies count, what a lost request costs, and the same
run in a simulation that repeats the order of arrivals."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.config.plan import Plan
from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream
from fedkin.core.strict_json import json_text
from fedkin.core.training import LocalTraining
from fedkin.methods.fedavg import FedAvg
from fedkin.methods.given import Given
from fedkin.methods.ifca import IFCA
from fedkin.options.asynchronous.buffered_clusters import BufferedClusters
from fedkin.run.loop import RunState, run
from fedkin.simulation.fake_world import FakeWorld
from tests.option_lists import with_options
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import P, fake_node, fake_remote

DEADLINE = 90.0
SECONDS = (1.0, 5.0, 30.0, 2.0)
SITES = len(SECONDS)


def random_model(words: np.ndarray) -> np.ndarray:
    return np.random.default_rng(words).normal(size=P).astype(np.float32)


class Federation:
    """Sites with a client each, which reply after 1, 5, 30 and 2 seconds."""

    def __init__(self, method: Any = None, seconds: tuple[float, ...] = SECONDS, **settings: Any):
        self.engine = MemoryTransport()
        self.stations = [
            self.engine.join(100 + client, fake_node(f"site-{client}", [client]))
            for client in range(SITES)
        ]
        self.world = fake_remote(
            self.engine, initial=random_model, capacity=SITES, wait_for=SITES, deadline=DEADLINE
        )
        option = BufferedClusters(buffer=2, **settings)
        self.method = with_options(method or FedAvg(), option, world=self.world)
        self.world.begin(Stream(0, 1))
        self.state = self.method.init(self.world, Stream(0))
        self.number = 0
        for station, delay in zip(self.stations, seconds, strict=True):
            station.delay = delay

    def step(self, cohort: list[int] | None = None) -> dict[str, Any]:
        """A step with all sites, or those of a cohort; its record, and how long it took."""
        self.number += 1
        if self.number > 1:
            self.world.begin(Stream(0, self.number))
        began = self.engine.clock.now
        clients = np.arange(SITES) if cohort is None else np.array(cohort)
        stream = Stream(0, self.number)
        self.state = self.method.round(self.world, self.state, clients, stream)
        record = self.method.options.record(self.state)
        return {**record, "took": self.engine.clock.now - began}


def clients_of(record: dict[str, Any]) -> list[int]:
    return [client for client, _, _ in record["arrivals"]]


def test_a_step_ends_when_a_buffer_is_full(caplog: pytest.LogCaptureFixture) -> None:
    """Clients 0 and 3 reply after 1 and 2 seconds; the model is as after a round with them. They
    are asked again, and client 1 replies in the third step."""
    federation = Federation()
    with caplog.at_level(logging.WARNING, "fedkin"):
        first = federation.step()
        second = federation.step()
        third = federation.step()
    assert first["asked"] == [0, 1, 2, 3]
    assert clients_of(first) == [0, 3]
    assert 2 <= first["took"] < 3
    assert first["simulated_seconds"] is None
    assert second["asked"] == [0, 3]
    assert clients_of(second) == [0, 3]
    assert clients_of(third) == [0, 1]
    versions = [version for _, version, _ in third["arrivals"]]
    assert versions == [2, 0]
    assert third["replies_used"] == 6
    assert not federation.world.membership.request_round.suspects
    assert not federation.world.membership.registry.failures
    assert not caplog.records


def test_the_bytes_of_all_replies_are_counted() -> None:
    """Also of those that come while the last step waits."""
    federation = Federation()
    federation.step()
    ledger = federation.world.ledger
    assert sum(ledger.measured_up.values()) == sum(size for _, size in federation.engine.pulled)
    assert ledger.measured_up["late"] > 0


def test_the_first_step_is_a_round_of_its_clients() -> None:
    federation = Federation()
    federation.step()
    other = Federation(seconds=(0.0,) * SITES)
    # Replies that come at once are in the buffer at once.
    record = other.step([0, 3])
    assert clients_of(record) == [0, 3] and record["took"] == 0
    np.testing.assert_array_equal(federation.state.models, other.state.models)


def test_a_step_without_enough_replies_ends_before_the_deadline() -> None:
    federation = Federation(seconds=(1.0, np.inf, np.inf, np.inf))
    first = federation.step()
    assert first["stepped"] is None
    assert clients_of(first) == [0]
    assert DEADLINE * 2 / 3 - 1 <= first["took"] <= DEADLINE
    # Client 0 waits in the buffer, and the others are at work.
    assert federation.step()["asked"] == []


def test_a_site_that_reports_a_failure_is_asked_again() -> None:
    federation = Federation()
    federation.stations[3].loses = 2  # the first is sent again at once
    first = federation.step()
    assert clients_of(first) == [0, 1]
    assert federation.step()["asked"] == [0, 1, 3]


def test_a_server_that_is_started_again_asks_again() -> None:
    """The new server knows the buffers, and not the requests of the old one."""
    federation = Federation()
    federation.step()
    other = Federation()
    other.state = federation.state
    other.number = 1
    assert other.step()["asked"] == [0, 1, 2, 3]


def test_real_clients_that_choose_their_cluster_are_refused() -> None:
    federation = Federation(IFCA(clusters=2, weighting="examples"))
    with pytest.raises(MethodError, match="the staleness of a reply would be unknown"):
        federation.step()


GROUPS = {
    f"{begin}{client}": ("north", "south")[client % 2]
    for begin in ("", "site-")
    for client in range(6)
}


def deployed(delays: list[float], rounds: int) -> RunState:
    """A run of six real clients in two groups, with slow and lost replies."""
    engine = MemoryTransport()
    for client, delay in enumerate(delays):
        node = fake_node(f"site-{client}", [client])
        engine.join(100 + client, node, delay=delay)
    # After the first messages, a site loses three requests, and later another site is killed.
    engine.clock.at(7.0, lambda: setattr(engine.stations[101], "loses", 3))
    engine.clock.at(30.0, lambda: engine.kill(103))
    world = fake_remote(engine, capacity=6, wait_for=6, deadline=DEADLINE)
    return ran(world, BufferedClusters(buffer=2), rounds)


def ran(world: Any, option: BufferedClusters, rounds: int) -> RunState:
    """A run in a world."""
    method = Given(groups=GROUPS)
    options = with_options(method, option, world=world).options
    plan = Plan(rounds, 6, seed=3, evaluate_every=0)
    return run(world, method, plan, options=options)


def test_a_simulation_repeats_the_order_of_a_deployment(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """To the same bits, although some requests were lost."""
    far = deployed([0.5, 1.0, 12.0, 3.0, 2.0, 40.0], rounds=12)
    file = tmp_path / "metrics.jsonl"
    file.write_text("".join(json_text(record) + "\n" for record in far.records))
    targets: list[Any] = [fake_node("any", [client]).world(np.zeros(1)) for client in range(6)]
    near_world = FakeWorld(
        np.concatenate([one.target for one in targets]),
        np.concatenate([one.examples for one in targets]),
        LocalTraining(lr=0.5),
        client_columns={"sector": ("",) * 6},
        start=lambda stream: np.zeros(4),
    )
    with caplog.at_level(logging.WARNING, "fedkin"):
        near = ran(near_world, BufferedClusters(buffer=2, replay=str(file)), rounds=12)
    assert near.state.models.tobytes() == far.state.models.tobytes()
    assert [record["arrivals"] for record in near.records] == [
        record["arrivals"] for record in far.records
    ]
    assert far.records[-1]["replies_used"] > 15
    assert "other bits" not in caplog.text
