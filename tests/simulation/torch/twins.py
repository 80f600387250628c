"""PyTorch modules with the layers, the flat vectors and the starts of fedkin's own networks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from torch import nn

from fedkin.models import mclr, mlp
from fedkin.models.model import Model
from fedkin.simulation.torch import torch_model
from fedkin.simulation.torch.model import TorchModel
from tests.simulation import numpy_detectors

HIDDEN = 8
WIDTHS = {
    "mclr": (6, 3),
    "mlp": (6, HIDDEN, 3),
    "linear": (6, 1),
    "small": (6, numpy_detectors.HIDDEN, 1),
}


@dataclass(frozen=True, eq=False)
class StartsLike(TorchModel):
    """A PyTorch model whose weights are drawn by a JAX model."""

    like: Model | None = None

    def initial(self, words: np.ndarray) -> np.ndarray:
        assert self.like is not None
        return self.like.initial(words)


def perceptron(widths: tuple[int, ...]) -> nn.Module:
    """Dense layers with rectified units between them."""
    layers: list[nn.Module] = [nn.Flatten()]
    for i, o in pairwise(widths):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def of_jax(like: Model, widths: tuple[int, ...]) -> StartsLike:
    """The same network in PyTorch."""
    made = torch_model(
        lambda: perceptron(widths), name=f"torch {like.name}", detects=like.spec.detects
    )
    return StartsLike(made.name, made.spec, made.module, made.threads, made.make, like=like)


def pair(name: str, data: Any) -> tuple[Model, StartsLike]:
    """A network of ``WIDTHS`` in JAX and in PyTorch."""
    jax = {
        "mclr": lambda: mclr(data),
        "mlp": lambda: mlp(data, hidden=HIDDEN),
        "linear": numpy_detectors.linear,
        "small": numpy_detectors.small,
    }[name]()
    return jax, of_jax(jax, WIDTHS[name])
