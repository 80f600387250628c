"""Layers on a batch, fast on a CPU, with weights laid out as PyTorch's: ``[out, in]`` and ``[out, in, height, width]``.

Images are ``[B, H, W, channels]``. Kernels start Glorot uniform, biases at zero.
"""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_UNROLLED_BATCH = 32  # up to this batch size the weight gradient is written out sample by sample
_CACHE = 2**19  # bytes of patches at a time
_UNROLLED_WIDTH = 64  # and from this number of outputs on


@jax.custom_vjp
def product(x: Float[Array, "B i"], w: Float[Array, "o i"]) -> Float[Array, "B o"]:
    """x w^T, with a weight gradient that a CPU compiler can fuse into the optimiser's step.

    For a small batch and a wide layer the gradient g^T x is a sum of a few outer products. Written out, it never
    exists in memory: the step reads w once and writes it once.
    """
    return x @ w.T


def _product_forward(x: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    return x @ w.T, (x, w)


def _product_backward(saved: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    x, w = saved
    small = len(x) <= _UNROLLED_BATCH and len(w) >= _UNROLLED_WIDTH and jax.default_backend() == "cpu"
    if not small:
        return g @ w, g.T @ x
    gradient = g[0][:, None] * x[0][None]
    for sample in range(1, len(x)):
        gradient = gradient + g[sample][:, None] * x[sample][None]
    return g @ w, gradient


product.defvjp(_product_forward, _product_backward)


def glorot(key: Array, shape: tuple[int, ...]) -> Array:
    """Uniform in +-sqrt(6 / (fan_in + fan_out)); shape ``(out, in, ...)``."""
    window = 1
    for size in shape[2:]:
        window *= size
    limit = (6 / ((shape[0] + shape[1]) * window)) ** 0.5
    return jax.random.uniform(key, shape, jnp.float32, -limit, limit)


class Dense(eqx.Module):
    """y = x w^T + b."""

    weight: Float[Array, "o i"]
    bias: Float[Array, "o"]

    def __init__(self, inputs: int, outputs: int, key: Array) -> None:
        self.weight = glorot(key, (outputs, inputs))
        self.bias = jnp.zeros(outputs, jnp.float32)

    def __call__(self, x: Float[Array, "B i"]) -> Float[Array, "B o"]:
        return product(x, self.weight) + self.bias


class Conv(eqx.Module):
    """Square convolution as patches and one matrix product: XLA's own gradients are slow in loops on a CPU."""

    weight: Float[Array, "o i k k"]
    bias: Float[Array, "o"]
    stride: int = eqx.field(static=True)
    same: bool = eqx.field(static=True)

    def __init__(self, inputs: int, outputs: int, size: int, key: Array, stride: int = 1, same: bool = True) -> None:
        self.weight = glorot(key, (outputs, inputs, size, size))
        self.bias = jnp.zeros(outputs, jnp.float32)
        self.stride, self.same = stride, same

    def __call__(self, x: Float[Array, "B H W i"]) -> Float[Array, "B h w o"]:
        kernel = self.weight.transpose(2, 3, 1, 0).reshape(-1, len(self.weight))
        y: Array = convolve(x, kernel, self.weight.shape[-1], self.stride, self.same)  # type: ignore[assignment]
        return y + self.bias


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def convolve(
    x: Float[Array, "B H W i"], kernel: Float[Array, "d o"], size: int, stride: int, same: bool
) -> Float[Array, "B h w o"]:
    """Patches times kernel, a few images at a time: the patches of a whole batch do not fit into a core's cache, and
    the backward pass makes them again sooner than it would fetch them."""

    def some(part: Array) -> Array:
        return _patches(part, size, stride, same) @ kernel

    parts = _few_images(x, x.shape[3] * size**2)
    return some(x) if len(parts) == 1 else jax.lax.map(some, parts).reshape(len(x), *some(x[:1]).shape[1:])


def _convolve_forward(x: Array, kernel: Array, size: int, stride: int, same: bool) -> tuple[Array, tuple[Array, Array]]:
    return convolve(x, kernel, size, stride, same), (x, kernel)


def _convolve_backward(size: int, stride: int, same: bool, saved: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    x, kernel = saved

    def some(total: Array, part: tuple[Array, Array]) -> tuple[Array, Array]:
        patches, back = jax.vjp(lambda images: _patches(images, size, stride, same), part[0])
        rows, outputs = patches.reshape(-1, len(kernel)), part[1].reshape(-1, kernel.shape[1])
        return total + rows.T @ outputs, back((outputs @ kernel.T).reshape(patches.shape))[0]

    parts = _few_images(x, len(kernel))
    slopes = g.reshape(*parts.shape[:2], *g.shape[1:])
    if len(parts) == 1:
        total, dx = some(jnp.zeros_like(kernel), (parts[0], slopes[0]))
    else:
        total, dx = jax.lax.scan(some, jnp.zeros_like(kernel), (parts, slopes))
    return dx.reshape(x.shape), total


convolve.defvjp(_convolve_forward, _convolve_backward)


def _few_images(x: Float[Array, "B H W i"], depth: int) -> Float[Array, "parts b H W i"]:
    """The batch in equal parts whose patches (``depth`` numbers a pixel) fill at most half a megabyte; whole on an
    accelerator."""
    room = max(1, _CACHE // (4 * depth * x.shape[1] * x.shape[2]))
    each = max(n for n in range(1, len(x) + 1) if len(x) % n == 0 and n <= room)
    if jax.default_backend() != "cpu":
        each = len(x)
    return x.reshape(-1, each, *x.shape[1:])


def _patches(x: Float[Array, "B H W i"], size: int, stride: int, same: bool) -> Float[Array, "B h w d"]:
    """Every window of the images as one row, ordered (height, width, channel); ``same`` pads as TensorFlow does."""
    if same:
        x = jnp.pad(x, [(0, 0), *(_padding(n, size, stride) for n in x.shape[1:3]), (0, 0)])
    height, width = ((n - size) // stride + 1 for n in x.shape[1:3])
    windows = [
        x[:, i : i + stride * (height - 1) + 1 : stride, j : j + stride * (width - 1) + 1 : stride]
        for i in range(size)
        for j in range(size)
    ]
    return jnp.concatenate(windows, axis=-1)


def _padding(length: int, size: int, stride: int) -> tuple[int, int]:
    total = max((-(-length // stride) - 1) * stride + size - length, 0)
    return total // 2, total - total // 2


def max_pool(x: Float[Array, "B H W c"]) -> Float[Array, "B h w c"]:
    """Maximum of each 2 x 2 window; an odd last row or column is dropped."""
    height, width = x.shape[1] // 2 * 2, x.shape[2] // 2 * 2
    x = x[:, :height, :width]
    columns = jnp.maximum(x[:, :, 0::2], x[:, :, 1::2])
    return jnp.maximum(columns[:, 0::2], columns[:, 1::2])


def dropout(x: Array, rate: float, key: Array | None) -> Array:
    """Zero each entry with probability ``rate`` (to 1 / 65,536) and scale the others up; nothing without a key."""
    if key is None or rate == 0:
        return x
    with jax.threefry_partitionable(False):  # half the work; nobody deals this stream out to devices
        words = jax.random.bits(key, (-(-x.size // 2),), jnp.uint32)
    draws = jnp.concatenate([words & 0xFFFF, words >> 16])[: x.size].reshape(x.shape)  # two from each word
    return jnp.where(draws < round((1 - rate) * 2**16), x / (1 - rate), 0)
