"""The scorer and the trainer of a JAX model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ModelError
from fedkin.core.model_spec import ModelSpec, Samples, spec_for_data
from fedkin.data.federated import FederatedData
from fedkin.models.model import Model, model_for
from fedkin.simulation.jax.device_trial import usable
from fedkin.simulation.jax.devices import local_devices
from fedkin.simulation.jax.scoring import JaxScorer
from fedkin.simulation.jax.trainer import JaxTrainer


def worker_factory(
    model: Model, ids: Int[np.ndarray, "N"], devices: int | None, clients_per_batch: int | None
) -> Callable[[FederatedData], tuple[JaxScorer, JaxTrainer]]:
    """A function that makes the scorer and the trainer for a data set.

    Args:
        model: the JAX model.
        ids: the clients' ids in the random streams.
        devices: number of XLA devices; None for all.
        clients_per_batch: clients trained at a time on one device. None: 1 on a CPU, elsewhere the
            number that trains the first cohort fastest.
    """
    used = usable(local_devices(devices))
    lanes = clients_per_batch or (1 if used[0].platform == "cpu" else None)

    def workers(data: FederatedData) -> tuple[JaxScorer, JaxTrainer]:
        of_type = model_for(model, data.task_type)
        trainer = JaxTrainer(data=data, model=of_type, devices=used, lanes=lanes, ids=ids)
        return JaxScorer(data, of_type, used), trainer

    return workers


def check_samples(model: Model, data: Samples) -> ModelSpec:
    """Check that the model accepts the shape of a sample, without computing anything.

    Returns the model's spec with its untrained parameters. Raises ModelError if the shape does not
    fit.
    """
    parameters = jax.ShapeDtypeStruct((model.spec.parameters,), jnp.float32)
    # JAX stores 64-bit integers in 32 bits, and warns about a shape with 64-bit numbers.
    sample_type = jax.dtypes.canonicalize_dtype(data.x.dtype)
    sample = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), sample_type)
    try:
        scores = jax.eval_shape(model.scores, parameters, sample, model.frozen_arrays)
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(
            f"model {model.name!r} does not take {data.name}'s samples of shape "
            f"{data.x.shape[1:]}: {reason}"
        ) from error
    # A model without running statistics has no flags, so the lengths may differ.
    parts = zip(model.statistics, model.spec.slices.values(), strict=False)
    untrained = tuple(part for is_statistic, part in parts if is_statistic)
    return spec_for_data(
        spec=replace(model.spec, untrained=untrained),
        name=model.name,
        data=data.name,
        classes=data.classes,
        scores=scores.shape,
    )
