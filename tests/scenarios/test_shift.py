"""The data of a run round by round, and incremental training data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.config.plan import Plan
from fedkin.core.errors import ConfigError
from fedkin.core.method import UNASSIGNED, Method
from fedkin.core.randomness import Stream
from fedkin.core.training import SGD
from fedkin.data.federated import FederatedData, Ragged
from fedkin.methods import IFCA, FlexCFL, IFCAMig
from fedkin.models import mclr
from fedkin.options.with_options import WithOptions
from fedkin.run.instrumented_world import InstrumentedWorld
from fedkin.run.loop import run_round
from fedkin.run.simulate import simulate
from fedkin.scenarios.drift import Relabel, Rotate
from fedkin.scenarios.shift import Incremental, Shift, ShiftedData
from fedkin.scenarios.shifts import SHIFTS
from fedkin.scenarios.swaps import SwapAll, SwapPart
from fedkin.simulation.engine import SimulatedWorld

Oracle = Callable[[str], dict[str, Any]]
STREAM = Stream(5, 0, "run/shift")


def everybody(_: int) -> np.ndarray:
    return np.arange(6)


def federation(*sizes: int) -> FederatedData:
    """Clients with so many training samples and two test samples each, labels 0, 1, 2, ... in turn,
    images 2 x 2."""
    sizes = sizes or (10,) * 6
    train = Ragged(np.arange(sum(sizes)), np.concatenate([[0], np.cumsum(sizes)]))
    test = Ragged(sum(sizes) + np.arange(2 * len(sizes)), 2 * np.arange(len(sizes) + 1))
    x = np.arange(4 * (len(train.rows) + len(test.rows)), dtype=np.float32).reshape(-1, 4)
    y = np.concatenate([(train.owners() + train.rows) % 5, test.rows % 5])
    return FederatedData(name="toy", x=x, y=y, classes=5, train=train, test=test)


def same(a: FederatedData, b: FederatedData) -> bool:
    pairs = [
        (a.train.rows, b.train.rows),
        (a.train.offsets, b.train.offsets),
        (a.x, b.x),
        (a.y, b.y),
    ]
    pairs += [(a.test.rows, b.test.rows), (a.test.offsets, b.test.offsets)]
    return all(np.array_equal(one, other) for one, other in pairs)


class Steps:
    """A shift that stores its arguments; each round adds 1 to all labels."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, list[int], Stream]] = []

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: np.ndarray,
        stream: Stream,
    ) -> tuple[FederatedData, np.ndarray]:
        self.calls.append((round, reachable.tolist(), stream))
        shifted = current.with_rows(current.train, current.test, y=current.y + 1)
        return shifted, np.arange(original.clients) == round


def test_without_a_shift_nothing_moves() -> None:
    data = federation()
    now, moved = ShiftedData(data, None, everybody).at(STREAM.at(9))
    assert now is data and moved.tolist() == [False] * 6


def test_every_round_is_stepped_once_and_in_order() -> None:
    data = federation()
    steps = Steps()
    moving = ShiftedData(data, steps, lambda round: np.arange(round + 1))
    for round in (0, 0, 3, 3):
        now, moved = moving.at(STREAM.at(round))
        assert (now.y - data.y).tolist() == [round + 1] * len(data.y)  # round 0 is a step too
        assert np.flatnonzero(moved).tolist() == [round]
    assert steps.calls == [(r, list(range(r + 1)), STREAM.at(r)) for r in range(4)]


def test_an_earlier_round_or_another_seed_starts_over() -> None:
    data = federation()
    steps = Steps()
    moving = ShiftedData(data, steps, everybody)
    moving.at(STREAM.at(4))
    for stream in (STREAM.at(2), Stream(6, 2, "run/shift"), Stream(6, 2, "another")):
        steps.calls.clear()
        now, moved = moving.at(stream)
        assert (now.y - data.y).tolist() == [3] * len(data.y) and np.flatnonzero(
            moved
        ).tolist() == [2]
        assert [call[2] for call in steps.calls] == [stream.at(r) for r in range(3)]


SOME: list[Shift] = [
    SwapAll(0.7),
    SwapPart(0.7),
    SwapPart(0.7, as_coded=True),
    Incremental(every=2),
    Incremental(every=2, as_coded=True),
    Relabel(pattern="gradual", at=2, length=5),
    Rotate(pattern="recurring", at=2, length=2),
]


@pytest.mark.parametrize("shift", SOME, ids=repr)
def test_a_resumed_run_comes_to_the_same_data(shift: Shift) -> None:
    data = federation()
    before = federation()
    steady = ShiftedData(data, shift, everybody)
    news = 0
    for round in range(8):
        now, moved = steady.at(STREAM.at(round))
        resumed, moved_too = ShiftedData(data, shift, everybody).at(STREAM.at(round))
        assert same(now, resumed) and moved.tolist() == moved_too.tolist()
        assert not moved.any() or round > 0
        news += int(moved.sum())
    assert news > 0
    assert same(data, before)  # as given, untouched


@pytest.mark.parametrize("as_coded", [False, True])
def test_incremental_sizes(oracle: Oracle, as_coded: bool) -> None:
    """The authors' rounds count from 0, ours from 1."""
    vectors = oracle("flexcfl")["incremental"]
    sizes = [10, 69, 100]
    moving = ShiftedData(federation(*sizes), Incremental(as_coded=as_coded), lambda _: np.arange(3))
    rounds = [round for round, _ in vectors["10"]["sizes_as_coded" if as_coded else "intended"]]
    for index, round in enumerate(rounds):
        now, _ = moving.at(STREAM.at(round + 1))
        kind = "sizes_as_coded" if as_coded else "intended"
        assert now.train.sizes.tolist() == [vectors[str(size)][kind][index][1] for size in sizes]


def test_incremental_as_coded_cuts_after_the_cold_start() -> None:
    """All data in round 0, a quarter of 100 in round 1, half of that in round 4; each cut is a
    shift."""
    moving = ShiftedData(
        federation(100, 1), Incremental(every=3, as_coded=True), lambda _: np.arange(2)
    )
    rounds = [moving.at(STREAM.at(round)) for round in range(5)]
    assert [now.train.sizes.tolist() for now, _ in rounds] == [
        [100, 1],
        [25, 1],
        [25, 1],
        [25, 1],
        [13, 1],
    ]
    assert [shifted.tolist() for _, shifted in rounds] == [[r in (1, 4), False] for r in range(5)]


def detected(
    shift: Shift, rounds: int = 6, **options: Any
) -> tuple[list[int], list[set[int]], list[set[int]]]:
    """Who has a cluster from round 0 on; in each round from 1 on, who is placed and who detects a
    shift. The cohorts are clients 0 and 1, 2 and 3, 4 and 5, 0 and 1, ..."""
    data = federation(*(40,) * 6)
    method = FlexCFL(clusters=2, alpha=1)
    world = InstrumentedWorld(
        SimulatedWorld(data, mclr(data), SGD(epochs=1, lr=0.01), shift=shift, **options)
    )
    world.begin(STREAM)
    state = method.init(world, STREAM)
    first = np.flatnonzero(state.assignment != UNASSIGNED).tolist()
    placed = []
    found = []
    for round in range(1, rounds + 1):
        world.begin(STREAM.at(round))
        cold = np.flatnonzero(state.assignment == UNASSIGNED)
        plan = Plan(rounds=rounds, cohort=2, selection="round_robin", seed=STREAM.seed)
        state = run_round(
            instrumented=world, method=WithOptions(method), state=state, round=round, plan=plan
        )
        placed.append(set(cold[state.assignment[cold] != UNASSIGNED].tolist()))
        assert world.observations.detected is not None
        found.append(set(np.flatnonzero(world.observations.detected).tolist()))
    return first, placed, found


@pytest.mark.parametrize("compiled", [True, False])
def test_as_coded_no_client_detects_arriving_data(compiled: bool) -> None:
    """The authors' code tests a client only if its data were swapped. Here the cut in round 1 is a
    shift of all six clients, and no client detects it."""
    first, placed, found = detected(Incremental(as_coded=True), compiled=compiled)
    assert len(first) == 2 and sum(map(len, placed)) == 4
    assert found == [set()] * 6


@pytest.mark.parametrize(
    ("method", "without"),
    [
        (FlexCFL(clusters=2, alpha=2), FlexCFL(clusters=2, alpha=2, migration="none")),
        (IFCAMig(clusters=2), IFCA(clusters=2)),
    ],
)
def test_as_coded_a_method_with_migration_gives_the_models_of_the_method_without(
    method: Method, without: Method
) -> None:
    """Table IV of FlexCFL prints equal numbers for FedGroup and FlexCFL in four incremental
    rows. Without ``as_coded`` the clients do migrate."""
    data = federation(*(40,) * 6)
    runs = [
        simulate(
            each,
            data,
            mclr(data),
            rounds=5,
            cohort=4,
            local=SGD(epochs=1, lr=0.01),
            shift=Incremental(every=2, as_coded=True),
        )
        for each in (method, without)
    ]
    assert np.array_equal(runs[0].models, runs[1].models)
    migrations = [run.summary()["migrations"] for run in runs]
    assert migrations[0] == migrations[1]


def test_in_the_sound_form_clients_compare_with_their_samples_when_placed() -> None:
    """Release 1 is in round 5, and a quarter of the data more is a shift to all who were placed
    with less."""
    _, placed, found = detected(Incremental(every=4))
    assert any(placed) and found == [set(), set(), set(), set(), set(range(6)), set()]


def test_incremental_round_by_round() -> None:
    """Releases 0 to 3 of 8 samples are 2, 4, 6, 8: in rounds 0, 1 + 3, 1 + 6, 1 + 9."""
    data = federation(8, 8, 1)
    moving = ShiftedData(data, Incremental(every=3), lambda _: np.arange(1))
    released = data.train
    sizes = []
    had = [set(), set(), set()]
    for round in range(14):
        now, moved = moving.at(STREAM.at(round))
        sizes.append(int(now.train.sizes[0]))
        # Absent clients too.
        assert moved.tolist() == [
            round in (4, 7, 10),
            round in (4, 7, 10),
            False,
        ]
        assert now.train.sizes[2] == 1 and now.test is data.test and now.x is data.x
        for client in range(3):
            assert had[client] <= set(now.train[client]) <= set(released[client])
            had[client] = set(now.train[client])
    assert sizes == [2] * 4 + [4] * 3 + [6] * 3 + [8] * 4
    assert same(moving.at(STREAM.at(13))[0], data)


def test_incremental_takes_a_random_order() -> None:
    """A quarter of 400: as many from each quarter of the client's list, within five standard
    deviations."""
    data = federation(400, 400)
    first, _ = ShiftedData(data, Incremental(), lambda _: np.arange(2)).at(STREAM)
    other, _ = ShiftedData(data, Incremental(), lambda _: np.arange(2)).at(
        Stream(6, 0, "run/shift")
    )
    for client in range(2):
        quarters = np.bincount((first.train[client] - 400 * client) // 100, minlength=4)
        assert quarters.sum() == 100 and np.abs(quarters - 25).max() < 5 * np.sqrt(100 * 3 / 16)
    assert set(first.train[0]) != set(first.train[1] - 400) and set(first.train[0]) != set(
        other.train[0]
    )


def test_a_portion_is_not_one_too_large_by_rounding() -> None:
    """0.07 x 100 is 7.000000000000001 in floating point."""
    now, _ = ShiftedData(
        federation(100), Incremental(releases=(0.07, 1.0)), lambda _: np.arange(1)
    ).at(STREAM)
    assert now.train.sizes.tolist() == [7]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every must be an integer of at least 1, got 0"),
        ({"releases": ()}, "releases must be rising fractions"),
        ({"releases": (0.0, 1.0)}, "releases must be rising fractions"),
        ({"releases": (0.5, 0.5)}, "releases must be rising fractions"),
        ({"releases": (0.5, 0.25)}, "releases must be rising fractions"),
        ({"releases": (0.5, 1.5)}, r"releases must be a fraction in \[0, 1\], got 1.5"),
    ],
)
def test_invalid_values_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Incremental(**options)


def test_shifts_by_name() -> None:
    assert SHIFTS["swap_all"] is SwapAll and SHIFTS["incremental"] is Incremental
    for name, kind in SHIFTS.items():
        assert name.replace("_", "") == kind.__name__.lower()
        assert isinstance(kind(), Shift)
