"""The table of all tasks in docs/all-tasks.md, from their declarations: ``python -m
tests.docs.task_table``."""

from __future__ import annotations

import dataclasses
import re

import fedkin.tasks
from fedkin.core.schema import Array, Schema, Sums
from fedkin.core.task import Task, fields_down
from fedkin.core.task_registry import all_tasks
from tests.docs.code_blocks import ROOT

PAGE = ROOT / "docs" / "write-a-task.md"
TABLE = ROOT / "docs" / "all-tasks.md"
BEGIN = "<!-- tasks -->\n"
END = "<!-- /tasks -->\n"
HEAD = "| task | what travels down | what comes up | memory | charged |\n|---|---|---|---|---|\n"


def built_in() -> list[type[Task]]:
    """The tasks of fedkin, by class; not those that pages define."""
    own = [kind for kind in all_tasks() if kind.__module__.startswith(f"{fedkin.tasks.__name__}.")]
    return sorted(own, key=lambda kind: kind.__name__)


def table() -> str:
    """A row for each task."""
    rows = [
        [title(kind), down(kind), f"{form(kind)}: {up(kind) or 'none'}", memory(kind), kind.charged]
        for kind in built_in()
    ]
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def title(kind: type[Task]) -> str:
    """Its class, and its name where that says more."""
    same = kind.name == re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
    return f"`{kind.__name__}`" + ("" if same else f" (`{kind.name}`)")


def down(kind: type[Task]) -> str:
    """The fields that travel, and how."""
    words = {"each": "own", "initial": "seed"}
    parts = []
    for name, how in fields_down(kind):
        if how.kind == "setting":
            parts.append(f"`{name}`")
        elif how.kind != "stays":
            parts.append(f"`{name}` {_axes(how.axes)}({words.get(how.kind, how.kind)})")
    return ", ".join(parts)


def up(kind: type[Task]) -> str:
    """The arrays of the reply; those that an option adds behind it."""
    arrays = schema(kind).arrays
    parts = [
        _array(name, array, sums=isinstance(schema(kind), Sums)) for name, array in arrays.items()
    ]
    for option in options(kind):
        more = schema(kind, **{option: True}).arrays
        parts += [
            f"{_array(name, more[name])} with `{option}`" for name in more if name not in arrays
        ]
    return ", ".join(parts)


def form(kind: type[Task]) -> str:
    """``Rows`` or ``Sums``, and the option that changes it."""
    own = type(schema(kind)).__name__
    others = {type(schema(kind, **{option: True})).__name__: option for option in options(kind)}
    changed = [f", `{other}` with `{option}`" for other, option in others.items() if other != own]
    return f"`{own}`" + "".join(changed)


def memory(kind: type[Task]) -> str:
    """What a client keeps, and for how long."""
    return ", ".join(
        f"`{name}` {_axes(one.axes)}({one.lifetime})" for name, one in kind.memory.items()
    )


def schema(kind: type[Task], **options: bool) -> Schema:
    """The reply's, with some options."""
    task = object.__new__(kind)  # without its arrays, which a checked constructor would ask for
    for name, value in options.items():
        object.__setattr__(task, name, value)
    return task.up


def options(kind: type[Task]) -> list[str]:
    """The names of fields that are switched on or off."""
    return [field.name for field in dataclasses.fields(kind) if field.default is False]


def _array(name: str, array: Array, sums: bool = False) -> str:
    over = {"model": " (by model)", "all": " (sum)", "row": " (own)" if sums else ""}[
        array.over or "row"
    ]
    return f"`{name}` {_axes(array.axes)}".strip() + over + ("" if array.counted else " \\*")


def _axes(axes: str) -> str:
    return f"[{axes}] ".replace(" ", "&nbsp;", axes.count(" ")) if axes else ""


def stored() -> str:
    """The table that the page has."""
    found = re.search(f"{BEGIN}(.*?){END}", TABLE.read_text(), re.DOTALL)
    return found[1] if found else ""


if __name__ == "__main__":
    before, _, rest = TABLE.read_text().partition(BEGIN)
    TABLE.write_text(f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}")
