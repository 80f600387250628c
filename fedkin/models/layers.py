"""Layers on a batch, fast on a CPU, with weights laid out as PyTorch's: ``[out, in]`` and ``[out,
in, height, width]``.

Images are ``[B, H, W, channels]``. Kernels start Glorot uniform, biases at zero.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedkin.models.convolution import convolve, pooled, same_padding, windows
from fedkin.models.convolution import max_pool as max_pool

_UNROLLED_BATCH = 32  # up to this batch size the weight gradient is written out sample by sample
_UNROLLED_WIDTH = 64  # and from this number of outputs on
_LARGE = 2**18  # weights of a layer whose input is copied for it


@jax.custom_vjp
def product(x: Float[Array, "B i"], w: Float[Array, "o i"]) -> Float[Array, "B o"]:
    """x w^T, with a weight gradient that a CPU compiler can fuse into the optimiser's step.

    For a small batch and a wide layer the gradient g^T x is a sum of a few outer products. Written
    out, it never exists in memory: the step reads w once and writes it once. The compiler fuses
    what gives x into it too, such as pooling, and computes that anew for every output: the x of a
    large layer is copied first, which ends the fusion.
    """
    return x @ w.T


def _product_forward(x: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    return x @ w.T, (x, w)


def _product_backward(saved: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    x, w = saved
    small = (
        len(x) <= _UNROLLED_BATCH and len(w) >= _UNROLLED_WIDTH and jax.default_backend() == "cpu"
    )
    if not small:
        return g @ w, g.T @ x
    if w.size >= _LARGE:
        x = jax.lax.map(
            lambda row: jax.lax.dynamic_index_in_dim(x, row, keepdims=False), jnp.arange(len(x))
        )
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
    return jax.random.uniform(key=key, shape=shape, dtype=jnp.float32, minval=-limit, maxval=limit)


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
    """Square convolution; ``convolution`` has the fast forms."""

    weight: Float[Array, "o i k k"]
    bias: Float[Array, "o"] | None
    stride: int = eqx.field(static=True)
    same: bool = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: int,
        key: Array,
        stride: int = 1,
        same: bool = True,
        bias: bool = True,
    ) -> None:
        self.weight = glorot(key, (outputs, inputs, size, size))
        self.bias = jnp.zeros(outputs, jnp.float32) if bias else None
        self.stride = stride
        self.same = same

    def __call__(self, x: Float[Array, "B H W i"]) -> Float[Array, "B h w o"]:
        y = convolve(x, self.weight.transpose(2, 3, 1, 0), self.stride, self.same)
        return y if self.bias is None else y + self.bias

    def pooled(self, x: Float[Array, "B H W i"]) -> Float[Array, "B h w o"]:
        """Convolution, maximum of each 2 x 2 pixels, rectified units."""
        assert self.bias is not None and self.stride == 1
        return pooled(x, self.weight.transpose(2, 3, 1, 0), self.bias, self.same)


class Depthwise(eqx.Module):
    """A 3x3 window for each channel, without bias. Strided, ``same`` pads as TensorFlow does, and
    otherwise only after the last row and column (Keras' MobileNet: the same for sides of even
    length)."""

    weight: Float[Array, "c 1 3 3"]
    stride: int = eqx.field(static=True)
    same: bool = eqx.field(static=True)

    def __init__(self, channels: int, key: Array, stride: int = 1, same: bool = True) -> None:
        self.weight = glorot(key, (channels, 1, 3, 3))
        self.stride = stride
        self.same = same

    def __call__(self, x: Float[Array, "B H W c"]) -> Float[Array, "B h w c"]:
        padding = [same_padding(n, 3, self.stride) if self.same else (0, 1) for n in x.shape[1:3]]
        x = jnp.pad(x, [(0, 0), *padding, (0, 0)])
        places = windows(x, 3, self.stride)
        return sum(window * self.weight[:, 0, n // 3, n % 3] for n, window in enumerate(places))  # type: ignore


def dropout(x: Array, rate: float, key: Array | None) -> Array:
    """Zero each entry at random, and scale the others up.

    Args:
        x: activations.
        rate: probability of zero, to 1 / 65,536.
        key: randomness; without one, x is returned.
    """
    if key is None or rate == 0:
        return x
    with jax.threefry_partitionable(False):  # half the work; this stream is on one device
        words = jax.random.bits(key, (-(-x.size // 2),), jnp.uint32)
    draws = jnp.concatenate([words & 0xFFFF, words >> 16])[: x.size].reshape(
        x.shape
    )  # two from each word
    return jnp.where(draws < round((1 - rate) * 2**16), x / (1 - rate), 0)
