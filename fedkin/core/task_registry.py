"""Registry of all task classes, and the checks of their definitions. They refuse tasks that no
world could run."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable
from typing import Any

from fedkin.core.errors import TaskError
from fedkin.core.schema import Memory, Schema

# Entries of every request.
_REQUEST = {
    "operation",
    "run",
    "first",
    "count",
    "handshake",
    "stream",
    "call",
    "clients",
    "moved",
}
# Entries of every reply.
RESERVED = {
    "arrays",
    "arrived",
    "faults",
    "nonfinite",
    "outliers",
    "weight",
    "trained_models",
    "clients",
    "moved",
}
# Attributes of every task that a field may replace.
_OWN_FIELDS = {"local", "can_be_lost", "work"}
# All defined task classes.
_kinds: dict[str, Any] = {}
# Arrays of the tasks that are answered in every reply, by the task's name.
_standing: dict[str, set[str]] = {}


def register(kind: Any, attributes: set[str]) -> None:
    """Check a task class and register it by its name.

    Args:
        kind: the class.
        attributes: names that every task has.

    Raises:
        TaskError: it cannot run in every world, or conflicts with another task.
    """
    other = _kinds.get(kind.name)
    if other is not None and _origin(other) != _origin(kind):
        raise TaskError(
            f"two tasks are called {kind.name!r}: {other.__module__} and {kind.__module__}; rename "
            "one"
        )
    if not kind.name.isidentifier() or kind.name in ("hello", *_REQUEST):
        raise TaskError(f"a task cannot be called {kind.name!r}; choose another name")
    other_kinds = [defined for defined in _kinds.values() if _origin(defined) != _origin(kind)]
    other_entries = set().union(*(_entries(defined) for defined in other_kinds))
    other_fields = set().union(*(declared_fields(defined) for defined in other_kinds))
    fields = declared_fields(kind)
    taken = _REQUEST | (attributes - _OWN_FIELDS) | other_entries
    _refuse(kind, "a field cannot be called", fields.keys() & taken)
    used = _REQUEST | other_fields | other_entries
    _refuse(kind, "a request cannot have the entry", _entries(kind) & used)
    schema = inspect.getattr_static(kind, "up")
    if not isinstance(schema, (Schema, property)):
        raise TaskError(f"task {kind.name}: up must be Rows(...) or Sums(...), got {schema!r}")
    if isinstance(schema, Schema):
        check_names(kind.name, schema)
    _check_memory(kind, other_kinds)
    _check_delivery(kind, fields, schema)
    _kinds[kind.name] = kind
    _standing.pop(kind.name, None)
    if kind.standing:
        _standing[kind.name] = set(kind.up.arrays)


def check_names(task: str, schema: Schema) -> None:
    """Raise TaskError for names of reply arrays that are reserved."""
    standing = (names for name, names in _standing.items() if name != task)
    taken = RESERVED.union(*standing)
    if clash := taken & schema.arrays.keys():
        raise TaskError(
            f"task {task}: a reply has {', '.join(sorted(clash))} already; choose another name"
        )


def declared_fields(kind: Any) -> dict[str, str]:
    """Fields of a class, which may not be a dataclass yet, and how each is sent down."""
    fields: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        defaults = base.__dict__ | base.__dict__.get("__dataclass_fields__", {})
        for name, annotation in inspect.get_annotations(base).items():
            if "ClassVar" not in str(annotation):
                fields[name] = _kind_of(defaults.get(name))
    return fields


def find_task(name: str) -> Any:
    """The registered task class with this name; None if there is none. A name never triggers an
    import."""
    return _kinds.get(name)


def all_tasks() -> list[Any]:
    """All registered task classes, by name."""
    return [_kinds[name] for name in sorted(_kinds)]


def _entries(kind: Any) -> set[str]:
    """Entries that this task adds to any request: for a task that is answered in every reply, or
    that waits for the next message."""
    entries = set()
    if kind.standing:
        entries.add(kind.standing)
    if kind.delivery == "next" and kind.name:
        entries.add(kind.name)
    return entries


def _check_memory(kind: Any, other_kinds: Iterable[Any]) -> None:
    for name, memory in kind.memory.items():
        if not isinstance(memory, Memory):
            raise TaskError(f"task {kind.name}: memory {name} must be Memory(...), got {memory!r}")
        if not name.isidentifier():
            raise TaskError(
                f"task {kind.name}: a memory cannot be called {name!r}; choose another name"
            )
        kept_by_others = [other.__dict__.get("memory", {}).get(name) for other in other_kinds]
        if any(kept is not None and kept != memory for kept in kept_by_others):
            raise TaskError(
                f"task {kind.name}: another task keeps a different {name} on clients; rename it"
            )


def _check_delivery(kind: Any, fields: dict[str, str], schema: Any) -> None:
    """Raise TaskError for what cannot be sent along with other messages."""
    arrays = schema.arrays if isinstance(schema, Schema) else {"": None}
    field_kinds = set(fields.values())
    keeps_for_run = all(memory.lifetime == "run" for memory in kind.memory.values())
    if kind.delivery == "next" and (fields or arrays or not keeps_for_run):
        raise TaskError(
            f"task {kind.name} waits for the next message: no fields, no reply, no memory but of "
            "the run"
        )
    if kind.delivery == "announced" and (arrays or field_kinds - {"kept"}):
        raise TaskError(f"task {kind.name} is announced: it has kept fields only, and no reply")
    one_number_each = all(
        array is not None and not array.axes and array.over == "row" for array in arrays.values()
    )
    if kind.standing and (field_kinds - {"setting"} or not one_number_each):
        raise TaskError(
            f"task {kind.name} stands in every reply: settings only, and one number for each client"
        )


def _kind_of(default: Any) -> str:
    down = default.metadata.get("down") if isinstance(default, dataclasses.Field) else None
    return down.kind if down else "setting"


def _refuse(kind: Any, what: str, names: Iterable[str]) -> None:
    if names := sorted(names):
        raise TaskError(
            f"task {kind.name}: {what} {', '.join(names)}, which has a meaning already; rename it"
        )


def _origin(kind: Any) -> tuple[str, str]:
    """Where a class is defined. The same class may be defined there again."""
    return kind.__module__, kind.__qualname__
