"""Registry of all task classes. It checks their definitions, and refuses tasks that no world could
run."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable
from typing import Any

from fedkin.core.errors import TaskError
from fedkin.core.schema import Memory, Schema

# Names of the entries that every request to a client has.
_REQUEST = {
    "operation",
    "run",
    "first",
    "count",
    "handshake",
    "columns",
    "stream",
    "call",
    "clients",
    "moved",
}
# Names of the entries that every reply of a client may have.
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
# Attributes of every task that a field of the same name may replace.
_OWN_FIELDS = {"local", "can_be_lost", "work"}
# All defined task classes.
_kinds: dict[str, Any] = {}
# Arrays of the tasks that are answered in every reply, by the task's name.
_standing: dict[str, set[str]] = {}


def register(kind: Any, attributes: set[str]) -> None:
    """Check a task class and register it by its name.

    Args:
        kind: the class.
        attributes: attribute names of every task.

    Raises:
        TaskError: the task cannot run in every world, or conflicts with another task.
    """
    other = _kinds.get(kind.name)
    if other is not None and _origin(other) != _origin(kind):
        raise TaskError(
            f"two tasks are called {kind.name!r}, in {other.__module__} and {kind.__module__}; "
            "rename one of them"
        )
    if not kind.name.isidentifier() or kind.name in ("hello", *_REQUEST):
        raise TaskError(f"a task cannot be called {kind.name!r}; choose another name")
    other_kinds = [defined for defined in _kinds.values() if _origin(defined) != _origin(kind)]
    other_entries = set().union(*(_entries(defined) for defined in other_kinds))
    fields = declared_fields(kind)
    taken = _REQUEST | (attributes - _OWN_FIELDS) | other_entries
    _refuse(kind, "a field cannot be called", fields.keys() & taken)
    # Few tasks have an entry. The fields of all others take long to read.
    if entries := _entries(kind):
        other_fields = set().union(*(declared_fields(defined) for defined in other_kinds))
        used = _REQUEST | other_fields | other_entries
        _refuse(kind, "a request cannot have the entry", entries & used)
    schema = inspect.getattr_static(kind, "up")
    if not isinstance(schema, (Schema, property)):
        raise TaskError(f"task {kind.name}: up must be Rows(...) or Sums(...), got {schema!r}")
    if isinstance(schema, Schema):
        check_names(kind.name, schema)
    _check_memory(kind, other_kinds)
    _check_delivery(kind, fields, schema)
    _kinds[kind.name] = kind
    # A new definition of the class may no longer be answered in every reply.
    _standing.pop(kind.name, None)
    if kind.standing:
        _standing[kind.name] = set(kind.up.arrays)


def check_names(task: str, schema: Schema) -> None:
    """Raise TaskError if an array of a reply has a reserved name."""
    standing = (names for name, names in _standing.items() if name != task)
    taken = RESERVED.union(*standing)
    if clash := taken & schema.arrays.keys():
        raise TaskError(
            f"task {task}: the reply's name {', '.join(sorted(clash))} is reserved; choose another "
            "name"
        )


def declared_fields(kind: Any) -> dict[str, str]:
    """The fields of a task class and how each is sent to clients, by name. The class may not be a
    dataclass yet."""
    fields: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        defaults = base.__dict__ | base.__dict__.get("__dataclass_fields__", {})
        for name, annotation in inspect.get_annotations(base).items():
            if "ClassVar" not in str(annotation):
                fields[name] = _kind_of(defaults.get(name))
    return fields


def find_task(name: str) -> Any:
    """The registered task class called ``name``; None if there is none. The lookup never imports a
    module."""
    return _kinds.get(name)


def all_tasks() -> list[Any]:
    """All registered task classes, by name."""
    return [_kinds[name] for name in sorted(_kinds)]


def _entries(kind: Any) -> set[str]:
    """Names of the entries that a task adds to the headers of other tasks' requests. It adds one if
    clients answer it in every reply (``standing``), and one if it is sent together with the next
    request (``delivery = "next"``). Other tasks add none."""
    entries = set()
    if kind.standing:
        entries.add(kind.standing)
    if kind.delivery == "next" and kind.name:
        entries.add(kind.name)
    return entries


def _check_memory(kind: Any, other_kinds: Iterable[Any]) -> None:
    """Raise TaskError if a memory of a task has an invalid name, or if another task declares it
    differently."""
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
                f"task {kind.name}: another task declares the memory {name} differently; rename it"
            )


def _check_delivery(kind: Any, fields: dict[str, str], schema: Any) -> None:
    """Raise TaskError if a task is to be sent along with other tasks' messages, but has fields or a
    reply with which that is impossible."""
    # A schema that is a property is known only for an instance of the task. It counts as a reply of
    # unknown form.
    arrays = schema.arrays if isinstance(schema, Schema) else {"": None}
    field_kinds = set(fields.values())
    keeps_for_run = all(memory.lifetime == "run" for memory in kind.memory.values())
    if kind.delivery == "next" and (fields or arrays or not keeps_for_run):
        raise TaskError(
            f"task {kind.name} has delivery 'next', so it cannot have fields, a reply, or memory "
            "that ends with the assignment; remove these, or take delivery = 'asked'"
        )
    if kind.delivery == "announced" and (arrays or field_kinds - {"kept"}):
        raise TaskError(
            f"task {kind.name} has delivery 'announced', so all its fields must be kept(...), and "
            "it cannot have a reply"
        )
    one_number_each = all(
        array is not None and not array.axes and array.over == "row" for array in arrays.values()
    )
    if kind.standing and (field_kinds - {"setting"} or not one_number_each):
        raise TaskError(
            f"task {kind.name} is answered in every reply, so all its fields must be settings, and "
            "its reply must be one number for each client"
        )


def _kind_of(default: Any) -> str:
    """How a task's field is sent to clients (``Down.kind``), from the field's default value."""
    down = default.metadata.get("down") if isinstance(default, dataclasses.Field) else None
    return down.kind if down else "setting"


def _refuse(kind: Any, what: str, names: Iterable[str]) -> None:
    """Raise TaskError if a task uses reserved names.

    Args:
        kind: the task's class.
        what: beginning of the message, such as ``a field cannot be called``.
        names: the reserved names that the task uses; there may be none.
    """
    if names := sorted(names):
        raise TaskError(f"task {kind.name}: {what} {', '.join(names)}, a reserved name; rename it")


def _origin(kind: Any) -> tuple[str, str]:
    """Module and qualified name of a task class. A class with the same origin may be registered
    again, as when a notebook cell is run twice."""
    return kind.__module__, kind.__qualname__
