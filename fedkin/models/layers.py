"""Layers on a batch for CPUs, with weights in PyTorch's layout: ``[out, in]`` and ``[out, in,
height, width]``.

Images are ``[B, H, W, channels]``. Kernels start Glorot uniform, biases start at zero.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from fedkin.models.convolution import convolve, pooled, windows
from fedkin.models.convolution import max_pool as max_pool
from fedkin.models.plain_convolution import same_padding

# Up to this batch size, and from this number of outputs on, ``product`` computes the weight
# gradient as a sum over samples instead of a matrix product.
_UNROLLED_BATCH = 32
_UNROLLED_WIDTH = 64
# From this number of weights on, ``product`` copies its input first.
_LARGE = 2**17


@jax.custom_vjp
def product(x: Float[Array, "B i"], w: Float[Array, "o i"]) -> Float[Array, "B o"]:
    """x w^T, with a weight gradient that a CPU compiler can fuse into the optimiser's step.

    For a small batch and a wide layer, the gradient g^T x is a sum of a few outer products. If the
    code is written as this sum, the compiler computes it inside the optimiser's step and never
    stores the gradient: the step reads w once and writes it once. But the compiler then also fuses
    the operations that make x, such as pooling, and repeats them for every output. A large layer
    therefore copies x first.
    """
    return x @ w.T


def _product_forward(x: Any, w: Any) -> tuple[Array, tuple[Array, Array, Any]]:
    """The product x w^T, and what its backward pass needs: both arrays, and whether a gradient of x
    is wanted (an empty tuple) or not (None)."""
    wanted = () if x.perturbed else None
    return x.value @ w.value.T, (x.value, w.value, wanted)


def _product_backward(saved: tuple[Array, Array, Any], g: Any) -> tuple[Array, Array]:
    """Gradients of the product x w^T with respect to x and w, from the gradient g of the result."""
    x, w, wanted = saved
    if isinstance(g, SymbolicZero):
        g = jnp.zeros(g.shape, jnp.float32)
    by_x = g @ w
    few_samples = len(x) <= _UNROLLED_BATCH
    wide = len(w) >= _UNROLLED_WIDTH
    if not few_samples or not wide or jax.default_backend() != "cpu":
        return by_x, g.T @ x
    if w.size >= _LARGE:
        x = _copied(x)
        # The optimiser's step, into which this gradient is fused, overwrites w. It must come after
        # the last product with w, otherwise the compiler copies w in every step.
        if wanted is not None:
            g = _after(g, by_x[:, :1])
    # g^T x as a sum of outer products, which the compiler fuses into the optimiser's step.
    gradient = g[0][:, None] * x[0][None]
    for sample in range(1, len(x)):
        gradient = gradient + g[sample][:, None] * x[sample][None]
    return by_x, gradient


def _after(values: Float[Array, "B o"], earlier: Float[Array, "B 1"]) -> Float[Array, "B o"]:
    """The same values, in a form that the compiler computes after others.

    It adds zero bits to the values, which are made from ``earlier``. XLA does not see that they are
    zero. The code generator behind it does, so nothing is computed for them.
    """
    bits = jax.lax.bitcast_convert_type(earlier, jnp.uint32)
    zero = (bits >> 31) & 2
    return jax.lax.bitcast_convert_type(
        jax.lax.bitcast_convert_type(values, jnp.uint32) | zero, jnp.float32
    )


def _copied(x: Array) -> Array:
    """A copy of an array, row by row, that the compiler does not fuse with the next operations."""

    def row_of(row: Array) -> Array:
        return jax.lax.dynamic_index_in_dim(x, row, keepdims=False)

    return jax.lax.map(row_of, jnp.arange(len(x)))


product.defvjp(_product_forward, _product_backward, symbolic_zeros=True)


def glorot(key: Array, shape: tuple[int, ...]) -> Array:
    """Glorot uniform weights, in +-sqrt(6 / (fan_in + fan_out)), of shape ``(out, in, ...)``."""
    window = math.prod(shape[2:])
    limit = (6 / ((shape[0] + shape[1]) * window)) ** 0.5
    return jax.random.uniform(key=key, shape=shape, dtype=jnp.float32, minval=-limit, maxval=limit)


def zeros(size: int) -> Array:
    """A vector of zeros, such as the first biases. No program is compiled for it."""
    return jnp.asarray(np.zeros(size, np.float32))


class Dense(eqx.Module):
    """A dense layer, y = x w^T + b."""

    weight: Float[Array, "o i"]
    bias: Float[Array, "o"]

    def __init__(self, inputs: int, outputs: int, key: Array) -> None:
        self.weight = glorot(key, (outputs, inputs))
        self.bias = zeros(outputs)

    def __call__(self, x: Float[Array, "B i"]) -> Float[Array, "B o"]:
        return product(x, self.weight) + self.bias


class Conv(eqx.Module):
    """Convolution with a square kernel, computed by ``fedkin.models.convolution``."""

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
        self.bias = zeros(outputs) if bias else None
        self.stride = stride
        self.same = same

    def __call__(self, x: Float[Array, "B H W i"]) -> Float[Array, "B h w o"]:
        y = convolve(x, self.weight.transpose(2, 3, 1, 0), self.stride, self.same)
        return y if self.bias is None else y + self.bias

    def pooled(self, x: Float[Array, "B H W i"]) -> Float[Array, "B h w o"]:
        """Convolution, maximum of each 2 x 2 pixels, and rectified linear units."""
        assert self.bias is not None and self.stride == 1
        return pooled(x, self.weight.transpose(2, 3, 1, 0), self.bias, self.same)


class Depthwise(eqx.Module):
    """A depthwise convolution: a 3x3 window for each channel, without bias.

    ``same`` pads as TensorFlow does. Otherwise only the last row and column are padded, as in
    Keras' MobileNet. For a stride of 2 and sides of even length both paddings are equal.
    """

    weight: Float[Array, "c 1 3 3"]
    stride: int = eqx.field(static=True)
    same: bool = eqx.field(static=True)

    def __init__(self, channels: int, key: Array, stride: int = 1, same: bool = True) -> None:
        self.weight = glorot(key, (channels, 1, 3, 3))
        self.stride = stride
        self.same = same

    def __call__(self, x: Float[Array, "B H W c"]) -> Float[Array, "B h w c"]:
        padding = [(0, 1), (0, 1)]
        if self.same:
            padding = [same_padding(side, 3, self.stride) for side in x.shape[1:3]]
        x = jnp.pad(x, [(0, 0), *padding, (0, 0)])
        terms = [
            window * self.weight[:, 0, n // 3, n % 3]
            for n, window in enumerate(windows(x, 3, self.stride))
        ]
        return sum(terms)  # type: ignore[return-value]


def dropout(x: Array, rate: float, key: Array | None) -> Array:
    """Set random activations to zero, and scale the other activations up.

    Args:
        x: activations.
        rate: probability of zero, rounded to a multiple of 1 / 65,536.
        key: random key; None returns x unchanged.
    """
    if key is None or rate == 0:
        return x
    # This form of the generator takes half the time. It cannot be sharded over devices, but x is on
    # a single device.
    with jax.threefry_partitionable(False):
        words = jax.random.bits(key, (-(-x.size // 2),), jnp.uint32)
    # Each 32-bit word gives two draws of 16 bits.
    draws = jnp.concatenate([words & 0xFFFF, words >> 16])[: x.size].reshape(x.shape)
    return jnp.where(draws < round((1 - rate) * 2**16), x / (1 - rate), 0)
