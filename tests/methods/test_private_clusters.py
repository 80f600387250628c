"""PrivateClusters: directions from noisy sums alone, and the cost of its cold start."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.metrics import adjusted_rand_score

import fedkin as fk
from fedkin.core.errors import ConfigError, TaskError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.randomness import Stream
from fedkin.core.requirements import Requirements
from fedkin.core.training import LocalTraining
from fedkin.core.world_proxy import WorldProxy
from fedkin.methods.private_clusters import PrivateClusters, PrivateClustersState
from fedkin.models import mclr
from fedkin.options.journal import Journal
from fedkin.options.privacy.accounting import NoisyRounds, epsilon
from fedkin.options.privacy.client_dp import ClientDP
from fedkin.options.privacy.private import ActivePrivacy
from fedkin.options.with_options import ActiveOptions, WithOptions
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.sketches import SketchMoments, SketchSums
from tests.option_lists import simulate_arguments
from tests.simulation.small_federation import federation

NAMES = ("moments", "sketch")  # of the first sum, and of the others
CLIENTS = 300
TRUE = np.arange(300) % 3
PRIVACY = ClientDP(
    noise_multiplier=1.0, delta=1e-4, start_noise=5.0, testing_only_seeded_noise=True
)
METHOD = PrivateClusters(clusters=3, sketch=32)


def world(silent: frozenset[int] = frozenset()) -> FakeWorld:
    """Three clusters of a hundred clients each, whose first updates point to the corners of a
    triangle."""
    corners = 3 * np.kron(np.eye(3), np.ones(10))
    noise = 0.5 * np.random.default_rng(0).normal(size=(CLIENTS, 30))
    return FakeWorld(
        (corners[TRUE] + noise).astype(np.float32),
        np.full(CLIENTS, 9),
        LocalTraining(2, lr=0.3),
        silent=silent,
    )


def privacy(
    method: Any = METHOD, settings: ClientDP = PRIVACY, seed: int | None = 0, sums: int = 3
) -> ActivePrivacy:
    """Privacy as a run of ten rounds has it."""
    mechanism = settings.mechanism(
        clients=CLIENTS, cohort=30, rounds=10, selection="poisson", start_sums=sums
    )
    return ActivePrivacy(method, mechanism, Journal(), planned_rounds=10, seed=seed)


def private(active: ActivePrivacy) -> WithOptions:
    """The method with its privacy."""
    return WithOptions(active.method, ActiveOptions((active,)))


@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_found_from_noisy_sums(seed: int) -> None:
    active = privacy(seed=seed)
    state = private(active).init(world(), Stream(seed, 0, "init"))
    assert adjusted_rand_score(TRUE, state.assignment) > 0.95
    assert [entry["start"] for entry in active.journal.entries] == [
        "sketch_moments",
        "sketch_sums",
        "sketch_sums",
    ]
    assert {entry["noise_multiplier"] for entry in active.journal.entries} == {5.0}


def test_large_noise_hides_the_released_directions() -> None:
    """The directions are made of the noisy sums, and of nothing else."""
    loud = replace(PRIVACY, start_noise=1e6)
    state = private(privacy(settings=loud)).init(world(), Stream(0, 0, "init"))
    assert adjusted_rand_score(TRUE, state.assignment) < 0.7
    lost = private(privacy(settings=loud)).init(world(frozenset(range(5))), Stream(0, 0, "init"))
    assert isinstance(lost, PrivateClustersState) and isinstance(state, PrivateClustersState)
    np.testing.assert_allclose(lost.directions, state.directions, atol=0.01)
    assert (lost.assignment[:5] == UNASSIGNED).all()


def test_one_client_moves_each_released_sum_by_no_more_than_1() -> None:
    """With the same noise, runs with and without a client differ in the first sum by its x x^T,
    which has length 1."""
    sums = []
    for silent in (frozenset(), frozenset([7])):
        own = privacy()._world(world(silent), 0)
        task = SketchMoments(np.zeros(30, np.float32), LocalTraining(2, lr=0.3), 32, 1)
        sums.append(own.run(task, np.arange(CLIENTS), Stream(0, 0, "x")).moments)
    assert np.linalg.norm(sums[0] - sums[1]) == pytest.approx(1.0, rel=1e-9)


class Loud(WorldProxy):
    """One client sends a vector of length 10 where 1 is the longest, and another one that is not a
    number."""

    def run(self, task: Any, clients: np.ndarray, stream: Stream | None = None) -> Any:
        reply = self._world.run(task, clients, stream)
        for name in {"moments", "sketch"} & reply.arrays.keys():
            rows = reply.arrays[name].copy()
            rows[clients == 3] *= 10 / np.linalg.norm(rows[clients == 3])
            rows[clients == 4] = np.nan
            reply = replace(reply, arrays={**reply.arrays, name: rows})
        return reply


@pytest.mark.parametrize("sums", [False, True])
def test_vectors_of_a_start_are_clipped_to_1_and_nan_counts_as_zero(sums: bool) -> None:
    """The honest reply of client 3 has length 1 already: with it in place of the loud one, sums are
    the same."""
    quiet = replace(PRIVACY, start_noise=0.0)
    sketched = partial(
        SketchSums if sums else SketchMoments,
        start=np.zeros(30, np.float32),
        work=LocalTraining(2, lr=0.3),
        size=32,
        seed=1,
    )
    task = sketched(directions=np.eye(32)[:3]) if sums else sketched()
    released = []
    for around in (Loud(world(frozenset())), world(frozenset([4]))):
        own = privacy(settings=quiet)._world(around, 0)
        reply = own.run(task, np.arange(CLIENTS), Stream(0, 0, "x"))
        released.append(reply.sketch if sums else reply.moments)
        assert (
            np.linalg.norm(own.run(task, np.array([3, 4]), Stream(0, 0, "x")).arrays[NAMES[sums]])
            < 1 + 1e-6
        )
    assert np.isfinite(released[0]).all()
    np.testing.assert_allclose(*released, atol=1e-5)


def test_each_sum_of_a_start_has_its_own_noise() -> None:
    """The same question twice, and the rows of one reply, differ by noise. The noise of the system
    also differs by runs."""
    own = privacy(settings=replace(PRIVACY, start_noise=1e6))._world(world(), 0)
    task = SketchSums(
        np.zeros(30, np.float32), LocalTraining(2, lr=0.3), 32, 1, directions=np.eye(32)[:2]
    )
    first, second = (
        own.run(task, np.arange(CLIENTS), Stream(0, 0, "x")).sketch / 1e6 for _ in range(2)
    )
    rows = np.concatenate([first, second])
    correlation = np.corrcoef(rows)[np.triu_indices(4, 1)]
    assert np.abs(correlation).max() < 0.7 and rows.std() == pytest.approx(1, rel=0.3)
    states: list[Any] = [
        private(privacy(seed=None)).init(world(), Stream(0, 0, "init")) for _ in range(2)
    ]
    assert not np.array_equal(*(state.directions for state in states))


def test_a_cold_start_composes_with_the_rounds() -> None:
    """z = 5 once, or z = 1, on top of q = 0.05, z = 1, 100 rounds; sums of more noise are one of
    less."""
    assert epsilon(
        NoisyRounds(0.05, 1.0, 100, start_noise=5.0, start_sums=1), 1e-3
    ) == pytest.approx(2.28, abs=0.006)
    assert epsilon(
        NoisyRounds(0.05, 1.0, 100, start_noise=1.0, start_sums=1), 1e-3
    ) == pytest.approx(4.02, abs=0.006)
    three = epsilon(NoisyRounds(0.05, 1.0, 100, start_noise=3.0**0.5 * 5, start_sums=3), 1e-3)
    assert three == pytest.approx(
        epsilon(NoisyRounds(0.05, 1.0, 100, start_noise=5.0, start_sums=1), 1e-3), rel=1e-3
    )
    assert epsilon(NoisyRounds(0.05, 1.0, 100, start_sums=1), 1e-3) == float("inf")


def test_the_budget_includes_the_cold_start() -> None:
    """By default its sums have four times the noise of the rounds, whatever that is."""
    asked = ClientDP(epsilon=3.0, delta=1e-3)
    plain, with_start = (
        asked.mechanism(clients=1000, cohort=50, rounds=100, selection="poisson", start_sums=sums)
        for sums in (0, 3)
    )
    assert with_start.noise_multiplier > plain.noise_multiplier
    assert with_start.start_noise == 4 * with_start.noise_multiplier
    assert 2.9 < with_start.epsilon(100) <= 3.0 and plain.epsilon(100) == pytest.approx(
        3.0, rel=0.01
    )
    stopped = ClientDP(noise_multiplier=1.0, epsilon=2.3, delta=1e-3)
    limits = [
        stopped.mechanism(
            clients=1000, cohort=50, rounds=100, selection="poisson", start_sums=sums
        ).limit
        for sums in (0, 3)
    ]
    assert limits[0] == 100 and 0 < (limits[1] or 0) < 100
    with pytest.raises(ConfigError, match="after a cold start of 3 noisy sums"):
        ClientDP(noise_multiplier=1.0, epsilon=1.0, delta=1e-3).mechanism(
            clients=1000, cohort=50, rounds=100, selection="poisson", start_sums=3
        )


@pytest.mark.parametrize("start_noise", [2.0, 0.0])
@pytest.mark.parametrize("noise", [None, 5.0])
def test_a_cold_start_above_the_budget_is_refused(noise: float | None, start_noise: float) -> None:
    """Whatever the noise of the rounds is: there is none to be found."""
    asked = ClientDP(noise, epsilon=1.0, delta=1e-3, start_noise=start_noise)
    with pytest.raises(
        ConfigError, match=r"the cold start alone costs .* raise privacy.start_noise"
    ):
        asked.mechanism(clients=1000, cohort=50, rounds=100, selection="poisson", start_sums=3)
    assert (
        asked.mechanism(
            clients=1000, cohort=50, rounds=1, selection="poisson", start_sums=0
        ).start_sums
        == 0
    )


def test_a_cold_start_that_was_done_again_is_charged_again_and_never_above_the_budget() -> None:
    active = privacy(settings=replace(PRIVACY, epsilon=3.0))
    budget = 3.0
    method = private(active)
    assert method.options.exhausted() == ""
    for _ in range(2):
        method.init(world(), Stream(0, 0, "init"))
    assert active.journal.start_sums == 6
    with pytest.raises(
        ConfigError, match=r"another cold start .* would exceed privacy.epsilon = 3 .*15 noisy sums"
    ):
        for _ in range(20):
            method.init(world(), Stream(0, 0, "init"))
    spent, next_start = (
        epsilon(NoisyRounds(0.1, 1.0, 0, start_noise=5.0, start_sums=n), 1e-4) for n in (15, 18)
    )
    assert spent <= budget < next_start
    assert active.journal.start_sums == 15


def test_a_folder_with_starts_only_is_not_resumed_above_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed after the sums of its start, and before its first checkpoint, has
    released them."""
    two, three = (
        epsilon(NoisyRounds(0.5, 5.0, 0, start_noise=5.0, start_sums=n), 1e-3) for n in (6, 9)
    )
    settings = ClientDP(
        noise_multiplier=5.0, epsilon=(two + three) / 2, delta=1e-3, start_noise=5.0
    )
    data = federation()
    out = tmp_path / "run"
    plan: dict[str, Any] = {
        "rounds": 1,
        "cohort": 4,
        "selection": "poisson",
        "options": [settings],
        "out": out,
    }

    def killed(*_: Any, **__: Any) -> State:
        raise KeyboardInterrupt

    monkeypatch.setattr(PrivateClusters, "place", killed)
    for resume in (False, True):
        with pytest.raises(KeyboardInterrupt):
            fk.simulate(
                PrivateClusters(clusters=2, sketch=8),
                data,
                mclr(data),
                resume=resume,
                **simulate_arguments(plan),
            )
    with pytest.raises(ConfigError, match=r"another cold start .* would exceed"):
        fk.simulate(
            PrivateClusters(clusters=2, sketch=8),
            data,
            mclr(data),
            resume=True,
            **simulate_arguments(plan),
        )
    assert Journal(out / "privacy.jsonl").start_sums == 6


@dataclass(frozen=True)
class StartsUndeclared(PrivateClusters):
    """Asks for sums of a cold start that it does not declare."""

    def requirements(self) -> Requirements:
        return replace(super().requirements(), start_sums=2)


def test_sums_of_a_cold_start_that_are_not_declared_are_refused() -> None:
    """The budget and the statement are made of those that are declared."""
    active = privacy(StartsUndeclared(clusters=3, sketch=8), sums=2)
    with pytest.raises(
        TaskError, match=r"sketch_sums exceeds the 2 noisy sums .*Requirements.start_sums"
    ):
        private(active).init(world(), Stream(0, 0, "init"))
    assert active.journal.start_sums == 2


@dataclass(frozen=True)
class StartsAgain(PrivateClusters):
    """Asks for the sums of its cold start in a round."""

    def round(self, world: Any, state: Any, cohort: np.ndarray, stream: Stream) -> Any:
        return self.init(world, stream)


@dataclass(frozen=True)
class TrainsEverybody(fk.FedAvg):
    """Trains clients that were not drawn."""

    def round(self, world: Any, state: State, cohort: np.ndarray, stream: Stream) -> State:
        return super().round(world, state, world.clients(stream.round), stream)


@dataclass(frozen=True)
class TrainsBefore(fk.FedAvg):
    """Trains before the first round."""

    def init(self, world: Any, stream: Stream) -> State:
        return super().round(
            world, super().init(world, stream), world.clients(stream.round), stream
        )


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            StartsAgain(clusters=3, sketch=8),
            "in a cold start only, but the method requested it in round 1",
        ),
        (TrainsEverybody(), "asks clients that were not drawn in round 1"),
        (TrainsBefore(), "in rounds only, but the method requested it outside a round"),
    ],
)
def test_sums_at_another_time_or_of_others_than_are_charged_are_refused(
    method: Any, message: str
) -> None:
    own = private(privacy(method))
    with pytest.raises(TaskError, match=message):
        own.round(
            world(), own.init(world(), Stream(0, 0, "init")), np.arange(30), Stream(0, 1, "round")
        )


def test_the_part_of_a_folder_that_may_be_released(tmp_path: Path) -> None:
    """Models and statement; whatever the clients' test samples are, they are the same bits."""
    data = federation()
    parts = []
    scores = []
    plan: dict[str, Any] = {
        "rounds": 3,
        "cohort": 4,
        "selection": "poisson",
        "local": fk.SGD(lr=0.1),
    }
    for name in ("one", "other"):
        folder = tmp_path / name
        run = fk.simulate(
            PrivateClusters(clusters=2, sketch=8),
            data,
            mclr(data),
            options=[PRIVACY],
            out=folder,
            **simulate_arguments(plan),
        )
        scores.append(run.summary()["final_accuracy"])
        parts.append({path.name: path.read_bytes() for path in (folder / "release").iterdir()})
        np.testing.assert_array_equal(
            load_file(folder / "release" / "models.safetensors")["models"], run.models
        )
        data = replace(
            data,
            y=np.where(
                np.isin(
                    np.arange(len(data.y)),
                    np.concatenate([data.test[client] for client in range(data.clients)]),
                ),
                0,
                data.y,
            ),
        )
    assert parts[0].keys() == {"models.safetensors", "privacy.json"}
    assert parts[0] == parts[1] and scores[0] != scores[1]
    said = json.loads(parts[0]["privacy.json"])
    assert said["start_noise_multiplier"] == 5.0
    assert said["charged"]["cold start (sketch_moments)"] == "noisy sums of all clients: 1"
    assert said["charged"]["cold start (sketch_sums)"] == "noisy sums of all clients: 2"
    assert said["charged"]["models (train)"].startswith("3 noisy sums")
    assert said["charged"]["choices of clusters"].startswith("nothing")


def test_a_run_of_infinite_epsilon_has_nothing_to_release(tmp_path: Path) -> None:
    data = federation()
    insisting = replace(PRIVACY, uncharged="infinite")
    plan: dict[str, Any] = {
        "rounds": 1,
        "cohort": 4,
        "selection": "poisson",
        "options": [insisting],
    }
    fk.simulate(
        fk.FlexCFL(clusters=2, alpha=3, steps=2),
        data,
        mclr(data),
        out=tmp_path / "run",
        **simulate_arguments(plan),
    )
    assert json.loads((tmp_path / "run" / "privacy.json").read_text())["epsilon"] == "infinite"
    assert not (tmp_path / "run" / "release").exists()
