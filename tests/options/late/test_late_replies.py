"""Replies that come late: the means of hand-made rounds, replies that do not count, and whole
runs."""

from __future__ import annotations

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
from fedkin.core.records import Record
from fedkin.core.training import LocalTraining
from fedkin.methods.fedavg import FedAvg
from fedkin.options.late.late_replies import ActiveLateReplies, LateReplies
from fedkin.options.privacy.client_dp import ClientDP
from fedkin.options.with_options import refusal
from fedkin.simulation.fake_world import FakeWorld
from tests.option_lists import facts, simulate_arguments, with_options


class Drawn(LateReplies):
    """Delays that a test chooses: by round and client."""

    by_round: dict[int, list[int]]

    def delays(self, clients: np.ndarray, stream: Stream) -> np.ndarray:
        return np.array(self.by_round.get(stream.round, [0] * 10))[clients]


def settings(delays: dict[int, list[int]], **options: Any) -> Drawn:
    made = Drawn(**options)
    object.__setattr__(made, "by_round", delays)
    return made


def world() -> FakeWorld:
    """Three clients who want 0, 4 and 8, with 1, 1 and 2 examples; a step goes half of the way."""
    target = np.array([[0.0], [4.0], [8.0]], np.float32)
    return FakeWorld(
        target, np.array([1, 1, 2]), LocalTraining(lr=0.5), start=lambda stream: np.zeros(1)
    )


def run(late: LateReplies, rounds: int, cohorts: dict[int, list[int]] | None = None) -> list[State]:
    clients = world()
    method = with_options(FedAvg(), late, world=clients)
    states = [method.init(clients, Stream(0))]
    for number in range(1, rounds + 1):
        cohort = np.array((cohorts or {}).get(number, [0, 1, 2]))
        states.append(method.round(clients, states[-1], cohort, Stream(0, number)))
    return states


def model(state: State) -> float:
    return float(state.models[0, 0])


def late_record(state: State) -> Record:
    """What the record of a round says of late replies."""
    return ActiveLateReplies(LateReplies(), FedAvg()).record(state)


def test_a_late_update_is_shortened_by_its_age_and_weighs_its_examples() -> None:
    """Round 1: clients 0 and 1 move by 0 and 2 from 0: 1. Client 2 (+4, of 0) is due in round 2, in
    which only 0 (-0.5) and 1 (+1.5) take part: (-0.5 + 1.5 + 2 * 4 / sqrt 2) / 4."""
    states = run(settings({1: [0, 0, 1]}), 2, {2: [0, 1]})
    assert model(states[1]) == 1
    assert model(states[2]) == pytest.approx(1 + (1 + 8 / np.sqrt(2)) / 4)
    assert late_record(states[2]) == {"late_used": 1, "late_dropped": 0}


def test_without_an_exponent_it_is_not_shortened() -> None:
    states = run(settings({1: [0, 0, 1]}, exponent=0.0), 2, {2: [0, 1]})
    assert model(states[2]) == pytest.approx(1 + (1 + 8) / 4)


def test_a_round_of_late_replies_only_is_a_shorter_step() -> None:
    """Client 2 alone, two rounds late: +4 / sqrt 3, not a mean that its age has no part in."""
    states = run(settings({1: [0, 0, 2], 3: [9, 9, 9]}, max_age=2), 3, {2: [0], 3: [0]})
    assert model(states[3]) - model(states[2]) == pytest.approx(4 / np.sqrt(3))


def test_a_client_that_replied_again_counts_once() -> None:
    states = run(settings({1: [0, 0, 1]}), 2)
    assert model(states[2]) == pytest.approx(1 + (-0.5 + 1.5 + 2 * 3.5) / 4)
    assert late_record(states[2]) == {"late_used": 0, "late_dropped": 1}


def test_replies_that_are_too_old_are_lost() -> None:
    lost = run(settings({1: [0, 0, 1]}, max_age=0), 2, {2: [0]})
    old = run(settings({1: [0, 0, 2]}), 3, {2: [0], 3: [0]})
    assert model(lost[2]) == pytest.approx(0.5) and late_record(lost[2])["late_dropped"] == 1
    assert model(old[3]) == pytest.approx(0.25) and late_record(old[3])["late_dropped"] == 1


def test_an_update_of_a_client_that_has_changed_its_cluster_counts_for_nothing() -> None:
    clients = world()
    method = with_options(FedAvg(), settings({1: [0, 0, 1]}), world=clients)
    state = method.round(clients, method.init(clients, Stream(0)), np.arange(3), Stream(0, 1))
    moved = replace(
        state, models=np.repeat(state.models, 2, axis=0), assignment=np.array([0, 0, 1])
    )
    after = method.round(clients, moved, np.array([0, 1]), Stream(0, 2))
    assert (
        float(after.models[0, 0]) == pytest.approx(1 + (-0.5 + 1.5) / 2)
        and float(after.models[1, 0]) == 1
    )
    assert late_record(after) == {"late_used": 0, "late_dropped": 1}


def test_a_client_that_chose_its_cluster_and_was_never_in_time_counts() -> None:
    """IFCA, whose clients choose:
    the cluster of one whose replies always come late is not known."""
    data = fk.data.digits(clients=12)
    late = LateReplies(share=0.9, same=True, max_age=30)
    method = fk.IFCA(clusters=2, weighting="examples")
    run = fk.simulate(
        method,
        data,
        fk.models.mclr(data),
        rounds=6,
        cohort=12,
        options=[late],
        callbacks=fk.Progress(False),
    )
    assert (run.assignment < 0).any()  # clients that were never in time
    assert run.records[-1]["late_used"] > 12


def test_how_often_replies_are_late() -> None:
    """By a rounds or more: share^a."""
    late = LateReplies(share=0.5)
    clients = np.arange(4000)
    delays = late.delays(clients, Stream(3, 7))
    for age in (1, 2, 3):
        assert abs(np.mean(delays >= age) - 0.5**age) < 4 * np.sqrt(0.25 / 4000)
    assert (delays != late.delays(clients, Stream(3, 8))).any()
    same = LateReplies(share=0.5, same=True)
    assert (same.delays(clients, Stream(3, 7)) == same.delays(clients, Stream(3, 8))).all()


def test_a_run_that_goes_on_is_the_whole_one(tmp_path: Path) -> None:
    data = fk.planted(
        base="digits",
        kind="label_permutation",
        clusters=2,
        samples=20,
        test_samples=10,
        clients=12,
        seed=1,
    )
    common: dict[str, Any] = {
        "cohort": 6,
        "local": fk.SGD(epochs=1, lr=0.1),
        "progress": False,
        "checkpoint_every": 1,
    }
    late = fk.LateReplies(max_age=2, share=0.5)
    method = fk.FlexCFL(clusters=2)
    net = fk.models.mclr(data)
    whole = fk.simulate(method, data, net, rounds=4, options=[late], **simulate_arguments(common))
    fk.simulate(
        method,
        data,
        net,
        rounds=2,
        options=[late],
        out=tmp_path / "run",
        **simulate_arguments(common),
    )
    rest = fk.simulate(
        method,
        data,
        net,
        rounds=4,
        options=[late],
        out=tmp_path / "run",
        resume=True,
        **simulate_arguments(common),
    )
    assert rest.models.tobytes() == whole.models.tobytes()
    assert rest.summary()["late_used"] == whole.summary()["late_used"] > 0
    none = fk.simulate(method, data, net, rounds=4, **simulate_arguments(common))
    nothing = fk.simulate(
        method, data, net, rounds=4, options=[fk.LateReplies()], **simulate_arguments(common)
    )
    assert nothing.models.tobytes() == none.models.tobytes() != whole.models.tobytes()


def test_a_file_has_it(tmp_path: Path) -> None:
    config = load(None, ["late.name=replies", "late.share=0.3"])
    assert config.option_entries["late"].values == {
        "name": "replies",
        "max_age": 1,
        "exponent": 0.5,
        "share": 0.3,
        "same": False,
    }
    assert config.description().section("late") == config.option_entries["late"].values


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"max_age": -1}, "max_age must be an integer of at least 1"),
        ({"share": 1.0}, "share must be below 1"),
        ({"exponent": -0.5}, "exponent must be a number from 0 up"),
    ],
)
def test_invalid_values_are_refused(option: dict[str, Any], words: str) -> None:
    with pytest.raises(MethodError, match=words):
        LateReplies(**option)


def test_methods_and_options_that_exclude_late_replies() -> None:
    late = LateReplies(share=0.5)
    clients = world()

    def refused(method: Any, *options: Any) -> str:
        return str(refusal(facts(method, late, *options, world=clients)))

    assert "of its option averaging, weighting" in refused(fk.IFCA(clusters=2))
    assert refusal(facts(fk.IFCA(clusters=2, weighting="examples"), late, world=clients)) is None
    assert "has no server" in refused(fk.PENS())
    assert "privacy counts each client once" in refused(
        fk.FedAvg(), ClientDP(noise_multiplier=1.0, delta=1e-3)
    )
    assert "replies of one round" in refused(fk.FedAvg(), fk.RobustAggregation("median"))
    with pytest.raises(ConfigError, match=r"late: method: .*its peers average"):
        with_options(fk.PENS(), late, world=clients)
    data = fk.data.digits(clients=10)
    with pytest.raises(MethodError, match=r"FedSim averages single updates by itself"):
        fk.simulate(
            fk.FedSim(clusters=2),
            data,
            fk.models.mclr(data),
            rounds=2,
            cohort=4,
            options=[late],
            callbacks=fk.Progress(False),
        )
