"""Clusters under client-level differential privacy: accuracy and epsilon, by noise and clip.

    python -m benchmarks.trust.privacy [--seeds 3] [--noise 0,1] [--clip 0.2]

Data: MNIST, four rotations, 1,000 clients of 50 samples each; 784-10 softmax regression, two local
epochs of SGD (batch 10, lr 0.1); 100 rounds, each client in each with probability 0.05. The true
clusters are known, as are their equal sizes; the row "one model" is FedAvg with the same privacy.
Noise is the system's, so no two runs are equal. The claim: four private models at epsilon <= 2.2
(delta 0.001) have accuracy 0.85 or more.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int

import fedkin as fk
from fedkin.core.errors import MethodError
from fedkin.core.method import State
from fedkin.core.randomness import Stream
from fedkin.core.requirements import DataNeeds, Requirements
from fedkin.core.world import World
from fedkin.methods.fedavg import train_and_average

DELTA = 1e-3


@dataclass(frozen=True)
class TrueClusters:
    """A model for each true cluster, from one common start."""

    def requirements(self) -> Requirements:
        return Requirements(data=DataNeeds(true_clusters=True))

    def init(self, world: World, stream: Stream) -> State:
        """Raises MethodError where the true clusters are not known."""
        if world.true_clusters is None:
            raise MethodError("the true clusters must be known")
        count = int(world.true_clusters.max()) + 1
        return State(
            np.stack([world.initial(stream.child("model"))] * count),
            world.true_clusters.astype(np.int64),
        )

    def round(
        self, world: World, state: State, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> State:
        return replace(
            state,
            models=train_and_average(
                world=world, state=state, cohort=cohort, work=world.work, stream=stream
            ),
        )

    def place(
        self, world: World, state: State, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> State:
        return state


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust.privacy", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--noise", default="0,1", help="noise multipliers; 0: no privacy")
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    print(
        "| method | noise multiplier | epsilon | accuracy, by seed | mean | worst cluster "
        "|\n|---|---|---|---|---|---|"
    )
    for noise in map(float, options.noise.split(",")):
        for method, name in ((TrueClusters(), "true clusters"), (fk.FedAvg(), "one model")):
            runs = [
                run(method=method, seed=seed, noise=noise, clip=options.clip, rounds=options.rounds)
                for seed in range(options.seeds)
            ]
            print(row(name, noise, runs), flush=True)


def run(
    method: fk.Method,
    seed: int,
    noise: float,
    clip: float,
    rounds: int,
    start_noise: float | None = None,
) -> fk.Run:
    """One run."""
    data = fk.planted(
        "mnist", "rotation", clusters=4, clients=1000, samples=50, test_samples=20, seed=seed
    )
    work = fk.SGD(epochs=2, batch_size=10, lr=0.1)
    privacy = fk.ClientDP(noise_multiplier=noise, delta=DELTA, clip=clip, start_noise=start_noise)
    return fk.simulate(
        method,
        data,
        fk.models.mclr(data),
        rounds=rounds,
        cohort=fk.Cohort(50, selection="poisson"),
        local=work,
        options=[privacy],
        seed=seed,
        scoring=fk.Scoring(evaluate_every=0),
        compute=fk.Compute(devices=1),
    )


def row(name: str, noise: float, runs: list[fk.Run]) -> str:
    """A line of the table."""
    accuracy = [run.summary()["final_accuracy"] for run in runs]
    by_cluster = [run.clients.pivot_table("accuracy", "true_cluster").to_numpy() for run in runs]
    worst = np.concatenate(by_cluster).min()
    epsilon = runs[0].summary()["privacy"]["epsilon"]
    epsilon_text = epsilon if isinstance(epsilon, str) else f"{epsilon:.2f}"
    each = ", ".join(f"{value:.3f}" for value in accuracy)
    return (
        f"| {name} | {noise:g} | {epsilon_text} | {each} | {statistics.mean(accuracy):.3f} | "
        f"{worst:.3f} |"
    )


if __name__ == "__main__":
    main()
