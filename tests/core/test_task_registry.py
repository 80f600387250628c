"""What no world could run is refused where it is defined: one error for each bad definition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import jaxtyping
import numpy as np
import pytest

import fedkin.tasks
from fedkin.core import task_registry
from fedkin.core.client import Client
from fedkin.core.errors import TaskError
from fedkin.core.schema import Array, Memory, Rows, Sums, booleans, floats, integers
from fedkin.core.task import Task, each, kept, setting, shared
from fedkin.core.task_registry import find_task
from fedkin.simulation.fake_world import FakeWorld

NO_ARRAYS: Any = {"a": float}
NUMBER = Rows(test_number=integers())


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test defines is known in this test only."""
    monkeypatch.setattr(
        task_registry, "_kinds", {kind.name: kind for kind in fedkin.tasks.all_tasks()}
    )
    monkeypatch.setattr(task_registry, "_standing", dict(task_registry._standing))
    yield


@contextmanager
def unchecked_types() -> Iterator[None]:
    """As outside of tests, where nothing checks the types of arguments."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


def define(
    fields: dict[str, Any] | None = None, name: str = "Defined", base: type = Task, **entries: Any
) -> Any:
    """A class of task as its text would define it; fields by name, None without a default."""
    defaults = {field: default for field, default in (fields or {}).items() if default is not None}
    return type(
        name,
        (base,),
        {"__annotations__": dict.fromkeys(fields or {}, "Any"), **defaults, **entries},
    )


@dataclass(frozen=True)
class OfModels(Task):
    """A sound one, with fields."""

    vector: Any = shared("P")
    scale: float = 1.0


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    **{
        f"a field called {name}": (
            lambda name=name: define({name: "a"}),
            rf"task \w+: a field cannot be called {name}, a reserved name; rename it",
        )
        # entries of requests, of tasks that travel with others, and attributes of every task
        for name in (
            *(
                "operation",
                "run",
                "first",
                "count",
                "handshake",
                "stream",
                "call",
                "clients",
                "moved",
            ),
            *("shift", "note"),
            *("name", "up", "memory", "sizes", "select", "compute"),
        )
    },
    **{
        f"a task called {name}": (
            lambda name=name: define(name=name),
            f"a task cannot be called '{called}'; choose",
        )
        for name, called in (("Hello", "hello"), ("Stream", "stream"), ("a.b", "a.b"), ("9", "9"))
    },
    "up is a dictionary": (
        lambda: define(up={"a": floats()}),
        r"task defined: up must be Rows\(...\) or Sums\(...\)",
    ),
    "an array without a type": (
        lambda: define(up=Rows(**NO_ARRAYS)),
        r"a must be floats\(...\), integers\(...\) or",
    ),
    "an array of a standing task": (
        lambda: define(up=Rows(shifted=integers())),
        "task defined: the reply's name shifted is reserved; choose another",
    ),
    "float16": (
        lambda: Rows(mine=floats(dtype=np.float16)),
        "mine: dtype must be one of float32, float64, int64, uint32 and bool, got",
    ),
    "int8": (lambda: Rows(mine=Array("", np.int8, missing=0)), "mine: dtype must be one of"),
    "complex": (lambda: Rows(mine=Array("", np.complex64)), "mine: dtype must be one of"),
    "NaN for integers": (
        lambda: Rows(mine=Array("", np.int64)),
        "mine: missing = nan is not of type int64; give a value of this type",
    ),
    "half for integers": (
        lambda: Rows(mine=integers(missing=0.5)),
        "mine: missing = 0.5 is not of type int64",
    ),
    "NaN for truth values": (
        lambda: Rows(mine=Array("", np.bool_)),
        "mine: missing = nan is not of type bool",
    ),
    "norms of integers": (
        lambda: Rows(mine=integers("P", norm_checked=True)),
        "mine: norm_checked needs an array of floats with over = 'row' or 'model', got",
    ),
    "norms of sums": (
        lambda: Rows(mine=floats("P", over="all", norm_checked=True)),
        "mine: norm_checked needs an array of floats with over = 'row' or 'model', got",
    ),
    "norms in Sums": (
        lambda: Sums(mine=floats("P", norm_checked=True)),
        "mine: norm_checked needs an array of floats with over = 'row' or 'model', got",
    ),
    "means without weights": (
        lambda: Sums(a=floats("P", over="model")),
        r"means by model \(a\) need the arrays examples and model_index",
    ),
    "memory that is none": (
        lambda: define(memory={"mine": 3}),
        r"task defined: memory mine must be Memory\(...\), g",
    ),
    "memory with a dot": (
        lambda: define(memory={"mine.kept": Memory()}),
        "task defined: a memory cannot be called 'mine.kept'; choose another name",
    ),
    "a lifetime with a slip": (
        lambda: Memory(lifetime="rounds"),  # type: ignore[arg-type]
        "the lifetime of a memory must be 'run' or 'assignment'",
    ),
    "memory of objects": (
        lambda: Memory("", object),
        "the dtype of a memory must be float, signed integer or bool, got",
    ),
    "memory of unsigned integers": (
        lambda: Memory("", np.uint8),
        "the dtype of a memory must be float, signed",
    ),
    "waits, with a field": (
        lambda: define({"scale": 1.0}, delivery="next"),
        "task defined has delivery 'next', so it cannot have fields, a reply, or memory",
    ),
    "waits, with a reply": (
        lambda: define(delivery="next", up=NUMBER),
        "task defined has delivery 'next'",
    ),
    "waits, with a reply that depends": (
        lambda: define(delivery="next", up=property(lambda task: NUMBER)),
        "task defined has delivery 'next'",
    ),
    "waits, with memory for a cluster": (
        lambda: define(delivery="next", memory={"mine": Memory(lifetime="assignment")}),
        "task defined has delivery 'next'",
    ),
    "waits, with fields of its base": (
        lambda: define(base=OfModels, delivery="next"),
        "task defined has delivery 'next'",
    ),
    "waits, as a field of another task is called": (
        lambda: define(name="Vector", delivery="next"),
        "task vector: a request cannot have the entry vector, a reserved name; rename it",
    ),
    "announced, with a setting": (
        lambda: define({"vectors": kept("K P"), "scale": 1.0}, delivery="announced"),
        "task defined has delivery 'announced', so all its fields must be kept",
    ),
    "announced, with a reply": (
        lambda: define(delivery="announced", up=NUMBER),
        "task defined has delivery 'announced'",
    ),
    "standing, with an array": (
        lambda: define({"vector": shared("P")}, standing="mine", up=NUMBER),
        "task defined is answered in every reply, so all its fields must be settings",
    ),
    "standing, with an array of its base": (
        lambda: define(base=OfModels, standing="mine", up=NUMBER),
        "task defined is answered in every reply",
    ),
    "standing, by row": (
        lambda: define({"own": each()}, standing="mine", up=NUMBER),
        "task defined is answered in every reply",
    ),
    "standing, with two numbers": (
        lambda: define(standing="mine", up=Rows(test_number=floats("2"))),
        "task defined is answered in every reply",
    ),
    "standing, with a sum": (
        lambda: define(standing="mine", up=Sums(test_number=floats())),
        "task defined is answered in every reply",
    ),
    "standing, under the name of an entry": (
        lambda: define(standing="run", up=NUMBER),
        "task defined: a request cannot have the entry run, a reserved name; rename it",
    ),
    "standing, under the name of another": (
        lambda: define(standing="shift", up=NUMBER),
        "task defined: a request cannot have the entry shift",
    ),
    "standing, as a field is called": (
        lambda: define(standing="vector", up=NUMBER),
        "task defined: a request cannot have the entry vector",
    ),
}


@pytest.mark.parametrize(("bad", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_definition_is_one_error(bad: Callable[[], Any], message: str) -> None:
    with pytest.raises(TaskError, match=f"^{message}"), unchecked_types():
        bad()
    assert find_task("defined") is None, "it is not known, so that nothing can ask for it"


GOOD: dict[str, Callable[[], type[Task]]] = {
    "waits": lambda: define(delivery="next", memory={"mine": Memory()}),
    "announced": lambda: define({"vectors": kept("K P")}, delivery="announced"),
    "standing": lambda: define(
        {"scale": setting(default=1.0)}, standing="mine", up=Rows(test_flag=booleans())
    ),
    "fields that some tasks have": lambda: define(
        {"work": setting(), "local": False, "can_be_lost": True}
    ),
    "a schema that depends": lambda: define(up=property(lambda task: NUMBER)),
    "constants of the class": lambda: type(
        "Defined",
        (Task,),
        {"__annotations__": {"count": ClassVar[int], "run": "ClassVar[int]"}, "count": 3, "run": 4},
    ),
}


@pytest.mark.parametrize("good", GOOD.values(), ids=GOOD.keys())
def test_valid_definitions(good: Callable[[], type[Task]]) -> None:
    kind = good()
    assert find_task("defined") is kind


def test_a_class_with_fields_that_is_no_dataclass() -> None:
    world = FakeWorld(np.zeros((2, 3), np.float32), np.ones(2, np.int64))
    with pytest.raises(
        TaskError, match=r"task defined: put @dataclass\(frozen=True\) above the class"
    ):
        world.run(
            define({"scale": 1.0}, up=NUMBER, compute=lambda task, client: {"test_number": 1})(),
            np.arange(2),
        )


def test_arrays_by_field_of_a_base_that_is_a_dataclass() -> None:
    """Whose class has no defaults any more that say how its fields travel."""
    assert task_registry.declared_fields(define(base=OfModels)) == {
        "vector": "shared",
        "scale": "setting",
    }


# --- notebooks: a cell is run again


def keeper(axes: str, size: int) -> type[Task]:
    """A class that is defined in one place, whatever it declares."""

    @dataclass(frozen=True)
    class NotebookTask(Task):
        up = Rows(test_sum=floats())
        memory = {"notebook_numbers": Memory(axes)}  # noqa: RUF012

        def compute(self, client: Client) -> dict[str, Any]:
            own = client.memory.get("notebook_numbers", np.zeros(size, np.float32)) + 1
            client.memory["notebook_numbers"] = own
            return {"test_sum": own.sum(dtype=np.float64)}

    return NotebookTask


def test_a_class_may_be_defined_again_with_another_memory() -> None:
    clients = np.arange(2)
    for axes, size in (("2", 2), ("3", 3), ("C", 5)):
        kind = keeper(axes, size)
        assert find_task("notebook_task") is kind
        world = FakeWorld(np.zeros((2, 3), np.float32), np.ones(2, np.int64))
        assert [world.run(kind(), clients).test_sum.tolist() for _ in range(2)] == [
            [size] * 2,
            [2 * size] * 2,
        ]


def test_a_subclass_of_the_former_class_is_no_obstacle() -> None:
    define(name="Derived", base=keeper("2", 2))
    keeper("3", 3)


def test_a_class_defined_again_must_not_change_the_memory_of_another() -> None:
    """Whichever of them was defined last."""
    keeper("2", 2)
    define(name="Reader", memory={"notebook_numbers": Memory("2")})
    keeper("2", 2)
    for wrong in (
        lambda: keeper("3", 3),
        lambda: define(name="Reader", memory={"notebook_numbers": Memory("3")}),
    ):
        with pytest.raises(
            TaskError,
            match="another task declares the memory notebook_numbers differently; rename it",
        ):
            wrong()
