"""A tiny real federation, made once."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.core.world import LocalWork
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import mclr
from fedkin.simulation.engine import SimulatedWorld


@pytest.fixture(scope="session")
def tiny() -> FederatedData:
    """Twelve clients with two features: six of them have the labels the other way round. One has no test sample."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12 * 20, 2)).astype(np.float32)
    truth = np.arange(12) % 2
    y = (x[:, 0] > 0).astype(np.int64) ^ np.repeat(truth, 20)
    rows = np.arange(len(x)).reshape(12, 20)
    test = [row[15:] for row in rows[:-1]] + [rows[-1][:0]]
    return FederatedData("tiny", x, y, 2, Ragged.of([row[:15] for row in rows]), Ragged.of(test), truth)


@pytest.fixture
def tiny_world(tiny: FederatedData) -> SimulatedWorld:
    return SimulatedWorld(tiny, mclr(tiny), LocalWork(epochs=2, batch_size=5, lr=0.5))
