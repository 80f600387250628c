"""The static options of a training program, and its optimiser."""

from __future__ import annotations

from typing import NamedTuple

import optax


class Recipe(NamedTuple):
    """Static options of a training program; learning rate, mu and class weights are arguments."""

    optimizer: str
    momentum: float
    proximal: bool
    lanes: int
    # Whether to compute the gradient of the full loss at the start as well, from the batches of the
    # first epoch.
    gradient: bool = False
    detects: bool = False  # models are detectors
    weight_decay: float = 0.0
    nesterov: bool = False
    clip_norm: float | None = None
    label_smoothing: float = 0.0
    precision: str | None = None  # bfloat16; None: float32
    inner_steps: int = 0  # inner steps of the Moreau envelope; 0: training on the loss itself


def direction(recipe: Recipe) -> optax.GradientTransformation:
    """The optimiser without its learning rate, by Optax: clipping, L2 weight decay, direction,
    decoupled decay."""
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
    if not parts:
        return optax.identity()
    return parts[0] if len(parts) == 1 else optax.chain(*parts)
