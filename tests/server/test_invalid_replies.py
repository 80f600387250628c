"""Replies that cannot be used are excluded and counted; nothing in them reaches a method."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.measures.calibration import BINS
from fedkin.run.instrumented_world import InstrumentedWorld
from fedkin.server.message import InvalidMessageError, RpcMessage
from fedkin.server.remote_world import RemoteWorld
from fedkin.tasks.classes import Classes
from fedkin.tasks.detections import Detections
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.label_errors import LabelErrors
from fedkin.tasks.losses import Losses
from fedkin.tasks.shift import Shifted
from fedkin.tasks.similarities import Similarities
from fedkin.tasks.train import TrainingReply
from fedkin.tasks.train import train as train_clients
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import P, fake_node, fake_remote

EVERYONE = np.arange(6)
ODD = 2  # the client whose node is changed; of fleets, clients 2 and 3 are on it
STREAM = Stream(0, 1, "method/round")
MODELS = np.stack([np.zeros(P), np.ones(P)]).astype(np.float32)
WHICH = np.array([0, 1, 0, 1, 0, 1])
Tamper = Callable[[RpcMessage, RpcMessage], RpcMessage]


def federation(
    tamper: Tamper | None = None, fleets: bool = False, detects: bool = False, **settings: Any
) -> tuple[MemoryTransport, RemoteWorld]:
    """Six lone clients, or three nodes of two; ``tamper`` changes the reply of client 2's node,
    except the parts about the node itself."""
    transport = MemoryTransport()
    groups = [[0, 1], [2, 3], [4, 5]] if fleets else [[k] for k in range(6)]
    for node, clients in enumerate(groups):
        transport.join(node, fake_node(f"site-{clients[0]}", clients, detects=detects))
    world = fake_remote(transport, capacity=6, wait_for=6, detects=detects, **settings)
    world.begin(Stream(0, 0))
    if tamper:
        transport.stations[ODD // 2 if fleets else ODD].tamper = tamper
    return transport, world


def train(world: RemoteWorld, model_index: Any = WHICH, **options: Any) -> TrainingReply:
    return train_clients(world, MODELS, EVERYONE, model_index, stream=STREAM, **options)


def with_array(name: str, value: Any) -> Tamper:
    """The reply with this in place of one of its arrays: an array, None, or a function of the one
    that is there."""

    def tamper(request: RpcMessage, reply: RpcMessage) -> RpcMessage:
        arrays: dict[str, Any] = {
            other: array for other, array in reply.arrays.items() if other != name
        }
        found: Any = value(reply.arrays[name]) if callable(value) else value
        return RpcMessage(reply.header, arrays if found is None else {**arrays, name: found})

    return tamper


def every_array(change: Callable[[np.ndarray], np.ndarray]) -> Tamper:
    return lambda request, reply: RpcMessage(
        reply.header, {n: change(a) for n, a in reply.arrays.items()}
    )


def poisoned(number: float) -> Callable[[np.ndarray], np.ndarray]:
    def poison(array: np.ndarray) -> np.ndarray:
        out = array.copy()
        out.flat[0] = number
        return out

    return poison


SINGLE: dict[str, Tamper] = {
    "nan": with_array("update", poisoned(np.nan)),
    "infinity": with_array("update", poisoned(np.inf)),
    "another size": with_array("update", lambda a: np.zeros((len(a), P + 1), np.float32)),
    "one axis": with_array("update", lambda a: a.ravel()),
    "an extra row": with_array("update", lambda a: np.concatenate([a, a])),
    "integers": with_array("update", lambda a: a.astype(np.int64)),
    "no update": with_array("update", None),
    "too large for float32": with_array("update", lambda a: np.full(a.shape, 1e300)),
    "an outlier": with_array("update", lambda a: a * np.float32(1e6)),
    "no arrived": with_array("arrived", None),
    "arrived of numbers": with_array("arrived", lambda a: a.astype(np.int64)),
    "no nonfinite": with_array("nonfinite", None),
    "no examples": with_array("examples", None),
    "fewer than no examples": with_array("examples", lambda a: -a),
    "examples of another size": with_array("examples", lambda a: np.ones(7, np.int64)),
    "no first loss": with_array("first_loss", None),
    "nan loss": with_array("loss", poisoned(np.nan)),
    "a loss too many": with_array("loss", np.zeros(9)),
    "shift of another size": with_array("shifted", np.zeros(5, bool)),
    "nothing": lambda request, reply: RpcMessage(),
    "something else": lambda request, reply: RpcMessage({}, {"result": np.zeros(3)}),
}
MEANS: dict[str, Tamper] = {
    "nan": with_array("update", poisoned(np.nan)),
    "another size": with_array("update", lambda a: np.zeros((len(a), P + 1), np.float32)),
    "a mean too many": with_array("update", lambda a: np.concatenate([a, a])),
    "too large for float32": with_array("update", lambda a: np.full(a.shape, 1e300)),
    "an outlier": with_array("update", lambda a: a * np.float32(1e6)),
    "nan weight": with_array("weight", poisoned(np.nan)),
    "negative weight": with_array("weight", lambda a: -a),
    "no weight": with_array("weight", None),
    "no trained models": with_array("trained_models", None),
    "trained models that were not sent": with_array("trained_models", lambda a: a + 5),
    "the same trained model twice": with_array("trained_models", lambda a: np.zeros_like(a)),
    "negative trained models": with_array("trained_models", lambda a: a - 1),
    "no means at all": lambda request, reply: RpcMessage(
        reply.header,
        {
            n: a[:0] if n in ("trained_models", "update", "weight", "loss", "first_loss") else a
            for n, a in reply.arrays.items()
        },
    ),
    "trained models without an axis": with_array("trained_models", np.array(0)),
    "nan loss": with_array("loss", poisoned(np.nan)),
    "shift of another size": with_array("shifted", np.zeros(5, bool)),
    "nothing": lambda request, reply: RpcMessage(),
}


@pytest.mark.parametrize("what", [*SINGLE])
def test_an_invalid_update_is_excluded(what: str, caplog: pytest.LogCaptureFixture) -> None:
    _, world = federation(SINGLE[what])
    fine = train(federation()[1])
    with caplog.at_level(logging.WARNING, "fedkin"):
        got = train(world)
    there = np.arange(6) != ODD
    np.testing.assert_array_equal(got.arrived, there)
    np.testing.assert_array_equal(got.nonfinite, ~there)
    for name in ("update", "loss", "first_loss"):
        np.testing.assert_array_equal(getattr(got, name)[there], getattr(fine, name)[there])
        assert not getattr(got, name)[ODD].any()  # rows that did not arrive hold zeros


@pytest.mark.parametrize("what", [*MEANS])
@pytest.mark.parametrize("model_index", [WHICH, None], ids=["assigned", "choosing"])
def test_invalid_means_are_excluded_with_all_their_rows(what: str, model_index: Any) -> None:
    _, world = federation(MEANS[what], fleets=True)
    got = train(world, model_index, reduce=True)
    fine = train(federation(fleets=True)[1], model_index, reduce=True)
    there = np.arange(6) // 2 != ODD // 2
    np.testing.assert_array_equal(got.arrived, there)
    np.testing.assert_array_equal(got.nonfinite, ~there)
    assert got.weight is not None and fine.weight is not None
    assert np.isfinite(got.update).all() and np.abs(got.update).max() < 10
    mass = np.bincount(fine.model_index[there], fine.examples[there], 2)
    np.testing.assert_array_equal(got.weight, mass)
    assert not got.loss[~there].any() and not got.first_loss[~there].any()


def test_a_nonfinite_client_of_a_fleet_is_excluded_alone() -> None:
    transport = MemoryTransport()
    transport.join(0, fake_node("a", (0, 1, 2)))
    # Its second, which is client 4.
    transport.join(1, fake_node("b", (3, 4, 5), garbage=frozenset({1})))
    world = fake_remote(transport, capacity=6, wait_for=6)
    world.begin(Stream(0, 0))
    for reduce in (False, True):
        got = train(world, np.zeros(6, np.int64), reduce=reduce)
        np.testing.assert_array_equal(np.flatnonzero(got.nonfinite), [4])
        np.testing.assert_array_equal(np.flatnonzero(~got.arrived), [4])
        if got.weight is not None:  # rows that did not arrive hold zeros
            assert got.weight[0] == got.examples[[0, 1, 2, 3, 5]].sum()
            assert not got.loss[4] and not got.first_loss[4]


def test_an_invalid_gradient_excludes_its_update() -> None:
    for name in ("nan", "none"):
        _, world = federation(with_array("gradient", poisoned(np.nan) if name == "nan" else None))
        got = train(world, gradient=True)
        assert got.gradient is not None and np.flatnonzero(got.nonfinite).tolist() == [ODD]
        assert not got.gradient[ODD].any() and not got.update[ODD].any() and got.gradient[0].any()


@pytest.mark.parametrize(
    "chosen", [np.array([2]), np.array([-1]), np.array([0, 1]), np.array([0.5]), None]
)
def test_an_impossible_choice_is_excluded(chosen: Any) -> None:
    _, world = federation(with_array("model_index", chosen))
    got = train(world, None)
    assert np.flatnonzero(got.nonfinite).tolist() == [ODD]
    assert 0 <= got.model_index.min() <= got.model_index.max() < 2


@pytest.mark.parametrize(
    "test_sums",
    [
        [1e300, 1e300, 0],
        [np.nan] * 3,
        [np.inf, np.inf, 0],
        [9.0, 3.0, 0],
        [-5.0, 3.0, 0.0],
        [0, -4.0, 0],
    ],
)
def test_impossible_test_results_exclude_the_reply(test_sums: list[float]) -> None:
    _, world = federation(with_array("test_sums", np.array(test_sums, float)))
    got = train(world)
    fine = train(federation()[1])
    assert np.flatnonzero(got.nonfinite).tolist() == [ODD] and not got.update[ODD].any()
    assert got.before_training is not None and fine.before_training is not None
    assert got.before_training.examples == fine.before_training.examples - 1


def test_a_model_that_has_diverged_on_test_samples_is_no_invalid_reply() -> None:
    for loss in (np.nan, np.inf):
        _, world = federation(with_array("test_sums", np.array([0.0, 1.0, loss])))
        got = train(world)
        assert (
            got.arrived.all()
            and got.before_training is not None
            and got.before_training.examples == 6
        )


def test_outliers_are_measured_by_earlier_rounds_where_too_few_reply() -> None:
    transport, world = federation()
    train(world)
    for station in transport.stations.values():
        station.tamper = with_array("update", lambda a: a * np.float32(1e6))
    got = train_clients(world, MODELS, np.array([0, 1]), WHICH[:2], stream=STREAM)
    assert got.nonfinite.all() and not got.update.any()


def test_outliers_are_beyond_the_norm_limit_of_the_settings() -> None:
    tamper = with_array("update", lambda a: a * np.float32(50))
    assert train(federation(tamper, norm_limit=100)[1]).arrived.all()
    assert train(federation(tamper, norm_limit=10)[1]).nonfinite[ODD]


@pytest.mark.parametrize("reduce", [False, True])
def test_an_update_among_saturated_ones_counts(reduce: bool) -> None:
    """Five clients send updates of almost no length; the one that still learns is no outlier, as in
    a simulation."""
    transport, world = federation()
    for node, station in transport.stations.items():
        if node != ODD:
            station.tamper = with_array("update", lambda a: a * np.float32(1e-20))
    got = train(world, reduce=reduce)
    assert got.arrived.all() and np.abs(got.update).max() > 0.1


@pytest.mark.parametrize("reduce", [False, True])
def test_an_outlier_is_named_and_counted_apart(
    reduce: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """By its site, round, norm and limit, with the option that lets it in."""
    _, world = federation(with_array("update", lambda a: a * np.float32(1e4)))
    observed = InstrumentedWorld(world, update_memory=0)
    observed.begin(Stream(0, 1))
    with caplog.at_level(logging.WARNING, "fedkin"):
        got = train_clients(
            observed,
            MODELS,
            EVERYONE,
            WHICH,
            stream=STREAM,
            reduce=reduce,  # type: ignore[arg-type]
        )
    assert not got.arrived[ODD] and got.nonfinite[ODD] and got.arrived.sum() == 5
    assert observed.observations.outliers == 1 and observed.observations.nonfinite == 0
    (line,) = [record.getMessage() for record in caplog.records]
    for part in (
        "round 1",
        f"site-{ODD}",
        "model 0",
        "norm is",
        "limit is",
        "federation.norm_limit = 100",
    ):
        assert part in line
    assert "finite" not in line


# --- nodes that do not reply


def silent(transport: MemoryTransport, how: str) -> None:
    station = transport.stations[ODD]
    if how == "raises":
        station.handle = lambda request: 1 / 0  # type: ignore[assignment, return-value]
    elif how == "cannot":
        station.handle = lambda request: (_ for _ in ()).throw(
            InvalidMessageError("no room on its disk")
        )  # type: ignore[assignment]
    elif how == "late":
        station.delay = 1000.0
    elif how == "gone":
        transport.leave(ODD)
    elif how == "killed":
        transport.kill(ODD)
    else:
        setattr(station, how, True)


@pytest.mark.parametrize(
    "how", ["raises", "cannot", "late", "gone", "killed", "rejected", "crashes"]
)
def test_a_client_without_a_reply_is_missing(how: str, caplog: pytest.LogCaptureFixture) -> None:
    transport, world = federation()
    silent(transport, how)
    with caplog.at_level(logging.WARNING, "fedkin"):
        got = train(world)
    there = np.arange(6) != ODD
    np.testing.assert_array_equal(got.arrived, there)
    assert not got.update[ODD].any() and not got.loss[ODD].any()
    assert f"site-{ODD}" in caplog.text
    assert transport.clock.now <= 61


@pytest.mark.parametrize("how", ["cannot", "late", "gone"])
def test_calls_without_a_reply_return_nan_or_zeros(how: str) -> None:
    transport, world = federation()
    silent(transport, how)
    held = MODELS
    start = MODELS[0]
    assert np.isnan(world.run(Losses(held), EVERYONE).losses[ODD]).all()
    assert np.isnan(world.run(LabelErrors(held), EVERYONE).error[ODD]).all()
    assert np.isnan(
        world.run(Similarities(start, held[1:] * 2, world.work), EVERYONE, STREAM).cosine[ODD]
    ).all()
    assert np.isnan(world.run(Gradients(held, WHICH), EVERYONE).gradients[ODD]).all()
    assert not world.run(Classes(), EVERYONE).classes[ODD].any()
    scores = evaluate(world, held, EVERYONE, WHICH)
    assert scores.examples[ODD] == 0 == scores.correct[ODD] and scores.examples[0] == 1
    assert not world.run(Shifted(), EVERYONE).shifted.any()


@pytest.mark.parametrize("how", ["cannot", "late", "gone"])
def test_detections_of_a_client_without_a_reply_are_negative(how: str) -> None:
    transport, world = federation(detects=True)
    silent(transport, how)
    found = world.run(Detections(MODELS, WHICH, np.zeros(6, np.int64)), EVERYONE).counts
    assert (found[ODD] == -1).all() and (found[0] >= 0).all() and found.shape == (6, 2, BINS)


GARBAGE: dict[str, Tamper] = {
    "nothing": lambda request, reply: RpcMessage(),
    "another shape": every_array(lambda a: np.concatenate([a, a])),
    "another axis": every_array(lambda a: a[..., None]),
    "another dtype": every_array(
        lambda a: np.nan_to_num(a).astype(np.int64) if a.dtype.kind == "f" else a.astype(float)
    ),
    "another name": lambda request, reply: RpcMessage(
        {}, {f"{name}s": a for name, a in reply.arrays.items()}
    ),
    "an array too many": with_array("result", np.zeros(7)),
    "failed": lambda request, reply: RpcMessage({"failed": "its data are gone"}),
}


@pytest.mark.parametrize("what", [*GARBAGE])
def test_an_invalid_reply_is_no_answer(what: str, caplog: pytest.LogCaptureFixture) -> None:
    _, world = federation(GARBAGE[what])
    with caplog.at_level(logging.WARNING, "fedkin"):
        assert np.isnan(world.run(Losses(MODELS), EVERYONE).losses[ODD]).all()
        assert np.isnan(world.run(Gradients(MODELS, WHICH), EVERYONE).gradients[ODD]).all()
        assert not world.run(Classes(), EVERYONE).classes[ODD].any()
    said = f"no reply from site-{ODD}" if what == "failed" else f"the reply of site-{ODD} ("
    assert caplog.text.count(said) == 3


@pytest.mark.parametrize(
    "tamper",
    [
        with_array("sums", np.array([[9.0]])),
        with_array("sums", np.array([[-1.0]])),
        with_array("examples", None),
    ],
)
def test_impossible_scores_are_no_answer(tamper: Tamper) -> None:
    _, world = federation(tamper)
    scores = evaluate(world, MODELS, EVERYONE, WHICH)
    assert scores.examples[ODD] == 0 == scores.correct[ODD] and scores.loss[ODD] == 0
