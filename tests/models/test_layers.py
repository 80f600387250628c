"""Layers against XLA's own operations, plain products and NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedkin.models import layers
from fedkin.models.convolution import convolve, max_pool, pooled
from fedkin.models.layers import Conv, Dense, Depthwise, dropout, glorot, product
from fedkin.models.strided_convolution import by_parts

RNG = np.random.Generator(np.random.PCG64(0))
CASES = {
    "valid": (3, 1, False),
    "same": (3, 1, True),
    "strided same": (5, 2, True),
    "even strided same": (4, 3, True),
}


def value_and_gradients(
    f: Callable[..., jax.Array], at: tuple[jax.Array, ...], cotangent: jax.Array
) -> tuple[jax.Array, ...]:
    def both(*at: jax.Array) -> tuple[jax.Array, ...]:
        value, back = jax.vjp(f, *at)
        return (value, *back(cotangent))

    return jax.jit(both)(*at)


def normal(shape: tuple[int, ...]) -> jax.Array:
    return jnp.asarray(RNG.normal(size=shape).astype(np.float32))


@pytest.mark.parametrize("case", CASES)
def test_convolution_and_its_gradient(case: str) -> None:
    """7 x 6 images, 2 channels in, 3 out; ``conv_general_dilated`` with TensorFlow's padding."""
    size, stride, same = CASES[case]
    conv = Conv(2, 3, size, jax.random.key(0), stride=stride, same=same)
    x = normal((4, 7, 6, 2))
    bias = normal((3,))

    def ours(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
        leaves, tree = jax.tree.flatten(conv)
        assert [leaf.shape for leaf in leaves] == [w.shape, b.shape]
        return jax.tree.unflatten(tree, [w, b])(x)

    def xla(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
        padding = "SAME" if same else "VALID"
        numbers = ("NHWC", "OIHW", "NHWC")
        return (
            jax.lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=numbers)
            + b
        )

    at = (x, conv.weight, bias)
    cotangent = normal(jax.eval_shape(xla, *at).shape)
    for one, other in zip(
        value_and_gradients(ours, at, cotangent),
        value_and_gradients(xla, at, cotangent),
        strict=True,
    ):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("batch", "width"), [(1, 64), (32, 100), (33, 64), (10, 63)])
def test_product_and_its_gradient(batch: int, width: int) -> None:
    """Written out sample by sample (small batch, wide layer) or not, the gradient equals
    the gradient of x w^T."""
    x, w, g = (
        np.asarray(a) for a in (normal((batch, 5)), normal((width, 5)), normal((batch, width)))
    )
    value, by_x, by_w = value_and_gradients(
        product, (jnp.asarray(x), jnp.asarray(w)), jnp.asarray(g)
    )
    np.testing.assert_allclose(value, x @ w.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_x, g @ w, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_w, g.T @ x, rtol=1e-4, atol=1e-5)


def test_dense() -> None:
    dense = Dense(5, 3, jax.random.key(1))
    assert dense.weight.shape == (3, 5) and not dense.bias.any()
    x = normal((4, 5))
    np.testing.assert_allclose(
        dense(x), np.asarray(x) @ np.asarray(dense.weight).T, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(("height", "width"), [(4, 6), (5, 7), (2, 3)])
def test_max_pool(height: int, width: int) -> None:
    x = np.asarray(normal((2, height, width, 3)))
    expected = np.array(
        [
            [
                [
                    image[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max(axis=(0, 1))
                    for j in range(width // 2)
                ]
                for i in range(height // 2)
            ]
            for image in x
        ]
    )
    np.testing.assert_array_equal(max_pool(jnp.asarray(x)), expected)


def test_gradient_of_max_pool_goes_to_the_largest() -> None:
    x = jnp.array([[1.0, 5.0, 0.0], [2.0, 3.0, 9.0]])[None, :, :, None]
    gradient = jax.grad(lambda x: max_pool(x).sum())(x)
    np.testing.assert_array_equal(gradient[0, :, :, 0], [[0, 1, 0], [0, 0, 0]])


@pytest.mark.parametrize(("shape", "fans"), [((300, 200), 500), ((64, 32, 5, 5), 25 * 96)])
def test_glorot(shape: tuple[int, ...], fans: int) -> None:
    """Uniform in +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010, eq. 16): the whole range,
    and its variance."""
    limit = np.sqrt(6 / fans)
    drawn = np.asarray(glorot(jax.random.key(0), shape))
    assert drawn.shape == shape and drawn.dtype == np.float32
    assert 0.99 * limit < np.abs(drawn).max() <= limit * (1 + 1e-6)
    deviations = np.sqrt(drawn.size)
    assert abs(drawn.mean()) < 5 * limit / np.sqrt(3) / deviations
    # the square of a uniform number has the variance 4/45 limit^4
    assert abs(np.square(drawn).mean() - limit**2 / 3) < 5 * np.sqrt(4 / 45) * limit**2 / deviations


def test_dropout() -> None:
    """Kept entries are scaled so that the mean stays; how many are kept lies within five standard
    deviations."""
    x = jnp.ones((100, 100))
    key = jax.random.key(0)
    got = np.asarray(dropout(x, 0.4, key))
    np.testing.assert_allclose(np.unique(got), [0, 1 / 0.6], rtol=1e-6)
    assert abs((got > 0).sum() - 6000) < 5 * np.sqrt(10_000 * 0.6 * 0.4)
    np.testing.assert_array_equal(got, dropout(x, 0.4, key))
    assert (got != np.asarray(dropout(x, 0.4, jax.random.key(1)))).any()


def test_dropout_that_does_nothing() -> None:
    x = normal((3, 4))
    np.testing.assert_array_equal(dropout(x, 0.5, None), x)
    np.testing.assert_array_equal(dropout(x, 0.0, jax.random.key(0)), x)


def test_the_written_out_gradient_is_really_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above covers both forms: on a CPU, and only there, they are different
    programs."""
    x = normal((10, 5))
    w = normal((64, 5))
    g = normal((10, 64))

    def program() -> str:
        return str(jax.make_jaxpr(lambda x, w: jax.vjp(product, x, w)[1](g))(x, w))

    written_out = program()
    monkeypatch.setattr(layers, "_UNROLLED_BATCH", 0)
    assert (program() != written_out) == (jax.default_backend() == "cpu")


def test_the_input_of_a_large_layer_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not, as part of the sum of outer products, once for each of its outputs."""
    x = normal((10, 16, 16, 64))
    w = normal((64, 4096))
    g = normal((10, 64))

    def step(w: jax.Array, x: jax.Array) -> jax.Array:
        return w - jax.vjp(lambda w: product(max_pool(x).reshape(10, -1), w), w)[1](g)[0]

    def result() -> tuple[jax.Array, bool]:
        """The step, and whether one loop of its program both pools and writes the weights."""
        program = jax.jit(lambda *at: step(*at)).lower(w, x).compile()
        parts = str(program.as_text()).split("\n\n")
        return program(w, x), any("f32[64,4096]" in part and " maximum(" in part for part in parts)

    copied, pools = result()
    assert not pools
    monkeypatch.setattr(layers, "_LARGE", w.size + 1)
    fused, pools = result()
    assert pools == (jax.default_backend() == "cpu")
    np.testing.assert_array_equal(copied, fused)


def steps_of_two_layers(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Ten steps that need the gradients of both the weights and the input of a layer."""

    def step(_: int, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        w, x = carry
        y, back = jax.vjp(product, x, w)
        by_x, by_w = back(jnp.tanh(y))
        return w - 0.01 * by_w, x - 0.01 * by_x

    return jax.lax.fori_loop(0, x.shape[0], step, (w, x))


def test_the_weights_of_a_large_layer_are_not_copied_in_each_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = normal((10, 512))
    w = normal((256, 512))

    def result() -> tuple[list[np.ndarray], int]:
        """The steps, and the number of copies of the weights in their program."""
        program = jax.jit(lambda *at: steps_of_two_layers(*at)).lower(w, x).compile()
        copies = re.findall(r"f32\[256,512\]\S* copy\(", str(program.as_text()))
        return [np.asarray(part) for part in program(w, x)], len(copies)

    ours, copies = result()
    # The argument is copied once, before the loop.
    assert copies <= 1
    monkeypatch.setattr(layers, "_after", lambda values, earlier: values)
    unordered, more = result()
    assert (more > copies) == (jax.default_backend() == "cpu")
    for one, other in zip(ours, unordered, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_order_of_computations_changes_no_bit() -> None:
    values = jnp.array([[0.0, -0.0, 1.5], [np.inf, -np.inf, np.nan]], jnp.float32)
    for earlier in (0.0, -3.0, np.inf, -np.inf, np.nan):
        column = jnp.full((2, 1), earlier, jnp.float32)
        after = np.asarray(jax.jit(layers._after)(values, column))
        assert after.tobytes() == np.asarray(values).tobytes()


def test_a_product_whose_result_is_not_used_has_no_gradient() -> None:
    x = normal((10, 5))
    w = normal((64, 5))

    def loss(x: jax.Array, w: jax.Array) -> jax.Array:
        unused = jax.lax.stop_gradient(product(x, w))
        return jnp.sum(x) + 0 * jnp.sum(unused)

    by_x, by_w = jax.grad(loss, (0, 1))(x, w)
    np.testing.assert_array_equal(by_x, np.ones((10, 5)))
    np.testing.assert_array_equal(by_w, np.zeros((64, 5)))


STRIDED = {  # height, width, window, stride, padding
    "femnist": (12, 12, 5, 2, True),
    "odd sides": (9, 11, 5, 2, True),
    "valid": (9, 12, 5, 2, False),
    "rows that no window covers": (12, 12, 5, 2, False),
    "stride of three": (13, 10, 7, 3, True),
    "stride of three, valid": (13, 12, 7, 3, False),
    "even window": (10, 10, 6, 2, True),
}


@pytest.mark.parametrize("case", STRIDED)
@pytest.mark.parametrize("models", [1, 3])
def test_strided_convolution_and_its_gradient(case: str, models: int) -> None:
    """``conv_general_dilated``, for one model and for several models on the same images."""
    height, width, size, stride, same = STRIDED[case]
    x = normal((2, height, width, 4))
    kernels = normal((models, size, size, 4, 3))

    def xla(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(
            x,
            kernel,
            (stride, stride),
            "SAME" if same else "VALID",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )

    def ours(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return by_parts(x, kernel, stride, same)

    def of_models(f: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
        return lambda x, kernels: jax.vmap(f, (None, 0))(x, kernels)

    at = (x, kernels)
    cotangent = normal(jax.eval_shape(of_models(xla), *at).shape)
    for one, other in zip(
        value_and_gradients(of_models(ours), at, cotangent),
        value_and_gradients(of_models(xla), at, cotangent),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_large_windows_with_a_stride_are_convolved_by_parts() -> None:
    """No array of windows, of 25 x 16 numbers for each pixel, is in the program."""
    x = normal((2, 12, 12, 16))

    def windows(channels: int) -> bool:
        kernel = normal((5, 5, channels, 16))
        program = jax.make_jaxpr(lambda x: convolve(x, kernel, 2, True))(x[..., :channels])
        return f",{25 * channels}]" in str(program)

    assert not windows(16)
    assert windows(8) == (jax.default_backend() == "cpu")


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [1, 2, 5, 6])
def test_depthwise_and_its_gradient(side: int, stride: int) -> None:
    """``conv_general_dilated`` by groups, with TensorFlow's padding."""
    conv = Depthwise(3, jax.random.key(0), stride)
    x = normal((4, side, side, 3))

    def ours(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.tree.unflatten(jax.tree.structure(conv), [w])(x)

    def xla(x: jax.Array, w: jax.Array) -> jax.Array:
        numbers = ("NHWC", "OIHW", "NHWC")
        return jax.lax.conv_general_dilated(
            x, w, (stride, stride), "SAME", dimension_numbers=numbers, feature_group_count=3
        )

    assert_same(ours, xla, (x, conv.weight))


def assert_same(
    ours: Callable[..., jax.Array], xla: Callable[..., jax.Array], at: tuple[jax.Array, ...]
) -> None:
    """Values and gradients."""
    cotangent = normal(jax.eval_shape(xla, *at).shape)
    pairs = zip(
        value_and_gradients(ours, at, cotangent),
        value_and_gradients(xla, at, cotangent),
        strict=True,
    )
    for one, other in pairs:
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


POOLED = {"same": (8, 3, True), "valid": (8, 3, False), "odd": (7, 5, True), "small": (3, 3, True)}


def reference(x: jax.Array, kernel: jax.Array, bias: jax.Array, same: bool) -> jax.Array:
    """relu, then pool, in the order of the papers."""
    numbers = ("NHWC", "HWIO", "NHWC")
    z = jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME" if same else "VALID", dimension_numbers=numbers
    )
    window = (1, 2, 2, 1)
    return jax.lax.reduce_window(
        jax.nn.relu(z + bias), -jnp.inf, jax.lax.max, window, window, "VALID"
    )


@pytest.mark.parametrize("case", POOLED)
def test_pooled_convolution_and_its_gradient(case: str) -> None:
    side, size, same = POOLED[case]
    at = (normal((4, side, side, 2)), normal((size, size, 2, 3)), normal((3,)))
    assert_same(partial(pooled, same=same), partial(reference, same=same), at)


@pytest.mark.parametrize("case", POOLED)
@pytest.mark.parametrize("shared", ["images", "nothing", "kernels", "biases"])
def test_several_models_at_once(case: str, shared: str) -> None:
    """vmap over three models: each gets the same result as alone, gradients too."""
    side, size, same = POOLED[case]
    at = [normal((3, 4, side, side, 2)), normal((3, size, size, 2, 3)), normal((3, 3))]
    axes: list[int | None] = [0, 0, 0]
    if shared != "nothing":
        place = ["images", "kernels", "biases"].index(shared)
        at[place] = at[place][0]
        axes[place] = None
    first = [a if axis is None else a[0] for a, axis in zip(at, axes, strict=True)]
    cotangents = normal((3, *jax.eval_shape(partial(reference, same=same), *first).shape))

    def pulled(f: Callable[..., jax.Array]) -> Callable[..., tuple[jax.Array, ...]]:
        return lambda g, *a: (f(*a, same), *jax.vjp(lambda *b: f(*b, same), *a)[1](g))

    together = jax.jit(jax.vmap(pulled(pooled), in_axes=(0, *axes)))(cotangents, *at)
    for model in range(3):
        own = [a if axis is None else a[model] for a, axis in zip(at, axes, strict=True)]
        for got, expected in zip(
            together, jax.jit(pulled(reference))(cotangents[model], *own), strict=True
        ):
            np.testing.assert_allclose(got[model], expected, rtol=1e-4, atol=1e-4)


def test_equal_pixels_share_the_gradient() -> None:
    """The rows of an image share by halves, and in a row its columns."""
    x = jnp.array([[2.0, 2.0, 7.0, 1.0], [2.0, 1.0, 7.0, 3.0]])[None, :, :, None]
    gradient = jax.grad(lambda x: max_pool(x).sum())(x)
    np.testing.assert_array_equal(gradient[0, :, :, 0], [[0.25, 0.25, 0.5, 0], [0.5, 0, 0.5, 0]])
