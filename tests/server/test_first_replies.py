"""Rounds of real clients that end with the first replies."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.core.world import wait_for_all_clients
from fedkin.methods.fedavg import FedAvg
from fedkin.options.asynchronous.first_replies import FirstReplies
from fedkin.tasks.losses import Losses
from tests.option_lists import with_options
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import fake_node, fake_remote

DEADLINE = 90.0


class Federation:
    """Three sites with a client each, which reply after 1, 5 and 30 seconds, and FedAvg."""

    def __init__(self, **settings: Any) -> None:
        self.engine = MemoryTransport()
        self.stations = [
            self.engine.join(100 + client, fake_node(f"site-{client}", [client]))
            for client in range(3)
        ]
        self.world = fake_remote(self.engine, capacity=3, wait_for=3, deadline=DEADLINE)
        self.method = with_options(FedAvg(), FirstReplies(**settings), world=self.world)
        self.world.begin(Stream(0, 1))
        self.state = self.method.init(self.world, Stream(0))
        for station, delay in zip(self.stations, (1.0, 5.0, 30.0), strict=True):
            station.delay = delay

    def round(self, number: int, cohort: list[int]) -> float:
        """A round; how many seconds it takes."""
        if number > 1:
            self.world.begin(Stream(0, number))
        began = self.engine.clock.now
        self.state = self.method.round(self.world, self.state, np.array(cohort), Stream(0, number))
        return self.engine.clock.now - began

    def model(self) -> np.ndarray:
        return self.state.models[0]

    def unused(self) -> int:
        return self.method.options.record(self.state)["replies_unused"]


def test_a_round_ends_with_the_first_replies(caplog: pytest.LogCaptureFixture) -> None:
    """The model is as after a round with only these clients, and a slow site has not failed."""
    federation = Federation(count=2)
    with caplog.at_level(logging.WARNING, "fedkin"):
        seconds = federation.round(1, [0, 1, 2])
    assert 5 <= seconds < 6
    assert federation.unused() == 1
    other = Federation()
    other.round(1, [0, 1])
    np.testing.assert_array_equal(federation.model(), other.model())
    assert not federation.world.membership.registry.failures
    assert not federation.world.membership.request_round.suspects
    assert not caplog.records


def test_all_replies_are_waited_for_without_a_number() -> None:
    federation = Federation()
    assert 30 <= federation.round(1, [0, 1, 2]) < 31
    assert federation.unused() == 0


def test_a_round_never_exceeds_its_deadline() -> None:
    """Two replies are asked for, and only one comes."""
    federation = Federation(share=0.6)
    federation.stations[1].delay = np.inf
    federation.stations[2].delay = np.inf
    assert federation.round(1, [0, 1, 2]) <= DEADLINE
    assert federation.unused() == 2
    assert set(federation.world.membership.request_round.suspects) == {101, 102}


def test_only_the_training_ends_early() -> None:
    """The number holds for one task: the next round asks again."""
    federation = Federation(count=1)
    assert federation.round(1, [0, 1, 2]) < 2
    assert federation.round(2, [1, 2]) < 6
    assert federation.unused() == 1


def test_a_site_at_work_is_not_asked_until_it_has_replied() -> None:
    """Neither for a training nor for a short task. The third site trains until second 30."""
    federation = Federation(count=2)
    federation.round(1, [0, 1, 2])
    engine = federation.engine
    slow = federation.stations[2]
    asked = len(slow.requests)
    assert 5 <= federation.round(2, [0, 1, 2]) < 6
    reply = federation.world.run(Losses(federation.state.models), np.arange(3))
    assert reply.arrived.tolist() == [True, True, False]
    assert len(slow.requests) == asked
    assert federation.world.membership.online_clients().tolist() == [0, 1, 2]
    assert not federation.world.membership.request_round.suspects
    engine.clock.sleep(30)
    federation.world.begin(Stream(0, 3))
    slow.delay = 2.0
    assert federation.world.run(Losses(federation.state.models), np.arange(3)).arrived.all()
    assert len(slow.requests) == asked + 1


def test_sites_at_work_are_asked_if_too_few_others_are_free() -> None:
    """A round with the two slow sites needs one reply, and both of them are at work."""
    federation = Federation(count=1)
    assert federation.round(1, [0, 1, 2]) < 2
    assert federation.round(2, [1, 2]) < 6
    assert federation.unused() == 1


def test_the_next_task_can_wait_for_all() -> None:
    federation = Federation(count=2)
    federation.round(1, [0, 1, 2])
    task = Losses(federation.state.models)
    wait_for_all_clients(federation.world)
    assert federation.world.run(task, np.arange(3)).arrived.all()
