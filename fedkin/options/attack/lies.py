"""Lies about what a server takes a client's word for: numbers of a reply other than vectors, as the
task's schema has them. No task is named here: an array by row with an entry for each model (the
axis K) is what a client says of the models, such as losses or cosines; ``WEIGHT`` is its number of
samples, ``INDEX`` the model that it chose.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.schema import INDEX, WEIGHT, Array
from fedkin.core.task import Task, fields_down

HUGE = 1e30  # in place of a bound, where there is none
LIES = ("lowest", "highest", "sizes", "bits", "choice")


def lie(
    about: str, task: Task, arrays: Mapping[str, np.ndarray], liars: Bool[np.ndarray, "n"]
) -> dict[str, np.ndarray]:
    """A reply's arrays, with the rows of liars changed.

    Args:
        about: one of ``LIES``: the ``lowest`` or ``highest`` possible number for every model; the
            most samples that can be true (``sizes``); yes to every question of yes or no
            (``bits``); the model that fewest others have chosen, where clients choose (``choice``).
        task: whose schema declares what the arrays are.
        arrays: by name; those by row are read.
        liars: rows that are changed.
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
    """The value that liars send in place of an array's; None: they send the truth."""
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
    """Whether each client chooses its model itself."""
    for name, down in fields_down(task):
        if down.kind != "chosen":
            continue
        if getattr(task, name) is not None and getattr(task, down.by) is None:
            return True
    return False


def _rarest(chosen: Int[np.ndarray, "h"], models: int) -> int:
    """The model with the fewest choices, the first of equals."""
    return int(np.argmin(np.bincount(chosen, minlength=models)))
