"""A user's tasks over messages, on single nodes and on fleets: the simulator's results, or one
clear refusal."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedkin.core.client import Client
from fedkin.core.errors import TaskError
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.schema import Rows, Sums, booleans, floats, integers
from fedkin.core.task import Task, chosen, each, kept, setting, shared
from fedkin.core.training import LocalTraining
from fedkin.server.message import RpcMessage
from fedkin.server.remote_world import RemoteWorld
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.train import Train
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import WORK
from tests.server.test_remote_world import EVERYONE, SOME, STREAM, models, pair

PARAMETERS = 42
TABLE = np.arange(4 * PARAMETERS, dtype=np.float32).reshape(4, PARAMETERS)
each_layout = pytest.mark.parametrize("layout", ["lone", "fleets", "mixed"])


def of(world: RemoteWorld) -> MemoryTransport:
    transport = world.membership.request_round.transport
    assert isinstance(transport, MemoryTransport)
    return transport


def compared(task: Task, layout: str, clients: np.ndarray = SOME) -> Reply:
    """The reply over messages, which is the simulator's."""
    far, near = pair(layout)
    one, two = (world.run(task, clients, STREAM) for world in (far, near))
    assert one.arrays.keys() == two.arrays.keys()
    for name, values in two.arrays.items():
        np.testing.assert_allclose(one.arrays[name], values, rtol=1e-6, err_msg=name)
    np.testing.assert_array_equal(one.arrived, two.arrived)
    np.testing.assert_array_equal(one.nonfinite, two.nonfinite)
    assert (one.weight is None) == (two.weight is None)
    if one.weight is not None and two.weight is not None:
        np.testing.assert_array_equal(one.weight, two.weight)
    assert (far.ledger.down, far.ledger.up) == (near.ledger.down, near.ledger.up)
    return one


# --- names of fields


@pytest.mark.parametrize(
    "name",
    ["operation", "run", "first", "count", "handshake", "stream", "call", "clients", "moved"],
)
def test_a_field_with_the_name_of_a_part_of_a_request_is_refused_where_it_is_defined(
    name: str,
) -> None:
    with pytest.raises(TaskError, match=f"a field cannot be called {name}"):
        type("OwnField", (Task,), {"__annotations__": {name: "int"}, name: 3, "up": Rows()})


@pytest.mark.parametrize("name", ["shift", "note"])
def test_so_is_one_with_a_name_of_another_message(name: str) -> None:
    with pytest.raises(TaskError, match=f"a field cannot be called {name}"):
        type("OwnField", (Task,), {"__annotations__": {name: "int"}, name: 3, "up": Rows()})


def test_an_array_of_a_reply_is_not_called_as_an_array_of_a_standing_task() -> None:
    with pytest.raises(TaskError, match="the reply's name shifted is reserved"):
        type("OwnShift", (Task,), {"up": Rows(shifted=integers())})


# --- fields


@dataclass(frozen=True)
class TwoSorts(Task):
    """Numbers of two sorts of models, each with a separate index."""

    first_table: np.ndarray = chosen("K P", by="first_index")
    other_table: np.ndarray = chosen("L P", by="other_index")
    first_index: np.ndarray = each()
    other_index: np.ndarray = each()

    up = Rows(found=floats("2"), client=integers())
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        one = self.first_table[self.first_index[0]]
        two = self.other_table[self.other_index[0]]
        return {"found": np.array([one.sum(), two.sum()], float), "client": client.id}


@each_layout
def test_models_of_two_fields_each_with_its_own_index(layout: str) -> None:
    one = np.array([3, 1, 1, 0])
    two = np.array([2, 0, 3, 3])
    reply = compared(TwoSorts(TABLE, TABLE * 10, one, two), layout)
    np.testing.assert_allclose(
        reply.found, np.stack([TABLE.sum(axis=1)[one], 10 * TABLE.sum(axis=1)[two]], axis=1)
    )
    assert reply.client.tolist() == SOME.tolist()


@dataclass(frozen=True)
class OwnSettings(Task):
    """Settings of every type that can be sent; a local training with a default."""

    model: np.ndarray = shared("P")
    part: Any = None
    work: LocalTraining = WORK
    required: Any = setting(default=())

    up = Rows(total=floats(), kind=integers(), update=floats("P", np.float32))

    def compute(self, client: Client) -> dict[str, Any]:
        kinds = [slice, tuple, str, bool, int, float, type(None)]
        numbers = np.arange(10.0)[self.part] if isinstance(self.part, slice) else np.zeros(1)
        kind = 10 * kinds.index(type(self.part)) + kinds.index(type(self.required))
        return {
            "total": numbers.sum(),
            "kind": kind,
            "update": client.train(self.model, self.work).update,
        }


SETTINGS = [
    slice(0, 10, 3),
    slice(None, 4),
    slice(1, None, 2),
    (0, 4),
    (),
    ("a", None),
    "text",
    True,
    3,
    2.5,
    None,
]


@pytest.mark.parametrize("layout", ["lone", "fleets"])
@pytest.mark.parametrize("value", SETTINGS, ids=str)
def test_settings_arrive_unchanged(value: Any, layout: str) -> None:
    far, near = pair(layout)
    work = LocalTraining(epochs=2, batch_size=4, lr=0.05)
    for options in ({"part": value}, {"required": value, "work": work}):
        task = OwnSettings(TABLE[0] / 1000, **options)
        one, two = (world.run(task, SOME, STREAM) for world in (far, near))
        for name in two.arrays:
            np.testing.assert_array_equal(one.arrays[name], two.arrays[name], err_msg=name)


@pytest.mark.parametrize(
    "value", [[0, 4], {"epochs": 4}, np.ones(2), float("nan"), (1, [2]), {1}, b"x"], ids=str
)
@pytest.mark.parametrize("field", ["part", "required"])
def test_other_settings_are_refused_before_anything_is_sent(field: str, value: Any) -> None:
    far, _ = pair("mixed")
    before = len(of(far).pushed)
    with pytest.raises(
        TaskError, match=f"task own_settings: {field} = .* cannot be sent as a setting"
    ):
        far.run(OwnSettings(TABLE[0], **{field: value}), SOME, STREAM)
    assert len(of(far).pushed) == before


@dataclass(frozen=True)
class MaybeKept(Task):
    """An array to keep that may be left out."""

    table: np.ndarray | None = kept("T P", default=None)

    up = Rows(total=floats())
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        return {"total": -1.0 if self.table is None else float(self.table.sum())}


@each_layout
def test_an_array_to_keep_may_be_left_out(layout: str) -> None:
    far, _ = pair(layout)
    found = [
        far.run(MaybeKept(table), EVERYONE).total[0]
        for table in (None, TABLE, None, TABLE, TABLE + 1)
    ]
    assert found == [-1, TABLE.sum(), -1, TABLE.sum(), (TABLE + 1).sum()]


# --- refused before anything is sent


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda held: Gradients(held, np.array([0, 1, 2, 0, 1])),
            r"model_index has 5 entries, but world\.run got 4 clients",
        ),
        (
            lambda held: Gradients(held, np.array([0, 1])),
            r"model_index has 2 entries, but world\.run got 4 clients",
        ),
        (lambda held: Gradients(held, np.array([0, 1, 3, 0])), "model_index must be from 0 to 2"),
        (lambda held: Gradients(held, np.array([0, -1, 2, 0])), "model_index must be from 0 to 2"),
        (
            lambda held: Gradients(held[:, :5], np.array([0, 1, 2, 0])),
            "models has P = 5, expected 42",
        ),
        (
            lambda held: Train(held[:, :5], LocalTraining(), np.array([0, 1, 2, 0])),
            "models has P = 5, expected 42",
        ),
        (lambda held: OwnSettings(held[0, :3]), "model has P = 3, expected 42"),
    ],
)
def test_arrays_that_do_not_fit_the_call_are_refused_before_anything_is_sent(
    change: Callable[[np.ndarray], Task], reason: str
) -> None:
    far, near = pair("mixed")
    before = len(of(far).pushed)
    for world in (far, near):
        with pytest.raises(TaskError, match=reason):
            world.run(change(models(near, 3)), SOME, STREAM)
    assert len(of(far).pushed) == before


def test_a_reply_with_an_entry_for_each_model_that_was_chosen_is_refused() -> None:
    """A client has some of them only."""

    @dataclass(frozen=True)
    class LossOfChosen(Task):
        models: np.ndarray = chosen("K P")
        model_index: np.ndarray = each()

        up = Rows(loss=floats("K"))

        def compute(self, client: Client) -> dict[str, Any]:
            return {"loss": client.losses(self.models)}

    for world in pair("mixed"):
        with pytest.raises(
            TaskError, match=r"loss has an entry for each of the models.*shared\('K P'\)"
        ):
            world.run(LossOfChosen(TABLE, np.zeros(4, np.int64)), SOME)


# --- which rows count


@dataclass(frozen=True)
class Values(Task):
    """Some numbers of each client; ``bad`` clients have the given numbers."""

    bad: int = -1
    value: str = "nan"

    up = Rows(value=floats(low=0, high=1, finite=False), number=integers())
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        return {"value": float(self.value) if client.id == self.bad else 0.5, "number": client.id}


@dataclass(frozen=True)
class Totals(Task):
    """Sums over clients, of bounded numbers; not finite of one client."""

    bad: int = -1
    value: str = "nan"

    up = Sums(
        total=floats(low=1, high=2),
        count=integers(low=1, high=5),
        yes=booleans(),
        several=booleans("2"),
        part=floats("3", np.float32),
    )
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        total = float(self.value) if client.id == self.bad else 1.0 + client.id / 5
        several = np.array([client.id > 1, True])
        return {
            "total": total,
            "count": 1,
            "yes": client.id % 2 == 0,
            "several": several,
            "part": np.ones(3),
        }


@each_layout
@pytest.mark.parametrize("value", ["2.0", "-0.5", "inf", "nan"])
def test_a_number_out_of_bounds_leaves_out_its_client_only(value: str, layout: str) -> None:
    reply = compared(Values(3, value), layout)
    # NaN is in no bounds' way.
    assert reply.nonfinite.tolist() == [
        False,
        False,
        value != "nan",
        False,
    ]


@each_layout
@pytest.mark.parametrize("value", ["nan", "inf", "7.0"])
def test_a_sum_is_over_the_clients_that_count(value: str, layout: str) -> None:
    reply = compared(Totals(3, value), layout)
    assert reply.nonfinite.tolist() == [False, False, True, False] and reply.count == 3
    assert reply.yes == 2 and reply.several.tolist() == [2, 3] and reply.part.tolist() == [3, 3, 3]


@each_layout
def test_sums_of_a_fleet_may_be_as_many_times_the_bounds_as_it_has_clients(layout: str) -> None:
    reply = compared(Totals(), layout, EVERYONE)
    assert reply.arrived.all() and reply.count == 6 and reply.yes == 3
    np.testing.assert_allclose(reply.total, 9.0)


@pytest.mark.parametrize(
    ("layout", "array", "value"),
    [
        ("lone", "total", 2.1),
        ("lone", "yes", 2),
        ("lone", "yes", -1),
        ("lone", "count", 6),
        ("lone", "several", np.array([0, 2])),
        ("fleets", "total", 6.1),
        ("fleets", "total", 2.9),
        ("fleets", "yes", 4),
        ("fleets", "count", 2),
        ("fleets", "count", 16),
        ("fleets", "several", np.array([0, -1])),
    ],
)
def test_sums_that_cannot_be_are_left_out(
    layout: str, array: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    far, _ = pair(layout)
    of(far).stations[100].tamper = lambda request, reply: RpcMessage(
        reply.header, {**reply.arrays, array: np.array(value)}
    )
    with caplog.at_level(logging.WARNING, "fedkin"):
        reply = far.run(Totals(), EVERYONE)
    away = 1 if layout == "lone" else 3
    assert np.flatnonzero(reply.nonfinite).tolist() == [*range(away)] and reply.count == 6 - away
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "the reply of site-0 (totals) is excluded: task totals: " in warning and array in warning


def test_sums_of_a_node_without_clients_that_count_are_not_used() -> None:
    """Whatever they are."""
    far, near = pair("lone")
    poison = {"total": np.array(1e9), "count": np.array(77), "part": np.full(3, np.float64(5))}

    def tamper(request: RpcMessage, reply: RpcMessage) -> RpcMessage:
        assert reply.arrays["nonfinite"].all()
        return RpcMessage(reply.header, {**reply.arrays, **poison})

    of(far).stations[97].tamper = tamper  # of client 3
    one, two = (world.run(Totals(3), EVERYONE) for world in (far, near))
    for name in two.arrays:
        np.testing.assert_allclose(one.arrays[name], two.arrays[name])
    np.testing.assert_array_equal(one.nonfinite, two.nonfinite)


# --- means


@dataclass(frozen=True)
class MeansByOwn(Task):
    """Means by model, with the task's weights. A field of another name says which model a row
    belongs to."""

    tables: np.ndarray = chosen("K P", by="own_table")
    own_table: np.ndarray = each()
    weights: np.ndarray = each()

    up = Sums(
        mean=floats("P", over="model"),
        examples=integers(over="row"),
        model_index=integers(over="row"),
    )
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        own = self.own_table[0]
        return {
            "mean": self.tables[own] * (1.0 + client.id),
            "examples": self.weights[0],
            "model_index": own,
        }


@dataclass(frozen=True)
class MeansOfShared(Task):
    """Means by model. All clients have the models, and each chooses one."""

    tables: np.ndarray = shared("K P")

    up = MeansByOwn.up
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        own = (client.id * 2) % 3
        return {
            "mean": self.tables[own] * (1.0 + client.id),
            "examples": 1 + client.id,
            "model_index": own,
        }


@each_layout
@pytest.mark.parametrize("weights", [[3, 1, 7, 2], [1, 1, 1, 1], [4, 0, 0, 2]])
def test_means_of_models_that_another_field_names_by_weights_of_ones_own(
    weights: list[int], layout: str
) -> None:
    own = np.array([3, 1, 1, 3])
    reply = compared(MeansByOwn(TABLE, own, np.array(weights)), layout)
    assert reply.arrived.all() and reply.weight is not None
    assert reply.weight.tolist() == [0, weights[1] + weights[2], 0, weights[0] + weights[3]]
    mean = np.average(1.0 + SOME[[0, 3]], weights=[weights[0], weights[3]])
    np.testing.assert_allclose(reply.mean[3], TABLE[3] * mean)
    assert reply.model_index.tolist() == own.tolist() and reply.examples.tolist() == weights


@each_layout
def test_means_of_models_that_clients_choose_among_all(layout: str) -> None:
    reply = compared(MeansOfShared(TABLE), layout)
    assert reply.model_index.tolist() == [1, 0, 0, 1] and reply.weight is not None
    assert reply.weight.tolist() == [1 + 4, 6 + 3, 0, 0]


@pytest.mark.parametrize("layout", ["lone", "fleets"])
@pytest.mark.parametrize("factor", [1e6, 0.5])
def test_a_node_has_the_weight_of_its_clients_examples_only(
    factor: float, layout: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Else its update would be nearly all of the mean."""
    for task in (
        MeansOfShared(TABLE),
        Train(
            np.zeros((2, PARAMETERS), np.float32),
            LocalTraining(),
            np.array([0, 1, 0, 0, 1, 0]),
            reduce=True,
        ),
    ):
        far, _ = pair(layout)
        of(far).stations[100].tamper = lambda request, reply: RpcMessage(
            reply.header, {**reply.arrays, "weight": reply.arrays["weight"] * factor}
        )
        caplog.clear()
        with caplog.at_level(logging.WARNING, "fedkin"):
            reply = far.run(task, EVERYONE, STREAM)
        assert np.flatnonzero(~reply.arrived).tolist() == [*range(1 if layout == "lone" else 3)]
        assert "weight is not the number of training samples of the clients" in caplog.text


# --- the randomness and the ids of clients


@dataclass(frozen=True)
class Draws(Task):
    """A random number of each client."""

    up = Rows(number=integers(), client=integers())
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        return {"number": client.rng().integers(1000), "client": client.id}


@each_layout
def test_clients_draw_the_same_numbers_as_in_a_simulation(layout: str) -> None:
    reply = compared(Draws(), layout)
    assert len(set(reply.number.tolist())) > 1 and reply.client.tolist() == SOME.tolist()


def test_a_stream_of_another_round_gives_other_numbers() -> None:
    far, _ = pair("mixed")
    one, two = (far.run(Draws(), SOME, Stream(3, round, "x")).number.tolist() for round in (1, 2))
    assert one != two
