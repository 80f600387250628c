"""CFL-GP on all MNIST images, rotated: 64 and 128 clients, one batch of 100 a round, lr 0.1, an MLP
784-200-10.

Bars: ARI 1.0 at the first clustering, for four rotations and for eight that are four near pairs,
three seeds; after 20 rounds at least 67 % (four) and 65 % (eight) with 128 clients, where one model
has 33 to 37 %.

    python -m benchmarks.field.cflgp
"""

from __future__ import annotations

import fedkin as fk
from benchmarks.field.rotations import FOUR, PAIRS, rotated_mnist

ROUNDS = 20


def main() -> None:
    """ARI of every clustering and accuracies, by rotations, clients and seed; and K where it is
    looked for."""
    local = fk.LocalTraining(steps=1, batch_size=100, lr=0.1)
    for name, angles, bar in (("four", FOUR, 67), ("eight", PAIRS, 65)):
        for clients in (64, 128):
            for seed in (1, 2, 3):
                data = rotated_mnist(clients, angles, seed)
                model = fk.models.mlp(data, hidden=200)
                run = fk.simulate(
                    fk.CFLGP(),
                    data,
                    model,
                    rounds=ROUNDS,
                    cohort=clients,
                    local=local,
                    seed=seed,
                    against=[fk.FedAvg()],
                )
                ari = [f"{value:.2f}" for value in run.history["ari"][1:11:2]]
                one_model, clustered_accuracy = (
                    r.summary()["final_accuracy"] for r in (run.against["fedavg"], run)
                )
                print(
                    f"{name} rotations, {clients} clients, seed {seed}: ARI {' '.join(ari)} (bar "
                    f"1.00); accuracy {clustered_accuracy:.1%} (bar {bar} % with 128 clients), one "
                    f"model {one_model:.1%}",
                    flush=True,
                )
        unknown = fk.CFLGP(clusters=None, warm_up=2)
        run = fk.simulate(unknown, data, model, rounds=4, cohort=clients, local=local, seed=seed)
        print(
            f"{name} rotations, K not given, two rounds of warm-up: {run.state.clusters} clusters "
            "found",
            flush=True,
        )


if __name__ == "__main__":
    main()
