"""How benchmarks count the passes of a round: by hand, of 4 clients with 20 samples each, a local
epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedkin as fk
from benchmarks.passes import counted
from fedkin.core.randomness import Stream
from fedkin.simulation.jax import scoring

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
        (fk.FEROMA(), 1 + 1 / 3),  # the accuracy that decides when the mixing begins
        (fk.FEROMA(latest=0), 1 + 1 / 3),  # the profiles
        (fk.FedSoft(2), 1 + 2 / 3),  # importances of two centres
    ],
)
def test_passes_of_a_round(method: Any, expected: float) -> None:
    assert passes_of(method, fk.SGD(epochs=1, batch_size=7, lr=0.1)) == pytest.approx(
        expected * ONE
    )


def test_a_full_gradient_in_addition_to_steps_is_counted_once() -> None:
    """Two steps of 7 samples, and the gradient at the start of all 20."""
    work = fk.LocalTraining(steps=2, batch_size=7, lr=0.1)
    assert passes_of(fk.SCAFFOLD("I"), work) == pytest.approx(4 * (2 * 7 + 20))


def test_scores_in_portions_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_AT_ONCE", 30)
    monkeypatch.setattr(scoring, "_CACHE_BYTES", 0)
    assert passes_of(fk.IFCA(3), fk.SGD(epochs=1, batch_size=7, lr=0.1)) == pytest.approx(2 * ONE)


def passes_of(method: Any, work: fk.LocalTraining) -> float:
    """Passes over the samples in the first round of all clients."""
    data = fk.planted(
        "digits", "rotation", clusters=2, clients=4, samples=20, test_samples=5, seed=0
    )
    world = fk.SimulatedWorld(data, fk.models.mclr(data), work)
    state = method.init(world, Stream(0, 0, "init"))
    with counted() as passes:
        method.round(world, state, np.arange(4), Stream(0, 1, "round"))
    return passes.total
