"""The static options of a training program, and the optimiser that they describe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Recipe(NamedTuple):
    """Options that a training program is compiled for; another value needs another program.

    Learning rate, mu and class weights are arguments of the program instead.
    """

    optimizer: str
    momentum: float
    proximal: bool  # whether FedProx's term mu/2 |w - start|^2 is added
    lanes: int  # rows that a device trains in parallel
    # Whether to compute also the gradient of the full loss at the start, from the batches of the
    # first epoch.
    gradient: bool = False
    detects: bool = False  # models are detectors
    weight_decay: float = 0.0
    nesterov: bool = False
    clip_norm: float | None = None
    label_smoothing: float = 0.0
    precision: str | None = None  # "bfloat16"; None for float32
    # Gradient steps to the minimiser in the Moreau envelope (pFedMe); 0: no envelope.
    inner_steps: int = 0


class DirectionRule(NamedTuple):
    """An optimiser without its learning rate, in the form of Optax's ``GradientTransformation``.

    Attributes:
        init: from parameters to the optimiser's memory.
        update: from a gradient, the memory and parameters to a direction and the new memory.
    """

    init: Callable[[Any], Any]
    update: Callable[[Any, Any, Any], tuple[Any, Any]]


# Plain gradient descent: the direction is the gradient, and there is no memory.
_PLAIN = DirectionRule(
    init=lambda parameters: (),
    update=lambda gradient, memory, parameters: (gradient, memory),
)


def direction(recipe: Recipe) -> Any:
    """The optimiser without its learning rate: a ``DirectionRule``, or Optax's object of its form.

    The optimiser changes a gradient in this order: clipping, L2 weight decay, direction, decoupled
    weight decay.
    """
    plain = recipe.optimizer == "sgd" and not (recipe.momentum or recipe.weight_decay)
    if plain and recipe.clip_norm is None:
        return _PLAIN
    import optax  # plain gradient descent does without it, and starts faster

    parts = []
    if recipe.clip_norm is not None:
        parts.append(optax.clip_by_global_norm(recipe.clip_norm))
    decay = [optax.add_decayed_weights(recipe.weight_decay)] if recipe.weight_decay else []
    if recipe.optimizer == "adamw":
        parts += [optax.scale_by_adam(), *decay]
    elif recipe.optimizer == "adam":
        parts += [*decay, optax.scale_by_adam()]
    else:
        parts += decay
        if recipe.momentum:
            parts.append(optax.trace(recipe.momentum, recipe.nesterov))
    return parts[0] if len(parts) == 1 else optax.chain(*parts)
