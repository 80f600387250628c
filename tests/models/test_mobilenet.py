"""MobileNet and MobileNetV2: Keras' sizes, their blocks by hand, statistics of the samples that
count, PyTorch."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedkin.core.errors import ModelError
from fedkin.models import mobilenet, mobilenet_v2
from fedkin.models.cnn import ImageShape
from fedkin.models.layers import Conv, Dense, Depthwise
from fedkin.models.mobilenet import Chain, MobileNet, Unit, _with_statistics
from fedkin.models.model import Model, as_model, flatten
from fedkin.models.norm import BatchNorm, GroupNorm
from tests.models.test_networks import assert_covers, data, scores

COLOUR = (32, 32, 3)
MAKERS = {"mobilenet": mobilenet, "mobilenet_v2": mobilenet_v2}
WORDS = np.array([1, 2], np.uint32)
RNG = np.random.Generator(np.random.PCG64(7))


def counted_mobilenet(classes: int) -> tuple[int, int]:
    """Parameters and running statistics (Howard et al., Table 1)."""
    widths = [32, 64, 128, 128, 256, 256, *[512] * 6, 1024, 1024]
    kernels = 27 * 32 + sum(9 * i + i * o for i, o in zip(widths, widths[1:], strict=False))
    normalised = 32 + sum(i + o for i, o in zip(widths, widths[1:], strict=False))
    return kernels + 4 * normalised + 1025 * classes, 2 * normalised


def counted_mobilenet_v2(classes: int) -> tuple[int, int]:
    """Parameters and running statistics (Sandler et al., Table 2)."""
    table = [(1, 16, 1), (6, 24, 2), (6, 32, 3), (6, 64, 4), (6, 96, 3), (6, 160, 3), (6, 320, 1)]
    kernels = 27 * 32 + 320 * 1280
    normalised = 32 + 1280
    channels = 32
    for t, c, n in table:
        for _ in range(n):
            wide = t * channels
            kernels += 9 * wide + wide * c + (channels * wide if t > 1 else 0)
            normalised += wide + c + (wide if t > 1 else 0)
            channels = c
    return kernels + 4 * normalised + 1281 * classes, 2 * normalised


@pytest.mark.parametrize("classes", [10, 7])
def test_parameters(classes: int) -> None:
    for make, (parameters, statistics), features in (
        (mobilenet, counted_mobilenet(classes), 1024),
        (mobilenet_v2, counted_mobilenet_v2(classes), 1280),
    ):
        model = make(data(COLOUR, classes))
        spec = model.spec
        sizes = [s.stop - s.start for s in spec.slices.values()]
        assert spec.parameters == parameters
        assert sum(n for n, kept in zip(sizes, model.statistics, strict=True) if kept) == statistics
        assert_covers(spec)
        assert spec.head == slice(parameters - (features + 1) * classes, parameters)
        assert spec.head_bias == slice(parameters - classes, parameters)
        grouped = make(data(COLOUR, classes), norm="group")
        assert (
            grouped.spec.parameters == parameters - statistics
            and grouped.fit is None
            and not grouped.statistics
        )


def test_kerass_totals() -> None:
    """What model.summary() prints for 32 x 32 x 3 images and 10 classes."""
    assert counted_mobilenet(10) == (3_239_114, 21_888)
    assert counted_mobilenet_v2(10) == (2_270_794, 2_270_794 - 2_236_682)


SMALL = ImageShape(4, 4, 3)


def small(norm: type[BatchNorm] | type[GroupNorm], rate: float = 0.0) -> Model:
    """A network of one separable and one inverted block, which compiles in a moment."""

    def make(key: jax.Array) -> MobileNet:
        keys = iter(jax.random.split(key, 6))
        first = Unit(Conv(3, 8, 3, next(keys), stride=2, bias=False), norm(8), False)
        wide = Unit(Conv(8, 16, 1, next(keys), bias=False), norm(16), False)
        each = Unit(Depthwise(16, next(keys)), norm(16), False)
        narrow = Unit(Conv(16, 8, 1, next(keys), bias=False), norm(8), True)
        chains = [Chain([first], False), Chain([wide, each, narrow], True)]
        return MobileNet(chains, Dense(8, 10, next(keys)), SMALL, rate)

    model = as_model(make, batched=True)
    return _with_statistics(model) if norm is BatchNorm else model


def weights(model: Model) -> np.ndarray:
    """A network whose scales, biases and statistics are not at their start."""
    w = model.initial(WORDS).copy()
    for name, part in model.spec.slices.items():
        noise = RNG.random(part.stop - part.start, np.float32)
        if name.endswith((".scale", ".variance")):
            w[part] = 0.5 + noise
        elif name.endswith((".bias", ".mean")):
            w[part] = 0.2 * (noise - 0.5)
    return w


def fitted(
    model: Model, w: np.ndarray, x: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and flat parameters of a training pass."""
    assert model.fit is not None
    key = jax.random.key(0)
    got, moved = jax.jit(model.fit)(
        model.unflatten(jnp.asarray(w)), jnp.asarray(x), jnp.asarray(mask, jnp.float32), key
    )
    return np.asarray(got), np.asarray(flatten(moved))


def kept(model: Model) -> np.ndarray:
    """Which entries of the flat vector are running statistics."""
    sizes = [s.stop - s.start for s in model.spec.slices.values()]
    return np.repeat(model.statistics, sizes)


def pad(x: np.ndarray, before: int) -> np.ndarray:
    return np.pad(x, [(0, 0), (before, 1), (before, 1), (0, 0)])


def by_hand(x: np.ndarray, kernel: np.ndarray, stride: int, before: int) -> np.ndarray:
    """A depthwise 3x3 convolution, pixel by pixel in float64."""
    padded = pad(x, before)
    side = (x.shape[1] + before - 2) // stride + 1
    y = np.empty((len(x), side, side, x.shape[3]))
    for i in range(side):
        for j in range(side):
            window = padded[:, stride * i : stride * i + 3, stride * j : stride * j + 3]
            y[:, i, j] = np.einsum("bhwc,chw->bc", window, kernel)
    return y


def normalised(y: np.ndarray, norm: BatchNorm) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Batch normalisation with Keras' 1e-3, and the statistics after it (momentum 0.99, n - 1)."""
    mean = y.mean(axis=(0, 1, 2))
    variance = y.var(axis=(0, 1, 2))
    z = (y - mean) / np.sqrt(variance + 1e-3) * np.asarray(norm.scale) + np.asarray(norm.bias)
    n = y[..., 0].size
    moved = 0.99 * np.asarray(norm.variance) + 0.01 * variance * n / (n - 1)
    return z, 0.99 * np.asarray(norm.mean) + 0.01 * mean, moved


def drawn_norm(channels: int) -> BatchNorm:
    parts = [jnp.asarray(0.5 + RNG.random(channels, np.float32)) for _ in range(4)]
    return jax.tree.unflatten(jax.tree.structure(BatchNorm(channels)), parts)


@pytest.mark.parametrize(
    ("side", "stride", "same"),
    [(4, 1, True), (4, 2, True), (5, 2, True), (4, 2, False), (1, 1, True)],
)
def test_a_separable_block_by_hand(side: int, stride: int, same: bool) -> None:
    """Depthwise, norm, relu6, pointwise, norm; the last image is padding and does not count."""
    k1, k2 = jax.random.split(jax.random.key(0))
    norms = drawn_norm(8), drawn_norm(16)
    first = Unit(Depthwise(8, k1, stride, same), norms[0], False)
    second = Unit(Conv(8, 16, 1, k2, bias=False), norms[1], True)
    x = (4 * RNG.normal(size=(6, side, side, 8))).astype(np.float32)
    mask = jnp.array([1, 1, 1, 1, 1, 0], jnp.float32)
    got, moved = Chain([first, second], False)(jnp.asarray(x), mask)

    before = 1 if stride == 1 or side % 2 else 0
    y = by_hand(x[:5].astype(np.float64), np.asarray(first.conv.weight)[:, 0], stride, before)
    z, *statistics = normalised(y, norms[0])
    z = np.clip(z, 0, 6) @ np.asarray(second.conv.weight)[:, :, 0, 0].T
    expected, *others = normalised(z, norms[1])
    np.testing.assert_allclose(got[:5], expected, rtol=1e-3, atol=1e-3)
    for unit, pair in zip(moved.units, (statistics, others), strict=True):
        assert isinstance(unit.norm, BatchNorm)
        np.testing.assert_allclose((unit.norm.mean, unit.norm.variance), pair, rtol=1e-4, atol=1e-5)


def test_the_last_row_of_an_odd_image() -> None:
    """Keras' MobileNet pads after the image only, so that 5 pixels give 2, where TensorFlow's rule
    gives 3."""
    x = RNG.normal(size=(2, 5, 5, 8)).astype(np.float32)
    conv = Depthwise(8, jax.random.key(0), 2, same=False)
    expected = by_hand(x, np.asarray(conv.weight)[:, 0], 2, 0)
    assert expected.shape[1] == 2
    np.testing.assert_allclose(conv(jnp.asarray(x)), expected, rtol=1e-4, atol=1e-5)


def test_padding_does_not_count() -> None:
    """A short batch, filled up by repetition,
    gives the scores and statistics of the batch itself."""
    model = small(BatchNorm)
    w = weights(model)
    x = RNG.random((5, *SMALL), np.float32)
    alone = fitted(model, w, x[:3], np.ones(3))
    filled = fitted(model, w, x, np.array([1, 1, 1, 0, 0]))
    np.testing.assert_allclose(filled[0][:3], alone[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(filled[1], alone[1], rtol=1e-5, atol=1e-6)
    assert (alone[1] != w)[kept(model)].mean() > 0.9  # statistics move
    np.testing.assert_array_equal(alone[1][~kept(model)], w[~kept(model)])  # and nothing else
    assert np.abs(fitted(model, w, x, np.ones(5))[0][:3] - alone[0]).max() > 1e-3


def test_one_sample() -> None:
    """Its mean is itself: nothing is divided by zero."""
    norm = drawn_norm(8)
    y, moved = norm(jnp.full((2, 1, 1, 8), 3.0), jnp.array([1.0, 0.0]))
    np.testing.assert_allclose(y[0, 0, 0], norm.bias, atol=1e-5)
    np.testing.assert_allclose(moved.variance, 0.99 * np.asarray(norm.variance), rtol=1e-6)


def test_inference_takes_the_running_statistics() -> None:
    """So a sample's score does not depend on its neighbours, while training's does and forgets the
    statistics."""
    model = small(BatchNorm)
    w = weights(model)
    x = RNG.random((3, *SMALL), np.float32)
    moved = w.copy()
    moved[kept(model)] *= 1.5
    one = scores(model, w, x[:1])
    all_three = scores(model, w, x)
    np.testing.assert_allclose(all_three[:1], one, rtol=1e-4, atol=1e-5)
    assert np.abs(scores(model, moved, x) - all_three).max() > 1e-2
    np.testing.assert_array_equal(
        fitted(model, moved, x, np.ones(3))[0], fitted(model, w, x, np.ones(3))[0]
    )
    assert np.abs(fitted(model, w, x, np.ones(3))[0] - all_three).max() > 1e-2


def test_group_norm_by_hand() -> None:
    """Each image and each 8 channels by themselves."""
    norm = GroupNorm(16)
    scale, bias = RNG.random((2, 16), np.float32)
    norm = jax.tree.unflatten(jax.tree.structure(norm), [jnp.asarray(scale), jnp.asarray(bias)])
    x = (3 + RNG.normal(size=(2, 3, 3, 16))).astype(np.float32)
    expected = np.empty(x.shape)
    for image in range(2):
        for group in (slice(0, 8), slice(8, 16)):
            part = x[image, :, :, group].astype(np.float64)
            expected[image, :, :, group] = (part - part.mean()) / np.sqrt(part.var() + 1e-3)
    for mask in (None, jnp.array([1.0, 0.0])):
        np.testing.assert_allclose(
            norm(jnp.asarray(x), mask)[0], expected * scale + bias, rtol=1e-4, atol=1e-4
        )


def test_group_norm_does_not_see_the_batch() -> None:
    model = small(GroupNorm, rate=0.5)
    w = weights(model)
    x = RNG.random((3, *SMALL), np.float32)
    assert model.fit is None and not model.statistics
    np.testing.assert_allclose(
        scores(model, w, x)[1:2], scores(model, w, x[1:2]), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("norm", [BatchNorm, GroupNorm])
def test_dropout_acts_in_training_only(norm: type[BatchNorm] | type[GroupNorm]) -> None:
    """Everything before the head is left out but for a share of 1e-4: the scores are the head's
    bias."""
    model = small(norm, rate=0.9999)
    w = weights(model)
    x = RNG.random((3, *SMALL), np.float32)
    wet = (
        scores(model, w, x, jax.random.key(0))
        if model.fit is None
        else fitted(model, w, x, np.ones(3))[0]
    )
    np.testing.assert_allclose(wet, np.tile(w[model.spec.head_bias], (3, 1)), rtol=1e-6)
    np.testing.assert_array_equal(scores(model, w, x), scores(small(norm), w, x))


def test_equal_options_give_the_same_model() -> None:
    assert mobilenet(data(COLOUR)) is mobilenet(data(COLOUR), "batch", 0.001)
    assert mobilenet(data(COLOUR)) is not mobilenet(data(COLOUR), "group")
    assert mobilenet_v2(data(COLOUR), dropout=0.0) is mobilenet_v2(data(COLOUR))


@pytest.mark.parametrize(
    ("options", "shape", "said"),
    [
        ({}, (28, 28), r"at least 32 x 32, got 28 x 28.*size=32"),
        ({}, (60,), "needs images"),
        ({"dropout": 1.0}, COLOUR, r"dropout.*1\.0"),
        ({"dropout": -0.1}, COLOUR, "dropout"),
        ({"dropout": float("nan")}, COLOUR, "dropout"),
    ],
)
@pytest.mark.parametrize("name", MAKERS)
def test_refused_options(
    name: str, options: dict[str, Any], shape: tuple[int, ...], said: str
) -> None:
    with pytest.raises(ModelError, match=said):
        MAKERS[name](data(shape), **options)
