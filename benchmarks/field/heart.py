"""Heart disease in four hospitals by FLamby's recipe: logistic regression, batches of 4, SGD, 15
rounds of 100 updates of every client, means weighted by samples, five seeds. Bars: one global model
as FLamby's, and a personalised recipe that leaves no hospital worse off than alone.

    python -m benchmarks.field.heart

FLamby's pooled accuracy is measured on all tests, scaled by the pooled training patients. So it is
not a mean over the hospitals' tests: both are printed. All numbers of epochs of fine-tuning are
shown, and none is chosen.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import fedkin as fk
from fedkin.core.randomness import Stream
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.train import train

SEEDS = (42, 43, 44, 45, 46)
ALONE = "0.742 0.751 0.938 0.756"  # of each hospital's own model
EVERYBODY = np.arange(4)


class OneScore(eqx.Module):
    """Logistic regression 13 -> 1: the scores are 0 and z, so that their softmax is the sigmoid of
    z."""

    linear: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        self.linear = eqx.nn.Linear(13, 1, key=key)  # uniform up to 1 / sqrt(13), as in PyTorch

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.concatenate([jnp.zeros(1), self.linear(x)])


MODEL = fk.as_model(OneScore, name="logistic")


def federated(
    data: Any, pooled: Any, seed: int, lr: float, epochs: int | None = None, **options: Any
) -> np.ndarray:
    """FLamby's pooled accuracy, the accuracy on all clients' own tests, and each client's accuracy;
    with ``epochs`` the last two after this many epochs of fine-tuning."""
    local = fk.LocalTraining(steps=100, batch_size=4, lr=lr)
    run = fk.simulate(
        fk.FedAvg(),
        data,
        MODEL,
        scoring=fk.Scoring(evaluate_every=0),
        rounds=15,
        cohort=4,
        local=local,
        seed=seed,
        **options,
    )
    clients = run.evaluate(fine_tune_epochs=epochs).clients
    own_tests = clients["accuracy" if epochs is None else "fine_tuned_accuracy"].to_numpy()
    scores = evaluate(
        fk.SimulatedWorld(pooled, MODEL), run.state.models, EVERYBODY, np.zeros(4, int)
    )
    return np.array(
        [
            scores.correct.sum() / scores.examples.sum(),
            own_tests @ data.test.sizes / data.test.sizes.sum(),
            *own_tests,
        ]
    )


def alone(data: Any, seed: int) -> np.ndarray:
    """The same of models that each hospital trains alone, with as many updates."""
    world = fk.SimulatedWorld(data, MODEL)
    start = world.initial(Stream(seed, 0, "model"))
    work = fk.LocalTraining(steps=1500, batch_size=4, lr=0.01)
    reply = train(
        world, start[None], EVERYBODY, np.zeros(4, int), work=work, stream=Stream(seed, 1, "train")
    )
    scores = evaluate(world, start + reply.update, EVERYBODY, EVERYBODY)
    return np.array(
        [np.nan, scores.correct.sum() / scores.examples.sum(), *(scores.correct / scores.examples)]
    )


def show(name: str, results: list[np.ndarray], bar: str) -> None:
    """One line of means and deviations over seeds."""
    mean = np.mean(results, axis=0)
    spread = np.std(results, axis=0, ddof=1)
    cells = [f"{a:.3f} ({s:.3f})" for a, s in zip(mean, spread, strict=True)]
    print(
        f"{name:36} FLamby's pooled {cells[0]}; own tests {cells[1]}: {' '.join(cells[2:])}; bar: "
        f"{bar}",
        flush=True,
    )


def main() -> None:
    """Print the figures of every recipe with its bar."""
    hospital, pooled = (
        fk.data.heart_disease(scaling=scaling) for scaling in ("hospital", "pooled")
    )
    # The optimizer of FLamby.
    adam = [fk.FedAdam(lr=0.01, beta2=0.999, tau=1e-8)]
    show("FedAvg", [federated(hospital, pooled, s, 0.001) for s in SEEDS], "pooled 0.748 to 0.759")
    show(
        "FedAdam",
        [federated(hospital, pooled, s, 0.01, options=adam) for s in SEEDS],
        "pooled 0.779 to 0.786",
    )
    for name, data in (("hospital", hospital), ("pooled", pooled)):
        show(
            f"alone, scaling {name}",
            [alone(data, s) for s in SEEDS],
            ALONE if data is hospital else "none",
        )
        for epochs in (5, 20):
            results = [
                federated(data=data, pooled=pooled, seed=s, lr=0.01, epochs=epochs, options=adam)
                for s in SEEDS
            ]
            show(
                f"FedAdam, {epochs} epochs alone, scaling {name}",
                results,
                f"own tests above 0.785, each {ALONE}",
            )


if __name__ == "__main__":
    main()
