"""Personal parts of a run's trained models: a client's last layer, its batch normalisation layers,
or its whole model.

Shapes: P parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.client_memory import ClientMemory
from fedkin.core.errors import MethodError
from fedkin.core.task import Task
from fedkin.tasks.fedper import EvaluatePersonal, entries_of, join
from fedkin.tasks.fedrouter import EvaluateRouted
from fedkin.tasks.own_model import EvaluateOwn

_HEAD = "personal_head"


def whole_model(
    task: Task, client: int, total: int, memory: Mapping[str, np.ndarray] | None, method: str
) -> Float[np.ndarray, "P"]:
    """The complete model of a client, joined from the shared part and the client's personal part.

    Args:
        task: the task that evaluates this client.
        client: the client's position.
        total: N, the number of clients.
        memory: arrays that clients store; None if they are on the clients' machines.
        method: the method's name, for messages.

    Raises:
        MethodError: the model cannot be built, because the task is neither ``EvaluatePersonal`` nor
            ``EvaluateOwn``, or because the personal part is on the client's machine.
    """
    if not isinstance(task, EvaluatePersonal | EvaluateOwn):
        raise MethodError(
            f"{method}: the model of a single client cannot be built, since the task that "
            f"evaluates clients ({task.name}) may combine models in any way; run.clients has each "
            "client's accuracy and loss"
        )
    if memory is None:
        parts = f"{task.layer}s" if isinstance(task, EvaluatePersonal) else "personal models"
        raise MethodError(f"the {parts} of {method} are stored only on its clients' machines")
    kept = _restored(memory, total)
    if isinstance(task, EvaluateOwn):
        only = np.array([client])
        return task.read(
            lambda name, first: kept.read(name, only, first), task.models[task.model_index]
        )[0]
    own = kept.read(_HEAD, np.array([client]), task.start[None, entries_of(task.head)])[0]
    return join(task.models[task.model_index[0]], own, task.head)


def check_head(
    task: Task | None, client: int, total: int, memory: Mapping[str, np.ndarray], name: str
) -> None:
    """Raise MethodError for a client that has not trained its personal layers yet, since it would
    predict with the initial layers.

    Args:
        task: the task that evaluates this client; None: clients have no personal part.
        client: the client's position.
        total: N, the number of clients.
        memory: arrays that clients store.
        name: the client's name.
    """
    if (
        isinstance(task, EvaluatePersonal)
        and not _restored(memory, total).has(_HEAD, np.array([client]))[0]
    ):
        raise MethodError(
            f"client {name} has no personal {task.layer}, because it was in no cohort; train one "
            "with run.fine_tune(client, epochs=...), or give the run more rounds, or cohorts that "
            "reach all clients (run.selection=round_robin)"
        )


def check_shared(task: Task | None, personal: bool, method: str) -> None:
    """Raise MethodError if clusters have no model that can predict without a client's part.

    Args:
        task: the task that evaluates clients with their personal parts; None: clients have no
            personal parts.
        personal: whether each client has a separate model.
        method: the method's name, for messages.
    """
    if isinstance(task, EvaluatePersonal):
        raise MethodError(
            f"{method} has a model for each client, not for a cluster, because {task.layer}s are "
            f"personal; give a client, or train a {task.layer} for a new client: "
            "run.fine_tune(cluster=..., x=..., y=..., epochs=...)"
        )
    # With these, clusters have models too.
    if personal and not isinstance(task, EvaluateOwn | EvaluateRouted):
        raise MethodError(f"{method} has a model for each client, not for a cluster; give a client")


def _restored(memory: Mapping[str, Any], total: int) -> ClientMemory:
    """The memory of ``total`` clients, from the arrays that a checkpoint stores."""
    kept = ClientMemory(total)
    kept.restore(memory)
    return kept
