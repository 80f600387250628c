"""FedGWC in whole runs: which groups it separates, and which it cannot see."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import adjusted_rand_score

import fedkin as fk

LOCAL = fk.LocalTraining(lr=0.1, epochs=2)
GROUPS = np.arange(20) % 2


def federation(kind: str) -> fk.FederatedData:
    """Twenty clients. Labels of those of group 1 are ``random``, or ``permuted``."""
    data = fk.data.digits(partition="iid", clients=20)
    rng = np.random.default_rng(0)
    y = data.y.copy()
    for split in ("train", "test"):
        for client in np.flatnonzero(GROUPS).tolist():
            rows = data.part(split)[client]
            y[rows] = rng.integers(10, size=len(rows)) if kind == "random" else 9 - y[rows]
    return data.with_rows(data.train, data.test, y=y)


def agreement(kind: str, seed: int) -> float:
    data = federation(kind)
    run = fk.simulate(
        fk.FedGWC(mean=True, eps=1e-4),
        data,
        fk.models.mclr(data),
        rounds=200,
        cohort=5,
        local=LOCAL,
        seed=seed,
        # The scores of rounds are not looked at.
        scoring=fk.Scoring(evaluate_every=0),
    )
    return adjusted_rand_score(run.assignment, GROUPS)


def test_clients_with_random_labels_are_separated() -> None:
    assert agreement("random", seed=0) == 1


def test_groups_of_equally_high_losses_are_not_seen() -> None:
    """A permutation of labels makes other concepts with losses of the same level."""
    assert np.mean([agreement("permuted", seed) for seed in range(4)]) < 0.1
