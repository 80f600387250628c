"""Client work, one kind of task per file: the data that clients receive, compute and send back.

A call of a task has one row for each client that is asked (a client may have several, e.g. one for
each model that it trains). ``compute`` does the work of one client. ``compute_rows`` does the same
for all rows of a simulation, portion by portion, so that the arrays of a portion fit into memory.

Importing this package imports all its modules, which registers every kind of task by name. A user's
own task can import all that it needs from here: ``from fedkin.tasks import Rows, Task, floats``.
"""

from __future__ import annotations

import importlib
import pkgutil

from fedkin.core.client import Client as Client
from fedkin.core.client import ClientRows as ClientRows
from fedkin.core.replies import Reply as Reply
from fedkin.core.schema import Memory as Memory
from fedkin.core.schema import Rows as Rows
from fedkin.core.schema import Sums as Sums
from fedkin.core.schema import booleans as booleans
from fedkin.core.schema import floats as floats
from fedkin.core.schema import integers as integers
from fedkin.core.task import Task as Task
from fedkin.core.task import chosen as chosen
from fedkin.core.task import each as each
from fedkin.core.task import initial as initial
from fedkin.core.task import kept as kept
from fedkin.core.task import setting as setting
from fedkin.core.task import shared as shared
from fedkin.core.task import stays as stays
from fedkin.core.task_registry import all_tasks as all_tasks
from fedkin.core.task_registry import find_task as find_task

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
