"""Every reply to every task, changed in every way that a hostile node could: it is left out as a
whole, with one warning that names the node and the fault, and the other nodes' replies are
used as if it had never come."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.schema import MAX_COUNT, Array
from fedkin.core.task import Task
from fedkin.server.message import RpcMessage
from fedkin.server.remote_world import RemoteWorld
from fedkin.tasks.shift import Shifted
from fedkin.tasks.train import Train
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import ABOUT, P, fake_node, fake_remote, membership_of
from tests.tasks.test_conformance import EXAMPLES, Given

STREAM = Stream(3, 1, "run").child("task")
SPEC = ModelSpec(P, {}, slice(1, P), slice(1, P))  # the last three numbers are a head
LAYOUTS = {"lone": [[k] for k in range(6)], "fleets": [[0, 1], [2, 3], [4, 5]]}
HOSTILE = 2  # the client whose node is changed; of fleets, client 3 is on it too
FLAGS = ("arrived", "nonfinite")
TWO_LINES = "x\nround 7: fine\x1b[2K"  # as a name of an array


class Change(NamedTuple):
    """The arrays that a node sends in place of its result."""

    name: str
    arrays: dict[str, np.ndarray]
    field: str  # that the warning must name


def example(name: str) -> tuple[Task, list[Task], np.ndarray]:
    """A task, the tasks before it, and the clients of its rows: several of a client where models
    are detectors."""
    clients = np.array([2, 0, 3, 1, 4])
    index = np.array([1, 0, 1, 2, 1])
    if EXAMPLES[name].detectors and name != "evaluate detectors":
        clients = np.array([3, 0, 3, 1, 2, 3])
        index = np.array([2, 0, 1, 1, 0, 0])
    together = np.array([[0, 1, 2], [2, 1, 0], [0, 1, 2], [1, -1, 2], [0, -1, -1]])
    models = np.random.default_rng(4).normal(size=(3, P)).astype(np.float32)
    given = Given(
        spec=SPEC,
        models=models,
        clients=clients,
        index=index,
        positive=(index + clients) % 3,
        together=together,
        columns=1,
    )
    return EXAMPLES[name].make(given), [make(given) for make in EXAMPLES[name].before], clients


def federation(layout: str, detects: bool) -> tuple[MemoryTransport, RemoteWorld]:
    transport = MemoryTransport()
    about = replace(ABOUT, samples="[1] -> 3")
    for node, clients in enumerate(LAYOUTS[layout]):
        transport.join(node, fake_node(f"site-{clients[0]}", clients, about, detects=detects))
    world = fake_remote(
        transport, membership_of(transport, about, wait_for=6, capacity=6), detects=detects
    )
    world.begin(Stream(3, 1))
    return transport, world


def hostile_node(layout: str) -> int:
    return next(node for node, clients in enumerate(LAYOUTS[layout]) if HOSTILE in clients)


class Federation:
    """Nodes, and a server that has run the tasks before an example."""

    def __init__(self, name: str, layout: str) -> None:
        self.task, before, self.clients = example(name)
        self.transport, self.world = federation(layout, EXAMPLES[name].detectors)
        self.node = self.transport.stations[hostile_node(layout)]
        self.honest: dict[str, np.ndarray] = {}  # the honest arrays of the hostile node
        for one in before:
            self.world.run(one, self.clients, STREAM)

    def run(self, arrays: Mapping[str, np.ndarray] | None = None) -> Reply:
        """The reply where the hostile node sends these arrays."""

        def tamper(request: RpcMessage, reply: RpcMessage) -> RpcMessage:
            self.honest = dict(reply.arrays)
            return reply if arrays is None else RpcMessage(reply.header, dict(arrays))

        self.node.tamper = tamper
        return self.world.run(self.task, self.clients, STREAM)


ASKED = [
    n for n in EXAMPLES if example(n)[0].delivery == "asked" and not example(n)[0].between_peers
]
# Only sites whose tables have the asked columns do these (test_summed_scaling.py).
OF_TABLES = {"column counts", "column sums"}
# The quadratic clients of these federations have no scores or spans of samples, and no patients.
UNDOABLE = {
    "choose strength",
    "compare models",
    "evaluate mixture",
    "evaluate pulled",
    "evaluate routed",
    "evaluate tests routed",
    "score moments",
    "score moments without labels",
    "span scores",
    "survival counts",
    "train kind",
    "train spans",
}
ASKED = [name for name in ASKED if not example(name)[0].local and name not in UNDOABLE | OF_TABLES]


def changes(task: Task, honest: dict[str, np.ndarray]) -> Iterator[Change]:
    """Every change of a reply."""
    yield Change("nothing at all", {}, "no ")
    yield Change("an array too many", {**honest, "dance": np.zeros(3)}, "dance")
    yield Change("a name of two lines", {**honest, TWO_LINES: np.zeros(3)}, "x round 7: fine")
    yield Change("a long name", {**honest, "x" * 10_000: np.zeros(3)}, "x...")
    yield Change("a means' weight too many", {**honest, "weights": np.ones(1)}, "weights")
    for name, values in honest.items():
        others = {other: array for other, array in honest.items() if other != name}
        yield Change(f"no {name}", others, name)
        for what, changed in changed_arrays(task, name, values):
            # It says how many means there must be.
            counts = name == "trained_models" and what.endswith("entries")
            field = next(iter(task.up.of("model"))) if counts else name
            yield Change(f"{name}: {what}", {**others, name: changed}, field)
    if "arrived" in honest:
        both = dict.fromkeys(FLAGS, np.ones_like(honest["arrived"]))
        yield Change("arrived and not finite", {**honest, **both}, "nonfinite")
    if "trained_models" in honest:
        per_model = [*task.up.of("model"), "weight", "trained_models"]
        yield Change(
            "no means",
            {n: a[:0] if n in per_model else a for n, a in honest.items()},
            "trained_models",
        )
        none = dict.fromkeys(FLAGS, np.zeros_like(honest["arrived"]))
        yield Change("means of no client", {**honest, **none}, "trained_models")


def changed_arrays(task: Task, name: str, values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Every change of one array."""
    schema = task.up.arrays.get(name, Array(dtype=values.dtype, missing=0))
    yield "another axis", values[..., None]
    yield "no axis", np.array(values.ravel()[0])
    yield "more entries", np.concatenate([values, values, values])
    yield "no entries", values[:0]
    yield (
        "another type",
        np.nan_to_num(values).astype(
            {"f": np.int64, "i": np.float64, "b": np.int64}[values.dtype.kind]
        ),
    )
    if values.dtype.kind == "f":
        if schema.finite:
            yield "infinity", poisoned(values, np.inf)
            yield "NaN", poisoned(values, np.nan)
        for bound in (schema.low, schema.high):
            if np.isfinite(bound):
                yield f"beyond {bound:g}", poisoned(values, 2 * bound + np.sign(bound or -1))
    if values.dtype.kind == "i":
        yield (
            "below the lowest",
            poisoned(values, int(schema.low) - 1 if np.isfinite(schema.low) else -1),
        )
        yield "a huge count", poisoned(values, MAX_COUNT + 1)
    if name == "weight":
        more = 1e6 * values.flat[0]
        for what, number in (
            ("negative", -1.0),
            ("zero", 0.0),
            ("huge", 2.0 * MAX_COUNT),
            ("of others too", more),
        ):
            yield what, poisoned(values, number)
    if name in ("model_index", "trained_models", "nearest"):
        yield "a model that was not sent", poisoned(values, 3)
        if getattr(task, "model_index", None) is not None:  # else a client may choose any
            yield "another model", values + 1
    if name == "sums":
        yield "more than all", values + 1000
    if name == "test_sums":
        for sums in ([9.0, 3.0, 0.0], [-1.0, 3.0, 0.0], [0.0, -1.0, 0.0], [1e300, 1e300, 0.0]):
            yield f"{sums}", np.array(sums)


def poisoned(values: np.ndarray, number: float | int) -> np.ndarray:
    changed = values.copy()
    changed.flat[0] = number
    return changed


OF_FLEETS = {
    "losses",
    "personal",
    "similarities",
    "train the best",
    "train to means",
    "train with a test",
}
CASES = [
    (name, layout) for name in ASKED for layout in LAYOUTS if layout == "lone" or name in OF_FLEETS
]


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_a_changed_reply_is_left_out_with_one_warning(
    name: str, layout: str, caplog: pytest.LogCaptureFixture
) -> None:
    gone = Federation(name, layout)
    whole = Federation(name, layout)
    gone.node.rejected = True
    task = gone.task
    expected = gone.run()
    _ = whole.run()
    own = np.isin(gone.clients, LAYOUTS[layout][hostile_node(layout)])
    # Clients do not do the same again.
    lasting = bool(task.memory)
    count = 0
    for change in changes(task.for_messages(SPEC), whole.honest):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "fedkin"):
            got = (Federation(name, layout) if lasting else whole).run(change.arrays)
        (warning,) = [record.getMessage() for record in caplog.records]
        assert warning.startswith(
            f"round 1: the reply of site-{HOSTILE} ({task.name}) is excluded: "
        ), change.name
        assert change.field in warning.split("excluded", 1)[1], (change.name, warning)
        assert warning.isprintable() and len(warning) < 700, change.name
        np.testing.assert_array_equal(got.arrived, ~own, err_msg=change.name)
        np.testing.assert_array_equal(got.nonfinite, own & (not task.standing), err_msg=change.name)
        assert got.arrays.keys() == expected.arrays.keys()
        for array, values in expected.arrays.items():
            np.testing.assert_array_equal(
                got.arrays[array], values, err_msg=f"{change.name}: {array}"
            )
        if expected.weight is not None:
            np.testing.assert_array_equal(got.weight, expected.weight, err_msg=change.name)
        count += 1
    assert count > 5 * len(whole.honest)


def test_a_left_out_reply_reports_no_shift_either(caplog: pytest.LogCaptureFixture) -> None:
    transport, world = federation("lone", detects=False)
    clients = np.arange(6)
    models = np.zeros((1, P), np.float32)
    train = Train(models, world.work, np.zeros(6, np.int64))
    world.expect(Shifted())
    for name in ("update", "shifted"):

        def tamper(request: RpcMessage, reply: RpcMessage, name: str = name) -> RpcMessage:
            changed = {
                "update": np.full_like(reply.arrays["update"], np.inf),
                "shifted": np.zeros(1),
            }
            lie = {"shifted": np.ones(1, bool)} if name == "update" else {}
            return RpcMessage(reply.header, {**reply.arrays, **lie, name: changed[name]})

        transport.stations[HOSTILE].tamper = tamper
        with caplog.at_level(logging.WARNING, "fedkin"):
            got = world.run(train, clients, STREAM)
        assert np.flatnonzero(~got.arrived).tolist() == [HOSTILE] and f"{name} " in caplog.text
        assert len(caplog.records) == 1
        caplog.clear()
        transport.stations[HOSTILE].tamper = lambda request, reply: reply
        requests = [len(station.requests) for station in transport.stations.values()]
        # It is also sent a separate request.
        assert not world.run(Shifted(), clients).shifted.any()
        new = [
            len(s.requests) - before
            for s, before in zip(transport.stations.values(), requests, strict=True)
        ]
        assert new == [node == HOSTILE for node in range(6)]
        world.begin(Stream(3, 5))


@pytest.mark.parametrize("name", sorted(UNDOABLE))
def test_tasks_that_are_left_out_cannot_be_done_by_all_clients_here(name: str) -> None:
    assert not Federation(name, "lone").run().arrived.all()
