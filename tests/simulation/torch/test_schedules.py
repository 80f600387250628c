"""Learning-rate schedules are equal to those of PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR, LinearLR, LRScheduler, StepLR

from fedkin.core.schedule import Schedule

STEPS = np.arange(30)
PAIRS: dict[str, tuple[Schedule, Callable[[Optimizer], LRScheduler]]] = {
    "step": (Schedule("step", every=7, gamma=0.5), lambda optimizer: StepLR(optimizer, 7, 0.5)),
    "exponential": (
        Schedule("exponential", gamma=0.9),
        lambda optimizer: ExponentialLR(optimizer, 0.9),
    ),
    "linear": (
        Schedule("linear", length=12, end=0.25),
        lambda optimizer: LinearLR(optimizer, 1.0, 0.25, 12),
    ),
    "cosine": (
        Schedule("cosine", length=29, end=0.05),
        lambda optimizer: CosineAnnealingLR(optimizer, 29, 0.05),
    ),
    "warm-up": (
        Schedule(warmup=4, warmup_start=0.3),
        lambda optimizer: LinearLR(optimizer, 0.3, 1.0, 4),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pytorch_has_the_same(name: str) -> None:
    schedule, make_scheduler = PAIRS[name]
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = make_scheduler(optimizer)
    rates = []
    for _ in STEPS:
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    np.testing.assert_allclose(schedule.factors(STEPS), rates, rtol=1e-6)
