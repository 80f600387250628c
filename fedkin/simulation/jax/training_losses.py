"""The loss of a mini-batch: cross entropy, with smoothing and class weights, of classifiers and
detectors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from fedkin.models.model import Model, Tree


def sample_losses(scores: Float[Array, "B C"], y: Int[Array, "B"]) -> Float[Array, "B"]:
    """Softmax cross entropy of each sample."""
    return (
        jax.nn.logsumexp(scores, axis=-1) - jnp.take_along_axis(scores, y[:, None], axis=-1)[:, 0]
    )


def detection_losses(scores: Float[Array, "B 1"], positive: Bool[Array, "B"]) -> Float[Array, "B"]:
    """Binary cross entropy of each sample; ``positive`` says whether it is of the detector's class."""
    return jax.nn.softplus(scores[:, 0]) - jnp.where(positive, scores[:, 0], 0)


def weighted_losses(
    scores: Float[Array, "B C"], y: Int[Array, "B"], weights: Float[Array, "C"], smoothing: float
) -> tuple[Float[Array, "B"], Float[Array, "B"]]:
    """Cross entropy with class weights and label smoothing, as PyTorch defines it, and the weight
    of each sample.

    Args:
        scores, y: of a batch.
        weights: of the classes.
        smoothing: share of a label that is spread over all classes.
    """
    negative = jax.nn.logsumexp(scores, axis=-1, keepdims=True) - scores  # -log p, [B C]
    own = weights[y]
    hard = own * jnp.take_along_axis(negative, y[:, None], axis=-1)[:, 0]
    return (1 - smoothing) * hard + smoothing * jnp.mean(negative * weights, axis=-1), own


def batch_loss(
    model: Model,
    smoothing: float,
    w: Tree,
    x: Array,
    y: Shaped[Array, "B"],
    mask: Float[Array, "B"],
    key: Array | None,
    class_weights: Float[Array, "C"] | None = None,
    weights: Float[Array, "B"] | None = None,
) -> tuple[Float[Array, ""], Tree | None]:
    """Mean loss of a batch plus the model's penalty; and parameters with new running statistics,
    where there are any.

    Args:
        model, smoothing, w: the model, the share of label smoothing, and parameters.
        x, y: samples [B ...] and labels; of a detector, whether a sample is of its class.
        mask: 1 for samples, 0 for padding.
        key: for dropout; None without.
        class_weights: of the loss; None: all 1.
        weights: of the samples; None: all 1. The divisor is as without them.
    """
    counted = mask if weights is None else mask * weights
    scores, updated = (
        (model.apply(w, x, key), None) if model.fit is None else model.fit(w, x, mask, key)
    )
    if smoothing or class_weights is not None:
        of_classes = jnp.ones(scores.shape[-1]) if class_weights is None else class_weights
        losses, own = weighted_losses(scores, y, of_classes, smoothing)
        loss = jnp.sum(losses * counted) / jnp.maximum(
            jnp.sum(own * mask), jnp.finfo(jnp.float32).tiny
        )
        return (loss if model.penalty is None else loss + model.penalty(w)), updated
    losses = (detection_losses if model.spec.detects else sample_losses)(scores, y)
    loss = jnp.sum(losses * counted) / jnp.maximum(jnp.sum(mask), 1)
    return (loss if model.penalty is None else loss + model.penalty(w)), updated
