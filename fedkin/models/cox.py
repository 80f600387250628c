"""Cox's proportional-hazards model on risk sets (``fedkin.data.survival``)."""

from __future__ import annotations

from functools import lru_cache

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedkin.core.errors import ModelError
from fedkin.core.plain import plain_arguments
from fedkin.models.model import Model, Samples, as_model
from fedkin.models.perceptron import Perceptron, features, hidden_widths

ABSENT = -1e9  # the score of a place without a patient: never the highest, and nothing in a softmax


@plain_arguments
def cox(data: Samples, hidden: int | tuple[int, ...] = ()) -> Model:
    """Cox model: the risk of each patient of a risk set; linear, or a perceptron as in DeepSurv
    (Katzman et al. 2018).

    The softmax over a sample's patients is a factor of the partial likelihood, so that the usual
    cross entropy is the Cox loss, and accuracy on pairs is the C-index. Of deaths at the same time
    by Efron, the loss is Efron's but for a constant of the data, log(1 - k / d) of the k-th of d
    deaths; gradients are the same.

    Args:
        data: risk sets, such as ``fedkin.data.tcga_brca()``: x [M, m, d + 1], the last feature a
            patient's weight: 1, less for deaths at the same time by Efron, 0 for an absent patient.
        hidden: widths of hidden layers.

    Raises:
        ModelError: data that are no risk sets.
    """
    features(data)
    if data.x.ndim != 3 or data.x.shape[1] != data.classes or data.x.shape[2] < 2:
        raise ModelError(
            f"{data.name}: cox needs risk sets [M, m, d + 1] with m classes, such as tcga_brca, "
            f"got samples {list(data.x.shape[1:])} of {data.classes} classes; for other data use "
            "mclr or mlp"
        )
    widths = hidden_widths("cox", hidden)
    return _cox((data.x.shape[2] - 1, *widths, 1))


class RiskSet(eqx.Module):
    """The risks of the patients of each sample, each with the logarithm of its weight."""

    risk: Perceptron

    def __call__(self, x: Float[Array, "B m d"]) -> Float[Array, "B m"]:
        risks = self.risk(x[..., :-1].reshape(-1, x.shape[-1] - 1)).reshape(x.shape[:2])
        weight = x[..., -1]
        present = weight > 0
        weighted = risks + jnp.log(jnp.where(present, weight, 1.0))
        return jnp.where(present, weighted, ABSENT)


@lru_cache(maxsize=16)
def _cox(widths: tuple[int, ...]) -> Model:
    return as_model(
        lambda key: RiskSet(Perceptron(widths, key)),
        name=f"cox-{'-'.join(map(str, widths))}",
        batched=True,
    )
