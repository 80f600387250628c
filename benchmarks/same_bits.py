"""The number of different models that the same run gives, for each network, and their digests: one
if the run repeats to the bit.

    python -m benchmarks.same_bits [--runs 5] [--devices 2]

Ten clients with MNIST train for a few epochs, in batches of 32, several times in one process. Ends
with status 1 if a network gave more than one model.
"""

from __future__ import annotations

import argparse
import hashlib

import numpy as np

import fedkin as fk
from fedkin.core.training import LocalTraining
from fedkin.methods import FedAvg
from fedkin.models import MODELS

# Model, its options, side of the images, epochs.
NETWORKS: dict[str, tuple[str, dict, int, int]] = {
    "MCLR": ("mclr", {}, 28, 20),
    "MLP of 128": ("mlp", {"hidden": 128}, 28, 20),
    "MLP of 1280, 640, 120": ("mlp", {"hidden": (1280, 640, 120)}, 28, 6),
    "CNN, mnist": ("cnn", {"variant": "mnist"}, 28, 4),
    "CNN, fashion_mnist": ("cnn", {"variant": "fashion_mnist"}, 28, 2),
    "CNN, femnist": ("cnn", {"variant": "femnist"}, 28, 2),
    "CNN, athena": ("cnn", {"variant": "athena"}, 32, 6),
}


def models(name: str, runs: int, devices: int | None) -> set[str]:
    """Digests of the models that the runs of a network gave.

    Args:
        name: of the network.
        runs: number of trainings.
        devices: cores; None: all.
    """
    model_name, options, side, epochs = NETWORKS[name]
    data = fk.data.mnist(clients=10, samples=1500, size=side)
    model = MODELS[model_name](data, **options)
    work = LocalTraining(epochs=epochs, batch_size=32, lr=0.02)
    digests = set()
    for _ in range(runs):
        run = fk.simulate(
            FedAvg(),
            data,
            model,
            rounds=1,
            cohort=10,
            local=work,
            seed=0,
            compute=fk.Compute(devices=devices),
        )
        digests.add(hashlib.sha256(np.asarray(run.models).tobytes()).hexdigest())
    return digests


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_bits", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--devices", type=int)
    options = parser.parse_args()
    counts = {}
    for name in NETWORKS:
        digests = models(name, options.runs, options.devices)
        counts[name] = len(digests)
        print(
            f"{name}: {len(digests)} different of {options.runs}: "
            f"{', '.join(d[:8] for d in sorted(digests))}",
            flush=True,
        )
    raise SystemExit(int(max(counts.values()) > 1))


if __name__ == "__main__":
    main()
