"""FedGWC in whole runs: what it splits, what it cannot see, and clients that come later."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.metrics import adjusted_rand_score

import fedkin as fk
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.simulation.engine import SimulatedWorld

LOCAL = fk.LocalTraining(lr=0.1, epochs=2)
METHOD = fk.FedGWC(mean=True, eps=1e-4, gamma=1.0)
GROUPS = np.arange(20) % 2


def federation(kind: str) -> fk.FederatedData:
    """Twenty clients. Of those of group 1, labels are ``random``, or ``permuted`` alike."""
    data = fk.data.digits(partition="iid", clients=20)
    rng = np.random.default_rng(0)
    y = data.y.copy()
    for split in ("train", "test"):
        for client in np.flatnonzero(GROUPS).tolist():
            rows = data.part(split)[client]
            y[rows] = rng.integers(10, size=len(rows)) if kind == "random" else 9 - y[rows]
    return data.with_rows(data.train, data.test, y=y)


def run(data: fk.FederatedData, rounds: int = 200) -> fk.Run:
    return fk.simulate(METHOD, data, fk.models.mclr(data), rounds=rounds, cohort=5, local=LOCAL)


def test_clients_with_random_labels_are_separated() -> None:
    found = run(federation("random"))
    assert adjusted_rand_score(found.assignment, GROUPS) == 1


def test_groups_of_equally_high_losses_are_not_seen() -> None:
    """The permutation of labels gives both groups the same losses, so that rewards say nothing."""
    found = run(federation("permuted"))
    assert abs(adjusted_rand_score(found.assignment, GROUPS)) < 0.3
