"""Rounds that end with the first replies: means by hand, times, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.run import load
from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.method import State
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.fedavg import FedAvg
from fedkin.methods.ifca import IFCA
from fedkin.simulation.fake_world import FakeWorld
from tests.option_lists import simulate_arguments, with_options

# Client 2 replies first, then 0, 3 and 1.
SECONDS = (2.0, 9.0, 1.0, 4.0)


def after_round(
    option: fk.FirstReplies, method: Any = None, silent: frozenset[int] = frozenset()
) -> tuple[State, dict[str, Any]]:
    """The state and record after one round of clients that want 0, 2, 4 and 12. A step goes half of
    the way from 0."""
    target = np.array([[0.0], [2.0], [4.0], [12.0]], np.float32)
    world = FakeWorld(
        target,
        np.ones(4, np.int64),
        LocalTraining(lr=0.5),
        silent=silent,
        start=lambda stream: np.zeros(1),
    )
    runner = with_options(method or FedAvg(), option, world=world)
    state = runner.init(world, Stream(0))
    after = runner.round(world, state, np.arange(4), Stream(0, 1))
    return after, runner.options.record(after)


def option(**settings: Any) -> fk.FirstReplies:
    return fk.FirstReplies(measured=SECONDS, spread=0.0, **settings)


@pytest.mark.parametrize(
    ("settings", "model", "seconds", "unused"),
    [
        ({}, 4.5 / 2, 9.0, 0),  # all: (0 + 1 + 2 + 6) / 4
        ({"count": 1}, 2.0, 1.0, 3),  # client 2
        ({"count": 2}, 1.0, 2.0, 2),  # and client 0
        ({"share": 0.6}, 8 / 3, 4.0, 1),  # 3 of 4: and client 3
        ({"count": 3, "deadline": 3.0}, 1.0, 3.0, 2),  # client 3 is too late
        ({"count": 2, "deadline": 3.0}, 1.0, 2.0, 2),
        ({"deadline": 0.5}, 0.0, 0.5, 4),  # too early for any client
    ],
)
def test_the_mean_is_over_the_first_replies(
    settings: dict[str, Any], model: float, seconds: float, unused: int
) -> None:
    after, record = after_round(option(**settings))
    assert float(after.models[0, 0]) == pytest.approx(model)
    assert record == {"simulated_seconds": seconds, "replies_unused": unused}


def test_single_updates_are_left_out_too() -> None:
    """A method that averages itself: IFCA, whose models both begin at 0."""
    after, record = after_round(option(count=2), IFCA(clusters=1))
    assert float(after.models[0, 0]) == 1.0
    assert after.assignment.tolist() == [0, -1, 0, -1]
    assert record["replies_unused"] == 2


def test_a_client_that_drops_out_is_not_among_the_first() -> None:
    after, record = after_round(option(count=2), silent=frozenset({2}))
    assert float(after.models[0, 0]) == 3.0  # clients 0 and 3
    assert record == {"simulated_seconds": 4.0, "replies_unused": 1}


def test_a_round_without_enough_replies_waits_for_its_deadline() -> None:
    silent = frozenset({2, 3})
    _, record = after_round(option(count=3, deadline=20.0), silent=silent)
    assert record == {"simulated_seconds": 20.0, "replies_unused": 0}
    _, record = after_round(option(count=3), silent=silent)
    assert record["simulated_seconds"] == 9.0


def test_all_replies_are_the_run_without_the_option(tmp_path: Path) -> None:
    """Bit for bit, also for a run that goes on; the clock goes on too."""
    data = fk.data.digits(clients=8)
    net = fk.models.mclr(data)
    common: dict[str, Any] = {"cohort": 4, "progress": False, "checkpoint_every": 1}
    arguments = simulate_arguments(common)
    method = fk.FlexCFL(clusters=2)
    plain = fk.simulate(method, data, net, rounds=4, **arguments)
    options = [fk.FirstReplies()]
    timed = fk.simulate(method, data, net, rounds=4, options=options, **arguments)
    assert timed.models.tobytes() == plain.models.tobytes()
    out = tmp_path / "run"
    fk.simulate(method, data, net, rounds=2, options=options, out=out, **arguments)
    rest = fk.simulate(
        method, data, net, rounds=4, options=options, out=out, resume=True, **arguments
    )
    assert rest.records[-1] == timed.records[-1]
    assert rest.summary()["simulated_seconds"] == timed.summary()["simulated_seconds"] > 4
    early = fk.simulate(
        method, data, net, rounds=4, options=[fk.FirstReplies(count=2)], **arguments
    )
    assert early.summary()["simulated_seconds"] < timed.summary()["simulated_seconds"]
    assert early.models.tobytes() != plain.models.tobytes()


def test_a_configuration_has_a_section() -> None:
    config = load(None, ["asynchronous.name=first_replies", "asynchronous.count=3"])
    assert config.options["asynchronous"] == fk.FirstReplies(count=3)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"count": 0}, "count must be an integer of at least 1"),
        ({"share": 0.0}, "share must be a number above 0 and at most 1"),
        ({"share": 1.2}, "share must be a number above 0 and at most 1"),
        ({"deadline": -1.0}, "deadline must be a number from 0 up"),
        ({"deadline": 0.0}, "deadline must be a number above 0"),
        ({"count": 3, "share": 0.5}, "leave out one of them"),
    ],
)
def test_impossible_values_are_refused(option: dict[str, Any], words: str) -> None:
    with pytest.raises(MethodError, match=words):
        fk.FirstReplies(**option)


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        (fk.FedAvg(), [fk.FirstReplies(count=5)], "a round asks 4 clients; set asynchronous.count"),
        (fk.PANM(), [fk.FirstReplies()], "no server that could wait"),
        (
            fk.FedAvg(),
            [fk.FirstReplies(count=2), fk.MinimumReplies(least=3)],
            "a round ends with 2 replies, but quorum.least asks for 3",
        ),
        (
            fk.FedAvg(),
            [fk.FirstReplies(), fk.ClientDP(noise_multiplier=1.0)],
            "leave out asynchronous, or privacy",
        ),
        (fk.FedAvg(), [fk.FirstReplies(), fk.SecretSums()], "leave out asynchronous, or secret"),
        (fk.FedAvg(), [fk.FirstReplies(), fk.LateReplies()], "leave out asynchronous, or late"),
        (fk.FedAvg(), [fk.FirstReplies(measured=(1.0,))], "has 1 times, but there are 6 clients"),
        (
            fk.FedAvg(),
            [fk.FirstReplies(), fk.BufferedClusters()],
            "asynchronous is given twice",
        ),
    ],
)
def test_it_is_refused_where_it_has_no_place(method: Any, options: list[Any], words: str) -> None:
    data = fk.data.digits(clients=6)
    with pytest.raises(ConfigError, match=words):
        fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=4, options=options)


def test_a_share_that_floating_point_cannot_write_needs_no_reply_more() -> None:
    assert fk.FirstReplies(share=0.55).enough(100) == 55
    assert fk.FirstReplies(share=0.07).enough(100) == 7
    assert fk.FirstReplies(share=0.5).enough(5) == 3


def test_a_quorum_counts_the_first_replies() -> None:
    """Two of four clients reply in time, so a cluster with one of them keeps its model."""
    data = fk.data.digits(clients=6)
    options = [fk.FirstReplies(count=2), fk.MinimumReplies(least=2)]
    run = fk.simulate(
        fk.FlexCFL(clusters=2), data, fk.models.mclr(data), rounds=6, cohort=4, options=options
    )
    waiting = [record["clusters_waiting"] for record in run.records[1:]]
    assert set(waiting) <= {0, 2} and 2 in waiting
