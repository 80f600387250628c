"""Convolutions that are fast on CPUs, alone or followed by max pooling and rectified linear units.

Images are ``[B, H, W, channels]``, kernels ``[height, width, in, out]``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from fedkin.models.plain_convolution import LAYOUT, plain, same_padding
from fedkin.models.strided_convolution import by_parts

# Bytes of patches (windows of the images, as rows) that are processed at a time.
_CACHE = 2**19
# Images with a side shorter than this are convolved by patches.
_SMALL = 4
# With a stride, a convolution of at least this many channels is a sum of convolutions without one,
# if its window is larger than two strides. Smaller ones are as fast by patches.
_MANY_CHANNELS = 16


def convolve(
    x: Float[Array, "B H W i"], kernel: Float[Array, "k k i o"], stride: int, same: bool
) -> Float[Array, "B h w o"]:
    """The convolution of images with a kernel, by the fastest of three implementations.

    Args:
        x, kernel: images, and a square kernel.
        stride: stride on both axes.
        same: whether to pad as TensorFlow's SAME; otherwise as VALID.
    """
    size = len(kernel)
    if jax.default_backend() != "cpu":
        padding = "SAME" if same else "VALID"
        return jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), padding, dimension_numbers=LAYOUT
        )
    # A window of one pixel is a matrix product over the channels.
    if size == stride == 1:
        return x @ kernel[0, 0]
    if stride == 1 and min(x.shape[1:3]) >= _SMALL and (size % 2 or not same):
        return _by_xla(x, kernel, size // 2 if same else 0)
    wide = size > 2 * stride and min(kernel.shape[2:]) >= _MANY_CHANNELS
    if stride > 1 and wide and min(x.shape[1:3]) >= size:
        return by_parts(x, kernel, stride, same)
    return _by_patches(
        x=x, kernel=kernel.reshape(-1, kernel.shape[3]), size=size, stride=stride, same=same
    )


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _by_xla(
    x: Float[Array, "B H W i"], kernel: Float[Array, "k k i o"], padding: int
) -> Float[Array, "B h w o"]:
    """XLA's convolution, which is fast on a CPU if the channels are the last axis of the images.

    Both gradients (of images and kernel) are written as such convolutions, with the channels last.
    XLA's own gradients permute the axes, and were 15 times slower.
    """
    return _plain(x, kernel, padding)


def _by_xla_forward(x: Array, kernel: Array, padding: int) -> tuple[Array, tuple[Array, Array]]:
    """The convolution by XLA, and the arrays that its backward pass needs."""
    return _plain(x, kernel, padding), (x, kernel)


def _by_xla_backward(padding: int, saved: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    """Gradients of images and kernel, from the gradient g of the convolution."""
    x, kernel = saved
    return _by_image(g, kernel, padding), _by_kernel(x, g, padding)


_by_xla.defvjp(_by_xla_forward, _by_xla_backward)


def _by_image(
    g: Float[Array, "B h w o"], kernel: Float[Array, "k k i o"], padding: int
) -> Float[Array, "B H W i"]:
    """Gradient of a convolution with respect to the images: g, the gradient of the result,
    convolved with the flipped kernel."""
    return _plain(g, kernel[::-1, ::-1].transpose(0, 1, 3, 2), len(kernel) - 1 - padding)


def _by_kernel(
    x: Float[Array, "B H W i"], g: Float[Array, "B h w o"], padding: int
) -> Float[Array, "k k i o"]:
    """Gradient of a convolution with respect to the kernel.

    It is a convolution with the input channels as the batch, the images as the channels, and the
    output gradients as the kernel.
    """
    by_channel = _plain(x.transpose(3, 1, 2, 0), g.transpose(1, 2, 0, 3), padding)
    return by_channel.transpose(1, 2, 0, 3)


def _plain(
    x: Float[Array, "B H W i"], kernel: Float[Array, "p q i o"], padding: int
) -> Float[Array, "B h w o"]:
    """XLA's convolution with this padding on all four sides, without a stride."""
    return plain(x, kernel, ((padding, padding), (padding, padding)))


def pooled(
    x: Float[Array, "B H W i"], kernel: Float[Array, "k k i o"], bias: Float[Array, "o"], same: bool
) -> Float[Array, "B h w o"]:
    """relu(max_pool(convolution + bias)) of a batch of images.

    Several models on the same images are computed as one model with more channels, in both passes.
    Models on different images are computed one after another, so that each fits the cache.

    Args:
        x, kernel, bias: images, square kernel, and bias of each output channel.
        same: whether to pad as TensorFlow's SAME; otherwise as VALID.
    """
    size = len(kernel)
    if jax.default_backend() != "cpu" or min(x.shape[1:3]) < _SMALL or (same and size % 2 == 0):
        return _finish(convolve(x, kernel, 1, same), bias)
    return _pooled(x, kernel, bias, size // 2 if same else 0)


def _finish(z: Float[Array, "B H W o"], bias: Float[Array, "o"]) -> Float[Array, "B h w o"]:
    """Max pooling, then bias and rectifying. In this order, only a quarter of the pixels need bias
    and rectifying, with the same result."""
    return jax.nn.relu(max_pool(z) + bias)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _pooled(x: Array, kernel: Array, bias: Array, padding: int) -> Array:
    """``pooled`` with its gradients written by hand, see ``_pooled_of``."""
    return _pooled_of(padding)[0](x, kernel, bias)


def _pooled_forward(
    x: Array, kernel: Array, bias: Array, padding: int
) -> tuple[Array, tuple[Array, Array, Array]]:
    """The pooled convolution, and the arrays that its backward pass needs."""
    return _pooled(x, kernel, bias, padding), (x, kernel, bias)


def _pooled_backward(
    padding: int, saved: tuple[Array, Array, Array], g: Array
) -> tuple[Array, Array, Array]:
    """Gradients of images, kernel and bias, from the gradient g of the pooled convolution."""
    return _pooled_of(padding)[1](*saved, g)


_pooled.defvjp(_pooled_forward, _pooled_backward)


@lru_cache(maxsize=64)
def _pooled_of(
    padding: int,
) -> tuple[Callable[..., Array], Callable[..., tuple[Array, Array, Array]]]:
    """Forward and backward pass of ``pooled`` with this padding.

    The backward pass repeats the convolution. If both passes are in one program, the compiler
    eliminates the duplicate.
    """

    def forward(x: Array, kernel: Array, bias: Array) -> Array:
        return _finish(_plain(x, kernel, padding), bias)

    def output_gradients(x: Array, kernel: Array, bias: Array, g: Array) -> tuple[Array, Array]:
        """Gradients of the convolution's output and of the bias. The convolution is computed
        again."""
        return jax.vjp(_finish, _plain(x, kernel, padding), bias)[1](g)

    def backward(x: Array, kernel: Array, bias: Array, g: Array) -> tuple[Array, Array, Array]:
        gradient, by_bias = output_gradients(x, kernel, bias, g)
        return _by_image(gradient, kernel, padding), _by_kernel(x, gradient, padding), by_bias

    def forward_on_the_same(x: Array, kernels: Array, biases: Array) -> Array:
        """``forward`` of several models on the same images, as one model with more channels."""
        return _apart(forward(x, _joined(kernels), biases.ravel()), len(kernels))

    def backward_on_the_same(
        x: Array, kernels: Array, biases: Array, g: Array
    ) -> tuple[Array, Array, Array]:
        """``backward`` of several models on the same images."""
        count = len(kernels)
        gradient, by_bias = output_gradients(x, _joined(kernels), biases.ravel(), _joined(g))
        pairs = (_apart(gradient, count), kernels)
        # Each model has its own gradient of the images, so these are computed one model at a time.
        by_image = jax.lax.map(lambda pair: _by_image(pair[0], pair[1], padding), pairs)
        by_kernel = _apart(_by_kernel(x, gradient, padding), count)
        return by_image, by_kernel, by_bias.reshape(count, -1)

    return _for_models(forward, forward_on_the_same), _for_models(backward, backward_on_the_same)


def _for_models(of_one_model: Callable, on_the_same: Callable) -> Callable:
    """Give a function of one model a vmap rule, which applies it to several models.

    Args:
        of_one_model: the function of one model.
        on_the_same: the function of several models that share the first argument, the images.
    """

    def of_models(count: int, batched: list[bool], *arguments: Array) -> tuple:
        """The rule that JAX applies under vmap; ``batched`` marks the arguments with a row per
        model."""
        if not batched[0] and all(batched[1:]):
            out = on_the_same(*arguments)
        else:
            pairs = zip(arguments, batched, strict=True)
            rows = tuple(
                argument if is_batched else jnp.broadcast_to(argument, (count, *argument.shape))
                for argument, is_batched in pairs
            )
            # One model after another, since the images differ or only some arguments have a row per
            # model.
            out = jax.lax.map(lambda row: of_one_model(*row), rows)
        return out, jax.tree.map(lambda _: True, out)

    mapped = custom_vmap(of_one_model)
    mapped.def_vmap(of_models)
    return mapped


def _joined(arrays: Float[Array, "G p q r c"]) -> Float[Array, "p q r Gc"]:
    """Concatenate the channels of all models, so that they look like one model with more
    channels."""
    return jnp.moveaxis(arrays, 0, 3).reshape(*arrays.shape[1:4], -1)


def _apart(array: Float[Array, "p q r Gc"], count: int) -> Float[Array, "G p q r c"]:
    """Separate the channels of ``count`` models again: the inverse of ``_joined``."""
    return jnp.moveaxis(array.reshape(*array.shape[:3], count, -1), 3, 0)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def _by_patches(
    x: Float[Array, "B H W i"], kernel: Float[Array, "d o"], size: int, stride: int, same: bool
) -> Float[Array, "B h w o"]:
    """The convolution as patches (windows of the images, as rows) times kernel, for a few images at
    a time.

    The patches of a whole batch do not fit into a core's cache. The backward pass recomputes them,
    which is faster than reading them from memory.
    """

    def of_images(images: Array) -> Array:
        return _patches(images, size, stride, same) @ kernel

    parts = _few_images(x, x.shape[3] * size**2)
    if len(parts) == 1:
        return of_images(x)
    shape = of_images(x[:1]).shape[1:]
    return jax.lax.map(of_images, parts).reshape(len(x), *shape)


def _by_patches_forward(
    x: Array, kernel: Array, size: int, stride: int, same: bool
) -> tuple[Array, tuple[Array, Array]]:
    """The convolution by patches, and the arrays that its backward pass needs."""
    return _by_patches(x=x, kernel=kernel, size=size, stride=stride, same=same), (x, kernel)


def _by_patches_backward(
    size: int, stride: int, same: bool, saved: tuple[Array, Array], g: Array
) -> tuple[Array, Array]:
    """Gradients of images and kernel, from the gradient g of the convolution, for a few images at a
    time."""
    x, kernel = saved

    def of_images(total: Array, part: tuple[Array, Array]) -> tuple[Array, Array]:
        """Add the kernel's gradient of these images to ``total``, and return the images'
        gradient."""
        images, output_gradients = part
        patches, back = jax.vjp(lambda images: _patches(images, size, stride, same), images)
        rows = patches.reshape(-1, len(kernel))
        outputs = output_gradients.reshape(-1, kernel.shape[1])
        (by_images,) = back((outputs @ kernel.T).reshape(patches.shape))
        return total + rows.T @ outputs, by_images

    parts = _few_images(x, len(kernel))
    gradients = g.reshape(*parts.shape[:2], *g.shape[1:])
    if len(parts) == 1:
        by_kernel, by_images = of_images(jnp.zeros_like(kernel), (parts[0], gradients[0]))
    else:
        by_kernel, by_images = jax.lax.scan(of_images, jnp.zeros_like(kernel), (parts, gradients))
    return by_images.reshape(x.shape), by_kernel


_by_patches.defvjp(_by_patches_forward, _by_patches_backward)


def _few_images(x: Float[Array, "B H W i"], depth: int) -> Float[Array, "parts b H W i"]:
    """Cut the batch of images into equal parts, so small that the patches (windows) of a part,
    ``depth`` numbers per pixel, fit into ``_CACHE`` bytes.

    On an accelerator, the batch is one part.
    """
    images = len(x)
    if jax.default_backend() == "cpu":
        room = max(1, _CACHE // (4 * depth * x.shape[1] * x.shape[2]))
        divisors = [n for n in range(1, len(x) + 1) if len(x) % n == 0]
        images = max(n for n in divisors if n <= room)
    return x.reshape(-1, images, *x.shape[1:])


def _patches(
    x: Float[Array, "B H W i"], size: int, stride: int, same: bool
) -> Float[Array, "B h w d"]:
    """Every window of the images as a row, ordered by height, width and channel.

    ``same`` pads as TensorFlow does.
    """
    if same:
        padding = [same_padding(side, size, stride) for side in x.shape[1:3]]
        x = jnp.pad(x, [(0, 0), *padding, (0, 0)])
    return jnp.concatenate(windows(x, size, stride), axis=-1)


def windows(x: Float[Array, "B H W i"], size: int, stride: int) -> list[Float[Array, "B h w i"]]:
    """Strided slices of the images, one for each pixel of the window, row by row.

    Args:
        x: images.
        size: side of the window.
        stride: stride of the window on both axes.
    """
    height, width = ((side - size) // stride + 1 for side in x.shape[1:3])
    slices = []
    for i in range(size):
        for j in range(size):
            rows = slice(i, i + stride * (height - 1) + 1, stride)
            columns = slice(j, j + stride * (width - 1) + 1, stride)
            slices.append(x[:, rows, columns])
    return slices


@jax.custom_vjp
def max_pool(x: Float[Array, "B H W c"]) -> Float[Array, "B h w c"]:
    """The maximum of each 2 x 2 window. An odd last row or column is dropped.

    If several entries of a window are the maximum, they share the gradient.
    """
    height = x.shape[1] // 2 * 2
    width = x.shape[2] // 2 * 2
    x = x[:, :height, :width]
    columns = jnp.maximum(x[:, :, 0::2], x[:, :, 1::2])
    return jnp.maximum(columns[:, 0::2], columns[:, 1::2])


def _max_pool_backward(x: Array, g: Array) -> tuple[Array]:
    """The gradient of max pooling, by comparing every pixel with its neighbours in the window.

    This needs no search for the position of the maximum, so one loop writes the result.
    """
    batch, height, width, channels = g.shape
    windows = x[:, : 2 * height, : 2 * width].reshape(batch, height, 2, width, 2, channels)
    neighbours = windows[:, :, :, :, ::-1]
    row = jnp.maximum(windows, neighbours)
    gradient = g[:, :, None, :, None] * _share(windows, neighbours) * _share(row, row[:, :, ::-1])
    gradient = gradient.reshape(batch, 2 * height, 2 * width, channels)
    dropped = [(0, 0), (0, x.shape[1] - 2 * height), (0, x.shape[2] - 2 * width), (0, 0)]
    return (jnp.pad(gradient, dropped),)


def _share(value: Array, other: Array) -> Array:
    """Share of the gradient of max(a, b) that goes to a: 1 if a is larger, 0.5 if both are equal,
    else 0."""
    return jnp.where(value > other, 1.0, jnp.where(value < other, 0.0, 0.5))


max_pool.defvjp(lambda x: (max_pool(x), x), _max_pool_backward)
