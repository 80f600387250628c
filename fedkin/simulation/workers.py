"""Selects a model's workers, i.e. its trainer and its scorer: compiled by JAX, or provided by the
model.

Everything else in a simulated world (participation, failures, bytes, memory) is the same for every
model. JAX is imported only for a JAX model, so a client with another model starts without it.
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
    """Interface of every model, whether JAX computes it or not."""

    @property
    def name(self) -> str:
        """Name for messages and descriptions."""
        ...

    @property
    def spec(self) -> ModelSpec:
        """Size and layout of the model's flat vector."""
        ...

    def initial(self, words: np.ndarray) -> Float[np.ndarray, "P"]:
        """A new flat model, drawn from two uint32 random words."""
        ...


Workers = tuple[Scorer, Trainer]  # of one data set


@runtime_checkable
class ModelWithWorkers(AnyModel, Protocol):
    """A model that is not a JAX model and has its own trainer and scorer."""

    def check(self, data: Samples) -> ModelSpec:
        """Try the model on one sample, and return the layout of its parameters. Raises ModelError
        if the model does not fit the data."""
        ...

    def in_jax(self, data: FederatedData) -> Any:
        """The JAX model that is trained in place of this one; None if this model's own trainer is
        used."""
        ...

    def decided(self, data: FederatedData) -> Any:
        """Choose whether PyTorch or JAX trains the model on these data. Returns the model with this
        choice fixed."""
        ...

    def workers(self, data: FederatedData, ids: Int[np.ndarray, "N"]) -> Any:
        """Trainer and scorer on these data; ``ids`` are the clients' ids in the random streams."""
        ...

    def description(self) -> dict[str, Any]:
        """Entries of a run's description in addition to the model's name and size."""
        ...

    def digest(self, data: FederatedData) -> str:
        """A digest of the model's initial weights and, as far as a digest can cover it, of its
        computation."""
        ...


def check_samples(model: AnyModel, data: Samples) -> ModelSpec:
    """Try the model on one sample, and return its spec (number and layout of parameters).

    If the last bias does not have one number for each score, it does not belong to the last layer.
    The spec then marks no last layer (``head`` is None). Raises ModelError if the model does not
    fit the data.
    """
    if isinstance(model, ModelWithWorkers):
        return model.check(data)
    from fedkin.simulation.jax import workers as jax_workers

    return jax_workers.check_samples(model, data)  # type: ignore[arg-type]


def worker_factory(
    model: AnyModel, ids: Int[np.ndarray, "N"], devices: int | None, clients_per_batch: int | None
) -> Callable[[FederatedData], Workers]:
    """A function that makes the scorer and the trainer for a data set.

    The function is called again when a shift has changed the clients' data.

    Args:
        model: a JAX model, or a model with its own workers.
        ids: the clients' ids in the random streams.
        devices: number of XLA devices; None for all. It applies only to JAX models.
        clients_per_batch: clients trained at a time on one device. None: 1 on a CPU, elsewhere the
            fastest number. It applies only to JAX models.
    """

    def workers(data: FederatedData) -> Workers:
        jax_model: Any = model.in_jax(data) if isinstance(model, ModelWithWorkers) else model
        if jax_model is None:
            return model.workers(data, ids)  # type: ignore[attr-defined]
        from fedkin.simulation.jax import workers as jax_workers

        return jax_workers.worker_factory(jax_model, ids, devices, clients_per_batch)(data)

    return workers


def decided(model: AnyModel, data: FederatedData) -> AnyModel:
    """Choose whether PyTorch or JAX trains the model on these data. Returns the model with this
    choice fixed.

    Every process that gets the returned model trains it in the same way and does not choose again.
    """
    return model.decided(data) if isinstance(model, ModelWithWorkers) else model


def program_release(model: AnyModel) -> Callable[[], object]:
    """A function to call between rounds. It releases compiled programs before the process has too
    many memory maps."""
    # Without JAX nothing has been compiled.
    if isinstance(model, ModelWithWorkers) and "jax" not in sys.modules:
        return lambda: None
    from fedkin.simulation.jax import program_limit

    return program_limit.LIMIT.keep
