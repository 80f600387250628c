"""Quadratic clients whose parameters are an adapter: one layer with A and B, and a last layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedkin.core.model_spec import Factor
from fedkin.core.training import LocalTraining
from fedkin.simulation.fake_world import FakeWorld

# The parts of six numbers.
A = slice(0, 2)
B = slice(2, 4)
HEAD = slice(4, 6)


def adapter_world(updates: Any, start: Any = None, **options: Any) -> FakeWorld:
    """A world in which client i sends ``updates[i]`` after one epoch from a model of zeros. The
    initial model is zeros, or comes from the function ``start``.

    The first two numbers are A, the last two the last layer, and those between them B. One epoch of
    lr 0.5 goes half the way to the client's target. Client i has 10 (1 + i) examples.
    """
    target = 2 * np.asarray(updates, np.float32)
    world = FakeWorld(
        target,
        10 * (1 + np.arange(len(target))),
        LocalTraining(lr=0.5),
        start=start or (lambda _: np.zeros(target.shape[1])),
        head=slice(target.shape[1] - 2, target.shape[1]),
        **options,
    )
    b = slice(2, target.shape[1] - 2)
    factor = Factor(layer="layer", a=A, b=b, rank=1, scale=2.0)
    world.spec = replace(world.spec, factors=(factor,))
    return world
