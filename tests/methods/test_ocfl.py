"""OCFL in whole runs: when it clusters, and what the confirmation refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

import fedkin as fk
from fedkin.data.federated import FederatedData

LOCAL = fk.LocalTraining(lr=0.1, epochs=2)


def planted() -> tuple[FederatedData, np.ndarray]:
    """Twelve clients in three groups whose labels are permuted differently."""
    data = fk.data.digits(partition="iid", clients=12)
    groups = np.arange(12) % 3
    y = data.y.copy()
    for split in ("train", "test"):
        for client in range(12):
            rows = data.part(split)[client]
            y[rows] = (y[rows] + 3 * groups[client]) % 10
    return data.with_rows(data.train, data.test, y=y), groups


def run(data: FederatedData, rounds: int = 8, **options: Any) -> fk.Run:
    return fk.simulate(
        fk.OCFL(**options), data, fk.models.mclr(data), rounds=rounds, cohort=12, local=LOCAL
    )


def test_clusters_are_found_once_when_the_temperature_rises() -> None:
    data, groups = planted()
    found = run(data)
    assert adjusted_rand_score(found.assignment, groups) == 1
    sizes = [len(record["cluster_sizes"]) for record in found.records]
    # One model at first, and no second clustering.
    assert sizes[0] == sizes[1] == 1 and sizes == sorted(sizes) and sizes[-1] == 3


def test_confirmed_clusters_come_a_round_later() -> None:
    data, groups = planted()
    found = run(data, confirm=0.05)
    assert adjusted_rand_score(found.assignment, groups) == 1
    rounds = [
        next(r["round"] for r in one.records if len(r["cluster_sizes"]) > 1)
        for one in (run(data), found)
    ]
    assert rounds[1] == rounds[0] + 1


def test_a_round_with_one_reply_does_not_cool_the_federation() -> None:
    """Its temperature would be 0, and any later one a rise."""
    data, _ = planted()
    world = fk.SimulatedWorld(data, fk.models.mclr(data), LOCAL)
    method = fk.OCFL()
    state = method.init(world, fk.Stream(0))
    for number, cohort in enumerate((np.arange(12), np.arange(1)), 1):
        before = state
        state = method.round(world, before, cohort, fk.Stream(0, number))
    assert state.temperature == before.temperature > 0
