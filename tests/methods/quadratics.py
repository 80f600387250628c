"""A world of clients with a quadratic loss each, (w - b)^T A (w - b) / 2, as the oracle vectors have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkin.core.training import LocalTraining
from fedkin.core.workers import NO_TERMS, GradientTerms, LocalUpdates
from fedkin.simulation.fake_world import FakeWorld, _Quadratic


class _Curved(_Quadratic):
    """Gradient steps in float64, ``work.steps`` of them."""

    def __init__(self, world: FakeWorld, a: np.ndarray) -> None:
        super().__init__(world)
        self._a = a

    def _gradient(self, w: np.ndarray, clients: np.ndarray) -> np.ndarray:
        return np.einsum("rij,rj->ri", self._a[clients], w - self._world.target[clients].astype(np.float64))

    def train(
        self,
        models: Any,
        clients: Any,
        model_index: Any,
        work: LocalTraining,
        num_steps: Any,
        stream: Any,
        gradient: bool = False,
        terms: GradientTerms = NO_TERMS,
    ) -> LocalUpdates:
        start = models[model_index].astype(np.float64)
        w, own = start, None if terms.own is None else terms.own.astype(np.float64)
        for _ in range(int(np.max(num_steps))):
            if own is not None and terms.share is not None:
                share = terms.share[:, None]
                own = own - work.lr * share * self._gradient(share * own + (1 - share) * w, clients)
            if terms.envelope is not None:
                strength, steps, lr = terms.envelope
                own = w
                for _ in range(steps):
                    own = own - lr * (self._gradient(own, clients) + strength * (own - w))
                w = w - work.lr * strength * (w - own)
                continue
            step = self._gradient(w, clients)
            step = step if terms.correction is None else step + terms.correction
            if terms.anchor is not None and terms.strength is not None:
                step = step + terms.strength[:, None] * (w - terms.anchor)
            w = w - work.lr * step
        zeros, full = np.zeros(len(clients), np.float32), self._gradient(start, clients).astype(np.float32)
        moved = None if own is None else (own - (start if terms.own is None else terms.own)).astype(np.float32)
        return LocalUpdates((w - start).astype(np.float32), zeros, zeros, full if gradient else None, moved)

    def gradients(self, models: Any, clients: Any, model_index: Any) -> Any:
        return self._gradient(models[model_index].astype(np.float64), clients).astype(np.float32)


def quadratic_world(a: Any, b: Any, start: Any, work: LocalTraining) -> FakeWorld:
    """A world of such clients, whose initial model is ``start``."""
    target = np.array(b, np.float32)
    world = FakeWorld(target, np.ones(len(target), int), work, start=lambda _: np.array(start))
    world._trainer = _Curved(world, np.array(a))
    return world
