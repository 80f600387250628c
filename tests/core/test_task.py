"""Tasks: names, fields that travel down and their size, sizes, and invalid declarations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import ModelError, TaskError
from fedkin.core.model_spec import ModelSpec
from fedkin.core.schema import Memory, Rows, Sums, floats, integers
from fedkin.core.task import (
    Down,
    Task,
    call_sizes,
    chosen,
    each,
    fields_down,
    initial,
    kept,
    setting,
    shared,
    stays,
    traffic,
)
from fedkin.core.task_registry import RESERVED, all_tasks, find_task
from fedkin.core.training import LocalTraining

KNOWN = {"P": 4, "C": 3, "d": 2}
MODELS = np.zeros((3, 4), np.float32)
VECTORS = np.zeros((2, 4), np.float32)
CLIENTS = np.array([7, 5, 7, 9])
EVERY = np.ones(4, bool)


@dataclass(frozen=True)
class EveryWayDown(Task):
    """A field of every kind."""

    models: Any = chosen("K P")
    vectors: Any = shared("v P", default=None)
    model_index: Any = each(default=None)
    own: Any = each(default=None)
    directions: Any = kept("k P", default=None)
    start: Any = initial(default=None)
    work: LocalTraining = setting(default=LocalTraining())
    plain: str = "as it is"
    server: int = stays(default=0)

    up = Rows(norm=floats("P"), count=integers(counted=False))


@dataclass(frozen=True)
class LastKept(Task):
    """An announcement."""

    directions: Any = kept("k P")
    delivery = "announced"


@dataclass(frozen=True)
class OfDetectors(Task):
    detectors = True


@dataclass(frozen=True)
class OfAny(Task):
    name = "of_any_model"
    detectors = None


# --- names


def test_a_task_is_named_after_its_class_unless_it_sets_a_name() -> None:
    assert (EveryWayDown.name, OfAny.name) == ("every_way_down", "of_any_model")
    assert find_task("every_way_down") is EveryWayDown and find_task("of_any_model") is OfAny
    assert find_task("nothing_of_the_kind") is None
    names = [kind.name for kind in all_tasks()]
    assert names == sorted(names) and {"every_way_down", "of_any_model"} <= set(names)


def test_two_tasks_of_one_name() -> None:
    with pytest.raises(
        TaskError, match=r"two tasks are called 'of_any_model', in .*test_task and .*test_task"
    ):

        class Other(Task):
            name = "of_any_model"

    assert find_task("of_any_model") is OfAny


def test_a_class_that_is_defined_again_takes_the_place_of_its_former_self() -> None:
    """As in a notebook."""

    def define() -> type[Task]:
        class Again(Task):
            pass

        return Again

    first = define()
    second = define()
    assert first is not second and find_task("again") is second


def test_a_subclass_has_its_own_name() -> None:
    class OfAnyMore(OfAny):
        pass

    assert OfAnyMore.name == "of_any_more"


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_reply_array_with_a_reserved_name(name: str) -> None:
    with pytest.raises(
        TaskError, match=f"task reserved_name: the reply's name {name} is reserved; choose another"
    ):
        type("ReservedName", (Task,), {"up": Rows(**{name: floats()})})
    assert find_task("reserved_name") is None


def test_two_tasks_that_declare_a_memory_of_one_name_differently() -> None:
    for same in ("Keeper", "Same"):
        type(same, (Task,), {"memory": {"test_task_own": Memory("P")}})
    for other in (Memory("C"), Memory("P", np.int64), Memory("P", lifetime="assignment")):
        with pytest.raises(
            TaskError,
            match=r"task different: another task declares the memory test_task_own differently",
        ):
            type("Different", (Task,), {"memory": {"test_task_own": other}})


# --- fields that travel down


def test_every_field_says_how_it_travels() -> None:
    assert dict(fields_down(EveryWayDown)) == {
        "models": Down("chosen", "K P", "model_index"),
        "vectors": Down("shared", "v P"),
        "model_index": Down("each"),
        "own": Down("each"),
        "directions": Down("kept", "k P"),
        "start": Down("initial", "P"),
        "work": Down(),
        "plain": Down(),
        "server": Down("stays"),
    }


def test_some_rows_of_a_task() -> None:
    work = LocalTraining(epochs=np.array([1, 2, 3, 4]), positive=np.array([0, 1, 2, 0]))
    task = EveryWayDown(
        MODELS, VECTORS, np.array([0, 2, 1, 0]), own=np.array([[1], [2], [3], [4]]), work=work
    )
    some: Any = task.select(np.array([3, 1]))
    np.testing.assert_array_equal(some.model_index, [0, 2])
    np.testing.assert_array_equal(some.own, [[4], [2]])
    np.testing.assert_array_equal(some.work.epochs, [4, 2])
    np.testing.assert_array_equal(some.work.positive, [0, 1])
    assert some.models is MODELS and some.vectors is VECTORS and some.plain == "as it is"


def test_some_rows_where_no_field_has_rows() -> None:
    task = EveryWayDown(MODELS, work=LocalTraining(epochs=2))
    some: Any = task.select(np.array([1]))
    assert some.model_index is None and some.own is None and some.work == LocalTraining(epochs=2)


# --- sizes


def test_sizes_come_from_arrays_that_travel() -> None:
    assert EveryWayDown(MODELS, VECTORS).sizes() == {"K": 3, "P": 4, "v": 2}
    assert LastKept(VECTORS).sizes() == {"k": 2, "P": 4}
    assert OfAny().sizes() == {}
    assert call_sizes(EveryWayDown(MODELS), 4, KNOWN) == {**KNOWN, "K": 3}


def test_sizes_that_disagree() -> None:
    with pytest.raises(
        TaskError, match="task every_way_down: vectors has P = 5, but another field has 4"
    ):
        EveryWayDown(MODELS, np.zeros((2, 5), np.float32)).sizes()
    with pytest.raises(TaskError, match="task last_kept: directions has P = 5, expected 4"):
        call_sizes(LastKept(np.zeros((2, 5), np.float32)), 4, KNOWN)


def test_an_array_with_other_axes() -> None:
    with pytest.raises(
        TaskError, match=r"task every_way_down: models must have the axes \[K P\], got \(4,\)"
    ):
        EveryWayDown(MODELS[0]).sizes()


@pytest.mark.parametrize("field", ["model_index", "own"])
def test_a_field_by_row_with_another_number_of_rows(field: str) -> None:
    task = EveryWayDown(MODELS, **{field: np.zeros(3, np.int64)})  # type: ignore[arg-type]
    with pytest.raises(
        TaskError, match=f"task every_way_down: {field} has 3 entries, but world.run got 4 clients"
    ):
        call_sizes(task, 4, KNOWN)


@pytest.mark.parametrize("index", [3, -1])
def test_an_index_of_no_model(index: int) -> None:
    task = EveryWayDown(MODELS, model_index=np.array([0, index]))
    with pytest.raises(
        TaskError, match=r"task every_way_down: model_index must be from 0 to 2, .* models; got"
    ):
        call_sizes(task, 2, KNOWN)


@pytest.mark.parametrize("index", [3, -2])
def test_an_index_of_no_model_among_several(index: int) -> None:
    """In a table of several models for each row, -1 stands for none."""
    call_sizes(EveryWayDown(MODELS, model_index=np.array([[0, -1], [2, 1]])), 2, KNOWN)
    task = EveryWayDown(MODELS, model_index=np.array([[0, -1], [2, index]]))
    with pytest.raises(
        TaskError, match=r"model_index must be from 0 to 2, .* models, or -1 for none; got"
    ):
        call_sizes(task, 2, KNOWN)


def test_a_field_by_row_that_is_no_array() -> None:
    with pytest.raises(
        TaskError,
        match="task every_way_down: own must be an array with an entry for each client, got",
    ):
        call_sizes(EveryWayDown(MODELS, own=[1, 2, 3, 4]), 4, KNOWN)


def test_two_fields_of_chosen_models_have_an_index_each() -> None:
    @dataclass(frozen=True)
    class TwoChosen(Task):
        models: Any = chosen("K P")
        others: Any = chosen("L P", by="other_index")
        model_index: Any = each()
        other_index: Any = each()

    two = TwoChosen(MODELS, VECTORS, np.array([0, 2]), np.array([1, 0]))
    sizes = call_sizes(two, 2, KNOWN)
    assert (sizes["K"], sizes["L"]) == (3, 2)
    assert traffic(two, CLIENTS[:2], EVERY[:2], sizes) == (2 * 2 * 4 * 4, 0)
    with pytest.raises(
        TaskError,
        match="task two_chosen: other_index must be from 0 to 1, the last index of othe",
    ):
        call_sizes(TwoChosen(MODELS, VECTORS, np.array([0, 2]), np.array([1, 2])), 2, KNOWN)


# --- bytes


def test_bytes_of_every_field() -> None:
    """Shared arrays go to each client once, chosen models where a row names them, and a number is
    four bytes."""
    index = np.array([0, 1, 0, 2])  # client 7 has two rows of model 0
    three = 3
    two = 2
    for task, down in (
        (EveryWayDown(MODELS, model_index=index), three * 4),
        (EveryWayDown(MODELS), 3 * three * 4),  # all models to all clients
        (EveryWayDown(MODELS, model_index=np.array([0, 1, 1, 2])), 4 * 4),
        (EveryWayDown(MODELS, model_index=np.array([[0, -1], [1, 1], [0, 2], [-1, -1]])), 3 * 4),
        (EveryWayDown(MODELS, VECTORS, index), three * 4 + three * two * 4),
        (
            EveryWayDown(MODELS, None, index, directions=VECTORS, start=MODELS[0]),
            three * 4,
        ),  # kept, and made there
    ):
        sizes = call_sizes(task, 4, KNOWN)
        assert traffic(task, CLIENTS, EVERY, sizes) == (4 * down, 4 * 4 * 4)
    assert traffic(
        EveryWayDown(MODELS, model_index=index), CLIENTS, EVERY & False, {**KNOWN, "K": 3}
    ) == (4 * 3 * 4, 0)


def test_an_announcement_counts_kept_arrays() -> None:
    assert traffic(LastKept(VECTORS), CLIENTS, EVERY, {**KNOWN, "k": 2}) == (4 * 3 * 8, 0)


def test_bytes_between_peers_count_twice_and_those_that_stay_never() -> None:
    class BetweenPeers(Task):
        between_peers = True
        up = Rows(model=floats("P", np.float32, carried=False))

    class AtHome(BetweenPeers):
        local = True

    some = np.array([True, False, True, False])
    assert traffic(BetweenPeers(), CLIENTS, some, KNOWN) == (2 * 4 * 4, 2 * 4 * 4)
    assert traffic(AtHome(), CLIENTS, some, KNOWN) is None
    assert traffic(OfAny(), CLIENTS, some, KNOWN) is None, "nothing is declared"


def test_sums_count_as_rows() -> None:
    """Each client sends its part."""

    class SumUp(Task):
        up = Sums(total=floats("C"))

    assert traffic(SumUp(), CLIENTS, EVERY, KNOWN) == (0, 4 * 4 * 3)


# --- models that a task is for


@pytest.mark.parametrize("detects", [True, False])
def test_a_model_that_a_task_is_not_for(detects: bool) -> None:
    spec = ModelSpec(4, detects=detects)
    OfAny().check("mine", spec, 3)
    fits, other = (
        (OfDetectors(), LastKept(VECTORS)) if detects else (LastKept(VECTORS), OfDetectors())
    )
    fits.check("mine", spec, 3)
    needed = "a model with a score for every class" if detects else "a detector"
    with pytest.raises(
        ModelError,
        match=f"model 'mine' does not support the task {other.name}, which needs {needed}",
    ):
        other.check("mine", spec, 3)


def test_the_defaults_of_a_task() -> None:
    task = OfAny()
    assert task.single() is None and task.for_messages(ModelSpec(4)) is task
    assert (
        task.norm_group() == "of_any_model"
        and task.stored_models(None) == {}
        and task.training(None) is None
    )
    assert task.can_be_lost and not task.local and task.work is None and task.delivery == "asked"
