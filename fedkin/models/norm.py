"""Normalisation layers, with a training pass that ignores padding."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# Added to variances before dividing, as in Keras.
EPSILON = 1e-3
# Number of channels in a group.
CHANNELS = 8


class BatchNorm(eqx.Module):
    """Batch normalisation (Ioffe and Szegedy 2015) over images and pixels.

    Inference uses the running statistics. Training updates them: the new ones are ``momentum``
    times the old ones plus ``1 - momentum`` times the batch's. The batch variance is divided by n -
    1, as in TensorFlow's fused kernel and in PyTorch.
    """

    scale: Float[Array, "c"]
    bias: Float[Array, "c"]
    mean: Float[Array, "c"]
    variance: Float[Array, "c"]
    momentum: float = eqx.field(static=True)

    def __init__(self, channels: int, momentum: float = 0.99) -> None:
        self.scale = jnp.ones(channels, jnp.float32)
        self.bias = jnp.zeros(channels, jnp.float32)
        self.mean = jnp.zeros(channels, jnp.float32)
        self.variance = jnp.ones(channels, jnp.float32)
        self.momentum = momentum

    def __call__(
        self, x: Float[Array, "B h w c"], mask: Float[Array, "B"] | None
    ) -> tuple[Array, BatchNorm]:
        """Normalise images.

        Args:
            x: images.
            mask: 1 for images that count, 0 for padding; None for inference.

        Returns:
            Normalised images, and this layer with updated statistics.
        """
        if mask is None:
            factor = self.scale * jax.lax.rsqrt(self.variance + EPSILON)
            return (x - self.mean) * factor + self.bias, self
        count = jnp.maximum(jnp.sum(mask), 1) * x.shape[1] * x.shape[2]
        # Padding has weight 0, so it does not count in the moments.
        weight = mask[:, None, None, None] / count
        mean = jnp.sum(x * weight, axis=(0, 1, 2))
        variance = jnp.sum((x - mean) ** 2 * weight, axis=(0, 1, 2))
        factor = self.scale * jax.lax.rsqrt(variance + EPSILON)
        unbiased = variance * count / jnp.maximum(count - 1, 1)
        return (x - mean) * factor + self.bias, self._updated(mean, unbiased)

    def _updated(self, mean: Float[Array, "c"], variance: Float[Array, "c"]) -> BatchNorm:
        """This normalisation layer with its running statistics updated by the mean and variance of
        a batch."""
        weight = 1 - self.momentum
        updated = (
            self.momentum * self.mean + weight * mean,
            self.momentum * self.variance + weight * variance,
        )
        return eqx.tree_at(lambda layer: (layer.mean, layer.variance), self, updated)


class GroupNorm(eqx.Module):
    """Group normalisation (Wu and He 2018) with groups of 8 channels.

    Each image is normalised separately, without running statistics.
    """

    scale: Float[Array, "c"]
    bias: Float[Array, "c"]

    def __init__(self, channels: int) -> None:
        self.scale = jnp.ones(channels, jnp.float32)
        self.bias = jnp.zeros(channels, jnp.float32)

    def __call__(
        self, x: Float[Array, "B h w c"], mask: Float[Array, "B"] | None
    ) -> tuple[Array, GroupNorm]:
        grouped = x.reshape(len(x), -1, x.shape[3] // CHANNELS, CHANNELS)
        mean = jnp.mean(grouped, axis=(1, 3), keepdims=True)
        variance = jnp.mean((grouped - mean) ** 2, axis=(1, 3), keepdims=True)
        normal = (grouped - mean) * jax.lax.rsqrt(variance + EPSILON)
        return normal.reshape(x.shape) * self.scale + self.bias, self
