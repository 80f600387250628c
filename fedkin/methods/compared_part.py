"""The part of an update by which clients are compared.

A model with low-rank adapters has three kinds of parameters: A, B and the last layer. Updates of A
do not tell clients apart whose labels mean other things; B and the last layer do (see the picture
in docs/adapters.md). The option ``part`` of methods is our addition. With ``all``, its default,
methods compare what their papers compare.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float

from fedkin.core.errors import MethodError
from fedkin.core.model_spec import ModelSpec

Part = Literal["all", "adapter", "B", "head"]
PARTS: tuple[Part, ...] = get_args(Part)


def only_part(
    updates: Float[np.ndarray, "n P"], spec: ModelSpec, part: Part
) -> Float[np.ndarray, "n P"]:
    """Updates with zeros outside of the compared part, so that distances and cosines are those of
    the part.

    Args:
        updates: updates of clients.
        spec: layout of the model.
        part: ``all`` parameters; ``adapter``: A and B; ``B``; or ``head``: the last layer.

    Raises:
        MethodError: the model has no such part.
    """
    if part == "all":
        return updates
    return np.where(is_compared(spec, part), updates, np.float32(0))


def is_compared(spec: ModelSpec, part: Part) -> Bool[np.ndarray, "P"]:
    """Whether each parameter belongs to a part."""
    slices: list[slice] = []
    if part == "head":
        slices = [] if spec.head is None else [spec.head]
    else:
        slices = [factor.b for factor in spec.factors]
    if part == "adapter":
        slices += [factor.a for factor in spec.factors if factor.a is not None]
    if not slices:
        what = "a known last layer" if part == "head" else "low-rank adapters (fk.lora)"
        raise MethodError(
            f"part={part!r} needs a model with {what}, but this model has none; use part='all'"
        )
    mask = np.zeros(spec.parameters, bool)
    for columns in slices:
        mask[columns] = True
    return mask
