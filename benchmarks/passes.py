"""How often a simulated run goes through samples. A gradient counts as one pass, and a score as a
third of one.

A gradient is a forward and a backward pass, and a backward pass costs about two forward ones. Other
computations of methods are not counted, such as singular vectors of the samples, distances of
updates or mixes of models on the server. So their time is part of the time of a pass.

The count comes from the requests of a method, whatever they cost. Scores and full gradients run in
blocks of 64 samples and without a step after each. They take less time than as many gradients of a
training in small batches. So additional work of a method could be hidden if many of its passes are
of that kind (IFCA, FedEM, gradients of APFL's mixes). It cannot be hidden if all passes are
training (Ditto, pFedMe).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from fedkin.core.train_call import TrainCall
from fedkin.simulation.jax.scoring import JaxScorer
from fedkin.simulation.jax.trainer import JaxTrainer

SCORE = 1 / 3


class Passes:
    """Gradients of single samples, counted since the start; a score counts as ``SCORE`` of one."""

    def __init__(self) -> None:
        self.total = 0.0
        self._counting = False

    def counts(self, method: Callable, samples: Callable[..., float]) -> Callable:
        """The method of a worker, which counts its requests. Requests that it makes to workers
        itself are part of them.

        Args:
            method: of ``JaxTrainer`` or ``JaxScorer``.
            samples: from its arguments to the number of gradients.
        """

        def counted(worker: Any, *args: Any, **options: Any) -> Any:
            if self._counting:
                return method(worker, *args, **options)
            self.total += samples(worker._data, *args, **options)
            self._counting = True
            try:
                return method(worker, *args, **options)
            finally:
                self._counting = False

        return counted


@contextmanager
def counted() -> Iterator[Passes]:
    """Count the passes of all simulations of this process meanwhile."""
    passes = Passes()
    counting = ExitStack()
    with counting:
        for worker, name, samples in _COUNTED:
            counting.enter_context(
                patch.object(worker, name, passes.counts(getattr(worker, name), samples))
            )
        yield passes


def _trained(data: Any, call: TrainCall) -> float:
    """Gradients of a training call: one of w in each step, and the ones of theta or of a second
    model."""
    sizes = data.train.sizes[call.clients]
    in_a_step = np.minimum(call.work.batch_size, sizes)
    each = call.num_steps * (sizes if call.work.steps is None else in_a_step)
    times = 1 if call.envelope is None else call.envelope.steps
    first = sizes.sum() if call.gradient else 0
    return float(each.sum() * (times + (call.mixed is not None)) + first)


def _gradients(data: Any, models: Any, clients: Any, index: Any) -> float:
    return float(data.train.sizes[clients].sum())


def _scored(data: Any, models: Any, clients: Any, index: Any, split: str) -> float:
    return SCORE * float(data.part(split).sizes[clients].sum())


def _losses(data: Any, models: Any, clients: Any) -> float:
    return SCORE * len(models) * float(data.train.sizes[clients].sum())


def _predicted(data: Any, models: Any, clients: Any, split: str) -> float:
    return SCORE * len(models) * float(data.part(split).sizes[clients].sum())


def _once(data: Any, model: Any, clients: Any, split: str) -> float:
    return SCORE * float(data.part(split).sizes[clients].sum())


_COUNTED: tuple[tuple[type, str, Callable[..., float]], ...] = (
    (JaxTrainer, "train", _trained),
    (JaxTrainer, "gradients", _gradients),
    (JaxScorer, "score", _scored),
    (JaxScorer, "raw_scores", _scored),
    (JaxScorer, "sample_losses", _losses),
    (JaxScorer, "predict", _predicted),
    (JaxScorer, "scores", _once),
)
