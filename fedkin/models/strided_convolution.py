"""Convolutions of large windows with a stride, which are fast on CPUs.

With a stride s, the pixels of an image form s x s smaller images: every s-th pixel, from the first
s rows and columns on. Each of them meets only every s-th weight of the window, so the convolution
is a sum of s x s convolutions without a stride, and with no more products. XLA computes these
without a copy of every window. The gradient of the images needs no sum at all: each of the smaller
images gets the gradient from its own convolution.

Images are ``[B, H, W, channels]``, kernels ``[height, width, in, out]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedkin.models.plain_convolution import plain, same_padding


class _Part(NamedTuple):
    """Every s-th pixel of an axis, and the weights that meet these pixels.

    Attributes:
        first_weight: the weights are every s-th from this one on.
        weights: number of these weights.
        pixels: those that any window covers.
        around: zeros before and after ``pixels``, for a convolution with the weights.
        back: the same around the gradient of the result, for the gradient of all of the part's
            pixels.
    """

    first_weight: int
    weights: int
    pixels: slice
    around: tuple[int, int]
    back: tuple[int, int]


def by_parts(
    x: Float[Array, "B H W i"], kernel: Float[Array, "k k i o"], stride: int, same: bool
) -> Float[Array, "B h w o"]:
    """The convolution as a sum over every s-th pixel.

    Args:
        x, kernel: images, and a square kernel of at least ``stride`` rows.
        stride: s, on both axes.
        same: whether to pad as TensorFlow's SAME; otherwise as VALID.
    """
    return _by_parts(x, kernel, stride, same)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _by_parts(x: Array, kernel: Array, stride: int, same: bool) -> Array:
    """``by_parts``, with its gradients below."""
    terms = [
        plain(
            x[:, rows.pixels, columns.pixels],
            kernel[rows.first_weight :: stride, columns.first_weight :: stride],
            (rows.around, columns.around),
        )
        for rows, columns in _pairs(x, len(kernel), stride, same)
    ]
    return sum(terms[1:], start=terms[0])


def _by_parts_forward(
    x: Array, kernel: Array, stride: int, same: bool
) -> tuple[Array, tuple[Array, Array]]:
    """The convolution, and the arrays that its backward pass needs."""
    return _by_parts(x, kernel, stride, same), (x, kernel)


def _by_parts_backward(
    stride: int, same: bool, saved: tuple[Array, Array], g: Array
) -> tuple[Array, Array]:
    """Gradients of images and kernel, from the gradient g of the convolution."""
    x, kernel = saved
    pairs = list(_pairs(x, len(kernel), stride, same))
    by_image = [_by_image(g, kernel, stride, pair) for pair in pairs]
    by_kernel = {
        (rows.first_weight, columns.first_weight): _by_kernel(x, g, rows, columns)
        for rows, columns in pairs
    }
    height, width = x.shape[1:3]
    images = _interleaved(by_image, stride)[:, :height, :width]
    size = len(kernel)
    # In the order of the first weights, as one image with a channel for each entry.
    weights = [by_kernel[first] for first in sorted(by_kernel)]
    flat = [part.reshape(1, *part.shape[:2], -1) for part in weights]
    weight_gradient = _interleaved(flat, stride)[0, :size, :size].reshape(kernel.shape)
    return images, weight_gradient


_by_parts.defvjp(_by_parts_forward, _by_parts_backward)


def _by_image(
    g: Float[Array, "B h w o"],
    kernel: Float[Array, "k k i o"],
    stride: int,
    pair: tuple[_Part, _Part],
) -> Float[Array, "B m n i"]:
    """Gradient of one of the smaller images: g convolved with the flipped weights of the part.

    Args:
        g: gradient of the convolution.
        kernel: all weights.
        stride: s.
        pair: the parts of the rows and of the columns.
    """
    rows, columns = pair
    weights = kernel[rows.first_weight :: stride, columns.first_weight :: stride]
    return plain(g, weights[::-1, ::-1].transpose(0, 1, 3, 2), (rows.back, columns.back))


def _by_kernel(
    x: Float[Array, "B H W i"], g: Float[Array, "B h w o"], rows: _Part, columns: _Part
) -> Float[Array, "p q i o"]:
    """Gradient of the weights of a part. It is a convolution with the input channels as the batch,
    the images as the channels, and g as the kernel.

    Args:
        x: images.
        g: gradient of the convolution.
        rows, columns: the parts of both axes.
    """
    pixels = x[:, rows.pixels, columns.pixels].transpose(3, 1, 2, 0)
    by_channel = plain(pixels, g.transpose(1, 2, 0, 3), (rows.around, columns.around))
    return by_channel.transpose(1, 2, 0, 3)


def _pairs(x: Array, size: int, stride: int, same: bool) -> Iterator[tuple[_Part, _Part]]:
    """The parts of the rows, each with every part of the columns."""
    along_rows, along_columns = (_parts(side, size, stride, same) for side in x.shape[1:3])
    for rows in along_rows:
        for columns in along_columns:
            yield rows, columns


def _parts(length: int, size: int, stride: int, same: bool) -> list[_Part]:
    """The s parts of an axis, in the order of their first pixels.

    Args:
        length: of the axis.
        size: of the window.
        stride: s.
        same: whether to pad as TensorFlow's SAME.
    """
    before, after = same_padding(length, size, stride) if same else (0, 0)
    outputs = (before + length + after - size) // stride + 1
    parts = []
    for first_pixel in range(stride):
        # The position of the first pixel after padding, and its number among every s-th position.
        position = first_pixel + before
        first_weight = position % stride
        start = position // stride
        weights = -(-(size - first_weight) // stride)
        pixels = -(-(length - first_pixel) // stride)
        # All windows together cover so many positions of this part.
        covered = outputs + weights - 1
        used = min(pixels, covered - start)
        parts.append(
            _Part(
                first_weight=first_weight,
                weights=weights,
                pixels=slice(first_pixel, first_pixel + stride * (used - 1) + 1, stride),
                around=(start, covered - start - used),
                back=(weights - 1 - start, start + pixels - outputs),
            )
        )
    return parts


def _interleaved(parts: list[Float[Array, "B _ _ c"]], stride: int) -> Float[Array, "B H W c"]:
    """The array of which these are every s-th row and column: first all parts of the first row. A
    part that is shorter than the first one is padded with zeros."""
    height, width = parts[0].shape[1:3]
    equal = [
        jnp.pad(part, [(0, 0), (0, height - part.shape[1]), (0, width - part.shape[2]), (0, 0)])
        for part in parts
    ]
    rows = [jnp.stack(equal[i : i + stride], axis=3) for i in range(0, len(equal), stride)]
    whole = jnp.stack(rows, axis=2)
    return whole.reshape(len(whole), height * stride, width * stride, whole.shape[-1])
