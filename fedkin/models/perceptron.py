"""Logistic regression and the multi-layer perceptron, with the parameter counts of the papers.

Equal shapes and options return the same ``Model`` object, so a second run reuses its compiled
programs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedkin.core.errors import ModelError
from fedkin.core.plain import plain_arguments
from fedkin.models.layers import Dense
from fedkin.models.model import Model, Samples, Tree, as_model, check_samples
from fedkin.task_types.survival import Survival


@plain_arguments
def mclr(data: Samples, l2: float = 0.0) -> Model:
    """Multinomial logistic regression: features -> classes (784-10: 7,850 parameters).

    Args:
        data: numeric features.
        l2: weight of the sum of squared kernel entries in the training loss. FlexCFL uses 0.001.
            The code of FedGroup and FedSim sets it too, but in a way that has no effect.

    Raises:
        ModelError: the data are text or risk sets.
    """
    refuse_risk_sets("mclr", data)
    return _perceptron((features(data), data.classes), l2)


@plain_arguments
def mlp(data: Samples, hidden: int | tuple[int, ...] = 128, l2: float = 0.0) -> Model:
    """Multi-layer perceptron with rectified linear units (784-128-10: 101,770 parameters;
    784-512-10: 407,050).

    FedSim's network for MEx (Table 5; 1,280 features, 7 classes) is ``hidden=(1280, 640, 120)``.

    Args:
        data: numeric features.
        hidden: width of the hidden layer, or a tuple, list or array with the width of each layer.
        l2: weight of the squared kernels in the loss, as in ``mclr``.

    Raises:
        ModelError: the data do not fit, or a width is missing or invalid.
    """
    widths = hidden_widths("mlp", hidden)
    if not widths:
        raise ModelError(
            "mlp: hidden names no width; give one or more, such as 128 or (128, 64), or use mclr"
        )
    refuse_risk_sets("mlp", data)
    return _perceptron((features(data), *widths, data.classes), l2)


def hidden_widths(model: str, hidden: Any) -> tuple[int, ...]:
    """Widths of hidden layers as a tuple.

    Args:
        model: name of the model, for messages.
        hidden: a width, or a tuple of widths.

    Raises:
        ModelError: a width is not a whole number of at least 1.
    """
    widths = hidden if isinstance(hidden, tuple) else (hidden,)
    for width in widths:
        if isinstance(width, bool) or not isinstance(width, int) or width < 1:
            raise ModelError(
                f"{model}: hidden must be whole numbers of at least 1, such as 128 or (128, 64); "
                f"got {width!r}"
            )
    return widths


class Perceptron(eqx.Module):
    """Dense layers with rectified linear units between them, on a batch of flattened samples."""

    layers: list[Dense]

    def __init__(self, widths: tuple[int, ...], key: Array) -> None:
        keys = jax.random.split(key, len(widths) - 1)
        sizes = zip(widths[:-1], widths[1:], keys, strict=True)
        self.layers = [Dense(inputs, outputs, layer_key) for inputs, outputs, layer_key in sizes]

    def __call__(self, x: Float[Array, "B ..."]) -> Float[Array, "B C"]:
        x = x.reshape(len(x), -1)
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x)


def features(data: Samples) -> int:
    """Number of features of a sample. Raises ModelError for text, and for an object that is not
    federated data."""
    check_samples(data)
    if not np.issubdtype(data.x.dtype, np.floating):
        text = getattr(data, "vocabulary", None) is not None
        actual = f"text (word numbers, {data.x.dtype}): use rnn or lstm" if text else data.x.dtype
        raise ModelError(f"{data.name}: this model needs numeric features, got {actual}")
    return int(np.prod(data.x.shape[1:]))


def refuse_risk_sets(model: str, data: Samples) -> None:
    """Raise ModelError for survival data, whose samples are risk sets of patients in any order.

    Args:
        model: name of the model, for the message.
        data: the data.
    """
    if isinstance(getattr(data, "task_type", None), Survival):
        raise ModelError(
            f"{data.name}: {model} has a weight for each place of a risk set, but the patients in "
            "it have any order; use fk.models.cox(data), or model.name=cox"
        )


def kernel_penalty(l2: float) -> Callable[[Tree], Array] | None:
    """A function that gives l2 times the sum of squares of the dense kernels, as in Keras' loss."""
    if not (np.isfinite(l2) and l2 >= 0):
        raise ModelError(f"l2 must be zero or a positive number, got {l2}")

    def penalty(tree: Tree) -> Array:
        """l2 times the sum of squares of the kernels, which are the arrays with two axes; biases
        have one."""
        kernels = [leaf for leaf in jax.tree.leaves(tree) if leaf.ndim == 2]
        return jnp.float32(l2) * sum(jnp.sum(kernel**2) for kernel in kernels)

    return penalty if l2 else None


@lru_cache(maxsize=64)
def _perceptron(widths: tuple[int, ...], l2: float) -> Model:
    """The perceptron for options that have been checked. It is cached, so equal options return the
    same object."""
    kind = "mlp" if len(widths) > 2 else "mclr"
    return as_model(
        lambda key: Perceptron(widths, key),
        name=f"{kind}-{'-'.join(map(str, widths))}",
        batched=True,
        penalty=kernel_penalty(l2),
    )
