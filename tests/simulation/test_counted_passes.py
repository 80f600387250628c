"""How benchmarks count the passes of a round: by hand, of 4 clients with 20 samples each, a local epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedkin as fk
from benchmarks.passes import counted
from fedkin.core.randomness import Stream

ONE = 4 * 20


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (fk.FedAvg(), 1),
        (fk.Ditto(), 2),
        (fk.APFL(), 3),  # w, v, and the slope of the share
        (fk.APFL(adapt=False), 2),
        (fk.PFedMe(strength=1.0, own_steps=4), 4),
        (fk.SCAFFOLD("I"), 2),
        (fk.FedEM(3), 3 + 3 / 3),  # the E-step scores
        (fk.IFCA(3), 1 + 3 / 3),
    ],
)
def test_passes_of_a_round(method: Any, expected: float) -> None:
    data = fk.planted("digits", "rotation", clusters=2, clients=4, samples=20, test_samples=5, seed=0)
    world = fk.SimulatedWorld(data, fk.models.mclr(data), fk.SGD(epochs=1, batch_size=7, lr=0.1))
    state = method.init(world, Stream(0, 0, "init"))
    with counted() as passes:
        method.round(world, state, np.arange(4), Stream(0, 1, "round"))
    assert passes.total == pytest.approx(expected * ONE)
