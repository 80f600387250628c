"""Methods for clients that differ, on FedEM's synthetic mixture: accuracy, and time of a trained
step relative to FedAvg's.

Bar: no method takes more than 1.3 times FedAvg's time of a trained step. A step is the gradient of
one mini-batch, of whichever model; the full gradient of SCAFFOLD's option I counts as a pass. Time
is the median of rounds behind the first two, with all that is not training.

    python -m benchmarks.field.personal [ROUNDS]
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import fedkin as fk
from fedkin.core.randomness import Stream
from fedkin.data.synthetic_mixture import synthetic_mixture

EPOCHS = 1
HEAD = 10
WORK = fk.SGD(epochs=EPOCHS, batch_size=32, lr=0.1)
# And the number of passes through a client's samples in a round.
METHODS: dict[str, tuple[Any, int]] = {
    "FedAvg": (fk.FedAvg(), EPOCHS),
    "Ditto, lambda 0.1": (fk.Ditto(0.1), 2 * EPOCHS),
    "Ditto, lambda 1": (fk.Ditto(1.0), 2 * EPOCHS),
    "FedPer": (fk.FedPer(), EPOCHS),
    "FedRep": (fk.FedRep(head_epochs=HEAD), HEAD + EPOCHS),
    "SCAFFOLD, option I": (fk.SCAFFOLD("I"), 2 * EPOCHS),
    "SCAFFOLD, option II": (fk.SCAFFOLD("II"), EPOCHS),
}


def seconds_of_a_round(method: Any, data: Any, model: Any, rounds: int = 12) -> float:
    """The median, of all clients, without tests of the models."""
    world = fk.SimulatedWorld(data, model, WORK)
    state = method.init(world, Stream(0, 0, "init"))
    cohort = np.arange(data.clients)
    times = []
    for r in range(1, rounds + 1):
        start = time.perf_counter()
        state = method.round(world, state, cohort, Stream(0, r, "method"))
        times.append(time.perf_counter() - start)
    return float(np.median(times[2:]))


def main() -> None:
    """A line for each method."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    data = synthetic_mixture(clients=100, test_samples=500)
    model = fk.models.mlp(data, hidden=32)
    first = 0.0
    for name, (method, passes) in METHODS.items():
        run = fk.simulate(
            method, data, model, rounds=rounds, cohort=data.clients, local=WORK, seed=0
        )
        spent = seconds_of_a_round(method, data, model)
        first = first or spent / passes
        print(
            f"{name:20} accuracy {run.records[-1]['accuracy']:.4f}, {1000 * spent:7.1f} ms a "
            f"round, {spent / passes / first:.2f} of FedAvg's time of a step (bar 1.3)",
            flush=True,
        )
        if name == "FedAvg":
            tuned = run.evaluate(fine_tune_epochs=EPOCHS).summary
            print(
                f"{'FedAvg, fine-tuned':20} accuracy {tuned['fine_tuned_accuracy']:.4f}", flush=True
            )


if __name__ == "__main__":
    main()
