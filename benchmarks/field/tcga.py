"""TCGA-BRCA in six regions by FLamby's recipe: a linear Cox model, five rounds of 100 steps with 8
patients, five seeds; C-index over the pairs within regions, and FLamby's over all pairs. There is
no bar: docs/data-sets.md quotes the figures.

    python -m benchmarks.field.tcga
"""

from __future__ import annotations

from typing import Any

import numpy as np

import fedkin as fk

SEEDS = (42, 43, 44, 45, 46)
ADAM = {"options": [fk.FedAdam(lr=0.1, beta2=0.999, tau=1e-8)]}
RECIPES: tuple[tuple[str, str, float, dict[str, Any], str], ...] = (
    ("FedAvg", "pooled", 0.1, {}, ""),
    ("FedAvg, age in years", "raw", 0.1, {}, "0.735"),
    ("FedAdam", "pooled", 0.01, ADAM, ""),
    ("FedAdam, age in years", "raw", 0.01, ADAM, "0.842"),
)


def main() -> None:
    """Mean and deviation over the seeds."""
    for name, scaling, lr, options, printed in RECIPES:
        data = fk.data.tcga_brca(scaling=scaling)  # type: ignore[arg-type]
        local = fk.LocalTraining(steps=100, batch_size=8, lr=lr)
        runs = [
            fk.simulate(
                fk.FedAvg(),
                data,
                fk.models.cox(data),
                rounds=5,
                cohort=6,
                local=local,
                seed=seed,
                scoring=fk.Scoring(evaluate_every=0),
                **options,
            )
            for seed in SEEDS
        ]
        index = np.array([run.summary()["final_concordance_index"] for run in runs])
        words = f" (FLamby {printed})" if printed else ""
        print(
            f"{name}: C-index {index.mean():.3f}, deviation {index.std(ddof=1):.3f}{words}",
            flush=True,
        )


if __name__ == "__main__":
    main()
