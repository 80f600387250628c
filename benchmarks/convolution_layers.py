"""Each convolution of the authors' networks on one core, next to a matrix product in the same run.

    python -m benchmarks.convolution_layers [--turns 9] [--write]

A batch has ten images. The forward pass and both gradients take turns with the product of two
2048 x 2048 matrices in float32. The clock counts the processor time of this process, so other
programs disturb it little. A share is the speed of the multiply-adds of a layer, divided by the
speed of the product: the median over the turns. The last row of a network adds up what a step of
training needs: all forward passes, all gradients of kernels, and gradients of images but for the
first layer.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.convolutions import PRODUCT, SIDE
from benchmarks.report import OF_LAYERS
from benchmarks.tables import put
from benchmarks.turns import take_turns
from benchmarks.work import BATCH
from fedkin.models.convolution import convolve
from fedkin.models.model import prepare_jax
from fedkin.simulation.jax.local_training import ONE_CORE

PAGE = Path("docs/benchmarks.md")
FORWARD = "forward"
BY_IMAGES = "gradient of the images"
BY_KERNEL = "gradient of the kernel"
PASSES = [FORWARD, BY_IMAGES, BY_KERNEL]
HEAD = ["network", "convolution", *PASSES, "milliseconds"]
CALLS = 20  # of a pass in a turn


class Layer(NamedTuple):
    """A convolution: side and channels of its images, its outputs, window, stride and padding."""

    side: int
    inputs: int
    outputs: int
    window: int
    stride: int = 1
    same: bool = True

    @property
    def output_side(self) -> int:
        """Side of the results."""
        covered = self.side if self.same else self.side - self.window + 1
        return -(-covered // self.stride)

    @property
    def operations(self) -> float:
        """Floating-point operations of a pass over a batch; a multiply-add counts as two."""
        products = self.output_side**2 * self.window**2 * self.inputs * self.outputs
        return 2.0 * BATCH * products


LAYERS = {
    "CNN": [
        Layer(side=28, inputs=1, outputs=32, window=3),
        Layer(side=14, inputs=32, outputs=64, window=3),
    ],
    "FEMNIST's CNN": [
        Layer(side=28, inputs=1, outputs=32, window=3, same=False),
        Layer(side=26, inputs=32, outputs=32, window=3, same=False),
        Layer(side=24, inputs=32, outputs=32, window=5, stride=2),
        Layer(side=12, inputs=32, outputs=64, window=3, same=False),
        Layer(side=10, inputs=64, outputs=64, window=3, same=False),
        Layer(side=8, inputs=64, outputs=64, window=5, stride=2),
    ],
    "FashionMNIST's CNN": [
        Layer(side=28, inputs=1, outputs=32, window=5),
        Layer(side=14, inputs=32, outputs=64, window=5),
    ],
}


class Pass(NamedTuple):
    """A compiled pass over a layer, and the floating-point operations of a call."""

    run: Callable[[int], object]
    operations: float


def passes_of(layer: Layer) -> dict[str, Pass]:
    """The forward pass and both gradients of a layer."""
    generator = np.random.default_rng(0)
    x = jnp.asarray(
        generator.normal(size=(BATCH, layer.side, layer.side, layer.inputs)), jnp.float32
    )
    kernel = jnp.asarray(
        generator.normal(size=(layer.window, layer.window, layer.inputs, layer.outputs)),
        jnp.float32,
    )

    def forward(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return convolve(x, kernel, layer.stride, layer.same)

    def by_images(g: jax.Array) -> jax.Array:
        return jax.vjp(lambda images: forward(images, kernel), x)[1](g)[0]

    def by_kernel(g: jax.Array) -> jax.Array:
        return jax.vjp(lambda weights: forward(x, weights), kernel)[1](g)[0]

    g = jnp.ones((BATCH, layer.output_side, layer.output_side, layer.outputs), jnp.float32)
    runs = {
        FORWARD: repeated(forward, x, kernel),
        BY_IMAGES: repeated(by_images, g),
        BY_KERNEL: repeated(by_kernel, g),
    }
    return {name: Pass(run, CALLS * layer.operations) for name, run in runs.items()}


def repeated(compute: Callable, *arrays: jax.Array) -> Callable[[int], object]:
    """A turn: a few calls of a compiled function on one core."""
    compiled = jax.jit(compute, compiler_options=ONE_CORE)

    def turn(number: int) -> object:
        return jax.block_until_ready([compiled(*arrays) for _ in range(CALLS)])

    return turn


def product() -> Pass:
    """The matrix product on one core."""
    matrix = jnp.asarray(np.random.default_rng(0).random((SIDE, SIDE), np.float32))
    compiled = jax.jit(jnp.matmul, compiler_options=ONE_CORE)
    return Pass(lambda turn: compiled(matrix, matrix).block_until_ready(), 2.0 * SIDE**3)


def rows_of(network: str, turns: int) -> list[list[str]]:
    """The lines of a network: one for each layer, and their sum."""
    rows = []
    whole_seconds = np.zeros(turns)
    whole_operations = 0.0
    speeds = []
    for number, layer in enumerate(LAYERS[network]):
        passes = {**passes_of(layer), PRODUCT: product()}
        runs = {name: one.run for name, one in passes.items()}
        seconds = take_turns(runs, turns, clock=time.process_time)
        speed = {name: one.operations / seconds[name] for name, one in passes.items()}
        speeds.append(speed[PRODUCT])
        shares = [f"{100 * np.median(speed[name] / speed[PRODUCT]):.0f} %" for name in PASSES]
        # No step needs the gradient of the samples themselves.
        needed = PASSES if number else [FORWARD, BY_KERNEL]
        of_layer = sum(seconds[name] for name in needed) / CALLS
        whole_seconds = whole_seconds + of_layer
        whole_operations += len(needed) * layer.operations
        rows.append([network, words(layer), *shares, f"{1000 * np.median(of_layer):.2f}"])
    whole = whole_operations / whole_seconds / np.mean(speeds, axis=0)
    total = f"**{100 * np.median(whole):.0f} %**"
    rows.append([network, "all", total, "", "", f"{1000 * np.median(whole_seconds):.2f}"])
    return rows


def words(layer: Layer) -> str:
    """The convolution in words."""
    stride = f", stride {layer.stride}" if layer.stride > 1 else ""
    window = f"{layer.window} x {layer.window}"
    return f"{window}{stride}, {layer.inputs} to {layer.outputs} channels, side {layer.side}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    options = parser.parse_args()
    prepare_jax()
    rows = [row for network in LAYERS for row in rows_of(network, options.turns)]
    print("\n".join(" | ".join(line) for line in [HEAD, *rows]))
    if options.write:
        put(PAGE, OF_LAYERS, HEAD, rows)


if __name__ == "__main__":
    main()
