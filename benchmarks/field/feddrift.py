"""FedDrift on SINE: matrix A, ten clients, 100 samples a step, a network 2-16-2, 40 rounds a step
of five steps of Adam each, delta 0.2, five seeds. Bars: prequential accuracy within half a point of
an oracle that knows all concepts; two models from step 2 on; one global model below 60 %.

    python -m benchmarks.field.feddrift
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import numpy as np

import fedkin as fk
from fedkin.methods.feddrift import FedDrift, FedDriftState
from fedkin.scenarios.steps import Steps, prequential_accuracy

EVERY = 40
STEPS = 10


@dataclass(frozen=True)
class Concepts(FedDrift):
    """The oracle: a model for each concept, on all samples that ever had it."""

    def _begin_step(self, world: Any, state: FedDriftState, stream: Any) -> FedDriftState:
        state = super()._begin_step(world, state, stream)
        owner = state.owner.copy()
        owner[:, -1] = world.true_clusters
        return replace(
            state, assignment=world.true_clusters.copy(), owner=owner, release=0 * state.release
        )


def network(key: Any) -> eqx.nn.MLP:
    """Uniform initial weights and biases, as in PyTorch; with biases of 0 some units never fire."""
    return eqx.nn.MLP(2, 2, width_size=16, depth=1, key=key)


def prequential(method: Any, data: Any, seed: int) -> tuple[float, list[int]]:
    """Accuracy on steps 1 to 10 before they are trained on, and the number of models in use in each
    step."""
    model = fk.as_model(network, name="2-16-2")
    local = fk.LocalTraining(steps=5, batch_size=500, lr=0.01, optimizer="adam")
    run = fk.simulate(
        method,
        data,
        model,
        rounds=EVERY * STEPS,
        cohort=10,
        local=local,
        seed=seed,
        shift=Steps(EVERY, history=True),
        scoring=fk.Scoring(evaluate_every=EVERY),
        callbacks=fk.Progress(False),
    )
    owner = getattr(run.state, "owner", np.zeros((10, STEPS)))
    return prequential_accuracy(run.records, EVERY), [len(np.unique(column)) for column in owner.T]


def main() -> None:
    """Print figures of five seeds with the bars."""
    methods = {
        "oracle": Concepts(every=EVERY, models=2, delta=1.0, delta_merge=0.0),
        "FedDrift": FedDrift(every=EVERY, models=10, delta=0.2),
        "FedDrift-Eager": FedDrift(every=EVERY, models=10, delta=0.2, eager=True),
        "one global model": fk.FedAvg(),
    }
    means = {}
    for name, method in methods.items():
        results = [prequential(method, fk.data.sine(seed=seed), seed) for seed in range(5)]
        each = [100 * accuracy for accuracy, _ in results]
        means[name] = np.mean(each)
        print(
            f"{name:18} {means[name]:.2f}: {' '.join(f'{a:.1f}' for a in each)}; models by step",
            flush=True,
        )
        for _, models in results:
            print(" " * 20, *models, flush=True)
    print(f"FedDrift - oracle {means['FedDrift'] - means['oracle']:+.2f} (bar: within 0.5)")
    print(f"one global model {means['one global model']:.1f} (bar: below 60)")


if __name__ == "__main__":
    main()
