"""The operations of convolutional networks, by which the benchmark divides."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from benchmarks.convolution_layers import LAYERS, passes_of
from benchmarks.convolutions import COHORT, VARIANTS
from benchmarks.turns import federated
from benchmarks.work import BATCH, clients, flops_per_sample
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


@pytest.mark.parametrize("network", VARIANTS)
def test_layers_are_those_of_the_network(network: str) -> None:
    """A step has two passes over the first layer and three over each other one."""
    dense = {
        "CNN": 7 * 7 * 64 * 10,
        "FEMNIST's CNN": 1024 * 128 + 128 * 10,
        "FashionMNIST's CNN": 7 * 7 * 64 * 1024 + 1024 * 10,
    }
    first, *others = [layer.operations / BATCH for layer in LAYERS[network]]
    convolutions = 2 * first + 3 * sum(others)
    assert convolutions + 3 * 2 * dense[network] == flops_per_sample(network)


def test_the_passes_over_a_layer_run() -> None:
    for one in passes_of(LAYERS["CNN"][1]).values():
        one.run(0)
