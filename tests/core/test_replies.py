"""Replies: put together from portions, and refused where they differ from the declaration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.client import Client, ClientRows
from fedkin.core.errors import TaskError
from fedkin.core.randomness import Stream
from fedkin.core.replies import (
    Reply,
    ReplyBuilder,
    check_arrays,
    mean_reply,
    mean_vector,
    sound_rows,
    without_rows,
)
from fedkin.core.schema import Memory, Rows, Sums, booleans, floats, integers
from fedkin.core.task import Task, chosen, each
from fedkin.models import mclr
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.losses import Losses
from tests.simulation.small_federation import federation as samples

SIZES = {"K": 2, "P": 3, "C": 2}
BY = {
    "examples": integers(over="row", counted=False),
    "model_index": integers(over="row", counted=False),
}
GOOD = {
    "norm": np.array([0.5, 0.25]),
    "vector": np.ones((2, 3), np.float32),
    "count": np.array([[1, 2], [3, 10]]),
    "flag": np.array([True, False]),
}
TWO = np.arange(2)


@dataclass(frozen=True)
class Measured(Task):
    """Arrays of every type."""

    up = Rows(
        norm=floats(low=0, high=1),
        vector=floats("P", np.float32, missing=-1.0, finite=False),
        count=integers("C", high=10, missing=-1),
        flag=booleans(missing=True),
    )


@dataclass(frozen=True)
class Averaged(Task):
    """A mean by model, and a sum."""

    models: Any = chosen("K P")
    model_index: Any = each()
    up = Sums(update=floats("P", np.float32, missing=0.0, over="model"), total=floats("C"), **BY)


def averaged(rows: int) -> Averaged:
    return Averaged(np.zeros((2, 3), np.float32), np.zeros(rows, np.int64))


def added(arrays: dict[str, Any], task: Task | None = None, rows: int = 4) -> ReplyBuilder:
    builder = ReplyBuilder(task or Measured(), rows, SIZES)
    builder.add(np.array([2, 0]), arrays)
    return builder


# --- portions


def test_rows_that_never_came_hold_missing_values() -> None:
    reply = added(GOOD).reply()
    np.testing.assert_array_equal(reply.norm, [0.25, np.nan, 0.5, np.nan])
    np.testing.assert_array_equal(reply.vector, [[1] * 3, [-1] * 3, [1] * 3, [-1] * 3])
    np.testing.assert_array_equal(reply.count, [[3, 10], [-1, -1], [1, 2], [-1, -1]])
    np.testing.assert_array_equal(reply.flag, [False, True, True, True])
    np.testing.assert_array_equal(reply.arrived, [True, False, True, False])
    assert not reply.nonfinite.any() and reply.weight is None and reply.faults == {}
    assert [array.dtype for array in reply.arrays.values()] == [
        np.float64,
        np.float32,
        np.int64,
        np.bool_,
    ]


def test_types_of_the_same_kind_become_the_declared_one() -> None:
    reply = added(
        {**GOOD, "norm": GOOD["norm"].astype(np.float32), "count": GOOD["count"].astype(np.uint8)}
    ).reply()
    assert reply.norm.dtype == np.float64 and reply.count.dtype == np.int64


def test_an_array_that_a_reply_does_not_have() -> None:
    with pytest.raises(AttributeError, match="the reply has no array 'losses'; it has none"):
        _ = Reply({}, np.ones(1, bool), np.zeros(1, bool)).losses


def test_means_and_sums_over_portions() -> None:
    """By hand: the mean of model 0 is (1 x 2 + 3 x 6) / 4, no client trained model 1."""
    builder = ReplyBuilder(averaged(3), 3, SIZES)
    for row, value, examples in ((2, 2, 1), (0, 6, 3)):
        part = {
            "update": np.full((1, 3), value, np.float32),
            "total": np.full((1, 2), float(value)),
        }
        own = {"examples": np.array([examples]), "model_index": np.array([0])}
        builder.add(np.array([row]), part | own)
    reply = builder.reply()
    np.testing.assert_array_equal(reply.update, [[5, 5, 5], [0, 0, 0]])
    np.testing.assert_array_equal(reply.weight, [4, 0])
    np.testing.assert_array_equal(reply.total, [8, 8])
    np.testing.assert_array_equal(reply.examples, [3, 0, 1])
    np.testing.assert_array_equal(reply.arrived, [True, False, True])
    assert reply.update.dtype == np.float32


def test_parts_of_two_builders_are_one_reply() -> None:
    """By hand, as above: rows 2 and 1 of one builder, row 0 of another; row 1 is not finite and
    counts nowhere."""
    whole, one, other = (ReplyBuilder(averaged(rows), rows, SIZES) for rows in (3, 2, 1))
    own = {"examples": np.array([1, 5]), "model_index": np.array([0, 1])}
    update = np.array([[2] * 3, [np.nan] * 3], np.float32)
    one.add(np.arange(2), {"update": update, "total": np.full((2, 2), 2.0), **own})
    more = {"examples": np.array([3]), "model_index": np.array([0])}
    other.add(
        np.arange(1),
        {"update": np.full((1, 3), 6, np.float32), "total": np.full((1, 2), 6.0), **more},
    )
    whole.merge(np.array([2, 1]), one.partial())
    whole.merge(np.array([0]), other.partial())
    reply = whole.reply()
    np.testing.assert_array_equal(reply.update, [[5, 5, 5], [0, 0, 0]])
    np.testing.assert_array_equal(reply.weight, [4, 0])
    np.testing.assert_array_equal(reply.total, [8, 8])
    np.testing.assert_array_equal(reply.examples, [3, 0, 1])
    np.testing.assert_array_equal(reply.arrived, [True, False, True])
    np.testing.assert_array_equal(reply.nonfinite, [False, True, False])
    assert reply.faults == {"update": [1]}


def test_means_from_rows_are_those_of_the_portions() -> None:
    """Bit for bit, whatever the order of the rows: they are added in the order of client ids."""
    rng = np.random.default_rng(0)
    clients = np.array([9, 3, 7, 5])
    index = np.array([0, 1, 0, 0])
    rows = rng.normal(size=(4, 3)).astype(np.float32) * np.array(
        [[1e8], [1], [-1e8], [1e-3]], np.float32
    )
    own = {"examples": np.array([3, 5, 2, 4]), "model_index": index}
    arrived = np.array([True, True, False, True])
    single = Reply(
        {"update": rows, "total": np.zeros(2), **own}, arrived, ~arrived, faults={"update": [2]}
    )
    task = Averaged(np.zeros((2, 3), np.float32), index)
    builder = ReplyBuilder(task, 4, SIZES)
    order = np.array([1, 3, 0])  # those that arrived, by id
    arrays = {name: values[order] for name, values in {"update": rows, **own}.items()}
    builder.add(order, arrays | {"total": np.zeros((3, 2))})
    got = mean_reply(task, single, clients)
    expected = builder.reply()
    np.testing.assert_array_equal(got.update, expected.update)
    np.testing.assert_array_equal(got.weight, expected.weight)
    np.testing.assert_array_equal(got.weight, [7, 5])
    assert got.faults == {"update": [2]}


def test_rows_that_are_left_out_hold_missing_values() -> None:
    reply = Reply(GOOD, np.ones(2, bool), np.zeros(2, bool))
    assert without_rows(Measured(), reply, np.zeros(2, bool)) is reply
    got = without_rows(Measured(), reply, np.array([True, False]))
    assert got.arrived.tolist() == [False, True]
    assert np.isnan(got.norm[0]) and got.norm[1] == 0.25
    assert got.vector.tolist() == [[-1.0] * 3, [1.0] * 3]
    assert got.count.tolist() == [[-1, -1], [3, 10]]
    assert got.flag.tolist() == [True, False]
    assert GOOD["norm"][0] == 0.5


def test_a_task_names_the_vector_of_its_mean() -> None:
    long = floats("P", np.float32, missing=0.0, over="model", norm_checked=True)
    by_row = Sums(update=replace(long, over="row"), **BY)
    two = Sums(update=long, other=long, **BY)

    class OneVector(Averaged):
        up = Sums(update=long, head=replace(long, norm_checked=False), **BY)

        def single(self) -> Task | None:
            return self

    class VectorByRow(OneVector):
        up = by_row

    class TwoVectors(OneVector):
        up = two

    class MeansOnly(OneVector):
        def single(self) -> Task | None:
            return None

    expected = {OneVector: "update", VectorByRow: None, TwoVectors: None, MeansOnly: None}
    rows = np.zeros((2, 3), np.float32)
    numbers = np.zeros(2, np.int64)
    assert {kind: mean_vector(kind(rows, numbers)) for kind in expected} == expected


# --- arrays that do not fit


BAD = {
    "missing": ({"norm": None}, r"the reply has no norm; expected norm, vector, count, flag"),
    "extra": (
        {"mine": np.zeros(2)},
        r"the reply has an unknown mine; expected norm, vector, count, flag",
    ),
    "both": ({"norm": None, "mine": np.zeros(2)}, r"the reply has no norm, an unknown mine"),
    "shape": (
        {"vector": np.ones((2, 4), np.float32)},
        r"expected vector of shape \[2, 3\] and type float32, got float32 of shape \[2, 4\]",
    ),
    "rows": (
        {"norm": np.zeros(3)},
        r"expected norm of shape \[2\] and type float64, got float64 of shape \[3\]",
    ),
    "axes": (
        {"norm": np.zeros((2, 1))},
        r"expected norm of shape \[2\] .*, got float64 of shape \[2, 1\]",
    ),
    "integers for floats": (
        {"norm": np.zeros(2, int)},
        r"expected norm of .* type float64, got int64",
    ),
    "floats for integers": (
        {"count": np.zeros((2, 2))},
        r"expected count of .* type int64, got float64",
    ),
    "integers for flags": ({"flag": np.zeros(2, int)}, r"expected flag of .* type bool, got int64"),
    "texts": ({"norm": np.array(["a", "b"])}, r"expected norm of .* type float64, got <U1"),
    "objects": ({"norm": np.array([None, None])}, r"expected norm of .* type float64, got object"),
    "below": ({"count": np.array([[1, 2], [-1, 0]])}, r"expected count from 0 to 10, got -1"),
    "above": ({"count": np.array([[1, 2], [11, 0]])}, r"expected count from 0 to 10, got 11"),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD.keys())
def test_arrays_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    arrays = {name: array for name, array in {**GOOD, **change}.items() if array is not None}
    with pytest.raises(TaskError, match=f"task measured: {message}"):
        added(arrays)


def test_nothing_of_a_refused_portion_is_used() -> None:
    builder = ReplyBuilder(averaged(2), 2, SIZES)
    part = {
        "update": np.ones((2, 3), np.float32),
        "examples": np.array([1, 2]),
        "model_index": np.array([0, 1]),
    }
    with pytest.raises(TaskError, match=r"expected total of shape \[2, 2\]"):
        builder.add(TWO, {**part, "total": np.ones((2, 3))})
    with pytest.raises(TaskError, match="task averaged: expected model_index below 2, got 2"):
        builder.add(TWO, {**part, "model_index": np.array([0, 2]), "total": np.ones((2, 2))})
    reply = builder.reply()
    assert not reply.update.any() and not reply.total.any() and not reply.arrived.any()
    np.testing.assert_array_equal(reply.weight, [0, 0])


def test_arrays_without_rows() -> None:
    known = {"total": floats("C")}
    np.testing.assert_array_equal(
        check_arrays(
            task=Measured(), arrays={"total": np.ones(2)}, known=known, rows=None, sizes=SIZES
        )["total"],
        [1, 1],
    )
    with pytest.raises(TaskError, match=r"task measured: expected total of shape \[2\]"):
        check_arrays(
            task=Measured(), arrays={"total": np.ones((1, 2))}, known=known, rows=None, sizes=SIZES
        )


# --- numbers that cannot be: the row is left out


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.001, 1.001])
def test_numbers_that_are_not_finite_or_out_of_bounds_leave_the_row_out(value: float) -> None:
    reply = added({**GOOD, "norm": np.array([0.5, value])}).reply()
    np.testing.assert_array_equal(reply.arrived, [False, False, True, False])
    np.testing.assert_array_equal(reply.nonfinite, [True, False, False, False])
    assert reply.faults == {"norm": [0]}
    assert (
        np.isnan(reply.norm[0])
        and reply.vector[0, 0] == -1
        and reply.count[0, 0] == -1
        and reply.flag[0]
    )


def test_numbers_that_may_be_anything() -> None:
    vector = np.array([[np.nan, 1, 2], [np.inf, 1, 2]], np.float32)
    reply = added({**GOOD, "vector": vector}).reply()
    np.testing.assert_array_equal(reply.vector[[2, 0]], vector)
    assert reply.arrived.sum() == 2 and reply.faults == {}


def test_bounds_hold_where_numbers_need_not_be_finite() -> None:
    array = floats(low=-1, high=1, finite=False)
    np.testing.assert_array_equal(
        sound_rows(array, np.array([np.nan, np.inf, 0.5, 2])), [True, False, True, False]
    )


def test_every_fault_of_a_row_is_named() -> None:
    builder = ReplyBuilder(averaged(3), 3, SIZES)
    part = {"update": np.zeros((3, 3), np.float32), "total": np.ones((3, 2))}
    part["update"][1] = np.nan
    part["total"][1:] = np.inf
    builder.add(
        np.arange(3), part | {"examples": np.array([2, 2, 2]), "model_index": np.array([0, 0, 1])}
    )
    reply = builder.reply()
    assert reply.faults == {"update": [1], "total": [1, 2]}
    np.testing.assert_array_equal(reply.weight, [2, 0])
    np.testing.assert_array_equal(reply.total, [1, 1])
    assert np.isfinite(reply.update).all()


# --- declarations that cannot be


def test_an_unknown_axis_names_task_and_array() -> None:
    class Unknown(Task):
        up = Rows(mine=floats("P q"))

    message = r"task unknown: mine has the axes \[P q\]; the size of axis 'q' is not known; known"
    with pytest.raises(TaskError, match=message):
        ReplyBuilder(Unknown(), 1, SIZES)


def test_means_by_model_of_a_task_without_models() -> None:
    class Modelless(Task):
        up = Sums(mine=floats(over="model"), **BY)

    with pytest.raises(
        TaskError, match=r"task modelless: mine .* no field of the task has the axis K"
    ):
        ReplyBuilder(Modelless(), 1, {"P": 3})


def test_a_reserved_name_in_a_schema_that_depends_on_fields() -> None:
    class Depends(Task):
        @property
        def up(self) -> Rows:
            return Rows(arrived=booleans())

    with pytest.raises(
        TaskError, match="task depends: the reply's name arrived is reserved; choose another"
    ):
        ReplyBuilder(Depends(), 1, SIZES)


# --- a broken task in the simulator: one error that names task, client and field


def federation(**options: Any) -> FakeWorld:
    return FakeWorld(np.zeros((5, 3), np.float32), np.ones(5, np.int64), **options)


@dataclass(frozen=True)
class OfAUser(Task):
    """What a user wrote: client 3 is where it goes wrong."""

    wrong: Callable[[Client], Any] = lambda client: None

    name = "broken"
    up = Rows(mine=floats("3"), count=integers(high=9))
    memory = {"test_replies_kept": Memory("P")}  # noqa: RUF012

    def compute(self, client: Client) -> Any:
        right = {"mine": np.zeros(3), "count": 1}
        return right if client.id != 3 else self.wrong(client)


def keeps(name: str, value: Any) -> Callable[[Client], Any]:
    def wrong(client: Client) -> Any:
        client.memory[name] = value
        return {"mine": np.zeros(3), "count": 1}

    return wrong


BROKEN: dict[str, tuple[Callable[[Client], Any], str]] = {
    "missing": (
        lambda c: {"mine": np.zeros(3)},
        r"the reply has no count; expected mine, count \(client 3\)",
    ),
    "extra": (
        lambda c: {"mine": np.zeros(3), "count": 1, "x": 1},
        r"the reply has an unknown x; .* \(client 3\)",
    ),
    "shape": (
        lambda c: {"mine": np.zeros(4), "count": 1},
        r"expected mine of shape \[1, 3\] .* \(client 3\)",
    ),
    "type": (
        lambda c: {"mine": np.zeros(3), "count": 1.0},
        r"expected count .* type int64, got float64 .*client 3",
    ),
    "bound": (
        lambda c: {"mine": np.zeros(3), "count": 10},
        r"expected count from 0 to 9, got 10 \(client 3\)",
    ),
    "ragged": (
        lambda c: {"mine": [[1.0], [1.0, 2.0]], "count": 1},
        r"mine is no array: .* \(client 3\)",
    ),
    "nothing": (
        lambda c: None,
        r"compute must return a dictionary of arrays, got NoneType \(client 3\)",
    ),
    "an array": (
        lambda c: np.zeros(3),
        r"compute must return a dictionary of arrays, got ndarray \(client 3\)",
    ),
    "undeclared memory": (
        keeps("other", np.zeros(3)),
        "task broken, client 3, memory other: the task's `memory` does not declare it; it "
        "declares test_replies_kept$",
    ),
    "memory of another shape": (
        keeps("test_replies_kept", np.zeros((3, 1))),
        r"task broken, client 3, memory test_replies_kept: expected the axes \[P\], got the shape "
        r"\[3, 1\]",
    ),
    "no stream": (
        lambda c: {"mine": c.rng().normal(size=3), "count": 1},
        r"draws random numbers: run it with a stream",
    ),
}


@pytest.mark.parametrize(("wrong", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_task_gives_one_error_with_task_client_and_field(
    wrong: Callable[[Client], Any], message: str
) -> None:
    prefix = "" if message.startswith("task") else "task broken:? "
    with pytest.raises(TaskError, match=f"^{prefix}{message}"):
        federation().run(OfAUser(wrong), np.array([1, 3, 4]))


def test_the_client_is_named_by_its_own_number() -> None:
    """In a world of some clients of a federation positions are not ids."""
    data = samples((4, 4))
    world = SimulatedWorld(data, mclr(data), ids=np.array([1, 3]))
    for wrong, message in (
        (lambda c: None, r"\(client 3\)"),
        (keeps("other", 1), "client 3, memory other"),
    ):
        with pytest.raises(TaskError, match=message):
            world.run(OfAUser(wrong), np.arange(2))


def test_values_that_are_not_finite_leave_the_client_out_of_the_reply() -> None:
    reply = federation().run(
        OfAUser(lambda c: {"mine": np.array([0, np.nan, 0]), "count": 1}), np.array([1, 3, 4])
    )
    np.testing.assert_array_equal(reply.arrived, [True, False, True])
    np.testing.assert_array_equal(reply.nonfinite, [False, True, False])
    assert reply.faults == {"mine": [1]}


def test_a_task_with_a_stream_may_draw() -> None:
    drawn = OfAUser(lambda c: {"mine": c.rng().normal(size=3), "count": 1})
    first, again = (
        federation().run(drawn, np.array([3]), Stream(0, 1, "run")).mine for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)
    assert first.any()


def test_a_compiled_form_that_is_broken_names_its_clients() -> None:
    class Compiled(OfAUser):
        def compute_rows(self, rows: ClientRows) -> Any:
            yield rows.every, {"mine": np.zeros((len(rows.clients), 3))}

    with pytest.raises(
        TaskError, match=r"task compiled: the reply has no count; .* \(client 1, 3, 4\)"
    ):
        federation().run(Compiled(), np.array([1, 3, 4]))

    class Stores(OfAUser):
        def compute_rows(self, rows: ClientRows) -> Any:
            rows.store("other", np.arange(len(rows.clients)), np.zeros((len(rows.clients), 3)))
            yield rows.every, {}

    with pytest.raises(
        TaskError, match="task stores, memory other: the task's `memory` does not declare it"
    ):
        federation().run(Stores(), np.array([1, 3, 4]))


def test_a_task_without_compute() -> None:
    class Empty(Task):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty has no compute\(client\)"):
        federation().run(Empty(), np.array([0]))


def test_models_of_another_size_are_refused_before_anything_is_computed() -> None:
    world = federation()
    with pytest.raises(TaskError, match="task losses: models has P = 4, expected 3"):
        world.run(Losses(np.zeros((2, 4), np.float32)), np.array([0]))
    assert world.ledger.total() == (0, 0)
