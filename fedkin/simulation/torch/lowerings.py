"""JAX implementations of some PyTorch layers, in place of torchax's (torchax computes PyTorch in
JAX).

They are for layers that are slow in torchax on a CPU, and for batch normalisation, which must
ignore the padding of batches. Shapes are PyTorch's: images [B c H W], kernels [o i k k].

Convolution and pooling use fedkin's layers where possible, because XLA's gradients of the plain
operators are several times slower. Where fedkin's layers do not have the options of an operator,
torchax computes it. fedkin's layers have the channels last, so axes are moved before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedkin.models import convolution as images
from fedkin.models.layers import product

# 1 for samples that count in training, 0 for padding; None in inference, and if all samples count.
_MASK: ContextVar[Float[Array, "B"] | None] = ContextVar("mask", default=None)


@contextmanager
def counting(mask: Float[Array, "B"]) -> Iterator[None]:
    """Within this context, let batch statistics count only the samples whose mask is 1."""
    token = _MASK.set(mask)
    try:
        yield
    finally:
        _MASK.reset(token)


def convolution(theirs: Callable[..., Array]) -> Callable[..., Array]:
    """A function that computes PyTorch's operator ``aten.convolution`` with fedkin's layer.

    fedkin's layer takes images with square kernels, and one stride and one padding for both axes.
    It has neither dilation nor groups.

    Args:
        theirs: torchax's implementation, used for all other convolutions.
    """

    def convolve(
        x: Array,
        kernel: Array,
        bias: Array | None,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        *output_padding_and_groups: Any,
    ) -> Array:
        # PyTorch gives stride, padding and dilation as lists with a number for each axis. The last
        # two arguments are the output padding and the number of groups.
        is_square = kernel.ndim == 4 and kernel.shape[2] == kernel.shape[3]
        is_even = len({*stride}) == len({*padding}) == 1
        is_plain = not transposed and {*dilation} == {1} and output_padding_and_groups[-1] == 1
        if not (is_square and is_even and is_plain and x.ndim == 4):
            return theirs(
                x, kernel, bias, stride, padding, dilation, transposed, *output_padding_and_groups
            )
        size = kernel.shape[2]
        around = padding[0]
        step = stride[0]
        # fedkin's layer itself pads only so that the output has the size of the input. Any other
        # padding is added here.
        same = step == 1 and size % 2 == 1 and around == size // 2 > 0
        x = x.transpose(0, 2, 3, 1)
        if around and not same:
            x = jnp.pad(x, [(0, 0), (around, around), (around, around), (0, 0)])
        out = images.convolve(x, kernel.transpose(2, 3, 1, 0), step, same)
        return (out if bias is None else out + bias).transpose(0, 3, 1, 2)

    return convolve


def max_pool(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes PyTorch's ``max_pool2d`` with fedkin's layer.

    fedkin's layer takes images, and windows of 2 x 2 that do not overlap.

    Args:
        theirs: torchax's implementation, used for all other windows.
    """

    def pool(
        x: Array,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        *flags: Any,
        **named_flags: Any,
    ) -> Any:
        stride = stride or kernel_size
        # PyTorch takes one number for both axes, or a list with a number for each.
        sizes = [
            {value} if isinstance(value, int) else {*value}
            for value in (kernel_size, stride, padding, dilation)
        ]
        has_flags = any(flags) or any(named_flags.values())
        if sizes != [{2}, {2}, {0}, {1}] or has_flags or x.ndim != 4:
            return theirs(x, kernel_size, stride, padding, dilation, *flags, **named_flags)
        return images.max_pool(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)

    return pool


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """PyTorch's ``functional.batch_norm`` over the samples that count, i.e. without padding.

    Like PyTorch, it updates the running statistics in place.

    The output uses the biased variance; the running variance is unbiased. A single value has no
    unbiased variance: the running variance becomes NaN, where PyTorch raises an error.

    Args:
        x: [B c ..].
        running_mean: [c], or None.
        running_var: [c], or None.
        weight: [c], or None.
        bias: [c], or None.
        training: whether to use the batch's statistics; otherwise the running ones are used.
        momentum: share of the batch's statistic in the new running statistic.
        eps: number added to the variance.
    """
    values = x.jax()
    axes = (0, *range(2, x.ndim))
    shape = (1, -1, *(1 for _ in axes[1:]))
    if training:
        mask = _MASK.get()
        counted = jnp.ones(len(values)) if mask is None else mask
        counted = counted.reshape(-1, *(1 for _ in range(x.ndim - 1)))
        # Number of values of each channel: of samples that count, times the positions in a sample.
        number = counted.sum() * (values.size / values.shape[0] / values.shape[1])
        mean = (values * counted).sum(axes) / number
        variance = (jnp.square(values - mean.reshape(shape)) * counted).sum(axes) / number
        if running_mean is not None:
            _move(running_mean, mean, momentum)
            _move(running_var, variance * (number / (number - 1)), momentum)
    else:
        mean = running_mean.jax()
        variance = running_var.jax()
    out = (values - mean.reshape(shape)) * jax.lax.rsqrt(variance + eps).reshape(shape)
    if weight is not None:
        out = out * weight.jax().reshape(shape)
    if bias is not None:
        out = out + bias.jax().reshape(shape)
    return type(x)(out, x._env)


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """PyTorch's ``functional.linear`` with fedkin's matrix product.

    A CPU compiler fuses the weight gradient of this product into the training step.

    Args:
        x: [.. i].
        weight: [o i].
        bias: [o]; None without a bias.
    """
    out = product(x, weight) if x.ndim == 2 else x @ weight.T
    return out if bias is None else out + bias


def lstm(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes ``torch.lstm`` with one loop over time for each layer.

    torchax unrolls the loop: its program has the operations of every time step.

    Args:
        theirs: torchax's implementation, used for bidirectional LSTMs, projections, packed
            sequences, and dropout between layers.
    """

    def run(x: Any, state: Any, weights: Any, *settings: Any) -> Any:
        # For a packed sequence, torch.lstm is called with other arguments.
        if len(settings) != 6 or x.ndim != 3:
            return theirs(x, state, weights, *settings)
        biases, layers, dropout, training, both_ways, batch_first = settings
        # A layer has two matrices (for its input and its state) and two biases. If there are more
        # arrays, the LSTM has projections.
        per_layer = 4 if biases else 2
        if both_ways or len(weights) != per_layer * layers or (dropout and training):
            return theirs(x, state, weights, *settings)
        values = x.jax()
        h, c = (part.jax() for part in state)
        if batch_first:
            values = values.swapaxes(0, 1)
        ends = []
        for layer in range(layers):
            first = per_layer * layer
            layer_weights = [weight.jax() for weight in weights[first : first + per_layer]]
            values, end = _lstm_layer(values, h[layer], c[layer], layer_weights)
            ends.append(end)
        if batch_first:
            values = values.swapaxes(0, 1)
        hidden, cells = (jnp.stack(part) for part in zip(*ends, strict=True))
        return tuple(type(x)(array, x._env) for array in (values, hidden, cells))

    return run


def _lstm_layer(
    x: Float[Array, "L B i"], h: Float[Array, "B h"], c: Float[Array, "B h"], weights: list[Array]
) -> tuple[Float[Array, "L B h"], tuple[Array, Array]]:
    """An LSTM layer's outputs at all L times, and its last state (hidden and cell values).

    The batch has B samples with i inputs each, and the layer has h units.
    The gates are input, forget, candidate and output, in this order.
    """
    gates = x @ weights[0].T + sum(weights[2:])  # all time steps in one product

    def step(state: tuple[Array, Array], gate: Array) -> tuple[tuple[Array, Array], Array]:
        h, c = state
        enter, forget, candidate, leave = jnp.split(gate + h @ weights[1].T, 4, axis=-1)
        c = c * jax.nn.sigmoid(forget) + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
        h = jnp.tanh(c) * jax.nn.sigmoid(leave)
        return (h, c), h

    end, out = jax.lax.scan(step, (h, c), gates)
    return out, end


def _move(statistic: Any, value: Array, momentum: float) -> None:
    """Move a running statistic towards the statistic of a batch, in place, outside the gradient."""
    statistic._elem = jax.lax.stop_gradient((1 - momentum) * statistic.jax() + momentum * value)
