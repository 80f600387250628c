"""Memory of Ray's processes that train adapters of one frozen network on this machine.

``python -m benchmarks.adapter_ray_memory`` trains a round of eight clients on two actors, compiled
and in PyTorch, with a network of 90 MB and with one of a few megabytes. It prints for each actor:

* *resident*: its resident set;
* *private*: the part of it that no other process has;
* *shared*: the part in Ray's shared memory, of which the machine has one copy.

If each actor had a copy of the network, *private* would be 90 MB more for the large one. The
results go into ``adapters_results/ray.json``, which the page of ``benchmarks.adapters`` shows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

RESULTS = Path("benchmarks/adapters_results/ray.json")
ACTORS = 2
CLIENTS = 8
LENGTH = 16
WIDTH = 384
CLASSES = 4
WORDS = (1_000, 58_000)  # of the small and of the large network
_FIELD = re.compile(r"(\w+):\s+(\d+) kB")


def main() -> None:
    """Print the memory of the actors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actors", type=int, default=ACTORS)
    arguments = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import fedkin as fk

    data = texts()
    entries = []
    for name, module in (("JAX", equinox_module), ("PyTorch", torch_module)):
        for words in WORDS:
            model: Any = fk.lora(data, module(words), targets=("query",), head="classifier")
            print(f"{name}: frozen network of {model.frozen.bytes / 1e6:.0f} MB", flush=True)
            actors = trained(data, model, arguments.actors)
            for found in actors:
                print(
                    f"  actor: resident {found['resident']:.0f} MB, "
                    f"private {found['private']:.0f} MB, shared {found['shared']:.0f} MB",
                    flush=True,
                )
            entry = {"engine": name, "frozen": model.frozen.bytes / 1e6, "actors": actors}
            entries.append(entry)
    RESULTS.write_text(json.dumps(entries, indent=2) + "\n")


def texts() -> Any:
    """Random token numbers of eight clients."""
    import fedkin as fk

    rng = np.random.default_rng(0)
    tokens = rng.integers(2, WORDS[0], (CLIENTS * 32, LENGTH)).astype(np.int32)
    labels = rng.integers(0, CLASSES, len(tokens))
    owners = np.repeat(np.arange(CLIENTS), 32)
    return fk.data.from_arrays(tokens, labels, clients=owners, integers=True)


class Words(eqx.Module):
    """The mean of the word vectors of a text, and two dense layers."""

    embed: eqx.nn.Embedding
    query: eqx.nn.Linear
    classifier: eqx.nn.Linear

    def __init__(self, words: int) -> None:
        keys = jax.random.split(jax.random.key(0), 3)
        self.embed = eqx.nn.Embedding(words, WIDTH, key=keys[0])
        self.query = eqx.nn.Linear(WIDTH, WIDTH, key=keys[1])
        self.classifier = eqx.nn.Linear(WIDTH, CLASSES, key=keys[2])

    def __call__(self, x: Any) -> Any:
        """Scores of a text."""
        mean = jax.vmap(self.embed)(x).mean(axis=0)
        return self.classifier(jax.nn.relu(self.query(mean)))


def equinox_module(words: int) -> Any:
    """A network of so many words, whose class Ray's processes can import."""
    from benchmarks import adapter_ray_memory

    return adapter_ray_memory.Words(words)


def torch_module(words: int) -> Any:
    """The same network in PyTorch."""
    import torch
    from torch import nn

    class Words(nn.Module):
        """The mean of the word vectors of a text, and two layers."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(words, WIDTH)
            self.query = nn.Linear(WIDTH, WIDTH)
            self.classifier = nn.Linear(WIDTH, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.classifier(self.query(self.embed(x).mean(dim=1)).relu())

    return Words()


def trained(data: Any, model: Any, actors: int) -> list[dict[str, float]]:
    """The memory of all actors after a round.

    Args:
        data: the clients' data.
        model: the model.
        actors: number of actors.
    """
    import fedkin as fk

    found: list[dict[str, float]] = []

    def look(_: Any) -> None:
        found[:] = [memory_of(process) for process in actor_processes()]
        for process in found:
            process.update({name: round(size, 1) for name, size in process.items()})

    fk.simulate(
        fk.FedAvg(),
        data,
        model,
        rounds=1,
        cohort=CLIENTS,
        local=fk.LocalTraining(optimizer="adamw", lr=2e-3),
        compute=fk.Compute(engine="ray", actors=actors),
        callbacks=[fk.Progress(False), look],
    )
    import ray

    ray.shutdown()
    return found


def actor_processes() -> Iterator[Path]:
    """The folders in /proc of this machine's actors."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            title = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if title.startswith(b"ray::_Actor") and parent:
            yield folder


def memory_of(process: Path) -> dict[str, float]:
    """Megabytes of a process: its resident set, its private part, and Ray's shared memory."""
    sums = {"resident": 0.0, "private": 0.0, "shared": 0.0}
    is_plasma = False
    for line in (process / "smaps").read_text().splitlines():
        field = _FIELD.match(line)
        if field is None:
            is_plasma = "/plasma" in line
            continue
        name, size = field[1], int(field[2]) * 1024 / 1e6
        if name == "Rss":
            sums["resident"] += size
            sums["shared"] += size * is_plasma
        elif name.startswith("Private_") and not is_plasma:
            sums["private"] += size
    return sums


if __name__ == "__main__":
    main()
