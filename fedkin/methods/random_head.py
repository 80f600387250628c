"""What FLUX and FEROMA share: descriptors of clients' data by a model whose last layer is a random
projection, so that its outputs describe the features before this layer; and the training accuracy
by which both end their first phase.

Shapes: P parameters, C classes, H inputs of the last layer, c clients, n of them that reply.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.method import State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.world import World
from fedkin.measures.descriptors import random_axes
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.score_moments import ScoreMoments


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


def descriptors(
    world: World,
    extractor: Float[np.ndarray, "P"],
    clients: Int[np.ndarray, "c"],
    labels: bool = True,
) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n D"]]:
    """Descriptors of clients' data: moments of the extractor's outputs on their training samples.

    Args:
        world: the clients.
        extractor: the model with the projection, which the clients have already
            (``DescribingModel``).
        clients: clients to describe.
        labels: whether to add the moments for each class, for which clients read their labels.

    Returns:
        The clients that replied, and a descriptor of 2C numbers for each, or 2C + 2C^2 with labels.
    """
    reply = world.run(ScoreMoments(extractor, labels), clients)
    replied = clients[reply.arrived]
    classes = class_count(world.spec)
    overall = reply.overall[reply.arrived].reshape(len(replied), 2 * classes)
    if not labels:
        return replied, overall
    by_class = reply.by_class[reply.arrived].reshape(len(replied), 2 * classes**2)
    return replied, np.concatenate([overall, by_class], axis=1)


def training_accuracy(world: World, state: State, cohort: Int[np.ndarray, "c"]) -> float:
    """Mean over a cohort's clients of the accuracy of their models on training samples; NaN if no
    client has replied.

    Args:
        world: the clients.
        state: the models, and the model of each client.
        cohort: the clients.
    """
    scores = evaluate(world, state.models, cohort, state.assignment[cohort], split="train")
    counted = scores.examples > 0
    if not counted.any():
        return np.nan
    return float(np.mean(scores.correct[counted] / scores.examples[counted]))
