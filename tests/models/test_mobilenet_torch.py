"""MobileNet and MobileNetV2 against the same networks in PyTorch, where it is installed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedkin.models.model import Model, flatten
from tests.models.test_mobilenet import COLOUR, MAKERS, RNG, kept, weights
from tests.models.test_networks import data


def peer(name: str) -> Any:
    """The same network in PyTorch, its parameters in our order."""
    nn = pytest.importorskip("torch").nn
    momentum = {"mobilenet": 0.01, "mobilenet_v2": 0.001}[name]

    def unit(
        i: int, o: int, size: int = 1, stride: int = 1, groups: int = 1, linear: bool = False
    ) -> list[Any]:
        around = [nn.ZeroPad2d((0, 1, 0, 1))] if stride == 2 else []
        conv = nn.Conv2d(
            i, o, size, stride, size // 2 if stride == 1 else 0, groups=groups, bias=False
        )
        return [*around, conv, nn.BatchNorm2d(o, 1e-3, momentum), *([] if linear else [nn.ReLU6()])]

    class Residual(nn.Sequential):
        def forward(self, x: Any) -> Any:
            return x + super().forward(x)

    layers = unit(3, 32, 3, 2)
    i = 32
    if name == "mobilenet":
        for o, stride in zip(
            [64, 128, 128, 256, 256, *[512] * 6, 1024, 1024],
            [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1],
            strict=True,
        ):
            layers += unit(i=i, o=i, size=3, stride=stride, groups=i) + unit(i, o)
            i = o
    else:
        for t, c, n, s in [
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ]:
            for stride in [s] + [1] * (n - 1):
                wide = t * i
                expand = unit(i, wide) if t > 1 else []
                layers += [
                    (Residual if i == c and stride == 1 else nn.Sequential)(
                        *expand,
                        *unit(i=wide, o=wide, size=3, stride=stride, groups=wide),
                        *unit(wide, c, linear=True),
                    )
                ]
                i = c
        layers = layers + unit(i, 1280)
        i = 1280
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, 10))


def same_weights(network: Any, model: Model, w: np.ndarray) -> list[Any]:
    """Fill the PyTorch network; its tensors in the order of the flat vector."""
    torch = pytest.importorskip("torch")
    tensors = [
        t for key, t in network.state_dict(keep_vars=True).items() if "num_batches" not in key
    ]
    for tensor, part in zip(tensors, model.spec.slices.values(), strict=True):
        with torch.no_grad():
            tensor.copy_(torch.from_numpy(w[part]).reshape(tensor.shape))
    return tensors


@pytest.mark.parametrize("name", MAKERS)
def test_the_whole_network_against_pytorch(name: str) -> None:
    """Scores in training and inference, running statistics, and the gradient of the loss."""
    torch = pytest.importorskip("torch")
    model = MAKERS[name](data(COLOUR), dropout=0.0)
    network = peer(name)
    w = weights(model)
    y = np.array([3, 1, 4, 1])
    x = (2 * RNG.random((4, *COLOUR)) - 1).astype(np.float32)
    tensors = same_weights(network, model, w)
    images = torch.from_numpy(x.transpose(0, 3, 1, 2).copy())
    inferred = jax.jit(lambda w: model.apply(model.unflatten(w), jnp.asarray(x), None))(w)
    np.testing.assert_allclose(inferred, network.eval()(images).detach(), rtol=2e-3, atol=2e-3)

    def loss(tree: Any) -> tuple[jax.Array, tuple[jax.Array, Any]]:
        assert model.fit is not None
        got, moved = model.fit(tree, jnp.asarray(x), jnp.ones(4), None)
        return -jnp.mean(jax.nn.log_softmax(got)[jnp.arange(4), y]), (got, moved)

    tree = model.unflatten(jnp.asarray(w))
    gradient, (got, moved) = jax.jit(jax.grad(loss, has_aux=True))(tree)
    theirs = network.train()(images)
    torch.nn.functional.cross_entropy(theirs, torch.from_numpy(y)).backward()
    np.testing.assert_allclose(got, theirs.detach(), rtol=1e-2, atol=1e-2)
    statistics = np.concatenate([t.detach().numpy().ravel() for t in tensors])
    np.testing.assert_allclose(flatten(moved), statistics, rtol=1e-3, atol=1e-4)
    ours = np.asarray(flatten(gradient))[~kept(model)]
    expected = np.concatenate([t.grad.numpy().ravel() for t in tensors if t.grad is not None])
    assert np.linalg.norm(ours - expected) < 1e-2 * np.linalg.norm(expected)
