"""The cost of training in bfloat16, in accuracy: runs of FedAvg in float32 and in bfloat16, with
the same seeds.

Cohorts of 10, five local epochs, SGD with a learning rate of 0.1, batches of 10.

    python -m benchmarks.mixed_precision [--seeds 3] [--rounds 20] [--write]

The table is written into docs/gpu.md. Accuracy does not depend on the device, so a CPU is enough.
``python -m benchmarks.gpu`` measures the gain in time.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

# A CPU multiplies in float32, and XLA leaves out roundings to bfloat16 and back on the way; here
# they shall count.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_allow_excess_precision=false"

import fedkin as fk
from benchmarks.tables import put

PAGE = Path("docs/gpu.md")
HEAD = ("data", "model", "float32", "bfloat16", "difference in points, with its 95% interval")
# Of Student's distribution, by number of seeds.
_T = {
    2: 12.71,
    3: 4.303,
    4: 3.182,
    5: 2.776,
    8: 2.365,
    10: 2.262,
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mixed_precision", description=__doc__
    )
    parser.add_argument("--seeds", type=int, default=3, choices=list(_T))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    options = parser.parse_args()
    rows = []
    for data, models in (
        (fk.data.digits(), ("mclr", "mlp")),
        (fk.data.mnist(clients=1000), ("mlp", "cnn")),
    ):
        for name in models:
            rows.append(row(data, name, options.seeds, options.rounds))
            print(", ".join(rows[-1]), flush=True)
            if options.write:
                put(PAGE, "python -m benchmarks.mixed_precision --write", HEAD, rows)


def row(data: fk.FederatedData, name: str, seeds: int, rounds: int) -> list[str]:
    """Final accuracies of both, over seeds.

    Args:
        data: all clients' samples.
        name: of the model.
        seeds: number of seeds.
        rounds: T.
    """
    model = getattr(fk.models, name)(data)
    whole, low = (
        100
        * np.array(
            [
                accuracy(data=data, model=model, rounds=rounds, seed=seed, options=options)
                for seed in range(seeds)
            ]
        )
        for options in ({}, {"precision": "bfloat16"})
    )
    apart = low - whole
    half = _T[seeds] * apart.std(ddof=1) / np.sqrt(seeds)
    return [
        data.name,
        name,
        f"{whole.mean():.2f}",
        f"{low.mean():.2f}",
        f"{apart.mean():+.2f} ± {half:.2f}",
    ]


def accuracy(
    data: fk.FederatedData, model: Any, rounds: int, seed: int, options: dict[str, Any]
) -> float:
    """The final accuracy of a run."""
    local = fk.SGD(epochs=5, batch_size=10, lr=0.1, **options)
    run = fk.simulate(
        fk.FedAvg(),
        data,
        model,
        rounds=rounds,
        cohort=10,
        local=local,
        seed=seed,
        scoring=fk.Scoring(evaluate_every=0),
        callbacks=fk.Progress(False),
    )
    return run.summary()["final_accuracy"]


if __name__ == "__main__":
    main()
