"""FLUX on MNIST in four rotations: 20 clients of 1000 images, and 20 newcomers without labels.

Bars: at least 0.9 of the unlabelled newcomers in the cluster of their rotation; K found in at least
4 of 5 seeds. The published rule for eps and noise and ``eps="gap"`` both run on the same
descriptors. With the published rule, every client with a nearest neighbour beyond the knee is a
cluster of one, however far apart the kinds are.

    python -m benchmarks.field.flux
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.metrics import adjusted_rand_score

import fedkin as fk
from fedkin.data.federated import FederatedData, Ragged

RULES = {
    "knee, noise own (published)": fk.FLUX(),
    "knee, noise nearest": fk.FLUX(noise="nearest"),
    "gap": fk.FLUX(eps="gap"),
}
CLIENTS = 20
SEEDS = 5
ROUNDS = 9


def first_clients(data: FederatedData, count: int) -> FederatedData:
    """The federation of the first clients."""
    parts = (Ragged.of([part[c] for c in range(count)]) for part in (data.train, data.test))
    train, test = parts
    assert data.true_clusters is not None
    return replace(data, train=train, test=test, true_clusters=data.true_clusters[:count])


def main() -> None:
    """Clusters found by each rule, and where unlabelled newcomers are placed."""
    cluster_counts: dict[str, list[int]] = {name: [] for name in RULES}
    for seed in range(SEEDS):
        everybody = fk.planted(
            "mnist", "rotation", clusters=4, clients=2 * CLIENTS, samples=1000, seed=seed
        )
        data = first_clients(everybody, CLIENTS)
        model = fk.models.mlp(data, hidden=128)
        local = fk.SGD(epochs=1, batch_size=32, lr=0.05)
        truth = everybody.true_clusters
        assert truth is not None
        for name, method in RULES.items():
            run = fk.simulate(
                method, data, model, rounds=ROUNDS, cohort=CLIENTS, local=local, seed=seed
            )
            label = run.state.assignment
            home = [
                np.bincount(truth[:CLIENTS][label == k], minlength=4).argmax()
                for k in range(run.state.clusters)
            ]
            placed = [
                run.place(everybody.x[everybody.train[c]], resamples=1).cluster
                for c in range(CLIENTS, 2 * CLIENTS)
            ]
            right = np.mean([home[k] == truth[CLIENTS + i] for i, k in enumerate(placed)])
            cluster_counts[name].append(run.state.clusters)
            print(
                f"seed {seed}, {name}: {run.state.clusters} clusters, ARI "
                f"{adjusted_rand_score(truth[:CLIENTS], label):.2f}; newcomers without labels "
                f"right {right:.2f} (bar 0.90); accuracy {run.summary()['final_accuracy']:.1%}",
                flush=True,
            )
    for name, counts in cluster_counts.items():
        print(f"{name}: K = 4 found in {counts.count(4)} of {SEEDS} seeds (bar 4): {counts}")


if __name__ == "__main__":
    main()
