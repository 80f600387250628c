"""Compiled programs that score models: losses, sums of scores, outputs and predictions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from fedkin.models.model import Model, Tree
from fedkin.simulation.jax.local_training import ONE_CORE, SampleBlocks, on_each_device
from fedkin.simulation.jax.training_losses import sample_losses


@partial(jax.jit, static_argnames=("model", "mesh"), compiler_options=ONE_CORE)
def score(
    model: Model,
    mesh: Mesh,
    models: Float[Array, "K P"],
    blocks: SampleBlocks,
    frozen: Tree = None,
) -> tuple[tuple[Array, ...], Float[Array, "D b S"]]:
    """What the task type sums over samples, such as whether each is classified correctly, and the
    loss of each sample.

    Args:
        model: the model.
        mesh: D devices.
        models: parameters of K models, indexed by the blocks.
        blocks: the samples; block i of a device is scored by model ``model_index[i]``.
        frozen: arrays of the model that are not trained.
    """
    scores_of = detector_scores if model.spec.detects else model_scores

    def block(
        model: Model, models: Array, samples: SampleBlocks
    ) -> tuple[tuple[Array, ...], Array]:
        scores = scores_of(model, models, samples.model_index, samples.x)
        summed = model.task_type.sample_scores(jnp, scores, samples.y)
        return summed, sample_losses(model, scores, samples.y)

    return _each_block(block, model, mesh)((models, frozen), blocks)


def _each_block(block: Callable, model: Model, mesh: Mesh) -> Callable:
    """A function that calls ``block(model, models, samples)`` for each block of samples. Its first
    argument has the models and the frozen arrays."""

    def of_device(shared: tuple[Array, Tree], blocks: SampleBlocks) -> Any:
        models, frozen = shared
        return jax.lax.map(partial(block, model.bound(frozen), models), blocks)

    return on_each_device(of_device, mesh)


def model_scores(
    model: Model, models: Float[Array, "K P"], k: Int[Array, ""], x: Array
) -> Float[Array, "S C"]:
    """Outputs of one model on samples.

    Args:
        model: the model.
        models: parameters of several models.
        k: index of the model.
        x: samples [S ...].
    """
    return model.apply(model.unflatten(models[k]), x, None)


def detector_scores(
    model: Model, models: Float[Array, "K P"], model_index: Int[Array, "C"], x: Array
) -> Float[Array, "S C"]:
    """Scores of samples by one detector per class. A class without a detector scores -inf.

    Args:
        model: the detector.
        models: parameters of several detectors.
        model_index: the detector of each class; -1 for none.
        x: samples [S ...].
    """
    scores = jax.vmap(lambda k: model_scores(model, models, k, x)[:, 0], out_axes=1)(model_index)
    return jnp.where(model_index < 0, -jnp.inf, scores)


@partial(jax.jit, static_argnames=("model", "mesh"), compiler_options=ONE_CORE)
def raw_scores(
    model: Model,
    mesh: Mesh,
    models: Float[Array, "K P"],
    blocks: SampleBlocks,
    frozen: Tree = None,
) -> Float[Array, "D b S C"]:
    """All model outputs on each sample; a detector has one output.

    Args:
        model, mesh, models, blocks, frozen: as for ``score``.
    """

    def block(model: Model, models: Array, samples: SampleBlocks) -> Array:
        return model_scores(model, models, samples.model_index, samples.x)

    return _each_block(block, model, mesh)((models, frozen), blocks)


@partial(jax.jit, static_argnames=("model", "mesh"), compiler_options=ONE_CORE)
def embeddings(model: Model, mesh: Mesh, blocks: SampleBlocks, frozen: Tree) -> Array:
    """The embedding of each sample by the model's frozen network [D b S e].

    Args:
        model, mesh, blocks, frozen: as for ``score``.
    """
    assert model.embedded is not None  # its spec has a length of embeddings
    embedded = model.embedded

    def of_device(frozen: Tree, blocks: SampleBlocks) -> Array:
        return jax.lax.map(lambda samples: embedded(frozen, samples.x), blocks)

    return on_each_device(of_device, mesh)(frozen, blocks)


@partial(jax.jit, static_argnames=("model", "mesh"), compiler_options=ONE_CORE)
def predict(
    model: Model,
    mesh: Mesh,
    models: Float[Array, "K P"],
    blocks: SampleBlocks,
    frozen: Tree = None,
) -> Int[Array, "D b S"]:
    """The class with the largest output for each sample.

    Args:
        model, mesh, models, blocks, frozen: as for ``score``.
    """

    def block(model: Model, models: Array, samples: SampleBlocks) -> Array:
        scores = model_scores(model, models, samples.model_index, samples.x)
        return jnp.argmax(scores, axis=-1)

    return _each_block(block, model, mesh)((models, frozen), blocks)
