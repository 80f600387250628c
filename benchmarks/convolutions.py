"""Local training of the authors' convolutional networks, next to a matrix product in the same run.

    python -m benchmarks.convolutions [--turns 9] [--write]

A round trains 20 clients of 60 samples in the mean, with five epochs in batches of 10. Rounds and
products take turns. A share is the operations of a round in a second, divided by those of the
product: the median over the turns, and their range. The product is of two 2048 x 2048 matrices in
float32, on all cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.report import OF_CONVOLUTIONS
from benchmarks.tables import put
from benchmarks.turns import federated, take_turns
from benchmarks.work import BATCH, LR, clients, flops_per_sample
from benchmarks.work import steps as steps_of
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.models.cnn import cnn
from fedkin.models.model import prepare_jax
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.train import train

PAGE = Path("docs/benchmarks.md")
HEAD = ["network", "parameters", "milliseconds a step", "GFLOP/s", "share of the matrix product"]
VARIANTS = {"CNN": "mnist", "FEMNIST's CNN": "femnist", "FashionMNIST's CNN": "fashion_mnist"}
COHORT = 20
EPOCHS = 5
SIDE = 2048  # of the matrices
PRODUCT = "product"


def rounds_of(network: str) -> tuple[Callable[[int], object], int]:
    """A round of a network, and its number of parameters."""
    data = federated(clients(COHORT))
    model = cnn(data, variant=VARIANTS[network])
    world = SimulatedWorld(data, model, LocalTraining(epochs=EPOCHS, batch_size=BATCH, lr=LR))
    start = world.initial(Stream(0))[None]
    everyone = np.arange(COHORT)
    first = np.zeros(COHORT, np.int64)

    def turn(number: int) -> object:
        return train(world, start, everyone, first, reduce=True, stream=Stream(0, number))

    return turn, model.spec.parameters


def product() -> Callable[[int], object]:
    """The matrix product."""
    matrix = jnp.asarray(np.random.default_rng(0).random((SIDE, SIDE), np.float32))
    multiply = jax.jit(jnp.matmul)
    return lambda turn: multiply(matrix, matrix).block_until_ready()


def row(network: str, turns: int) -> list[str]:
    """A line of the table."""
    sizes = clients(COHORT).sizes
    turn, parameters = rounds_of(network)
    seconds = take_turns({network: turn, PRODUCT: product()}, turns)
    operations = flops_per_sample(network) * sizes.sum() * EPOCHS
    speed = operations / seconds[network]
    shares = 100 * speed / (2 * SIDE**3 / seconds[PRODUCT])
    steps = steps_of(sizes, EPOCHS)
    return [
        network,
        f"{parameters:,}",
        f"{1000 * np.median(seconds[network]) / steps:.2f}",
        f"{np.median(speed) / 1e9:.0f}",
        f"**{np.median(shares):.0f} %** ({shares.min():.0f}-{shares.max():.0f})",
    ]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    options = parser.parse_args()
    prepare_jax()
    rows = [row(network, options.turns) for network in VARIANTS]
    print("\n".join(" | ".join(line) for line in [HEAD, *rows]))
    if options.write:
        put(PAGE, OF_CONVOLUTIONS, HEAD, rows)


if __name__ == "__main__":
    main()
