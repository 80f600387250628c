"""The samples of all clients and the model engine on them, from which tasks compute replies.

Shapes: N clients, r rows of a task (clients that do it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.engine_protocols import Scorer, Trainer


@dataclass(frozen=True)
class ClientSamples:
    """The samples of all N clients.

    Attributes:
        ids: the numbers by which random streams identify the clients.
        data: the present samples of all clients (``FederatedData``).
        first_data: the samples of all clients before any shift.
        detects_shifts: whether clients look for shifts of their data. If False, they never report
            one.
    """

    ids: Int[np.ndarray, "N"]
    data: Any
    first_data: Any
    detects_shifts: bool = True


@dataclass(frozen=True)
class ClientEngine:
    """Model computations on the samples of all clients.

    Attributes:
        scorer: scores models.
        trainer: trains models.
        together: whether all rows of one client (each with one model) must be in one portion (a
            group of rows that are computed at once).
        limited: function that takes clients and, for each, positions among its training samples. It
            returns samples and an engine in which client i is the i-th of these clients and has
            only the samples at its positions. None if clients are already restricted in this way.
    """

    scorer: Scorer
    trainer: Trainer
    together: bool
    limited: Limited | None = None


Limited = Callable[
    [Int[np.ndarray, "r"], list[Int[np.ndarray, "_"]]],
    tuple[ClientSamples, ClientEngine],
]


def sums_by_row(values: np.ndarray, sizes: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Sums over the consecutive samples of each row (a client with a model); 0 without samples.

    Args:
        values: [t], one number for each sample of all rows, concatenated.
        sizes: number of samples of each row.
    """
    sums = np.zeros(len(sizes))
    full = sizes > 0
    if full.any():
        starts = (np.cumsum(sizes) - sizes)[full]
        sums[full] = np.add.reduceat(values.astype(np.float64), starts)
    return sums
