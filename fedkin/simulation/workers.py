"""Selection of a model's trainer and scorer: compiled by JAX, or provided by the model.

Everything else in a simulated world (participation, failures, bytes, memory) is the same for every
model. JAX is imported only for a JAX model: a client with another model starts without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.engine_protocols import Scorer, Trainer
from fedkin.core.model_spec import ModelSpec, Samples
from fedkin.data.federated import FederatedData


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


Workers = tuple[Scorer, Trainer]


@runtime_checkable
class ModelWithWorkers(AnyModel, Protocol):
    """A model outside JAX, with its own trainer and scorer."""

    def check(self, data: Samples) -> ModelSpec:
        """Try the model on one sample; return its layout. Raises ModelError where it does not fit
        the data."""
        ...

    def in_jax(self, data: FederatedData) -> Any:
        """The JAX model that is trained in its place; None where its own workers train it."""
        ...

    def decided(self, data: FederatedData) -> Any:
        """The same model, with every open choice about its training made for these data."""
        ...

    def workers(self, data: FederatedData, ids: Int[np.ndarray, "N"]) -> Any:
        """Workers on these data; ``ids`` are the numbers of the clients in streams."""
        ...

    def description(self) -> dict[str, str]:
        """Further entries of a run's description than the model's name and size."""
        ...

    def digest(self, data: FederatedData) -> str:
        """A digest of the model's computation, as far as it can be compared, and of its initial
        weights."""
        ...


def check_samples(model: AnyModel, data: Samples) -> ModelSpec:
    """Try the model on one sample and return its spec, without a last layer if the last bias does
    not match the scores. Raises ModelError if the model does not fit the data."""
    if isinstance(model, ModelWithWorkers):
        return model.check(data)
    from fedkin.simulation.jax import workers as jax_workers

    return jax_workers.check_samples(model, data)  # type: ignore[arg-type]


def worker_factory(
    model: AnyModel, ids: Int[np.ndarray, "N"], devices: int | None, clients_per_batch: int | None
) -> Callable[[FederatedData], Workers]:
    """A function that makes the workers for data, which may change from round to round.

    Args:
        model: a JAX model, or one that brings its workers.
        ids: numbers of the clients in streams.
        devices: number of XLA devices; None for all. JAX models only, as is the next.
        clients_per_batch: clients trained at a time on one device; None for 1 on a CPU, elsewhere
            the fastest.
    """

    def workers(data: FederatedData) -> Workers:
        jax_model: Any = model.in_jax(data) if isinstance(model, ModelWithWorkers) else model
        if jax_model is None:
            return model.workers(data, ids)  # type: ignore[attr-defined]
        from fedkin.simulation.jax import workers as jax_workers

        return jax_workers.worker_factory(jax_model, ids, devices, clients_per_batch)(data)

    return workers


def decided(model: AnyModel, data: FederatedData) -> AnyModel:
    """The model as it is trained on these data, for processes that see a part of them."""
    return model.decided(data) if isinstance(model, ModelWithWorkers) else model


def program_release(model: AnyModel) -> Callable[[], object]:
    """A function that releases compiled programs if the process has too many, to be called between
    rounds."""
    # Without JAX nothing has been compiled.
    if isinstance(model, ModelWithWorkers) and "jax" not in sys.modules:
        return lambda: None
    from fedkin.simulation.jax import program_limit

    return program_limit.LIMIT.keep
