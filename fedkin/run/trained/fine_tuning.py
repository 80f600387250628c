"""Local fine-tuning of clients' models, and the choice of the number of epochs.

Shapes: n clients, P parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from fedkin.export.predictor import Predictor

_NUMBERS_AT_ONCE = 2**26  # limit of parameters, over all models that are tuned in one call


@runtime_checkable
class Tunable(Protocol):
    """Trained models that can be fine-tuned (``TrainedModels``)."""

    def of_client(self, number: int) -> Predictor:
        """The model that a client uses."""
        ...

    def tuned(
        self, models: Float[np.ndarray, "n P"], clients: Int[np.ndarray, "n"], epochs: int
    ) -> Float[np.ndarray, "n P"]:
        """The models of clients after local training."""
        ...


def tuned_predictors(
    trained: Tunable, clients: Int[np.ndarray, "n"], epochs: int
) -> Iterator[tuple[int, Predictor]]:
    """Yield each client with its model after local training on the client's training samples.

    Clients are trained in portions, since each needs a model in memory.

    Args:
        trained: the models.
        clients: the clients.
        epochs: number of epochs.
    """
    if not len(clients):
        return
    parameters = trained.of_client(int(clients[0])).vectors.shape[1]
    portion = max(1, _NUMBERS_AT_ONCE // parameters)
    for start in range(0, len(clients), portion):
        own = clients[start : start + portion]
        predictors = [trained.of_client(int(client)) for client in own]
        models = np.stack([predictor.vectors[0] for predictor in predictors])
        tuned = trained.tuned(models, own, epochs)
        for client, predictor, vector in zip(own, predictors, tuned, strict=True):
            yield int(client), replace(predictor, vectors=vector[None])


def best_epochs(scores: Sequence[float], sign: int) -> int:
    """The number of epochs with the best score, the smallest of equal ones. A score that is NaN, as
    after divergence, is never the best.

    Args:
        scores: score after 0, 1, .. epochs.
        sign: 1 if higher scores are better, -1 if lower ones are.
    """
    better = sign * np.array(scores, np.float64)
    return int(np.argmax(np.where(np.isnan(better), -np.inf, better)))
