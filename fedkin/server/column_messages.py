"""The scaling of all sites' columns, in messages and in files of arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedkin.core.columns import CommonScaling
from fedkin.server.message import InvalidMessageError

# Name that every array of the scaling begins with. No field of a task may have it.
COLUMNS = "columns"


def scaling_arrays(scaling: CommonScaling | None) -> dict[str, np.ndarray]:
    """The arrays of a scaling, by their names in messages; an empty dict for None."""
    if scaling is None:
        return {}
    return {f"{COLUMNS}.{name}": array for name, array in scaling._asdict().items()}


def scaling_in(arrays: Mapping[str, np.ndarray]) -> CommonScaling | None:
    """The scaling in some arrays; None if there is none.

    Raises InvalidMessageError if the arrays are no scaling.
    """
    found = {name: arrays.get(f"{COLUMNS}.{name}") for name in CommonScaling._fields}
    mean = found["mean"]
    scale = found["scale"]
    if mean is None and scale is None:
        return None
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
    return CommonScaling(mean.astype(np.float64), scale.astype(np.float64))
