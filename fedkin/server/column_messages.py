"""The scaling of all sites' columns and labels, in messages and in files of arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedkin.core.columns import CommonScaling
from fedkin.server.message import InvalidMessageError

# Name that every array of the scaling begins with. No field of a task may have it.
COLUMNS = "columns"
_LEAST_STATISTICS = 5  # mean, scale, rate, deviation and a constant score


def scaling_arrays(scaling: CommonScaling | None) -> dict[str, np.ndarray]:
    """The arrays of a scaling, by their names in messages; an empty dict for None."""
    if scaling is None:
        return {}
    arrays = scaling._asdict()
    return {f"{COLUMNS}.{name}": array for name, array in arrays.items() if array is not None}


def scaling_in(arrays: Mapping[str, np.ndarray]) -> CommonScaling | None:
    """The scaling in some arrays; None if there is none.

    Raises InvalidMessageError if the arrays are no scaling.
    """
    found = {name: arrays.get(f"{COLUMNS}.{name}") for name in CommonScaling._fields}
    mean = found["mean"]
    scale = found["scale"]
    labels = _label_statistics(found["labels"])
    if mean is None and scale is None:
        return None if labels is None else CommonScaling(labels=labels)
    if mean is None or scale is None or mean.shape != scale.shape or mean.ndim != 1:
        raise InvalidMessageError(
            "the scaling of columns must be a mean and a scale of each column; install the "
            "server's version of fedkin here"
        )
    are_finite = np.isfinite(mean).all() and np.isfinite(scale).all()
    if not (are_finite and (scale > 0).all()):
        raise InvalidMessageError(
            "the scaling of columns must be finite numbers, and each scale must be positive"
        )
    return CommonScaling(mean.astype(np.float64), scale.astype(np.float64), labels)


def _label_statistics(labels: np.ndarray | None) -> np.ndarray | None:
    """The statistics of labels (``TaskType.statistics``), checked; None for None."""
    if labels is None:
        return None
    sound = labels.ndim == 1 and len(labels) >= _LEAST_STATISTICS and np.isfinite(labels).all()
    # Scale, rate and deviation.
    if not sound or not (labels[1:4] > 0).all():
        raise InvalidMessageError(
            "the statistics of the labels must be finite numbers, with a positive scale, rate and "
            "deviation; install the server's version of fedkin here"
        )
    return labels.astype(np.float64)
