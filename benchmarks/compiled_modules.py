"""PyTorch modules in fedkin: trained by PyTorch, compiled by JAX, and compared with fedkin's model
of the same layers.

    python -m benchmarks.compiled_modules [--turns 7] [--write docs/your-data.md]

A call trains ten clients of 60 samples, batches of 10, two epochs, on one core. The engines take
turns; the table has the medians and the median ratio to PyTorch. Aims: linear and attention 0.3,
MLP 0.6 (1.2 times fedkin's model), CNN 1.0, LSTM 0.8.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import fedkin as fk
from benchmarks.tables import put
from benchmarks.torch_loop import network
from benchmarks.turns import take_turns
from fedkin.core.randomness import Stream
from fedkin.core.train_call import TrainCall
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.data.ragged import Ragged
from fedkin.simulation.workers import worker_factory

CLIENTS = 10
SAMPLES = 60
WORK = LocalTraining(epochs=2, batch_size=10, lr=0.03)


class Recurrent(nn.Module):
    """A network of words: an LSTM of 64, and a score for each of ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(500, 32)
        self.cells = nn.LSTM(32, 64, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cells(self.embed(x))[0][:, -1])


class Attention(nn.Module):
    """28 rows of an image as a sequence, one layer of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(28)
        self.heads = nn.MultiheadAttention(28, 4, batch_first=True)
        self.head = nn.Linear(28, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = x.reshape(-1, 28, 28)
        y = self.norm(x)
        return self.head((x + self.heads(y, y, y, need_weights=False)[0]).mean(1))


# Module, our own model, aim.
MODULES: dict[str, tuple[Callable[[], nn.Module], str | None, str]] = {
    "linear 784-10": (lambda: network("784-10"), "mclr", "0.3"),
    "MLP 784-128-10": (lambda: network("784-128-10"), "mlp", "0.6"),
    "CNN, two convolutions": (lambda: network("CNN"), "cnn", "1.0"),
    "LSTM": (Recurrent, None, "0.8"),
    "attention": (Attention, None, "0.3"),
}


def federation(words: bool) -> FederatedData:
    """Random samples: times do not depend on them."""
    chance = np.random.default_rng(0)
    number = CLIENTS * SAMPLES
    x = chance.integers(0, 500, (number, 20)) if words else chance.random((number, 784), np.float32)
    rows_of_client = Ragged.consecutive(np.full(CLIENTS, SAMPLES))
    return FederatedData(
        name="benchmark",
        x=x,
        y=chance.integers(0, 10, number),
        classes=10,
        train=rows_of_client,
        test=rows_of_client,
    )


def one_call(model: Any, data: FederatedData) -> Callable[[int], object]:
    """A training call of all clients."""
    _, trainer = worker_factory(model, np.arange(CLIENTS), 1, None)(data)
    start = model.initial(np.array([1, 2], np.uint32))[None]
    index = np.zeros(CLIENTS, np.int64)
    steps = np.full(CLIENTS, 2 * SAMPLES // 10)
    everybody = np.arange(CLIENTS)
    call = TrainCall(
        models=start,
        clients=everybody,
        model_index=index,
        work=WORK,
        num_steps=steps,
        stream=Stream(0),
    )
    return lambda turn: np.asarray(trainer.train(replace(call, stream=Stream(0, turn))).update)


def row(name: str, turns: int) -> list[str]:
    """A line of the table."""
    make, ours, aim = MODULES[name]
    data = federation(name == "LSTM")
    engines = {
        engine: one_call(fk.torch_model(make, engine=engine), data) for engine in ("torch", "jax")
    }
    if ours is not None:
        engines["own"] = one_call(getattr(fk.models, ours)(data), data)
    times = take_turns(engines, turns)
    by_torch = np.median(times["torch"])
    by_jax = np.median(times["jax"])
    ratio = np.median(times["jax"] / times["torch"])
    ratio_to_ours = f"{np.median(times['jax'] / times['own']):.2f}" if ours else "-"
    return [
        name,
        f"{by_torch * 1000:.0f} ms",
        f"{by_jax * 1000:.0f} ms",
        f"**{ratio:.2f}**",
        aim,
        ratio_to_ours,
    ]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--write", type=Path, help="a page that holds the table")
    options = parser.parse_args()
    torch.set_num_threads(1)
    head = ["module", "PyTorch", "JAX", "ratio", "aim", "JAX / our own model"]
    rows = []
    print(" | ".join(head))
    for name in MODULES:
        rows.append(row(name, options.turns))
        print(" | ".join(rows[-1]), flush=True)
    if options.write:
        put(options.write, "python -m benchmarks.compiled_modules", head, rows)


if __name__ == "__main__":
    main()
