"""Server optimisers: the published vectors, every method with them, new clusters, and the cases
that they do not apply to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.config.option_registry import known_values
from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.randomness import Stream
from fedkin.methods import FedAvg, Hierarchical
from fedkin.methods.flexcfl import FlexCFLState
from fedkin.options.server_optimizer import (
    FedAdagrad,
    FedAdam,
    FedAvgM,
    FedYogi,
    ServerOptimizer,
    parents,
    refusal,
)
from fedkin.options.with_options import WithOptions
from fedkin.run.folder import checkpoint
from fedkin.run.folder.checkpoint import Checkpoint
from tests.methods import test_conformance as conformance
from tests.methods.test_conformance import CASES
from tests.option_lists import with_options

AVERAGING = [
    name for name, case in CASES.items() if case.averages and not (case.peers or case.detects)
]
NO_CHANGE = FedAvgM(lr=1.0, beta=0.0)
SERVER_OPTIMIZERS: dict[str, Any] = dict(known_values("server_optimizer"))


@pytest.mark.parametrize("case", [0, 1])
@pytest.mark.parametrize(
    ("key", "make", "start"),
    [
        ("fedadam", FedAdam, None),
        ("fedyogi", FedYogi, None),
        ("fedadagrad_beta1_0", lambda eta, b1, b2, tau: FedAdagrad(eta, 0.0, tau), None),
        ("fedadam_v0_zero", FedAdam, 0.0),
        ("fedyogi_v0_zero", FedYogi, 0.0),
        ("fedavgm_beta_0.9_eta_1", lambda *_, **__: FedAvgM(1.0, 0.9), None),
    ],
)
def test_vectors(
    oracle: Callable[[str], Any], case: int, key: str, make: Any, start: float | None
) -> None:
    """Those of the paper's Algorithm 2; a coordinate that never moves stays."""
    vector = oracle("methods2")["server_optimisers"][case]
    optimizer = make(*(vector[name] for name in ("eta", "beta1", "beta2", "tau")))
    x = np.array(vector["x0"])[None]
    m = np.zeros((1, len(vector["x0"])))
    v = np.full_like(m, optimizer.start if start is None else start)
    for delta, expected in zip(vector["deltas"], vector["trace"][key], strict=True):
        with np.errstate(invalid="ignore"):  # 0 / (0 + tau) is fine, and needed with v from 0
            change, m, v = optimizer.step(np.array(delta)[None], m, v)
        x = x + change
        for name, value in (("x", x), ("m", m), ("v", v)):
            if name in expected:
                np.testing.assert_allclose(
                    value[0], expected[name], atol=vector["tolerance"], rtol=0, err_msg=name
                )
    assert x[0, 0] == vector["x0"][0]


def optimized(method: Any, optimizer: ServerOptimizer) -> WithOptions:
    """A method with a server optimiser, in a world of quadratic clients."""
    return with_options(method, optimizer, world=conformance.fake("fedavg"))


def moments(state: State) -> Any:
    """The arrays of the server optimiser in a state."""
    return state.extras["server_optimizer"]


def with_momentum(state: State, value: Any) -> State:
    """A state with another first moment."""
    momentum = np.broadcast_to(np.float32(value), state.models.shape).copy()
    return replace(state, extras={"server_optimizer": {**moments(state), "momentum": momentum}})


def play(method: Any, name: str, rounds: int = 3) -> Any:
    """The state after some rounds among quadratic clients."""
    world = conformance.fake(name)
    return conformance.run(method, world, rounds=rounds)


@pytest.mark.parametrize("name", AVERAGING)
def test_a_momentum_of_zero_changes_no_bit(name: str) -> None:
    """Every method that averages, with its migrations, splits and sharing."""
    method = conformance.make(name)
    plain = play(method, name)
    stepped = play(optimized(method, NO_CHANGE), name)
    conformance.assert_same(plain, stepped)
    assert stepped.clusters == plain.clusters
    assert moments(stepped)["momentum"].shape == plain.models.shape


@pytest.mark.parametrize("name", AVERAGING)
def test_every_method_takes_the_steps_cluster_by_cluster(name: str) -> None:
    """The state after a round, from the method's own round and the formula."""
    method = conformance.make(name)
    optimizer = FedAdam(lr=0.2)
    world = conformance.fake(name)
    stepping = optimized(conformance.make(name), optimizer)
    state = conformance.settled(stepping, world)
    twin = conformance.fake(name)  # its clients keep the same as the first one's
    conformance.settled(stepping, twin)
    stream = Stream(5, 9, "method").child("round")
    state = with_momentum(state, 0.5)
    everyone = np.arange(conformance.CLIENTS)
    after = method.round(world, replace(state, extras={}), everyone, stream)
    got = stepping.round(twin, state, everyone, stream)
    parent = parents(state.assignment, after.assignment, len(state.models), len(after.models))
    delta = after.models.astype(float) - state.models[parent]
    moved = delta.any(axis=1)
    m = np.where(moved[:, None], 0.45 + 0.1 * delta, 0.5)
    square = moments(state)["square"][parent]
    v = np.where(moved[:, None], 0.99 * square + 0.01 * delta**2, square)
    expected = np.where(
        moved[:, None], state.models[parent] + 0.2 * m / (np.sqrt(v) + 1e-3), after.models
    )
    np.testing.assert_allclose(got.models, expected, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(moments(got)["momentum"], m, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(moments(got)["square"], v, rtol=1e-5)
    assert moved.any() and np.abs(got.models - after.models).max() > 0.01


def test_a_cluster_without_a_reply_rests() -> None:
    """Its model and its moments, momentum or not."""
    method = optimized(conformance.make("flexcfl", migration="none"), FedAvgM())
    world = conformance.fake("flexcfl")
    state = with_momentum(conformance.settled(method, world), 1)
    kept = state.assignment[0]
    after = method.round(
        world, state, np.flatnonzero(state.assignment != kept), Stream(5, 9, "method")
    )
    others = np.arange(state.clusters) != kept
    np.testing.assert_array_equal(after.models[kept], state.models[kept])
    np.testing.assert_array_equal(moments(after)["momentum"][kept], 1)
    assert (moments(after)["momentum"][others] != 1).any(axis=1).all()
    assert (after.models[others] != state.models[others]).any(axis=1).all()


@pytest.mark.parametrize("optimizer", [FedAvgM(), FedAdam(), FedYogi(), FedAdagrad()])
def test_running_statistics_are_averaged_as_without_it(optimizer: Any) -> None:
    """In every round, whatever moments the other coordinates have."""
    world = conformance.fake("fedavg")
    world.spec = replace(world.spec, untrained=(slice(0, 2), slice(3, 4)))
    averaged = np.isin(np.arange(world.spec.parameters), [0, 1, 3])
    method = conformance.make("fedavg")
    stepping = with_options(method, optimizer, world=world)
    state = conformance.settled(stepping, world)
    for round in range(3):
        stream = Stream(5, round, "method")
        plain = method.round(world, state, np.arange(4), stream)
        state = stepping.round(world, state, np.arange(4), stream)
        np.testing.assert_array_equal(state.models[:, averaged], plain.models[:, averaged])
        assert round == 0 or (state.models[:, ~averaged] != plain.models[:, ~averaged]).all()


@pytest.mark.parametrize(
    ("before", "after", "old", "new", "expected"),
    [
        ([0, 0, 1, 1], [1, 0, 1, 1], 2, 2, [0, 1]),  # a migration
        ([0, 0, 0, 1, 1], [0, 0, 2, 1, 1], 2, 3, [0, 1, 0]),  # a split of 0
        ([0, 0, 0, 0], [0, 1, 2, 2], 1, 3, [0, 0, 0]),  # a late clustering
        ([0, 1, 2, 2, 1], [0, 0, 1, 1, 1], 3, 2, [0, 2]),  # two clusters become one
        ([0, UNASSIGNED, UNASSIGNED], [0, 1, 1], 1, 2, [0, UNASSIGNED]),  # one of newcomers
    ],
)
def test_where_clusters_come_from(
    before: list, after: list, old: int, new: int, expected: list
) -> None:
    assert parents(np.array(before), np.array(after), old, new).tolist() == expected


class Splits:
    """In its round 1 the clients from 2 on leave for a new cluster, and so do those
    without one."""

    def init(self, world: Any, stream: Stream) -> State:
        return State(np.array([[1.0, 2.0]], np.float32), np.array([0, 0, 0, 0, UNASSIGNED]))

    def round(self, world: Any, state: State, cohort: np.ndarray, stream: Stream) -> State:
        models = np.concatenate([state.models, state.models + 1, state.models + 7]) - np.float32(
            0.5
        )
        return State(models, np.array([0, 0, 1, 1, 2]))

    def place(self, world: Any, state: State, newcomers: np.ndarray, stream: Stream) -> State:
        return replace(state, models=state.models * 2)


def test_a_split_begins_with_its_parents_moments() -> None:
    method = optimized(Splits(), FedAvgM(lr=1.0, beta=0.5))
    world = conformance.fake("fedavg")
    state = with_momentum(method.init(world, Stream(0)), [[4.0, 2.0]])
    after = method.round(world, state, np.arange(4), Stream(0, 1))
    np.testing.assert_allclose(moments(after)["momentum"], [[1.5, 0.5], [2.5, 1.5], [0, 0]])
    # The last has no parent.
    np.testing.assert_allclose(after.models, [[2.5, 2.5], [3.5, 3.5], [7.5, 8.5]])
    placed = method.place(world, state, np.array([4]), Stream(0, 1))
    np.testing.assert_allclose(placed.models, [[2, 4]])  # no round, no step
    np.testing.assert_allclose(moments(placed)["momentum"], [[4, 2]])


def test_a_state_goes_through_a_checkpoint(tmp_path: Path) -> None:
    """Its type is the method's own; the moments come back, and so do states without any."""
    method = optimized(conformance.make("flexcfl"), FedYogi())
    state = play(method, "flexcfl")
    for number, one in enumerate((state, play(conformance.make("flexcfl"), "flexcfl"))):
        folder = tmp_path / str(number)
        checkpoint.save(folder, Checkpoint(round=3, state=one, down={}, up={}, seconds=1.0), "run")
        read = checkpoint.newest(folder)[0].state
        conformance.assert_same(one, read)
        assert read.extras.keys() == one.extras.keys()
    assert type(state) is FlexCFLState and moments(state).keys() == {"momentum", "square"}


@pytest.mark.parametrize("name", [name for name in CASES if name not in AVERAGING])
def test_methods_that_do_not_average_are_refused(name: str) -> None:
    method = conformance.make(name)
    assert type(method).__name__ in refusal(method)
    with pytest.raises(ConfigError, match=r"^server_optimizer: method: .*leave .*out"):
        optimized(method, FedAdam())


def test_an_option_that_changes_models_is_refused() -> None:
    assert refusal(Hierarchical()) == "" and refusal(FedAvg()) == ""
    assert "Hierarchical with narrow does more to models than average them" in refusal(
        Hierarchical(narrow=True)
    )


@pytest.mark.parametrize("name", SERVER_OPTIMIZERS)
@pytest.mark.parametrize(
    "wrong", [{"lr": 0.0}, {"lr": float("nan")}, {"tau": -1.0}, {"beta1": 1.0}, {"beta": -0.1}]
)
def test_settings_that_cannot_be(name: str, wrong: dict[str, float]) -> None:
    if wrong.keys() <= {f.name for f in fields(SERVER_OPTIMIZERS[name])}:
        with pytest.raises(MethodError, match=next(iter(wrong))):
            SERVER_OPTIMIZERS[name](**wrong)
