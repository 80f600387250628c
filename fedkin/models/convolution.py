"""Convolutions, alone and with max pooling and rectified units, fast on a CPU.

Images are ``[B, H, W, channels]``, kernels ``[height, width, in, out]``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

_CACHE = 2**19  # bytes of patches at a time
_SMALL = 4  # images of a lower side are convolved by patches
_LAYOUT = ("NHWC", "HWIO", "NHWC")


def convolve(
    x: Float[Array, "B H W i"], kernel: Float[Array, "k k i o"], stride: int, same: bool
) -> Float[Array, "B h w o"]:
    """The convolution, by the faster of ``_by_xla`` and ``_by_patches``.

    Args:
        x, kernel: images and square kernel.
        stride: of both axes.
        same: pad as TensorFlow's SAME; else VALID.
    """
    size = len(kernel)
    if jax.default_backend() != "cpu":
        padding = "SAME" if same else "VALID"
        return jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), padding, dimension_numbers=_LAYOUT
        )
    if size == stride == 1:
        return x @ kernel[0, 0]
    if stride == 1 and min(x.shape[1:3]) >= _SMALL and (size % 2 or not same):
        return _by_xla(x, kernel, size // 2 if same else 0)
    return _by_patches(
        x=x, kernel=kernel.reshape(-1, kernel.shape[3]), size=size, stride=stride, same=same
    )


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _by_xla(
    x: Float[Array, "B H W i"], kernel: Float[Array, "k k i o"], padding: int
) -> Float[Array, "B h w o"]:
    """XLA's convolution, which is fast on a CPU as long as the axes lie in this order: both
    gradients are written as one more of these. Its own gradients permute the axes instead, and were
    15 times slower."""
    return _plain(x, kernel, padding)


def _by_xla_forward(x: Array, kernel: Array, padding: int) -> tuple[Array, tuple[Array, Array]]:
    return _plain(x, kernel, padding), (x, kernel)


def _by_xla_backward(padding: int, saved: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    x, kernel = saved
    return _by_image(g, kernel, padding), _by_kernel(x, g, padding)


_by_xla.defvjp(_by_xla_forward, _by_xla_backward)


def _by_image(
    g: Float[Array, "B h w o"], kernel: Float[Array, "k k i o"], padding: int
) -> Float[Array, "B H W i"]:
    return _plain(g, kernel[::-1, ::-1].transpose(0, 1, 3, 2), len(kernel) - 1 - padding)


def _by_kernel(
    x: Float[Array, "B H W i"], g: Float[Array, "B h w o"], padding: int
) -> Float[Array, "k k i o"]:
    """Channels are the batch here, the images of the batch the channels, and the output gradients
    the window."""
    return _plain(x.transpose(3, 1, 2, 0), g.transpose(1, 2, 0, 3), padding).transpose(1, 2, 0, 3)


def _plain(
    x: Float[Array, "B H W i"], kernel: Float[Array, "p q i o"], padding: int
) -> Float[Array, "B h w o"]:
    return _plain_of(padding)(x, kernel)


@lru_cache(maxsize=64)
def _plain_of(padding: int) -> Callable[[Array, Array], Array]:
    """XLA's convolution with this padding. Several models on the same images are one convolution
    with more channels; several on images of their own run one after another, because XLA's grouped
    convolution is slow on a CPU."""

    def one(x: Array, kernel: Array) -> Array:
        around = [(padding, padding)] * 2
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), around, dimension_numbers=_LAYOUT)

    def several(_: int, batched: list[bool], x: Array, kernel: Array) -> tuple[Array, bool]:
        if all(batched):
            return jax.lax.map(lambda pair: one(*pair), (x, kernel)), True
        return jax.vmap(one, [0 if own else None for own in batched])(x, kernel), True

    convolution = custom_vmap(one)
    convolution.def_vmap(several)
    return convolution


def pooled(
    x: Float[Array, "B H W i"], kernel: Float[Array, "k k i o"], bias: Float[Array, "o"], same: bool
) -> Float[Array, "B h w o"]:
    """relu(max_pool(convolution + bias)). Several models on the same images are computed as one
    with more channels, in both passes; several on images of their own one after another, each in
    the cache.

    Args:
        x, kernel, bias: images, square kernel, and bias of each output channel.
        same: pad as TensorFlow's SAME; else VALID.
    """
    size = len(kernel)
    if jax.default_backend() != "cpu" or min(x.shape[1:3]) < _SMALL or (same and size % 2 == 0):
        return _finish(convolve(x, kernel, 1, same), bias)
    return _pooled(x, kernel, bias, size // 2 if same else 0)


def _finish(z: Float[Array, "B H W o"], bias: Float[Array, "o"]) -> Float[Array, "B h w o"]:
    """Pool before bias and rectifier, which gives the same result with a quarter of the work."""
    return jax.nn.relu(max_pool(z) + bias)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _pooled(x: Array, kernel: Array, bias: Array, padding: int) -> Array:
    return _pooled_of(padding)[0](x, kernel, bias)


def _pooled_forward(
    x: Array, kernel: Array, bias: Array, padding: int
) -> tuple[Array, tuple[Array, Array, Array]]:
    return _pooled(x, kernel, bias, padding), (x, kernel, bias)


def _pooled_backward(
    padding: int, saved: tuple[Array, Array, Array], g: Array
) -> tuple[Array, Array, Array]:
    return _pooled_of(padding)[1](*saved, g)


_pooled.defvjp(_pooled_forward, _pooled_backward)


@lru_cache(maxsize=64)
def _pooled_of(
    padding: int,
) -> tuple[Callable[..., Array], Callable[..., tuple[Array, Array, Array]]]:
    """Forward and backward pass. The convolution that the latter repeats is computed once, where
    both passes are in one program: the compiler sees that they are the same."""

    def forward(x: Array, kernel: Array, bias: Array) -> Array:
        return _finish(_plain(x, kernel, padding), bias)

    def output_gradients(x: Array, kernel: Array, bias: Array, g: Array) -> tuple[Array, Array]:
        return jax.vjp(_finish, _plain(x, kernel, padding), bias)[1](g)

    def backward(x: Array, kernel: Array, bias: Array, g: Array) -> tuple[Array, Array, Array]:
        gradient, by_bias = output_gradients(x, kernel, bias, g)
        return _by_image(gradient, kernel, padding), _by_kernel(x, gradient, padding), by_bias

    def forward_on_the_same(x: Array, kernels: Array, biases: Array) -> Array:
        return _apart(forward(x, _joined(kernels), biases.ravel()), len(kernels))

    def backward_on_the_same(
        x: Array, kernels: Array, biases: Array, g: Array
    ) -> tuple[Array, Array, Array]:
        count = len(kernels)
        gradient, by_bias = output_gradients(x, _joined(kernels), biases.ravel(), _joined(g))
        by_image = jax.lax.map(
            lambda own: _by_image(own[0], own[1], padding), (_apart(gradient, count), kernels)
        )
        return by_image, _apart(_by_kernel(x, gradient, padding), count), by_bias.reshape(count, -1)

    return _for_several(forward, forward_on_the_same), _for_several(backward, backward_on_the_same)


def _for_several(one: Callable, on_the_same: Callable) -> Callable:
    """``one`` for a single model; of several, ``on_the_same`` where only the first argument, the
    images, is shared."""

    def several(count: int, batched: list[bool], *arguments: Array) -> tuple:
        if not batched[0] and all(batched[1:]):
            out = on_the_same(*arguments)
        else:
            pairs = zip(arguments, batched, strict=True)
            each = tuple(a if own else jnp.broadcast_to(a, (count, *a.shape)) for a, own in pairs)
            out = jax.lax.map(lambda own: one(*own), each)
        return out, jax.tree.map(lambda _: True, out)

    mapped = custom_vmap(one)
    mapped.def_vmap(several)
    return mapped


def _joined(arrays: Float[Array, "G p q r c"]) -> Float[Array, "p q r Gc"]:
    return jnp.moveaxis(arrays, 0, 3).reshape(*arrays.shape[1:4], -1)


def _apart(array: Float[Array, "p q r Gc"], count: int) -> Float[Array, "G p q r c"]:
    return jnp.moveaxis(array.reshape(*array.shape[:3], count, -1), 3, 0)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def _by_patches(
    x: Float[Array, "B H W i"], kernel: Float[Array, "d o"], size: int, stride: int, same: bool
) -> Float[Array, "B h w o"]:
    """Patches times kernel, a few images at a time: the patches of a whole batch do not fit into a
    core's cache, and the backward pass makes them again sooner than it would fetch them."""

    def some(part: Array) -> Array:
        return _patches(part, size, stride, same) @ kernel

    parts = _few_images(x, x.shape[3] * size**2)
    return (
        some(x)
        if len(parts) == 1
        else jax.lax.map(some, parts).reshape(len(x), *some(x[:1]).shape[1:])
    )


def _by_patches_forward(
    x: Array, kernel: Array, size: int, stride: int, same: bool
) -> tuple[Array, tuple[Array, Array]]:
    return _by_patches(x=x, kernel=kernel, size=size, stride=stride, same=same), (x, kernel)


def _by_patches_backward(
    size: int, stride: int, same: bool, saved: tuple[Array, Array], g: Array
) -> tuple[Array, Array]:
    x, kernel = saved

    def some(total: Array, part: tuple[Array, Array]) -> tuple[Array, Array]:
        patches, back = jax.vjp(lambda images: _patches(images, size, stride, same), part[0])
        rows = patches.reshape(-1, len(kernel))
        outputs = part[1].reshape(-1, kernel.shape[1])
        return total + rows.T @ outputs, back((outputs @ kernel.T).reshape(patches.shape))[0]

    parts = _few_images(x, len(kernel))
    gradients = g.reshape(*parts.shape[:2], *g.shape[1:])
    if len(parts) == 1:
        total, dx = some(jnp.zeros_like(kernel), (parts[0], gradients[0]))
    else:
        total, dx = jax.lax.scan(some, jnp.zeros_like(kernel), (parts, gradients))
    return dx.reshape(x.shape), total


_by_patches.defvjp(_by_patches_forward, _by_patches_backward)


def _few_images(x: Float[Array, "B H W i"], depth: int) -> Float[Array, "parts b H W i"]:
    """The batch in equal parts whose patches (``depth`` numbers a pixel) fill at most half a
    megabyte; whole on an accelerator."""
    room = max(1, _CACHE // (4 * depth * x.shape[1] * x.shape[2]))
    each = max(n for n in range(1, len(x) + 1) if len(x) % n == 0 and n <= room)
    if jax.default_backend() != "cpu":
        each = len(x)
    return x.reshape(-1, each, *x.shape[1:])


def _patches(
    x: Float[Array, "B H W i"], size: int, stride: int, same: bool
) -> Float[Array, "B h w d"]:
    """Every window of the images as one row, ordered (height, width, channel); ``same`` pads as
    TensorFlow does."""
    if same:
        x = jnp.pad(x, [(0, 0), *(same_padding(n, size, stride) for n in x.shape[1:3]), (0, 0)])
    return jnp.concatenate(windows(x, size, stride), axis=-1)


def windows(x: Float[Array, "B H W i"], size: int, stride: int) -> list[Float[Array, "B h w i"]]:
    """Strided slices of the images, one for each position in the window, row by row.

    Args:
        x, size, stride: images, side of the window, and its stride on both axes.
    """
    height, width = ((n - size) // stride + 1 for n in x.shape[1:3])
    return [
        x[:, i : i + stride * (height - 1) + 1 : stride, j : j + stride * (width - 1) + 1 : stride]
        for i in range(size)
        for j in range(size)
    ]


def same_padding(length: int, size: int, stride: int) -> tuple[int, int]:
    """TensorFlow's SAME padding before and after an axis.

    Args:
        length, size, stride: length of the axis, size of the window, and its stride.
    """
    total = max((-(-length // stride) - 1) * stride + size - length, 0)
    return total // 2, total - total // 2


@jax.custom_vjp
def max_pool(x: Float[Array, "B H W c"]) -> Float[Array, "B h w c"]:
    """Maximum of each 2 x 2 window; an odd last row or column is dropped. Equal pairs share the
    gradient."""
    height = x.shape[1] // 2 * 2
    width = x.shape[2] // 2 * 2
    x = x[:, :height, :width]
    columns = jnp.maximum(x[:, :, 0::2], x[:, :, 1::2])
    return jnp.maximum(columns[:, 0::2], columns[:, 1::2])


def _max_pool_backward(x: Array, g: Array) -> tuple[Array]:
    """Compare every pixel with its neighbours in the window, without searching: one loop writes the
    result."""
    batch, height, width, channels = g.shape
    windows = x[:, : 2 * height, : 2 * width].reshape(batch, height, 2, width, 2, channels)
    beside = windows[:, :, :, :, ::-1]
    row = jnp.maximum(windows, beside)
    gradient = g[:, :, None, :, None] * _share(windows, beside) * _share(row, row[:, :, ::-1])
    rest = [(0, 0), (0, x.shape[1] - 2 * height), (0, x.shape[2] - 2 * width), (0, 0)]
    return (jnp.pad(gradient.reshape(batch, 2 * height, 2 * width, channels), rest),)


def _share(one: Array, other: Array) -> Array:
    return jnp.where(one > other, 1.0, jnp.where(one < other, 0.0, 0.5))


max_pool.defvjp(lambda x: (max_pool(x), x), _max_pool_backward)
