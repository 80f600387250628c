"""Mixed precision: a network computes in bfloat16. Its parameters, its loss and the optimiser's
steps stay in float32.

Source: Kalamkar et al., A Study of BFLOAT16 for Deep Learning Training (2019), arXiv 1905.12322.
bfloat16 has the range of float32, so the loss needs no scaling.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedkin.models.model import Model, Tree


def in_bfloat16(model: Model) -> Model:
    """The model with outputs computed in bfloat16 and returned as float32.

    Args:
        model: a model without running statistics, since bfloat16 would round these.
    """
    fit = model.fit

    def apply(w: Tree, x: Array, key: Array | None) -> Array:
        return model.apply(rounded(w), rounded(x), key).astype(jnp.float32)

    def fitted(w: Tree, x: Array, mask: Float[Array, "B"], key: Array | None) -> tuple[Array, Tree]:
        assert fit is not None
        scores, _ = fit(rounded(w), rounded(x), mask, key)
        return scores.astype(jnp.float32), w  # no running statistics, so w is unchanged

    return replace(model, apply=apply, fit=None if fit is None else fitted)


def rounded(tree: Any) -> Any:
    """A tree of arrays in which floating-point numbers are rounded to bfloat16."""
    return jax.tree.map(
        lambda a: a.astype(jnp.bfloat16) if jnp.issubdtype(a.dtype, jnp.floating) else a, tree
    )
