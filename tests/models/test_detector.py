"""ATHENA-FL's two small networks: the detector of one class, and the sigmoids within a hierarchical
cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedkin.core.errors import ModelError
from fedkin.models import cnn, detector
from fedkin.models.model import Model
from tests.models.test_networks import assert_covers, data, scores

COLOUR = (32, 32, 3)


def reference(model: Model, w: np.ndarray, x: np.ndarray, paddings: tuple[str, ...]) -> np.ndarray:
    """conv, relu, pool for each padding, dense, relu, dense, by XLA's own operations in the order
    of the text."""
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(model.unflatten(jnp.asarray(w)))]
    parts = [
        w[s].reshape(shape) for s, shape in zip(model.spec.slices.values(), shapes, strict=True)
    ]
    y = jnp.asarray(x)
    for n, padding in enumerate(paddings):
        kernel, bias = (jnp.asarray(part) for part in parts[2 * n : 2 * n + 2])
        y = jax.lax.conv_general_dilated(
            y, kernel, (1, 1), padding, dimension_numbers=("NHWC", "OIHW", "NHWC")
        )
        y = jax.lax.reduce_window(
            jax.nn.relu(y + bias), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        )
    wide, wide_bias, head, head_bias = parts[-4:]
    return (
        np.maximum(np.asarray(y).reshape(len(x), -1) @ wide.T + wide_bias, 0) @ head.T + head_bias
    )


def moved_weights(model: Model) -> np.ndarray:
    """Biases that are not zero, so that one that is left out is noticed."""
    rng = np.random.Generator(np.random.PCG64(3))
    return model.initial(np.array([1, 2], np.uint32)) + 0.05 * rng.normal(
        size=model.spec.parameters
    ).astype(np.float32)


def test_parameters_of_a_detector(oracle: Callable[[str], dict[str, Any]]) -> None:
    spec = detector(data(COLOUR)).spec
    assert spec.parameters == oracle("misc")["parameter_counts"]["athena_detector_cifar"] == 131_233
    assert spec.detects
    assert_covers(spec)
    assert spec.head == slice(131_233 - 513, 131_233) and spec.head_bias == slice(131_232, 131_233)


def test_scores_of_a_detector() -> None:
    d = data(COLOUR)
    model = detector(d)
    w = moved_weights(model)
    expected = reference(model, w, d.x, ("SAME",) * 5)
    assert expected.shape == (3, 1)
    np.testing.assert_allclose(scores(model, w, d.x), expected, rtol=1e-3, atol=1e-3)


def test_larger_and_flat_images() -> None:
    """Five halvings of 64 x 40 leave 2 x 1 pixels of 64 channels; 32 x 32 may come flat."""
    expected = 131_233 - 9 * 16 * 2 + 64 * 512
    assert detector(data((64, 40, 1))).spec.parameters == expected
    assert detector(data((1024,))) is detector(data((32, 32))) is detector(data((32, 32, 1)))


@pytest.mark.parametrize("shape", [(28, 28, 1), (784,), (40, 31, 3)])
def test_small_images_are_refused_with_the_way_out(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=r"at least 32 x 32.*size=32 resizes"):
        detector(data(shape))


def test_a_detector_needs_images() -> None:
    with pytest.raises(ModelError, match="needs images"):
        detector(data((60,)))


def test_parameters_of_the_cluster_network() -> None:
    """32 x 32 halves to 16, loses 2 and halves to 7, loses 2 and halves to 2, halves to 1: 128
    features."""
    model = cnn(data(COLOUR), "athena")
    convolutions = (9 * 3 + 1) * 32 + (9 * 32 + 1) * 64 + (9 * 64 + 1) * 128 + (9 * 128 + 1) * 128
    assert model.spec.parameters == convolutions + 129 * 512 + 513 * 10
    assert model.spec.head == slice(model.spec.parameters - 5130, model.spec.parameters)
    assert model.spec.head_bias == slice(model.spec.parameters - 10, model.spec.parameters)
    assert not model.random and not model.spec.detects


def test_the_cluster_network_scores_with_the_input_of_the_sigmoid() -> None:
    """Keras' sparse categorical cross entropy takes the softmax of it, and not of the sigmoids."""
    d = data(COLOUR)
    model = cnn(d, "athena")
    w = moved_weights(model)
    expected = reference(model, w, d.x, ("SAME", "VALID", "VALID", "SAME"))
    np.testing.assert_allclose(scores(model, w, d.x), expected, rtol=1e-3, atol=1e-4)
    assert np.ptp(expected) > 0.5


def test_the_cluster_network_on_smaller_images() -> None:
    assert (
        cnn(data((28, 28)), "athena").spec.parameters
        == cnn(data((32, 32)), "athena").spec.parameters
    )
    with pytest.raises(ModelError, match="at least 28 x 28"):
        cnn(data((27, 32)), "athena")
