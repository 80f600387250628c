"""The memory of clients between rounds, and values that it cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.core.client_memory import ClientMemory, OwnMemory
from fedkin.core.errors import TaskError
from fedkin.core.schema import Memory

VECTOR = Memory("P")
COUNT = Memory("", np.int64)
PLACE = Memory("2 C", np.int32, "assignment")
DECLARED = {"vector": VECTOR, "count": COUNT, "place": PLACE}
SOME = np.array([3, 1])


def memory(clients: int = 5, **options: Any) -> ClientMemory:
    return ClientMemory(clients, **options)


def write(kept: ClientMemory, name: str, clients: np.ndarray, values: Any) -> None:
    kept.write(
        task="keep", name=name, memory=DECLARED[name], clients=clients, values=np.asarray(values)
    )


def own(kept: ClientMemory, client: int = 3) -> OwnMemory:
    return OwnMemory(kept, client, "keep", DECLARED)


def filled() -> ClientMemory:
    """Clients 3 and 1 keep one array of each name."""
    kept = memory()
    write(kept, "vector", SOME, np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    write(kept, "count", SOME, [7, 8])
    write(kept, "place", SOME, np.ones((2, 2, 4), np.int32))
    return kept


# --- kept rows


def test_nothing_is_kept_at_first() -> None:
    kept = memory()
    default = np.ones((2, 3))
    assert not kept.has("vector", SOME).any()
    assert kept.read("vector", SOME, default) is default
    assert kept.arrays() == {} and kept.changes == 0


def test_memory_of_some_clients() -> None:
    kept = filled()
    np.testing.assert_array_equal(
        kept.has("vector", np.arange(5)), [False, True, False, True, False]
    )
    read = kept.read("vector", np.array([1, 2, 3]), np.full((3, 3), -1, np.float32))
    np.testing.assert_array_equal(read, [[4, 5, 6], [-1, -1, -1], [1, 2, 3]])
    assert read.dtype == np.float32
    np.testing.assert_array_equal(kept.read("count", np.array([3, 0]), np.array([0, 5])), [7, 5])
    assert kept.changes == 3


def test_bytes_of_each_client() -> None:
    """12 of the vector, 8 of the count and 32 of the place; client 3 forgets the last one."""
    kept = filled()
    kept.forget(np.array([3]), "assignment")
    np.testing.assert_array_equal(kept.bytes(), [0, 52, 0, 20, 0])
    np.testing.assert_array_equal(memory().bytes(), np.zeros(5))


def test_a_second_array_takes_the_place_of_the_first() -> None:
    kept = filled()
    write(kept, "count", np.array([1]), [9])
    np.testing.assert_array_equal(kept.read("count", SOME, np.zeros(2, np.int64)), [7, 9])


def test_values_may_change_afterwards() -> None:
    kept = memory()
    values = np.ones((1, 3), np.float32)
    write(kept, "vector", SOME[:1], values)
    values[:] = 0
    kept.read("vector", SOME[:1], values)[:] = 5
    np.testing.assert_array_equal(kept.read("vector", SOME[:1], values), [[1, 1, 1]])


@pytest.mark.parametrize(
    ("lifetime", "remaining"),
    [(None, set()), ("assignment", {"vector", "count"}), ("run", {"place"})],
)
def test_a_client_forgets(lifetime: str | None, remaining: set[str]) -> None:
    """All of it, or the part for its cluster; the others keep theirs."""
    kept = filled()
    kept.forget(np.array([3, 0]), lifetime)
    assert {name for name in DECLARED if kept.has(name, np.array([3]))[0]} == remaining
    assert all(kept.has(name, np.array([1]))[0] for name in DECLARED)
    for name in DECLARED.keys() - remaining:
        assert not kept.arrays()["clients/" + name][3].any(), (
            "nothing of it is left in a checkpoint"
        )
    changes = kept.changes
    kept.forget(np.array([3, 0]), lifetime)
    assert kept.changes == changes, "there was nothing more to forget"


def test_a_checkpoint() -> None:
    kept = filled()
    other = memory()
    arrays = kept.arrays()
    assert set(arrays) == {f"clients/{name}{state}" for name in DECLARED for state in ("", ".kept")}
    other.restore({**arrays, "something else": np.zeros(2)})
    write(kept, "count", SOME, [0, 0])
    kept.forget(SOME)
    np.testing.assert_array_equal(other.read("count", SOME, np.zeros(2, np.int64)), [7, 8])
    other.forget(SOME, "assignment")
    assert other.has("vector", SOME).all() and not other.has("place", SOME).any()
    arrays["clients/count"][:] = 0
    np.testing.assert_array_equal(other.read("count", SOME, np.zeros(2, np.int64)), [7, 8])
    other.restore({})
    assert other.arrays() == {}


def test_a_memory_without_clients_is_empty() -> None:
    kept = memory()
    write(kept, "vector", SOME[:0], np.zeros((0, 3), np.float32))
    assert kept.arrays() == {} and kept.changes == 0


# --- the client's own view


def test_a_client_sees_its_own_arrays() -> None:
    mine = own(filled())
    assert "vector" in mine and mine["count"] == 7 and mine["count"].dtype == np.int64
    np.testing.assert_array_equal(mine["vector"], [1, 2, 3])
    assert mine["vector"].dtype == np.float32 and mine["place"].shape == (2, 4)
    mine["count"] = 11
    assert mine.get("count") == 11
    other = own(filled(), 0)
    assert "vector" not in other and other.get("vector") is None and other.get("count", 5) == 5


def test_an_array_that_is_not_kept() -> None:
    with pytest.raises(
        TaskError,
        match="task keep, client 0, memory vector: no array is stored yet; check with `in`",
    ):
        _ = own(filled(), 0)["vector"]


@pytest.mark.parametrize("use", ["read", "get", "in", "write"])
def test_memory_that_the_task_does_not_declare(use: str) -> None:
    """Not written, and not read either:
    a name with a slip would be a memory that is always empty."""
    mine = own(filled())
    uses = {
        "read": lambda: mine["vectr"],
        "get": lambda: mine.get("vectr"),
        "in": lambda: "vectr" in mine,
        "write": lambda: mine.__setitem__("vectr", np.zeros(3)),
    }
    message = (
        "task keep, client 3, memory vectr: the task's `memory` does not declare it; it declares "
        "vector, count, place"
    )
    with pytest.raises(TaskError, match=message):
        uses[use]()


# --- memory that cannot be kept


BAD = {
    "axes": ("vector", [[1.0], [2.0]], r"expected the axes \[P\], got the shape \[2, 1\]"),
    "no axis": ("vector", 1.0, r"expected the axes \[P\], got the shape \[\]"),
    "numbered axis": (
        "place",
        np.zeros((3, 4), np.int32),
        r"expected the axes \[2 C\], got the shape \[3, 4\]",
    ),
    "floats for integers": ("count", 1.5, r"expected the type int64, got float64"),
    "text": ("vector", np.array(["a"]), r"expected the type float32, got <U1"),
    "objects": ("vector", np.array([None]), r"expected the type float32, got object"),
    "NaN": (
        "vector",
        np.array([0, np.nan]),
        r"expected finite numbers of type float32, got NaN or infinity",
    ),
    "infinity": ("vector", np.array([-np.inf]), r"expected finite numbers of type float32"),
    "more than float32": ("vector", np.array([1e300]), r"expected finite numbers of type float32"),
    "more than int32": ("place", np.full((2, 4), 2**31), r"a number is too large for int32"),
    "less than int32": ("place", np.full((2, 4), -(2**40)), r"a number is too large for int32"),
}


@pytest.mark.parametrize(("name", "value", "message"), BAD.values(), ids=BAD.keys())
def test_arrays_that_cannot_be_kept(name: str, value: Any, message: str) -> None:
    kept = memory()
    with pytest.raises(TaskError, match=f"^task keep, client 3, memory {name}: {message}"):
        own(kept)[name] = value
    assert kept.arrays() == {} and kept.changes == 0


def test_another_shape_than_others_keep() -> None:
    kept = filled()
    message = (
        r"task keep, client 2, memory vector: expected the axes \[P\], as \[3\] is kept, "
        r"got the shape \[4\]"
    )
    with pytest.raises(TaskError, match=message):
        own(kept, 2)["vector"] = np.zeros(4, np.float32)


def test_of_several_clients_the_one_with_the_bad_number_is_named() -> None:
    with pytest.raises(
        TaskError, match="task keep, client 1, memory vector: expected finite numbers"
    ):
        write(memory(), "vector", SOME, np.array([[0.0], [np.nan]]))


def test_clients_are_named_by_their_own_numbers() -> None:
    kept = memory(4, ids=np.array([10, 20, 30, 40]))
    with pytest.raises(TaskError, match="task keep, client 40, memory count"):
        own(kept)["count"] = 0.5


def test_memory_above_its_limit() -> None:
    """All arrays that one client keeps count together."""
    kept = memory(limit=24)
    mine = own(kept)
    mine["count"] = 1  # 8 bytes
    mine["vector"] = np.zeros(4, np.float32)  # and 16: just enough
    message = (
        r"task keep, client 3, memory place: 32 bytes, or 56 with .* above the limit of 24 "
        r"bytes for a client; store less"
    )
    with pytest.raises(TaskError, match=message):
        mine["place"] = np.zeros((2, 4), np.int32)
    assert "clients/place" not in kept.arrays() and kept.changes == 2
    mine["vector"] = np.ones(4, np.float32)  # in place of the former one


def test_memory_of_others_does_not_count_for_the_limit() -> None:
    """A client has room for its own arrays, whatever columns there are."""
    kept = memory(limit=24)
    own(kept, 1)["vector"] = np.zeros(4, np.float32)  # 16 bytes
    own(kept, 2)["count"] = 1  # 8 bytes
    own(kept, 2)["vector"] = np.zeros(4, np.float32)
    own(kept, 3)["vector"] = np.zeros(4, np.float32)
    with pytest.raises(TaskError, match="task keep, client 3, memory place: 32 bytes, or 48 with"):
        own(kept, 3)["place"] = np.zeros((2, 4), np.int32)


def test_of_several_clients_the_one_above_the_limit_is_named_and_none_stores() -> None:
    kept = memory(limit=24)
    write(kept, "vector", np.array([1]), np.zeros((1, 5), np.float32))
    with pytest.raises(TaskError, match="task keep, client 1, memory count: 8 bytes, or 28 with"):
        write(kept, "count", np.array([0, 1, 2]), [1, 2, 3])
    assert not kept.has("count", np.arange(5)).any()


def test_forgotten_rows_make_room() -> None:
    kept = memory(limit=24)
    mine = own(kept)
    mine["vector"] = np.zeros(5, np.float32)
    kept.forget(np.array([3]))
    mine["count"] = 1
    assert mine["count"] == 1 and "vector" not in mine


@pytest.mark.parametrize("lifetime", [None, "assignment"])
def test_a_memory_no_client_keeps_any_more_may_come_back_in_another_shape(
    lifetime: str | None,
) -> None:
    kept = memory()
    write(kept, "place", SOME, np.ones((2, 2, 4), np.int32))
    kept.forget(SOME[:1], lifetime)
    with pytest.raises(TaskError, match=r"as \[2, 4\] is kept, got the shape \[2, 3\]"):
        write(kept, "place", SOME[:1], np.ones((1, 2, 3), np.int32))
    kept.forget(SOME[1:], lifetime)
    assert kept.arrays() == {}, "no column is left in a checkpoint"
    write(kept, "place", SOME, np.ones((2, 2, 3), np.int32))
    assert own(kept)["place"].shape == (2, 3)


def test_columns_of_a_checkpoint_are_distinguished_from_other_arrays() -> None:
    """Whatever else a world or a run stores, and whatever a memory is called."""
    kept = filled()
    other = memory()
    others = {"count": np.ones(5), "registry": np.ones(2), "watch.kept": np.ones(5, np.int8)}
    arrays = kept.arrays()
    assert not arrays.keys() & others.keys() and all(name.startswith("clients/") for name in arrays)
    other.restore(arrays)
    assert other.arrays().keys() == arrays.keys()
