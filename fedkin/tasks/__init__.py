"""Client work, one kind in one file: what clients receive, what they compute, and what they reply.

Importing this package imports all of its modules, so that every kind of task is known by its name.
"""

from __future__ import annotations

import importlib
import pkgutil

from fedkin.core.task import all_tasks as all_tasks
from fedkin.core.task import find_task as find_task

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
