"""Every remote operation equals the simulator over the same data, however clients are spread over
nodes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import TaskError
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.core.world import World
from fedkin.data.federated import FederatedData
from fedkin.models.model import Model
from fedkin.server.remote_world import RemoteWorld
from fedkin.tasks.classes import Classes
from fedkin.tasks.detections import Detections
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.label_errors import LabelErrors
from fedkin.tasks.losses import Losses
from fedkin.tasks.peer_queries import Ask
from fedkin.tasks.shift import Note, Shifted
from fedkin.tasks.similarities import Directions, Similarities
from fedkin.tasks.train import TrainingReply
from fedkin.tasks.train import train as train_clients
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import (
    WORK,
    P,
    clustered_data,
    fake_node,
    fake_remote,
    join_nodes,
    model_of,
    remote,
    simulated,
)
from tests.simulation.numpy_detectors import linear

LAYOUTS = {
    "lone": [[0], [1], [2], [3], [4], [5]],
    "fleets": [[0, 1, 2], [3, 4, 5]],
    "mixed": [[0], [1, 2, 3], [4], [5]],
}
EVERYONE = np.arange(6)
SOME = np.array([5, 0, 3, 2])
STREAM = Stream(3, 2, "method/round")


@cache
def detector() -> Model:
    return linear(6)


def pair(
    layout: str, model: Model | None = None, data: FederatedData | None = None
) -> tuple[RemoteWorld, Any]:
    """The same clients behind an engine and in the simulator."""
    data = data or clustered_data()
    model = model or model_of()
    transport = MemoryTransport()
    join_nodes(transport, LAYOUTS[layout], data, model)
    far = remote(transport, data, model)
    near = simulated(data, model, range(6))
    for world in (far, near):
        world.begin(Stream(3, 0, "scenario"))
        world.begin(Stream(3, 2, "scenario"))
    return far, near


def models(world: World, count: int) -> np.ndarray:
    drawn = [world.initial(Stream(9, k, "models")) for k in range(count)]
    noise = np.random.default_rng(5).normal(scale=0.3, size=(count, world.spec.parameters))
    return np.stack(drawn) + noise.astype(np.float32)


def same(one: Any, two: Any) -> None:
    for name in vars(two):
        if name != "before_training":
            np.testing.assert_array_equal(
                getattr(one, name), getattr(two, name), err_msg=name, strict=True
            )


def close(one: TrainingReply, two: TrainingReply) -> None:
    """Where nodes took means: the means, and each row's steps. Losses are the means of a model's
    rows on a node."""
    for name in ("model_index", "examples", "arrived", "nonfinite", "weight"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
    np.testing.assert_allclose(one.update, two.update, rtol=1e-4, atol=1e-6)
    for name in ("loss", "first_loss"):
        mean = [np.average(getattr(reply, name), weights=reply.examples) for reply in (one, two)]
        np.testing.assert_allclose(*mean, rtol=1e-5)


def train(
    world: World, clients: np.ndarray, model_index: Any, count: int = 3, **options: Any
) -> TrainingReply:
    model_index = None if model_index is None else np.array(model_index)
    return train_clients(
        world, models(world, count), clients, model_index, stream=STREAM, **options
    )


def similarities(
    world: World,
    start: np.ndarray,
    directions: np.ndarray,
    clients: np.ndarray,
    work: LocalTraining = WORK,
) -> np.ndarray:
    return world.run(Similarities(start, directions, work), clients, STREAM).cosine


TRAINING: dict[str, dict[str, Any]] = {
    "plain": {},
    "head": {"part": slice(30, 36)},
    "gradient": {"gradient": True},
    "gradient of a part": {"gradient": True, "part": slice(0, 7)},
    "proximal": {"work": replace(WORK, mu=0.5)},
    "adam": {"work": LocalTraining(epochs=1, batch_size=4, lr=0.01, optimizer="adam")},
    "steps": {"work": replace(WORK, steps=3)},
    "epochs by row": {"work": replace(WORK, epochs=np.array([1, 4, 2, 3]))},
}


@pytest.mark.parametrize("options", TRAINING.values(), ids=[*TRAINING])
def test_single_updates_are_the_simulator_s(options: dict[str, Any]) -> None:
    far, near = pair("mixed")
    same(*(train(world, SOME, [2, 0, 2, 1], **options) for world in (far, near)))


@pytest.mark.parametrize("options", [{}, {"gradient": True}], ids=["plain", "gradient"])
def test_clients_choose_among_all_models(options: dict[str, Any]) -> None:
    far, near = pair("mixed")
    one, two = (train(world, SOME, None, **options) for world in (far, near))
    assert len(set(two.model_index.tolist())) > 1
    same(one, two)


@pytest.mark.parametrize("options", TRAINING.values(), ids=[*TRAINING])
@pytest.mark.parametrize("model_index", [[2, 0, 2, 1], None], ids=["told", "choosing"])
def test_means_are_the_simulator_s_but_for_rounding(
    options: dict[str, Any], model_index: Any
) -> None:
    far, near = pair("fleets")
    one, two = (train(world, SOME, model_index, reduce=True, **options) for world in (far, near))
    close(one, two)
    # Gradients of single clients, in addition to the means of their updates.
    if two.gradient is not None:
        np.testing.assert_array_equal(one.gradient, two.gradient)


def test_means_of_single_clients_are_the_simulator_s_to_the_last_bit() -> None:
    far, near = pair("lone")
    same(*(train(world, EVERYONE, [0, 1, 0, 1, 0, 1], 2, reduce=True) for world in (far, near)))


@pytest.mark.parametrize("layout", ["lone", "mixed"])
def test_a_client_in_several_rows_trains_several_models(layout: str) -> None:
    far, near = pair(layout)
    clients = np.array([1, 4, 1, 0])
    model_index = [0, 2, 1, 0]
    same(*(train(world, clients, model_index) for world in (far, near)))


# --- detectors


@pytest.mark.parametrize("reduce", [False, True])
def test_detectors_of_one_client_keep_their_classes(reduce: bool) -> None:
    far, near = pair("mixed", detector())
    clients = np.array([0, 0, 3, 3, 2, 5])
    positive = np.array([0, 1, 1, 0, 4, 5])
    work = replace(WORK, positive=positive)
    index = [0, 1, 1, 0, 2, 2]
    one, two = (train(world, clients, index, work=work, reduce=reduce) for world in (far, near))
    close(one, two) if reduce else same(one, two)


@pytest.mark.parametrize("split", ["train", "test"])
def test_detections_are_the_simulator_s(split: str) -> None:
    far, near = pair("mixed", detector())
    clients = np.array([0, 0, 3, 5])
    model_index = np.array([0, 1, 1, 0])
    positive = np.array([0, 1, 1, 5])
    one, two = (
        w.run(Detections(models(w, 2), model_index, positive, split), clients).counts
        for w in (far, near)
    )
    np.testing.assert_array_equal(one, two, strict=True)


def test_detectors_are_scored_together() -> None:
    """A client none of whose samples any detector claims has an infinite loss: it must not look
    like a good one."""
    far, near = pair("mixed", detector())
    model_index = np.array([[0, 1, -1, -1, 2, -1], [2, -1, 0, -1, -1, 1], [0, 1, 2, 3, 4, 5]])
    same(
        *(
            evaluate(world, models(world, 6), np.array([4, 0, 3]), model_index)
            for world in (far, near)
        )
    )


# --- questions


def test_losses_errors_and_classes_are_the_simulator_s() -> None:
    far, near = pair("mixed")
    held = models(near, 3)
    for ask in (
        lambda world: world.run(Losses(held), SOME).losses,
        lambda world: world.run(LabelErrors(held), SOME).error,
        lambda world: world.run(Classes(), SOME).classes,
        lambda world: similarities(world, held[0], held[1:], SOME),
        lambda world: similarities(
            world=world,
            start=held[0],
            directions=held[1:],
            clients=SOME,
            work=replace(WORK, steps=2),
        ),
    ):
        np.testing.assert_array_equal(ask(far), ask(near), strict=True)


def test_gradients_are_the_simulator_s() -> None:
    far, near = pair("mixed")
    found = [
        world.run(Gradients(models(near, 3), np.array([2, 0, 2, 1])), SOME).gradients
        for world in (far, near)
    ]
    # Alone, a client has another block of samples.
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("split", ["train", "test"])
def test_scores_are_the_simulator_s(split: str) -> None:
    far, near = pair("mixed")
    same(
        *(evaluate(w, models(w, 3), SOME, np.array([2, 0, 2, 1]), split=split) for w in (far, near))
    )


def test_an_initial_model_that_nodes_can_make_is_not_sent() -> None:
    far, near = pair("lone")
    start = far.initial(Stream(3, 0, "init"))
    directions = models(near, 2)
    found = similarities(far, start, directions, EVERYONE)
    np.testing.assert_array_equal(
        found, similarities(near, start, directions, EVERYONE), strict=True
    )
    transport = far.membership.request_round.transport
    stations = transport.stations.values()  # type: ignore[attr-defined]
    assert all("start" not in station.requests[-1].arrays for station in stations)


def test_an_initial_model_that_a_node_makes_differently_is_sent() -> None:
    far, near = pair("lone")
    far.membership.same_start = False
    start = far.initial(Stream(3, 0, "init"))
    directions = models(near, 2)
    found = similarities(far, start, directions, EVERYONE)
    np.testing.assert_array_equal(
        found, similarities(near, start, directions, EVERYONE), strict=True
    )
    transport = far.membership.request_round.transport
    stations = transport.stations.values()  # type: ignore[attr-defined]
    assert all("start" in station.requests[-1].arrays for station in stations)


def test_there_are_no_true_clusters_and_no_queries_between_peers() -> None:
    far, _ = pair("lone")
    assert isinstance(far, World) and far.true_clusters is None
    with pytest.raises(TaskError, match="fedkin peer"):
        far.run(Ask(1), np.array([1]))


# --- the content of a request


def test_a_node_gets_only_the_models_that_its_rows_need() -> None:
    far, _ = pair("mixed")
    train(far, np.array([0, 1, 2, 4]), [4, 2, 4, 0], 5)
    transport = far.membership.request_round.transport
    stations = transport.stations  # type: ignore[attr-defined]
    sent = {node: station.requests[-1].arrays.get("models") for node, station in stations.items()}
    assert {node: len(held) for node, held in sent.items() if held is not None} == {
        100: 1,
        99: 2,
        98: 1,
    }


def test_the_ledger_has_the_size_of_messages() -> None:
    far, _ = pair("mixed")
    transport = far.membership.request_round.transport
    train(far, SOME, [2, 0, 2, 1], reduce=True)
    with far.ledger.scoring():
        evaluate(far, models(far, 3), SOME, np.array([2, 0, 2, 1]))
    far.run(Losses(models(far, 3)), SOME)
    down = far.ledger.measured_down
    up = far.ledger.measured_up
    for operation, account in (
        ("train", "train"),
        ("evaluate", "scoring.evaluate"),
        ("losses", "losses"),
    ):
        pushed = transport.pushed  # type: ignore[attr-defined]
        pulled = transport.pulled  # type: ignore[attr-defined]
        assert down[account] == sum(size for *_, v, size in pushed if v == operation) > 0
        assert up[account] == sum(size for v, size in pulled if v == operation) > 0
    assert far.ledger.measured_total()[0] == sum(
        down.get(operation, 0) for operation in ("hello", "train", "losses")
    )


def test_requests_that_are_not_sent_are_not_counted() -> None:
    """Those that the engine does not accept, and those after the round's deadline."""
    task = Losses(np.zeros((1, P), np.float32))
    counts = []
    for rejected in (False, True):
        transport = MemoryTransport()
        for client in range(3):
            transport.join(client, fake_node(f"site-{client}", [client]))
        world = fake_remote(transport, capacity=3, wait_for=3, deadline=90.0)
        world.begin(STREAM)
        transport.stations[2].rejected = rejected
        world.run(task, np.arange(3 if rejected else 2))
        transport.clock.sleep(100)
        world.run(task, np.arange(3))
        counts.append((world.ledger.down["losses"], world.ledger.up["losses"]))
    assert counts[0] == counts[1]
    assert counts[0][0] > 0


def test_the_ledger_counts_as_in_a_simulation() -> None:
    """Handshakes, headers and late replies count only in the sizes of messages."""
    for layout in LAYOUTS:
        far, near = pair(layout)
        for world in (far, near):
            held = models(world, 3)
            train(world, SOME, [2, 0, 2, 1], reduce=True)
            train(world, SOME, None, gradient=True, part=slice(0, 7))
            similarities(world, held[0], held[1:], SOME)
            world.run(Directions(held), SOME)
            world.run(Note(), SOME)
            world.run(Shifted(), SOME)
            for task in (
                Losses(held),
                LabelErrors(held),
                Classes(),
                Gradients(held, np.array([0, 0, 1, 2])),
            ):
                world.run(task, SOME)
            with world.ledger.scoring():
                evaluate(world, held, SOME, np.array([2, 0, 2, 1]))
        assert far.ledger.down == near.ledger.down and far.ledger.up == near.ledger.up
        assert {"hello", "shifted"} <= far.ledger.measured_down.keys() - far.ledger.down.keys()
        assert not near.ledger.measured_down and not near.ledger.measured_up


def test_training_reports_test_results_before_training() -> None:
    for layout in LAYOUTS:
        far, near = pair(layout)
        reply = train(far, EVERYONE, [2, 0, 2, 1, 0, 1])
        scores = evaluate(near, models(near, 3), EVERYONE, np.array([2, 0, 2, 1, 0, 1]))
        assert reply.before_training is not None
        assert (reply.before_training.correct[0], reply.before_training.examples[0]) == (
            scores.correct.sum(),
            scores.examples.sum(),
        )
        np.testing.assert_allclose(
            reply.before_training.loss[0], np.average(scores.loss, weights=scores.examples)
        )
