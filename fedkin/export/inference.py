"""The scores that one model gives samples, computed as evaluation does, in JAX or PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from fedkin.simulation.workers import AnyModel, ModelWithWorkers

_WIDTH = 64  # samples at a time; JAX compiles for one number of them


def class_scores(
    model: AnyModel, vector: Float[np.ndarray, "P"], x: Shaped[np.ndarray, "B ..."]
) -> Float[np.ndarray, "B S"]:
    """Scores of samples, in inference mode.

    Args:
        model: what computes.
        vector: its weights.
        x: samples in the type of the data, at least one.
    """
    score = _torch_scores if isinstance(model, ModelWithWorkers) else _jax_scores
    return score(model, vector, x)


def _jax_scores(model: Any, vector: Float[np.ndarray, "P"], x: Shaped[np.ndarray, "B ..."]) -> np.ndarray:
    score, parts = _compiled(model), []
    for start in range(0, len(x), _WIDTH):
        block = x[start : start + _WIDTH]
        padding = [(0, _WIDTH - len(block))] + [(0, 0)] * (x.ndim - 1)
        parts.append(np.asarray(score(vector, np.pad(block, padding)))[: len(block)])
    return np.concatenate(parts)


@lru_cache(maxsize=16)
def _compiled(model: Any) -> Callable[..., Any]:
    import jax

    return jax.jit(lambda vector, x: model.apply(model.unflatten(vector), x, None))


def _torch_scores(model: Any, vector: Float[np.ndarray, "P"], x: Shaped[np.ndarray, "B ..."]) -> np.ndarray:
    import torch

    from fedkin.simulation.torch.flat_module import to_tensor

    with model.torch_settings(), torch.inference_mode():
        network = model.network(vector).eval()
        return np.concatenate([network(part).numpy() for part in to_tensor(x).split(_WIDTH)])
