"""What is each client's own of a trained run: a head, a model, a share of components. Shapes: P
parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.client_memory import ClientMemory
from fedkin.core.errors import MethodError
from fedkin.core.task import Task
from fedkin.tasks.fedper import EvaluatePersonal, join
from fedkin.tasks.own_model import EvaluateOwn

_HEAD = "personal_head"


def whole_model(
    task: Task, client: int, total: int, memory: Mapping[str, np.ndarray] | None, method: str
) -> Float[np.ndarray, "P"]:
    """The model that a client is tested with, of which a part is its own.

    Args:
        task: that tests this client.
        client: its position.
        total: N.
        memory: what clients store; None where it is with them.
        method: its name, for messages.

    Raises:
        MethodError: a test of which no model can be made here.
    """
    if not isinstance(task, EvaluatePersonal | EvaluateOwn):
        raise MethodError(
            f"{method} tests its clients by a task of its own, {task.name}, of which no model can "
            "be made here"
        )
    if memory is None:
        parts = "heads of" if isinstance(task, EvaluatePersonal) else "clients' own models of"
        raise MethodError(f"the {parts} {method} are with its clients, and never left them")
    kept = _restored(memory, total)
    if isinstance(task, EvaluateOwn):
        only = np.array([client])
        return task.read(
            lambda name, first: kept.read(name, only, first), task.models[task.model_index]
        )[0]
    own = kept.read(_HEAD, np.array([client]), task.start[None, task.head or slice(0)])[0]
    return join(task.models[task.model_index[0]], own, task.head)


def check_head(
    task: Task | None, client: int, total: int, memory: Mapping[str, np.ndarray], name: str
) -> None:
    """Refuse (MethodError) a client that has no head of its own yet: the first one is as good as
    random.

    Args:
        task: that tests this client; None: it has nothing of its own.
        client: its position.
        total: N.
        memory: what clients store.
        name: the client's.
    """
    if (
        isinstance(task, EvaluatePersonal)
        and not _restored(memory, total).has(_HEAD, np.array([client]))[0]
    ):
        raise MethodError(
            f"client {name} has no last layer of its own: it was in no cohort; train one with "
            "run.fine_tune(client, epochs=...), or give the run more rounds, or cohorts that reach "
            "everybody (run.selection=round_robin)"
        )


def check_shared(task: Task | None, personal: bool, method: str) -> None:
    """Refuse (MethodError) a model of a cluster where there is none to predict with.

    Args:
        task: that tests clients with what is their own; None: they have nothing of their own.
        personal: whether each client has a model of its own.
        method: its name, for messages.
    """
    if isinstance(task, EvaluatePersonal):
        raise MethodError(
            f"{method} has a model for each client, not for a cluster: a last layer is each "
            "client's own; say which client, or train one for a new client, "
            "run.fine_tune(cluster=..., x=..., y=..., epochs=...)"
        )
    if personal and not isinstance(task, EvaluateOwn):  # beside which clusters have theirs
        raise MethodError(
            f"{method} has a model for each client, not for a cluster; say which client"
        )


def _restored(memory: Mapping[str, Any], total: int) -> ClientMemory:
    kept = ClientMemory(total)
    kept.restore(memory)
    return kept
