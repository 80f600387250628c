"""The networks that ``benchmarks.gpu`` compares with FLUTE's: sizes, the numbers of PyTorch, a
round in small."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.flatten_util import ravel_pytree
from torch import Tensor, nn

from benchmarks import flute
from benchmarks.flute import SETTINGS, FluteCNN, ResNet18, round_seconds
from fedkin.models.cnn import ImageShape
from fedkin.models.model import flatten

KEY = jax.random.key(0)


def parameters(network: object) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(network))


def test_sizes_are_the_published_ones() -> None:
    """Reddi et al. print 1,199,882 for 10 classes; torchvision's ResNet-18 has 11,689,512 for 1,000
    classes."""
    assert parameters(eqx.filter_eval_shape(FluteCNN, 10, KEY)) == 1_199_882
    assert (
        parameters(eqx.filter_eval_shape(ResNet18, ImageShape(32, 32, 3), 1000, KEY)) == 11_689_512
    )


def norm(channels: int) -> nn.Module:
    return nn.GroupNorm(channels // 8, channels, eps=1e-3)


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = norm(outputs)
        self.shortcut = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


def torch_resnet(width: int, classes: int) -> nn.Module:
    """Two of the four stages."""
    return nn.Sequential(
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        norm(width),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        Block(width, width, 1),
        Block(width, width, 1),
        Block(width, 2 * width, 2),
        Block(2 * width, 2 * width, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, classes),
    )


def test_resnet_gives_the_scores_of_pytorch() -> None:
    image = ImageShape(16, 16, 3)
    width = 8
    classes = 5
    network = ResNet18(image, classes, KEY, width, stages=2)
    flat = np.array(flatten(eqx.filter(network, eqx.is_inexact_array)))
    # Norms that do something.
    flat += 0.05 * np.random.default_rng(1).standard_normal(len(flat)).astype(np.float32)
    other = torch_resnet(width, classes)
    nn.utils.vector_to_parameters(torch.from_numpy(flat), other.parameters())
    tree, rest = eqx.partition(network, eqx.is_inexact_array)
    own = eqx.combine(ravel_pytree(tree)[1](jnp.asarray(flat)), rest)
    x = np.random.default_rng(0).random((3, *image), np.float32)
    with torch.no_grad():
        expected = other(torch.from_numpy(x.transpose(0, 3, 1, 2).copy())).numpy()
    np.testing.assert_allclose(np.asarray(eqx.filter_jit(own)(x)), expected, atol=1e-4)


@pytest.mark.parametrize("key", [KEY, None])
def test_flutes_cnn_scores_62_classes_with_and_without_dropout(key: jax.Array | None) -> None:
    network = eqx.filter_eval_shape(FluteCNN, 62, KEY)
    x = jax.ShapeDtypeStruct((3, 28, 28, 1), jnp.float32)
    assert eqx.filter_eval_shape(lambda network, x: network(x, key), network, x).shape == (3, 62)


def test_a_round_in_small() -> None:
    small = replace(
        SETTINGS["ResNet-18, CIFAR-100"],
        classes=3,
        samples=2,
        model=lambda data: flute.resnet18(data, 8, 1),
    )
    assert 0 < round_seconds(small, rounds=6, clients=10)


def test_clients_of_a_setting() -> None:
    femnist = SETTINGS["CNN of FLUTE, FEMNIST"]
    cifar = SETTINGS["ResNet-18, CIFAR-100"]
    data = flute.images(femnist, 50)
    assert data.x.shape[1:] == (28, 28, 1) and data.train.sizes.mean() == pytest.approx(198, abs=1)
    assert data.train.sizes.std() > 40
    assert set(flute.images(cifar, 3).train.sizes) == {100}
