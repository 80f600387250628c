"""What a model is asked for, and whether it can do that: mismatches are told in words, before anything is computed."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from fedkin.data.federated import FederatedData
from fedkin.errors import ModelError
from fedkin.models.model import Model
from fedkin.world import LocalWork, ModelSpec


def check_samples(model: Model, data: FederatedData) -> ModelSpec:
    """Try the model on one sample. What is known of it, without its last layer where the last bias is not that of the
    scores (a model's leaves come in the order of their declaration)."""
    parameters = jax.ShapeDtypeStruct((model.spec.parameters,), jnp.float32)
    sample = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype)
    try:
        scores = jax.eval_shape(lambda p, x: model.apply(model.unflatten(p), x, None), parameters, sample)
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(
            f"model {model.name!r} does not take {data.name}'s samples of shape {data.x.shape[1:]}: {reason}"
        ) from error
    expected = (1, 1 if model.spec.detects else data.classes)
    if scores.shape != expected:
        raise ModelError(
            f"model {model.name!r} returns scores of shape {scores.shape} for one sample of {data.name}, "
            f"expected {expected}"
        )
    bias = model.spec.head_bias
    fits = bias is not None and bias.stop - bias.start == expected[1]
    return model.spec if fits else replace(model.spec, head=None, head_bias=None)


def check_work(model: Model, work: LocalWork, which: Int[np.ndarray, "n"] | None, gradient: bool = False) -> None:
    """Detectors need a class each, and nothing else has use for one."""
    detects = model.spec.detects
    if detects != (work.positive is not None) or (detects and (which is None or gradient)):
        raise ModelError(
            f"model {model.name!r} is {'a' if detects else 'no'} detector of one class among all: method athena trains "
            "detectors, and the other methods train models with a score for every class"
        )


def check_detects(model: Model, wanted: bool) -> None:
    """Refuse a question that means nothing to this kind of model."""
    if model.spec.detects != wanted:
        expected = "a detector" if wanted else "a model with a score for every class"
        raise ModelError(f"model {model.name!r} was asked what means something to {expected} only")


def check_scoring(model: Model, which: Int[np.ndarray, "n ..."], classes: int) -> None:
    """Detectors are scored with one of each class (which [n C]), other models one by one (which [n])."""
    expected = (classes,) if model.spec.detects else ()
    if which.shape[1:] != expected:
        raise ModelError(
            f"model {model.name!r} is {'a' if model.spec.detects else 'no'} detector: detectors are scored together, "
            f"one of each of {classes} classes, and other models one by one; got which of shape {which.shape}"
        )
