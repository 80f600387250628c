"""The data of a simulation in which some clients train on poisoned samples."""

from __future__ import annotations

import numpy as np

from fedkin.core.errors import ConfigError
from fedkin.data.federated import FederatedData
from fedkin.robust.byzantine import Byzantine
from fedkin.scenarios.poisoning import POISONS, LaterPoisoning
from fedkin.scenarios.shift import Shift


def poisoned_data(
    data: FederatedData, shift: Shift | None, attack: Byzantine | None
) -> tuple[FederatedData, Shift | None]:
    """The data as they are trained on, and how they shift: attackers may have poisoned theirs, at once or later.

    Args:
        data, shift: of the user.
        attack: of the run, or None.

    Raises:
        ConfigError: later, and the data shift besides.
        DataError: these data cannot be poisoned.
    """
    if attack is None or attack.attack not in POISONS:
        return data, shift
    attacks = attack.attackers(data.clients, data.true_clusters)
    if not attack.start:
        return POISONS[attack.attack](data, attacks), shift
    if shift is not None:
        raise ConfigError(
            f"attack.start: {attack.attack} after the start does not go with other shifts of data; leave one out"
        )
    return data, LaterPoisoning(attack.attack, tuple(np.flatnonzero(attacks).tolist()), attack.start)
