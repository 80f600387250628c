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

# Score of a place without a patient: never the highest, and probability 0 after a softmax.
ABSENT = -1e9


@plain_arguments
def cox(data: Samples, hidden: int | tuple[int, ...] = ()) -> Model:
    """Cox model: a risk score for each patient of a risk set, the patients at risk when one of them
    died.

    The risk is linear, or a perceptron as in DeepSurv (Katzman et al. 2018).

    A sample is a risk set, and its label is the patient who died. The softmax over the patients is
    a factor of the partial likelihood. So the cross entropy is the Cox loss, and the accuracy on
    pairs of patients is the C-index. With Efron's weights for deaths at the same time, the loss
    differs from Efron's only by a number that does not depend on the model (log(1 - k / d) for the
    k-th of d deaths), so gradients are the same.

    Args:
        data: risk sets, such as ``fedkin.data.tcga_brca()``: x [M, m, d + 1]. The last feature is a
            patient's weight: 1, or less with Efron's weights, or 0 for an empty place in the set.
        hidden: widths of hidden layers; none for a linear risk.

    Raises:
        ModelError: the data are not risk sets.
    """
    features(data)
    if data.x.ndim != 3 or data.x.shape[1] != data.classes or data.x.shape[2] < 2:
        raise ModelError(
            f"{data.name}: cox needs risk sets [M, m, d + 1] with m classes, such as tcga_brca, "
            f"but got samples {list(data.x.shape[1:])} of {data.classes} classes; for other data "
            "use mclr or mlp"
        )
    widths = hidden_widths("cox", hidden)
    # The last feature is the patient's weight, which is no input of the network.
    return _cox((data.x.shape[2] - 1, *widths, 1))


class RiskSet(eqx.Module):
    """The network of a Cox model. A sample is a risk set of several patients. The output for each
    patient is risk + log(weight), so that exp(output) = weight * exp(risk)."""

    risk: Perceptron

    def __call__(self, x: Float[Array, "B m d"]) -> Float[Array, "B m"]:
        patients = x[..., :-1].reshape(-1, x.shape[-1] - 1)
        risks = self.risk(patients).reshape(x.shape[:2])
        weight = x[..., -1]
        present = weight > 0
        # log(0) would make gradients NaN, even where its result is not used.
        weighted = risks + jnp.log(jnp.where(present, weight, 1.0))
        return jnp.where(present, weighted, ABSENT)


@lru_cache(maxsize=16)
def _cox(widths: tuple[int, ...]) -> Model:
    """The Cox model with these layer widths. It is cached, so equal widths return the same
    object."""
    return as_model(
        lambda key: RiskSet(Perceptron(widths, key)),
        name=f"cox-{'-'.join(map(str, widths))}",
        batched=True,
    )
