"""The loss of a mini-batch for classifiers and detectors: cross entropy, with label smoothing and
class weights."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from fedkin.models.model import Model, Tree
from fedkin.task_types.loss import targets_of


def sample_losses(
    model: Model, scores: Float[Array, "B C"], y: Shaped[Array, "B ..."]
) -> Float[Array, "B"]:
    """The loss of each sample: the task type's, or the softmax cross entropy.

    Args:
        model: the model, with its task type.
        scores: outputs of the model.
        y: rows of ``FederatedData.y``.
    """
    loss = model.task_type.loss
    if loss is None:
        return cross_entropy(scores, y)
    return loss.of(jnp, scores, targets_of(y))


def cross_entropy(scores: Float[Array, "B C"], y: Int[Array, "B"]) -> Float[Array, "B"]:
    """Softmax cross entropy of each sample."""
    normaliser = jax.nn.logsumexp(scores, axis=-1)
    return normaliser - jnp.take_along_axis(scores, y[:, None], axis=-1)[:, 0]


def detection_losses(scores: Float[Array, "B 1"], positive: Bool[Array, "B"]) -> Float[Array, "B"]:
    """Binary cross entropy of each sample. ``positive`` says whether a sample belongs to the
    detector's class."""
    return jax.nn.softplus(scores[:, 0]) - jnp.where(positive, scores[:, 0], 0)


def weighted_losses(
    scores: Float[Array, "B C"], y: Int[Array, "B"], weights: Float[Array, "C"], smoothing: float
) -> tuple[Float[Array, "B"], Float[Array, "B"]]:
    """Cross entropy with class weights and label smoothing, as PyTorch defines it.

    Args:
        scores: outputs on a batch.
        y: labels of the batch.
        weights: class weights.
        smoothing: share of a label that is spread over all classes.

    Returns:
        The weighted losses [B], and the weight of each sample's class [B].
    """
    negative = jax.nn.logsumexp(scores, axis=-1, keepdims=True) - scores  # -log p, [B C]
    label_weights = weights[y]
    hard = label_weights * jnp.take_along_axis(negative, y[:, None], axis=-1)[:, 0]
    losses = (1 - smoothing) * hard + smoothing * jnp.mean(negative * weights, axis=-1)
    return losses, label_weights


def sample_weights(model: Model, y: Shaped[Array, "B ..."]) -> Float[Array, "B"] | None:
    """The weights of samples in the data; None if all are 1."""
    return None if model.task_type.loss is None else targets_of(y).weight


def batch_loss(
    model: Model,
    smoothing: float,
    w: Tree,
    x: Array,
    y: Shaped[Array, "B ..."],
    mask: Float[Array, "B"],
    key: Array | None,
    class_weights: Float[Array, "C"] | None = None,
    weights: Float[Array, "B"] | None = None,
) -> tuple[Float[Array, ""], Tree | None]:
    """Mean loss of a batch plus regularisation, and parameters with new running statistics.

    The second value is None if the model has no running statistics.

    Args:
        model: the model.
        smoothing: share of a label that is spread over all classes.
        w: parameters.
        x: samples [B ...].
        y: labels (rows of ``FederatedData.y``); for a detector, whether a sample belongs to its
            class.
        mask: 1 for samples, 0 for padding.
        key: random key for dropout; None without dropout.
        class_weights: class weights of the loss; None if all are 1.
        weights: sample weights; None if all are 1. They do not change the divisor of the mean.
    """
    counted = mask if weights is None else mask * weights
    updated = None
    if model.fit is None:
        scores = model.apply(w, x, key)
    else:
        scores, updated = model.fit(w, x, mask, key)
    if smoothing or class_weights is not None:
        if class_weights is None:
            class_weights = jnp.ones(scores.shape[-1])
        losses, label_weights = weighted_losses(scores, y, class_weights, smoothing)
        summed = jnp.sum(losses * counted)
        # A batch may have only padding, or classes of weight 0: then the loss is 0, not NaN.
        loss = summed / jnp.maximum(jnp.sum(label_weights * mask), jnp.finfo(jnp.float32).tiny)
    elif model.spec.detects:
        summed = jnp.sum(detection_losses(scores, y) * counted)
        loss = summed / jnp.maximum(jnp.sum(mask), 1)
    elif (own := sample_weights(model, y)) is not None:
        # Weights of the data divide the mean: a batch counts as much as any other.
        summed = jnp.sum(sample_losses(model, scores, y) * own * counted)
        loss = summed / jnp.maximum(jnp.sum(own * mask), jnp.finfo(jnp.float32).tiny)
    else:
        summed = jnp.sum(sample_losses(model, scores, y) * counted)
        loss = summed / jnp.maximum(jnp.sum(mask), 1)
    if model.penalty is not None:
        loss = loss + model.penalty(w)
    return loss, updated
