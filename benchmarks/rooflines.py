"""EDC and MADC on one core, compared with what the core allows. The table is written into
docs/benchmarks.md.

    python -m benchmarks.rooflines [--turns 7] [--write]

The clock counts the core's time (of all threads together), so other programs have little influence.
The steps take turns. The core's limits are measured in the same turns: a large matrix product in
float64, and reading a large array. A bound is the larger of two times: for the
arithmetic at the product's speed, and for the memory at the speed of reading. The share is the
bound divided by the time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.report import OF_ROOFLINES
from benchmarks.tables import put
from benchmarks.turns import Times, quartiles, take_turns
from fedkin.measures.edc import edc_embedding
from fedkin.measures.gram import float64_blocks
from fedkin.measures.madc import madc

PAGE = Path("docs/benchmarks.md")
HEAD = ("work", "core seconds", "achieved", "bound", "share of the bound")
UPDATES = 100
PARAMETERS = 3_300_000
CLIENTS = 1000  # of MADC
SIDE = 1536  # of the square matrices of the product
READ = 400_000_000  # bytes
# float64 numbers in a vector register of the product's instructions (AVX2)
_VECTOR = 4
PRODUCT = "product"
MEMORY = "memory"


@dataclass(frozen=True)
class Step:
    """A computation and what it has to do.

    Attributes:
        name: in the table.
        call: the computation.
        operations: additions and multiplications.
        bytes: read from memory.
        speed: the largest number of operations per second, as a share of the product's.
    """

    name: str
    call: Callable[[], object]
    operations: float
    bytes: float
    speed: float = 1.0


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rooflines", description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    options = parser.parse_args()
    rows = measured(steps(UPDATES, PARAMETERS, CLIENTS), options.turns)
    for cells in rows:
        print(", ".join(cells))
    if options.write:
        put(PAGE, OF_ROOFLINES, HEAD, rows)


def steps(updates: int, parameters: int, clients: int) -> list[Step]:
    """All steps: the two measures, and the parts of EDC.

    Args:
        updates: n of EDC.
        parameters: P of EDC.
        clients: n of MADC.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((updates, parameters), np.float32)
    blocks = list(float64_blocks(x[:, : max(1, parameters // 8)]))
    similarity = rng.random((clients, clients))
    similarity += similarity.T
    # Half of the products are needed: the matrix is symmetric. So are half of the differences, of
    # which each is subtracted and added.
    products = float(updates**2 * parameters)
    part = sum(block.shape[1] for block in blocks) / parameters
    sums = float(clients**3)

    def multiply() -> None:
        for block in blocks:
            np.matmul(block, block.T)

    def convert() -> None:
        for _ in float64_blocks(x):
            pass

    return [
        Step("EDC", lambda: edc_embedding(x, 5), products, x.nbytes),
        Step(
            "products of an eighth of the parameters, in float64",
            multiply,
            part * products,
            2 * part * x.nbytes,
        ),
        Step("conversion of all parameters to float64", convert, 0.0, x.nbytes),
        Step("MADC", lambda: madc(similarity), sums, similarity.nbytes, 0.5),
        Step(
            name="MADC, one number at a time",
            call=lambda: madc(similarity),
            operations=sums,
            bytes=similarity.nbytes,
            speed=0.5 / _VECTOR,
        ),
    ]


def measured(all_steps: list[Step], turns: int) -> list[list[str]]:
    """The rows of the table.

    Args:
        all_steps: the computations.
        turns: of each step.
    """
    square = np.random.default_rng(0).random((SIDE, SIDE))
    array = np.ones(READ // 8)
    engines: dict[str, Callable[[int], object]] = {
        PRODUCT: lambda _: square @ square,
        MEMORY: lambda _: array.max(),
    }
    engines |= {step.name: lambda _, step=step: step.call() for step in all_steps}
    with threadpool_limits(1):
        times = take_turns(engines, turns, warm=1, clock=time.process_time)
    return [row(step, times) for step in all_steps]


def row(step: Step, times: Times) -> list[str]:
    """A line: the time, the achieved speed, the bound, and the share with its quartiles.

    Args:
        step: a computation.
        times: seconds of all steps and of the core's limits.
    """
    seconds = times[step.name]
    # The best turn of each is the core's limit.
    rate = step.speed * 2 * SIDE**3 / times[PRODUCT].min()
    bandwidth = READ / times[MEMORY].min()
    by_arithmetic = step.operations / rate
    by_memory = step.bytes / bandwidth
    low, middle, high = quartiles(100 * max(by_arithmetic, by_memory) / seconds)
    share = f"**{middle:.0f} %** ({low:.0f}-{high:.0f})"
    took = float(np.median(seconds))
    if by_arithmetic >= by_memory:
        achieved = f"{1e-9 * step.operations / took:.1f} GFLOP/s"
        return [step.name, f"{took:.3f}", achieved, f"{1e-9 * rate:.1f} GFLOP/s", share]
    achieved = f"{1e-9 * step.bytes / took:.1f} GB/s"
    return [step.name, f"{took:.3f}", achieved, f"{1e-9 * bandwidth:.1f} GB/s", share]


if __name__ == "__main__":
    main()
