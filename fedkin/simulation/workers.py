"""Protocols of trainers and scorers, and where a model's come from: compiled by JAX, or its own.

All else in a simulated world (participation, failures, bytes, memory) is the same for every model. JAX is imported only
where a JAX model is used: a client with another model starts without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.layout import Samples
from fedkin.core.randomness import Stream
from fedkin.core.world import LocalTraining, ModelSpec
from fedkin.data.federated import FederatedData
from fedkin.simulation.worker_results import LocalUpdates, ScoreSums


@runtime_checkable
class AnyModel(Protocol):
    """What every model has, in JAX or not."""

    @property
    def name(self) -> str:
        """Name for messages and descriptions."""
        ...

    @property
    def spec(self) -> ModelSpec:
        """Size and layout of the flat vector."""
        ...

    def initial(self, words: np.ndarray) -> Float[np.ndarray, "P"]:
        """A fresh flat model from two uint32 words of randomness."""
        ...


class Trainer(Protocol):
    """Trains the clients of one data set. A row is a client (its position in the data) with a model."""

    def train(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r"],
        work: LocalTraining,
        num_steps: Int[np.ndarray, "r"],
        stream: Stream,
        gradient: bool = False,
    ) -> LocalUpdates:
        """Local training of every row.

        Args:
            models: K models.
            clients: client of each row.
            model_index: model that it starts from.
            work: batches and optimiser; ``work.positive`` has the classes of these rows' detectors.
            num_steps: epochs of each row, or steps where ``work.steps`` is set.
            stream: randomness of the call.
            gradient: whether to return full gradients at the start too.
        """
        ...

    def gradients(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "r"], model_index: Int[np.ndarray, "r"]
    ) -> Float[np.ndarray, "r P"]:
        """Gradient of each client's full training loss at its model, in inference mode; 0 where nothing is trained."""
        ...


class Scorer(Protocol):
    """Scores models on the clients of one data set."""

    def losses(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        """Mean training losses."""
        ...

    def label_errors(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        """Root mean square errors of the predicted class numbers, on training samples."""
        ...

    def histograms(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        positive: Int[np.ndarray, "n"],
        split: str,
    ) -> Int[np.ndarray, "n 2 bins"]:
        """Histograms of each row's detector scores: on the samples of its class, and on the others."""
        ...

    def score(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        split: str,
    ) -> ScoreSums:
        """Correct predictions, summed loss and number of samples of each row."""
        ...


Workers = tuple[Scorer, Trainer]


@runtime_checkable
class ModelWithWorkers(AnyModel, Protocol):
    """A model outside JAX, with its own trainer and scorer."""

    def check(self, data: Samples) -> ModelSpec:
        """Try the model on one sample; return its layout. Raises ModelError where it does not fit the data."""
        ...

    def workers(self, data: FederatedData, ids: Int[np.ndarray, "N"]) -> Any:
        """Workers on these data; ``ids`` are the numbers of the clients in streams."""
        ...

    def description(self) -> dict[str, str]:
        """Entries of a run's description beside the model's name and size."""
        ...

    def digest(self, data: FederatedData) -> str:
        """A digest of the model's computation, as far as it can be compared, and of its initial weights."""
        ...


def check_samples(model: AnyModel, data: Samples) -> ModelSpec:
    """Try the model on one sample; return its layout, without a last layer where the last bias is not that of the
    scores. Raises ModelError where the model does not fit the data."""
    if isinstance(model, ModelWithWorkers):
        return model.check(data)
    from fedkin.simulation import compiled_workers

    return compiled_workers.check_samples(model, data)  # type: ignore[arg-type]


def worker_factory(
    model: AnyModel, ids: Int[np.ndarray, "N"], devices: int | None, clients_per_batch: int | None
) -> Callable[[FederatedData], Workers]:
    """A function that makes the workers for data, which may change from round to round.

    Args:
        model: a JAX model, or one with workers of its own.
        ids: numbers of the clients in streams.
        devices: number of XLA devices; None for all. JAX models only, as is the next.
        clients_per_batch: clients trained at a time on one device; None for 1 on a CPU, 32 elsewhere.
    """
    if isinstance(model, ModelWithWorkers):
        return lambda data: model.workers(data, ids)
    from fedkin.simulation import compiled_workers

    return compiled_workers.worker_factory(model, ids, devices, clients_per_batch)  # type: ignore[arg-type]
