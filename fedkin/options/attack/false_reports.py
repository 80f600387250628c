"""False reports: attackers' lies about numbers that a server cannot verify, such as losses.

The schema of a task declares the arrays of its reply: name, type, axes and bounds. Lies are defined
by this declaration, so they apply to any task. A client's floats with the axis K (one per model)
are taken for a report about models (e.g. losses or cosines). The array ``WEIGHT`` is taken for a
client's number of samples, ``INDEX`` for the model that it chose, and a boolean for its answer to a
question.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.schema import INDEX, WEIGHT, Array
from fedkin.core.task import Task, fields_down

HUGE = 1e30  # the highest report if the schema sets no bound
LIES = ("lowest", "highest", "sizes", "bits", "choice")


def lie(
    about: str,
    task: Task,
    arrays: Mapping[str, np.ndarray],
    *,
    liars: Bool[np.ndarray, "n"],
    honest: Bool[np.ndarray, "n"],
) -> dict[str, np.ndarray]:
    """The arrays of a reply, in which the rows of lying clients hold false values.

    Args:
        about: one of ``LIES``. ``lowest`` or ``highest``: the extreme value that the schema allows,
            for every model. ``sizes``: the largest number of samples that it allows. ``bits``: yes
            to every question. ``choice``: the model that the fewest honest clients have chosen, if
            clients choose.
        task: the task, whose schema declares each array's type, axes and bounds.
        arrays: the true values of all clients, by the array's name.
        liars: which rows belong to lying clients.
        honest: which rows are replies of honest clients.
    """
    changed = dict(arrays)
    # ``array`` is the schema's declaration, ``arrays[name]`` the values that clients sent.
    for name, array in task.up.of("row").items():
        value = _claim(
            about=about,
            task=task,
            name=name,
            array=array,
            values=arrays[name],
            honest=honest,
        )
        if value is not None:
            changed[name] = arrays[name].copy()
            changed[name][liars] = value
    return changed


def _claim(
    about: str,
    task: Task,
    name: str,
    array: Array,
    values: np.ndarray,
    honest: Bool[np.ndarray, "n"],
) -> float | int | bool | None:
    """The false value that liars write into one array of the reply; None if this lie does not
    concern the array.

    Args:
        about: one of ``LIES``.
        task: the task of the reply.
        name: the array's name.
        array: the schema's declaration of the array.
        values: the array's true values.
        honest: which rows are replies of honest clients.
    """
    kind = np.dtype(array.dtype).kind
    if about in ("lowest", "highest") and kind == "f" and array.axes == "K":
        if about == "lowest":
            return float(array.low) if np.isfinite(array.low) else 0.0
        return float(array.high) if np.isfinite(array.high) else HUGE
    if about == "sizes" and name == WEIGHT:
        return int(array.high)
    if about == "bits" and kind == "b":
        return True
    if about == "choice" and name == INDEX and chosen_by_clients(task):
        return _rarest(values[honest], task.sizes()["K"])
    return None


def chosen_by_clients(task: Task) -> bool:
    """Whether each client chooses its model itself in this task."""
    # A field declared as "chosen" holds the models to choose from. Clients choose if the field that
    # would name each client's model (``down.by``) is None.
    for name, down in fields_down(task):
        if down.kind != "chosen":
            continue
        if getattr(task, name) is not None and getattr(task, down.by) is None:
            return True
    return False


def _rarest(chosen: Int[np.ndarray, "h"], models: int) -> int:
    """The model that the fewest clients chose; of several such models, the first.

    Args:
        chosen: the model that each honest client chose.
        models: number of models.
    """
    return int(np.argmin(np.bincount(chosen, minlength=models)))
