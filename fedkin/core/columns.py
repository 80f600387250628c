"""Facts about the columns of all clients' tables, as servers and sites exchange them.

Shapes: d columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Shaped


@dataclass(frozen=True)
class ColumnSummary:
    """A column over the training samples of all clients that replied.

    Attributes:
        name: name of the column.
        count: number of values.
        mean: mean of the values.
        deviation: standard deviation (divided by the count); 0 for a constant column.
        quartiles: the lower quartile, the median and the upper quartile; None if they were not
            asked for.
    """

    name: str
    count: int
    mean: float
    deviation: float
    quartiles: tuple[float, float, float] | None = None


def raw_values(data: Any, x: Shaped[np.ndarray, "s ..."]) -> Float64[np.ndarray, "s ..."]:
    """The values of samples before the columns of a table were scaled.

    Args:
        data: the data (``FederatedData``) that the samples are from.
        x: the samples, as in the data.
    """
    transform = getattr(data, "transform", None)
    return np.asarray(x if transform is None else transform.undo(x), np.float64)


class CommonScaling(NamedTuple):
    """How all sites scale the columns of their tables: ``(x - mean) / scale``.

    Attributes:
        mean: the value of each column that becomes 0.
        scale: the difference in each column that becomes 1.
    """

    mean: Float64[np.ndarray, "d"]
    scale: Float64[np.ndarray, "d"]
