"""Tasks that a user writes, in the simulator: both forms, local training by any settings, and rows
of one client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.client import Client, ClientRows
from fedkin.core.errors import TaskError
from fedkin.core.randomness import Stream
from fedkin.core.schema import Memory, Rows, Sums, booleans, floats, integers
from fedkin.core.task import Task, chosen, each, setting, shared
from fedkin.core.training import LocalTraining
from fedkin.models import mclr
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.fedper import Personal, body_of
from fedkin.tasks.train import train
from tests.simulation.small_federation import EVERYONE, federation, models

DATA = federation()
MODEL = mclr(DATA)
MODELS = models(MODEL, 3)
WORK = LocalTraining(epochs=4, batch_size=5, lr=0.1)
STREAM = Stream(1, 4, "run/task")
HALF = Population(dropout=0.5)
SLOW = Population(stragglers=0.6)


def world(**options: Any) -> SimulatedWorld:
    made = SimulatedWorld(DATA, MODEL, WORK, **options)
    made.begin(STREAM)
    return made


def quadratic(**options: Any) -> FakeWorld:
    return FakeWorld(np.zeros((6, 3), np.float32), np.ones(6, np.int64), **options)


# --- rows of the compiled form: each active one, once


@dataclass(frozen=True)
class OwnRows(Task):
    """A task with any compiled form."""

    form: Callable[[ClientRows], Any] = lambda rows: None

    up = Rows(value=floats())
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        return {"value": float(client.id)}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        return self.form(rows)


@dataclass(frozen=True)
class OwnSums(OwnRows):
    up = Sums(value=floats())


def yielding(*portions: Any) -> Callable[[ClientRows], Iterator[Any]]:
    return lambda rows: iter([(index, {"value": np.ones(entries)}) for index, entries in portions])


ONCE = (
    r"task own_\w+: compute_rows must give one reply for each row, but gave none or several for "
    "client "
)
WRONG_ROWS = {
    "forgotten": (yielding((np.array([0, 1, 2]), 3)), ONCE + "3, 4, 5$"),
    "all forgotten": (yielding(), ONCE + "0, 1, 2, 3, 4, 5$"),
    "twice": (yielding((slice(None), 6), (np.array([4]), 1)), ONCE + "4$"),
}


@pytest.mark.parametrize(("form", "message"), WRONG_ROWS.values(), ids=WRONG_ROWS.keys())
@pytest.mark.parametrize("kind", [OwnRows, OwnSums])
def test_rows_that_are_not_there_once(kind: type[OwnRows], form: Any, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        quadratic().run(kind(form), np.arange(6))


@pytest.mark.parametrize("population", [Population(), HALF], ids=["all reply", "drop-out"])
def test_fewer_entries_than_rows(population: Population) -> None:
    fake = quadratic()
    fake.population = population
    with pytest.raises(
        TaskError,
        match=r"task own_rows: expected value of shape \[6\] and type float64, got .*\[3\]",
    ):
        SimulatedWorld(federation((3,) * 6), MODEL, WORK, population=population).run(
            OwnRows(yielding((slice(None), 3))), np.arange(6), STREAM
        )


@pytest.mark.parametrize(
    "values", [[1.0] * 7, (1.0,) * 7, np.ones(7)], ids=["list", "tuple", "array"]
)
def test_rows_of_clients_that_do_not_reply_may_be_left_out_or_hold_anything(values: Any) -> None:
    task = OwnRows(lambda rows: iter([(rows.every, {"value": values})]))
    active = OwnRows(
        lambda rows: iter([(np.flatnonzero(rows.active), {"value": np.ones(rows.active.sum())})])
    )
    for one in (task, active):
        reply = world(population=HALF).run(one, EVERYONE, STREAM)
        lost = HALF.dropped_out(EVERYONE, STREAM)
        assert 0 < lost.sum() < 7
        np.testing.assert_array_equal(reply.arrived, ~lost)
        np.testing.assert_array_equal(reply.value, np.where(lost, np.nan, 1.0))


# --- local training by any settings


@dataclass(frozen=True)
class OtherWork(Task):
    """Trains, without a field ``work``, by other settings."""

    model: Any = shared("P")

    up = Rows(update=floats("P", np.float32))

    def compute(self, client: Client) -> dict[str, Any]:
        return {"update": client.train(self.model, replace(WORK, epochs=2)).update}


@dataclass(frozen=True)
class TwoWorks(Task):
    """Trains by its settings, and by others that are derived from them."""

    model: Any = shared("P")
    work: LocalTraining = setting()

    up = Rows(
        asked=floats("P", np.float32), twice=floats("P", np.float32), few=floats("P", np.float32)
    )

    def compute(self, client: Client) -> dict[str, Any]:
        works = {
            "asked": self.work,
            "twice": replace(self.work, epochs=8),
            "few": replace(self.work, steps=2),
        }
        return {name: client.train(self.model, work).update for name, work in works.items()}


def updates(work: LocalTraining, **options: Any) -> np.ndarray:
    """Those of the task that trains, one client after another."""
    return train(
        world(compiled=False, **options),
        MODELS[:1],
        EVERYONE,
        EVERYONE * 0,
        work=work,
        stream=STREAM,
    ).update


def test_a_task_without_settings_of_training_may_train() -> None:
    reply = world().run(OtherWork(MODELS[0]), EVERYONE, STREAM)
    np.testing.assert_array_equal(reply.update, updates(replace(WORK, epochs=2)))


def test_a_client_trains_by_the_settings_that_it_is_given() -> None:
    """And not by the epochs of the task's own."""
    reply = world().run(TwoWorks(MODELS[0], WORK), EVERYONE, STREAM)
    for name, work in {
        "asked": WORK,
        "twice": replace(WORK, epochs=8),
        "few": replace(WORK, steps=2),
    }.items():
        np.testing.assert_array_equal(reply.arrays[name], updates(work), err_msg=name)
    assert not np.array_equal(reply.asked, reply.twice) and not np.array_equal(
        reply.asked, reply.few
    )


def test_settings_with_an_entry_for_each_row() -> None:
    epochs = np.array([1, 4, 2, 3, 1, 2, 4])
    reply = world().run(TwoWorks(MODELS[0], replace(WORK, epochs=epochs)), EVERYONE, STREAM)
    np.testing.assert_array_equal(reply.asked, updates(replace(WORK, epochs=epochs)))
    np.testing.assert_array_equal(reply.twice, updates(replace(WORK, epochs=8)))


def test_a_straggler_does_the_same_share_of_any_work() -> None:
    work = replace(WORK, partial=True)
    reply = world(population=SLOW).run(TwoWorks(MODELS[0], work), EVERYONE, STREAM)
    slow = SLOW.straggling(EVERYONE, STREAM)
    done = np.where(slow, SLOW.partial_steps(EVERYONE, np.full(7, 4), STREAM), 4)
    assert 0 < slow.sum() < 7 and (done[slow] < 4).any()
    np.testing.assert_array_equal(reply.asked, updates(replace(WORK, epochs=done)))
    np.testing.assert_array_equal(reply.twice, updates(replace(WORK, epochs=2 * done)))
    np.testing.assert_array_equal(
        reply.few[slow & (done < 4)], updates(replace(WORK, steps=1))[slow & (done < 4)]
    )
    np.testing.assert_array_equal(reply.few[~slow], updates(replace(WORK, steps=2))[~slow])


# --- clients with several rows


@dataclass(frozen=True)
class AskedOften(Task):
    """How often a client was asked."""

    up = Rows(count=integers())
    memory = {"times_asked": Memory("", np.int64)}  # noqa: RUF012
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        count = int(client.memory.get("times_asked", 0))
        client.memory["times_asked"] = count + 1
        return {"count": count}


@pytest.mark.parametrize("compiled", [True, False])
def test_a_client_with_memory_has_one_row(compiled: bool) -> None:
    """Two rows would be done one after the other here, and both at once in a compiled form."""
    w = world(compiled=compiled)
    twice = np.array([0, 1, 0])
    with pytest.raises(
        TaskError,
        match=r"task asked_often: a client may be given only once.*the task keeps times_asked in",
    ):
        w.run(AskedOften(), twice)
    personal = Personal(
        models=body_of(MODELS, MODEL.spec.head),
        work=WORK,
        model_index=np.zeros(3, int),
        start=MODELS[0],
        head=MODEL.spec.head,
    )
    with pytest.raises(
        TaskError,
        match=r"task personal: a client may be given only once.*the task keeps personal_head in",
    ):
        w.run(personal, twice, STREAM)
    assert w.memory() == {} and w.ledger.total() == (0, 0)
    assert (
        w.run(AskedOften(), np.array([1, 0])).count.tolist()
        == w.run(AskedOften(), np.array([4, 3])).count.tolist()
        == [0, 0]
    )


def test_a_client_without_memory_may_have_several() -> None:
    reply = quadratic().run(OwnRows(lambda rows: rows.one_by_one(OwnRows())), np.array([2, 0, 2]))
    assert reply.value.tolist() == [2, 0, 2]


# --- refused calls


@dataclass(frozen=True)
class OwnModels(Task):
    """Clients receive one model each, and tell of all."""

    models: Any = chosen("K P")
    model_index: Any = each(default=None)

    up = Rows(test_losses=floats("K"))

    def compute(self, client: Client) -> dict[str, Any]:
        return {"test_losses": client.losses(self.models)}


def test_a_reply_about_models_that_a_client_does_not_receive() -> None:
    """A real client has its own only; where the index is None it has all."""
    with pytest.raises(
        TaskError,
        match=r"task own_models: test_losses has an entry for each of the models, "
        r".*declare models as shared",
    ):
        world().run(OwnModels(MODELS, np.zeros(7, np.int64)), EVERYONE)
    assert world().run(OwnModels(MODELS), EVERYONE).test_losses.shape == (7, 3)


@pytest.mark.parametrize("clients", [[0, 7], [-1]])
def test_clients_that_are_not_there(clients: list[int]) -> None:
    with pytest.raises(TaskError, match="task asked_often: clients must be from 0 to 6, got"):
        world().run(AskedOften(), np.array(clients))


# --- numbers that a type cannot hold


@dataclass(frozen=True)
class Small(Task):
    """A number of float32, and whether it is one."""

    value: float = 0.0

    up = Rows(test_small=floats(dtype=np.float32), test_flag=booleans())
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        return {"test_small": self.value if client.id == 1 else 1.0, "test_flag": client.id != 2}


def test_a_number_too_large_for_the_type_leaves_its_row_out() -> None:
    reply = quadratic().run(Small(1e300), np.arange(4))
    np.testing.assert_array_equal(reply.nonfinite, [False, True, False, False])
    np.testing.assert_array_equal(reply.test_flag, [True, False, False, True])
    assert reply.test_small.dtype == np.float32 and reply.test_flag.dtype == np.bool_
