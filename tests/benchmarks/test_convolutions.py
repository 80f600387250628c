"""The operations of convolutional networks, by which the benchmark divides."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from benchmarks.convolutions import COHORT, VARIANTS
from benchmarks.turns import federated
from benchmarks.work import clients, flops_per_sample
from fedkin.models.cnn import cnn


@pytest.mark.parametrize("network", VARIANTS)
def test_operations_are_those_of_the_forward_pass_that_xla_counts(network: str) -> None:
    """Forward pass, gradient of the weights and gradient of the input cost the same; the first
    layer needs no gradient of its input. XLA counts pooling and biases. It leaves out products with
    the zeros around an image, up to an eighth of all."""
    data = federated(clients(COHORT))
    variant: Any = VARIANTS[network]
    model = cnn(data, variant=variant, dropout=False)
    x = jnp.asarray(data.x[:1])
    tree = jax.eval_shape(model.init, jax.random.key(0))
    lowered = jax.jit(lambda tree, x: model.apply(tree, x, None)).lower(tree, x)
    analysis = lowered.compile().cost_analysis()
    assert analysis is not None
    counted = analysis["flops"]
    first = {"CNN": 28 * 28 * 9 * 32, "FEMNIST's CNN": 26 * 26 * 9 * 32}
    of_first = 2.0 * first.get(network, 28 * 28 * 25 * 32)
    # All layers three times, but the first one twice.
    forward = (flops_per_sample(network) + of_first) / 3
    assert forward == pytest.approx(counted, rel=0.14)
