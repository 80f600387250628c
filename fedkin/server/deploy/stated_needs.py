"""The needs of a server's methods that it states in its handshake, so that a site whose disclosure
floors do not allow them is refused at the start."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from typing import Any

from fedkin.core.method import Method
from fedkin.core.requirements import requirements_of
from fedkin.core.task import Task
from fedkin.core.task_registry import find_task
from fedkin.options import SECTIONS
from fedkin.server.disclosure import SINGLE, TASKS


def stated_needs(methods: Iterable[Method], options: Collection[str]) -> dict[str, Any]:
    """Entries of the server's handshake: the tasks that the methods' own files name, and whether a
    method or an option reads the update of each client.

    Args:
        methods: the methods of the run.
        options: names of the sections of options that apply to them.
    """
    methods = list(methods)
    declared = [SECTIONS[name] for name in options if name in SECTIONS]
    has_own_option = len(declared) < len(options)
    # A user's own option declares nothing, and some options send other tasks than the methods do.
    # Then floors apply only to the requests.
    if has_own_option or any(option.replaces_tasks for option in declared):
        return {}
    tasks = set[str]()
    for method in methods:
        tasks |= tasks_of(method)
    single = any(requirements_of(method).reads.updates == "single" for method in methods)
    single |= any(option.single_updates for option in declared)
    return {TASKS: sorted(tasks), SINGLE: single}


def tasks_of(method: Method) -> set[str]:
    """Names of the tasks that a method's file names, or the file of its nearest base that names
    any. Tasks that it sends through helpers are not among them."""
    for kind in type(method).__mro__:
        module = sys.modules.get(kind.__module__)
        found = {_task_name(value) for value in vars(module).values()} if module else set()
        found.discard("")
        if found:
            return found
    return set()


def _task_name(value: Any) -> str:
    """Name of the task that a value stands for: a class of tasks, or a function that sends one;
    empty for any other value, and for a task that has no request of its kind."""
    kind = value if isinstance(value, type) and issubclass(value, Task) else None
    if kind is None and str(getattr(value, "__module__", "")).startswith("fedkin.tasks."):
        kind = find_task(getattr(value, "__name__", ""))
    return kind.name if kind is not None and kind.delivery == "asked" else ""
