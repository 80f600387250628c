"""The choice of a model for each sample, by the nearest of the models' centroids."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from fedkin.measures.distances import nearest_centre
from fedkin.simulation.workers import AnyModel, ModelWithWorkers

_WIDTH = 64  # samples at a time


def nearest_route(
    model: AnyModel, routes: Float[np.ndarray, "D e"], x: Shaped[np.ndarray, "B ..."]
) -> Int[np.ndarray, "B"]:
    """The number of the nearest centroid of each sample's embedding (the first of ties).

    Args:
        model: the network, whose frozen part embeds samples. Without one, a sample is compared as
            it is.
        routes: the centroids.
        x: samples, of the data's type.
    """
    return nearest_centre(_embeddings(model, x), routes)


def _embeddings(model: AnyModel, x: Shaped[np.ndarray, "B ..."]) -> Float[np.ndarray, "B e"]:
    """The embeddings of samples by the model's frozen network; without one, the samples as rows of
    numbers."""
    if not model.spec.embedding:
        return x.reshape(len(x), -1)
    batches = [x[start : start + _WIDTH] for start in range(0, len(x), _WIDTH)]
    if isinstance(model, ModelWithWorkers):
        return _of_torch(model, batches)
    own: Any = model
    return np.concatenate([np.asarray(own.embedded(own.frozen_arrays, batch)) for batch in batches])


def _of_torch(model: Any, batches: list[np.ndarray]) -> Float[np.ndarray, "B e"]:
    """The embeddings of batches by the frozen network of a PyTorch model."""
    import torch

    from fedkin.simulation.torch.flat_module import to_tensor

    with model.torch_settings(), torch.inference_mode():
        return np.concatenate([part.numpy() for part in model.embedded(map(to_tensor, batches))])
