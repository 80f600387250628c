"""False reports: numbers in a reply, other than vectors, that a server cannot verify.

The task's schema identifies them, so no task is named here. A per-client array with an entry for
each model (the axis K) is a report about models, such as losses or cosines. ``WEIGHT`` is a
client's number of samples, ``INDEX`` the model that it chose.
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
    about: str, task: Task, arrays: Mapping[str, np.ndarray], liars: Bool[np.ndarray, "n"]
) -> dict[str, np.ndarray]:
    """A reply's arrays after lying clients have changed their rows.

    Args:
        about: one of ``LIES``. ``lowest`` or ``highest``: the extreme possible number for every
            model. ``sizes``: the largest possible number of samples. ``bits``: yes to every
            question. ``choice``: the model that the fewest other clients have chosen, if clients
            choose.
        task: the task, whose schema declares the arrays.
        arrays: arrays of the reply by name; those with a row per client are read.
        liars: rows of lying clients.
    """
    changed = dict(arrays)
    for name, array in task.up.of("row").items():
        value = _claim(
            about=about,
            task=task,
            name=name,
            array=array,
            values=arrays[name],
            liars=liars,
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
    liars: Bool[np.ndarray, "n"],
) -> float | int | bool | None:
    """The false value for an array; None if the true values are sent."""
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
        return _rarest(values[~liars], task.sizes()["K"])
    return None


def chosen_by_clients(task: Task) -> bool:
    """Whether each client chooses its model itself in this task."""
    for name, down in fields_down(task):
        if down.kind != "chosen":
            continue
        if getattr(task, name) is not None and getattr(task, down.by) is None:
            return True
    return False


def _rarest(chosen: Int[np.ndarray, "h"], models: int) -> int:
    """The model that the fewest clients chose; the first of several."""
    return int(np.argmin(np.bincount(chosen, minlength=models)))
