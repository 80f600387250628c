"""Replaces a model's last layer by a random projection, so that the outputs describe the features
before this layer (FLUX, FEROMA).

Shapes: P parameters, C classes, H inputs of the last layer.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from fedkin.core.errors import MethodError
from fedkin.core.model_spec import ModelSpec
from fedkin.measures.descriptors import random_axes


def class_count(spec: ModelSpec) -> int:
    """Number of classes C of a model, from the length of its last layer's bias. Raises MethodError
    if the last layer is unknown."""
    if spec.head is None or spec.head_bias is None:
        raise MethodError(
            "descriptors are taken before a model's last layer, but this model does not end in a "
            "weight [C, H] and a bias [C]: use one that does, such as model.name=mlp"
        )
    return spec.head_bias.stop - spec.head_bias.start


def with_projection(model: Float[np.ndarray, "P"], spec: ModelSpec) -> Float[np.ndarray, "P"]:
    """The model with C random orthonormal axes as its last weight [C, H], and no bias.

    If the model stores the weight as [H, C], the same numbers are read in another order. This gives
    another random projection, which is also the same for all clients.
    """
    classes = class_count(spec)
    projected = model.copy()
    # The last layer has C H weights and C biases.
    inputs = (len(projected[spec.head]) - classes) // classes
    bias = np.zeros(classes)
    projected[spec.head] = np.append(random_axes(inputs, classes), bias)
    return projected
