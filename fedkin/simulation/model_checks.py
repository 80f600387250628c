"""Checks of a simulated world before anything is computed."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError


def check_ids(ids: Int[np.ndarray, "N"] | None, clients: int) -> Int[np.ndarray, "N"]:
    """The numbers of the clients in streams: 0 .. N-1 by default.

    Raises:
        ConfigError: not one for each client, or not ascending from 0 up.
    """
    if ids is None:
        return np.arange(clients)
    if len(ids) != clients or ids.min(initial=0) < 0 or (np.diff(ids) <= 0).any():
        raise ConfigError(f"ids must be one number for each of {clients} clients, ascending from 0 up, got {ids}")
    return ids
