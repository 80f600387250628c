"""Data of two clients whose labels are no classes."""

from __future__ import annotations

import numpy as np

import fedkin as fk
from fedkin.data.federated import FederatedData


def other_labels(task: str) -> FederatedData:
    """Data of regression, or of survival."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    clients = np.repeat([0, 1], 30)
    times = rng.exponential(size=60)
    if task == "survival":
        return fk.data.from_patients(x, times, times < 1, clients=clients)
    return fk.data.from_arrays(x, times, clients=clients, task=task)
