"""Replies of real clients that come after their round count in a later one, once, and shortened by
their age."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.fedavg import FedAvg
from fedkin.options.late.late_replies import LateReplies
from fedkin.server.message import RpcMessage
from fedkin.tasks.train import train
from tests.option_lists import with_options
from tests.server.memory_transport import MemoryTransport, Station
from tests.server.small_federations import fake_node, fake_remote

DEADLINE = 90.0
EXAMPLES = np.array([10, 11, 12])  # of the three clients


class Federation:
    """Three sites with a client each, and FedAvg that waits for late replies. The last site may be
    late."""

    def __init__(self, **late: Any) -> None:
        self.engine = MemoryTransport()
        self.late = []
        self.slow: Station
        for client in range(3):
            self.slow = self.engine.join(100 + client, fake_node(f"site-{client}", [client]))
        self.world = fake_remote(self.engine, capacity=3, wait_for=3, deadline=DEADLINE)
        self.method = with_options(FedAvg(), LateReplies(**late), world=self.world)
        self.world.begin(Stream(0, 1))
        self.states = [self.method.init(self.world, Stream(0))]
        self.begun = 1

    def round(
        self, number: int, cohort: list[int], delay: float = 0.0, pause: float = 0.0
    ) -> np.ndarray:
        """A round whose replies of the last site take so long, and so many seconds after it; the
        model."""
        self.slow.delay = delay
        if number > self.begun:
            self.world.begin(Stream(0, number))
            self.begun = number
        self.states.append(
            self.method.round(self.world, self.states[-1], np.array(cohort), Stream(0, number))
        )
        self.engine.clock.sleep(pause)
        return self.states[-1].models[0]

    def update(self, client: int, model: np.ndarray) -> np.ndarray:
        """A client's update of a model, in a separate federation."""
        engine = MemoryTransport()
        engine.join(1, fake_node("alone", [client]))
        world = fake_remote(engine, capacity=1, wait_for=1)
        world.begin(Stream(0, 1))
        return train(
            world, model[None], np.zeros(1, np.int64), np.zeros(1, np.int64), stream=Stream(0, 1)
        ).update[0]

    def counts(self) -> tuple[int, int]:
        """Late replies that were used and dropped."""
        record = self.method.options.record(self.states[-1])
        return tuple(record.values())  # type: ignore[return-value]


def mean(updates: list[np.ndarray], weight: np.ndarray) -> np.ndarray:
    return np.average(updates, axis=0, weights=weight)


def test_a_late_reply_counts_in_the_next_round() -> None:
    """Its update of the first model, shortened by sqrt(2), counts with the updates of the second
    model; weighed by examples."""
    federation = Federation()
    zero = federation.states[0].models[0]
    first = federation.round(1, [0, 1, 2], delay=100, pause=60)
    np.testing.assert_allclose(
        first, mean([federation.update(0, zero), federation.update(1, zero)], EXAMPLES[:2])
    )
    second = federation.round(2, [0, 1])
    updates = [
        federation.update(0, first),
        federation.update(1, first),
        federation.update(2, zero) / np.sqrt(2),
    ]
    np.testing.assert_allclose(second - first, mean(updates, EXAMPLES), rtol=1e-5)
    assert federation.counts() == (1, 0)
    third = federation.round(3, [0, 1])
    again = [federation.update(0, second), federation.update(1, second)]
    np.testing.assert_allclose(third - second, mean(again, EXAMPLES[:2]), rtol=1e-4)


def test_a_client_that_has_replied_again_counts_once() -> None:
    federation = Federation()
    first = federation.round(1, [0, 1, 2], delay=100, pause=60)
    second = federation.round(2, [0, 1, 2])
    every = [federation.update(client, first) for client in range(3)]
    np.testing.assert_allclose(second - first, mean(every, EXAMPLES), rtol=1e-5)
    assert federation.counts() == (0, 1)


def test_a_reply_that_comes_after_its_last_round_is_lost() -> None:
    federation = Federation(max_age=1)
    federation.round(1, [0, 1, 2], delay=2000, pause=60)
    federation.round(2, [0, 1], pause=2000)
    before = federation.states[-1].models[0]
    after = federation.round(3, [0, 1])
    both = [federation.update(0, before), federation.update(1, before)]
    np.testing.assert_allclose(after - before, mean(both, EXAMPLES[:2]), rtol=1e-5)
    assert federation.counts() == (0, 1)


def test_without_an_age_no_reply_waits() -> None:
    federation = Federation(max_age=0)
    federation.round(1, [0, 1, 2], delay=100, pause=60)
    before = federation.states[-1].models[0]
    after = federation.round(2, [0, 1])
    both = [federation.update(0, before), federation.update(1, before)]
    np.testing.assert_allclose(after - before, mean(both, EXAMPLES[:2]), rtol=1e-5)


def spoiled(request: RpcMessage, reply: RpcMessage) -> RpcMessage:
    return RpcMessage(
        reply.header, reply.arrays | {"update": np.full_like(reply.arrays["update"], np.inf)}
    )


def longer(request: RpcMessage, reply: RpcMessage) -> RpcMessage:
    return RpcMessage(reply.header, reply.arrays | {"update": np.zeros((1, 99), np.float32)})


def failed(request: RpcMessage, reply: RpcMessage) -> RpcMessage:
    return RpcMessage({"failed": "no memory"})


def renamed(request: RpcMessage, reply: RpcMessage) -> RpcMessage:
    return RpcMessage(reply.header, {**reply.arrays, "x\nround 7: fine\x1b[2K": np.zeros(1)})


@pytest.mark.parametrize("tamper", [spoiled, longer, failed, renamed])
def test_a_late_reply_is_checked_as_one_in_time_is(
    tamper: Any, caplog: pytest.LogCaptureFixture
) -> None:
    federation = Federation()
    federation.slow.tamper = lambda *m: tamper(*m) if m[0].header["operation"] == "train" else m[1]
    federation.round(1, [0, 1, 2], delay=100, pause=60)
    federation.slow.tamper = lambda request, reply: reply
    federation.round(2, [0, 1])
    assert federation.counts() == (0, 0)
    assert "round 1, train: a late reply cannot be used" in caplog.text
    assert all(record.getMessage().isprintable() for record in caplog.records)


def test_training_outside_rounds_is_not_waited_for() -> None:
    """A training that no mean of a round is of, such as a newcomer's first, is of no use later."""
    federation = Federation()
    federation.round(1, [0, 1])
    federation.slow.delay = 100
    work = LocalTraining(lr=0.5, steps=3)
    train(
        federation.world,
        federation.states[0].models,
        np.array([2]),
        np.array([0]),
        work=work,
        stream=Stream(0, 1),
    )
    federation.engine.clock.sleep(60)
    before = federation.states[-1].models[0]
    after = federation.round(2, [0, 1])
    both = [federation.update(0, before), federation.update(1, before)]
    np.testing.assert_allclose(after - before, mean(both, EXAMPLES[:2]), rtol=1e-5)
    assert federation.counts() == (0, 0)
