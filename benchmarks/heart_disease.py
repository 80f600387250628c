"""Heart disease in four hospitals: recipes and FLamby's published cells, over seeds.

    python -m benchmarks.heart_disease [--seeds 5]

FLamby's split, model (one output of a sigmoid, PyTorch's initial weights) and budget: all hospitals
in each of 15 rounds, 100 steps in batches of 4, weights n_i. Its FedAdam begins with v = 0 and has
tau 1e-8, beta2 0.999. Features are scaled by each hospital's training patients, and for the test of
all patients together by the training patients of all hospitals, as in FLamby's pooled test. A
second variant always scales by the patients of all hospitals. The benchmark prints the mean
accuracy of all test patients, with its deviation, and of each hospital's; "alone" is a hospital's
own model.
"""

from __future__ import annotations

import argparse
import logging
from typing import Any

import numpy as np
import torch
from torch import nn

import fedkin as fk

BUDGET: dict[str, Any] = {"rounds": 15, "cohort": 4, "scoring": fk.Scoring(evaluate_every=0)}


class Logistic(nn.Module):
    """Scores (0, w x + b): their softmax is the sigmoid's probability."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = self.linear(x)
        return torch.cat([torch.zeros_like(score), score], dim=1)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.heart_disease", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    logging.getLogger("fedkin").setLevel(logging.ERROR)
    adam = fk.FedAdam(lr=0.01, beta2=0.999, tau=1e-8)
    own_models = fk.PersonalModel(0.3)
    recipes: list[tuple[str, str, Any, float, list[Any]]] = [
        ("hospital", "alone", fk.Local(), 0.01, []),
        ("hospital", "FedAvg", fk.FedAvg(), 0.001, []),
        ("hospital", "FedAdam", fk.FedAvg(), 0.01, [adam]),
        ("pooled", "alone", fk.Local(), 0.01, []),
        ("pooled", "FedAdam", fk.FedAvg(), 0.01, [adam]),
        ("pooled", "Ditto, lambda 0.1", fk.Ditto(strength=0.1), 0.01, []),
        ("pooled", "Ditto, lambda 0.3", fk.Ditto(strength=0.3), 0.01, []),
        ("pooled", "FedAdam, own models, lambda 0.3", fk.FedAvg(), 0.01, [adam, own_models]),
        ("pooled", "IFCA, K 2, own models, lambda 0.3", fk.IFCA(2), 0.01, [own_models]),
    ]
    for scaling, name, method, rate, options_of_recipe in recipes:
        cells = np.array(
            [
                accuracies(
                    scaling=scaling, method=method, rate=rate, options=options_of_recipe, seed=seed
                )
                for seed in range(options.seeds)
            ]
        )
        words = [
            f"{m:.3f} ({s:.3f})"
            for m, s in zip(cells.mean(axis=0), cells.std(axis=0, ddof=1), strict=True)
        ]
        print(
            f"scaled by {scaling}: {name}, lr {rate}: all {words[0]}; hospitals "
            f"{' '.join(words[1:])}",
            flush=True,
        )


def accuracies(
    scaling: str, method: Any, rate: float, options: list[Any], seed: int
) -> list[float]:
    """Test accuracy of all patients, and of each hospital's, after a run."""
    data = fk.data.heart_disease(scaling=scaling)
    torch.manual_seed(seed)
    local = fk.SGD(steps=100, batch_size=4, lr=rate)
    model = Logistic(data.x.shape[1])
    run = fk.simulate(method, data, model, local=local, options=options, seed=seed, **BUDGET)
    clients = run.clients.sort_values("client")
    pooled = np.average(clients["accuracy"], weights=clients["test_samples"])
    if scaling == "hospital" and isinstance(method, fk.FedAvg):
        pooled = run.evaluate("test", data=fk.data.heart_disease(scaling="pooled")).summary[
            "accuracy"
        ]
    return [float(pooled), *clients["accuracy"]]


if __name__ == "__main__":
    main()
