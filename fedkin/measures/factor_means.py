"""What the mean of low-rank factors loses against the mean of their products. Shapes: n clients, P
parameters of an adapter's model."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from fedkin.core.errors import ModelError
from fedkin.core.model_spec import Factor, ModelSpec


def product(factor: Factor, flat: Float[np.ndarray, "P"]) -> Float[np.ndarray, "o i"]:
    """The change of a layer's weight, scale B A, in float64.

    Args:
        factor: where A and B lie in the flat vector.
        flat: the parameters of one model.

    Raises:
        ModelError: A is frozen, so it is not in the vector.
    """
    if factor.a is None:
        raise ModelError(f"A of the layer {factor.layer} is frozen, so it is not in the vector")
    a = flat[factor.a].reshape(factor.rank, -1).astype(np.float64)
    b = flat[factor.b].reshape(-1, factor.rank).astype(np.float64)
    return factor.scale * (b @ a)


def factor_mean_error(
    models: Float[np.ndarray, "n P"], spec: ModelSpec, weights: Float[np.ndarray, "n"] | None = None
) -> float:
    """Relative error of averaging factors: the norm of mean(B) mean(A) - mean(B A) over all layers,
    divided by the norm of mean(B A).

    It is 0 if all clients have the same A, as with ``train="B"``.

    Args:
        models: the clients' models after training.
        spec: layout of the model.
        weights: weights of the clients in means, such as numbers of samples; None: equal.

    Raises:
        ModelError: the model has no low-rank factors.
    """
    if not spec.factors:
        raise ModelError("the model has no low-rank factors; make it with fk.lora")
    if all(factor.a is None for factor in spec.factors):
        return 0.0
    shares = np.full(len(models), 1 / len(models))
    if weights is not None:
        shares = np.asarray(weights, np.float64) / np.sum(weights)
    mean = shares @ models.astype(np.float64)
    lost = 0.0
    whole = 0.0
    for factor in spec.factors:
        products = np.stack([product(factor, model) for model in models])
        ideal = np.tensordot(shares, products, axes=1)
        lost += float(np.sum((product(factor, mean) - ideal) ** 2))
        whole += float(np.sum(ideal**2))
    return float(np.sqrt(lost / whole)) if whole else 0.0
