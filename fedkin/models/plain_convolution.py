"""XLA's convolution of images with the channels last, and TensorFlow's padding."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import jax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

LAYOUT = ("NHWC", "HWIO", "NHWC")
# Numbers of zeros before and after the rows, and before and after the columns of an image.
Padding = tuple[tuple[int, int], tuple[int, int]]


def plain(
    x: Float[Array, "B H W i"], kernel: Float[Array, "p q i o"], padding: Padding
) -> Float[Array, "B h w o"]:
    """XLA's convolution without a stride.

    Args:
        x, kernel: images and kernel.
        padding: zeros around the images, or rows and columns to cut off if negative.
    """
    return _plain_of(padding)(x, kernel)


@lru_cache(maxsize=256)
def _plain_of(padding: Padding) -> Callable[[Array, Array], Array]:
    """A function that computes XLA's convolution with this padding, with a vmap rule for several
    models.

    Several models on the same images are computed as one convolution with more channels. Models on
    different images run one after another, because XLA's grouped convolution is slow on a CPU.
    """

    def of_one_model(x: Array, kernel: Array) -> Array:
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), padding, dimension_numbers=LAYOUT)

    def of_models(_: int, batched: list[bool], x: Array, kernel: Array) -> tuple[Array, bool]:
        """The rule that JAX applies under vmap: convolve models on the same images at once, and
        models on different images one after another."""
        # Every model has other images: one model after another.
        if all(batched):
            return jax.lax.map(lambda pair: of_one_model(*pair), (x, kernel)), True
        axes = [0 if is_batched else None for is_batched in batched]
        return jax.vmap(of_one_model, axes)(x, kernel), True

    convolution = custom_vmap(of_one_model)
    convolution.def_vmap(of_models)
    return convolution


def same_padding(length: int, size: int, stride: int) -> tuple[int, int]:
    """TensorFlow's SAME padding before and after an axis.

    Args:
        length, size, stride: length of the axis, size of the window, and its stride.
    """
    windows_along = -(-length // stride)
    total = max((windows_along - 1) * stride + size - length, 0)
    return total // 2, total - total // 2
