"""Updates that are remembered: of whom, for how long, and in whole runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.data.federated import FederatedData
from fedkin.options.robust.update_memory import UpdateMemory
from tests.option_lists import simulate_arguments


def test_the_last_update_of_each_client_is_remembered_for_its_model_and_some_rounds() -> None:
    empty = UpdateMemory.empty(4, 2)
    assert not len(empty.clients(0, 0))
    first = empty.kept(np.array([[1, 1], [2, 2]], np.float32), np.array([0, 2]), 0, 1)
    later = first.kept(np.array([[5, 5]], np.float32), np.array([2]), 1, 3)
    assert first.clients(0, 0).tolist() == [0, 2] and not empty.last_update.any()
    assert later.clients(0, 1).tolist() == [0] and later.clients(1, 1).tolist() == [2]
    assert not len(later.clients(0, 2))  # forgotten
    assert later.last_update[2].tolist() == [5, 5]


@pytest.fixture(scope="module")
def data() -> FederatedData:
    return fk.planted(
        "digits", "rotation", clusters=2, clients=20, samples=30, test_samples=10, seed=0
    )


def go(data: FederatedData, **options: Any) -> fk.Run:
    settings: dict[str, Any] = {
        "rounds": 4,
        "cohort": 6,
        "local": fk.SGD(epochs=2, batch_size=10, lr=0.1),
        "seed": 1,
    }
    method = fk.FLHC(clusters=2, metric="cosine", linkage="average", cluster_round=1)
    return fk.simulate(
        method,
        data,
        fk.models.mclr(data),
        **simulate_arguments({"callbacks": fk.Progress(False)} | settings | options),
    )


def test_clients_of_earlier_rounds_are_compared_too(data: FederatedData) -> None:
    with_memory = go(data, robust=fk.RobustAggregation("median", memory=5))
    without = go(data, robust=fk.RobustAggregation("median"))
    rounds = [run.state.extras["robust"]["rule_rounds"] for run in (with_memory, without)]
    assert rounds[0].sum() > rounds[1].sum() and (rounds[0] >= rounds[1]).all()
    assert (with_memory.state.models != without.state.models).any()
    at_once = [
        go(data, robust=fk.RobustAggregation("median", memory=n), cohort=20).state.models
        for n in (0, 5)
    ]
    # Where all reply in every round there is nothing to remember.
    np.testing.assert_array_equal(at_once[0], at_once[1])


def failing(record: Any) -> None:
    if record["round"] == 2:
        raise RuntimeError


def test_a_run_with_memory_resumes_to_the_bit(data: FederatedData, tmp_path: Path) -> None:
    robust = fk.RobustAggregation("majority+geometric_median", 0.4, memory=3)
    protected = partial(go, data, robust=robust, checkpoint_every=1)
    whole = protected(out=tmp_path / "whole")
    with pytest.raises(RuntimeError):
        protected(out=tmp_path / "parts", on_round=failing)
    parts = protected(out=tmp_path / "parts", resume=True)
    np.testing.assert_array_equal(parts.state.models, whole.state.models)
    remembered = [run.state.extras["robust"]["last_update"] for run in (parts, whole)]
    np.testing.assert_array_equal(remembered[0], remembered[1])


def test_a_majority_of_a_round_that_attacks_is_no_majority_of_the_cluster(
    data: FederatedData,
) -> None:
    assert data.true_clusters is not None
    # 4 of 10.
    attackers = tuple(int(c) for k in (0, 1) for c in np.flatnonzero(data.true_clusters == k)[:4])
    attack = fk.Byzantine("sign_flip", clients=attackers, start=2)
    runs = [
        go(
            data,
            attack=attack,
            robust=fk.RobustAggregation(
                rule="majority+geometric_median", byzantine=0.45, least=3, memory=memory
            ),
            rounds=12,
            cohort=8,
        )
        for memory in (10, 0)
    ]
    accuracy = [run.summary()["honest_accuracy"] for run in runs]
    assert accuracy[0] > accuracy[1] + 0.02


def test_a_minority_of_honest_clients_has_a_cluster_and_is_not_suspected() -> None:
    """Two of forty clients are of another kind."""
    whole = fk.planted(
        "digits", "rotation", clusters=4, clients=48, samples=28, test_samples=8, seed=0
    )
    assert whole.true_clusters is not None
    kept = [
        np.flatnonzero(whole.true_clusters == kind)[:count]
        for kind, count in enumerate((12, 12, 11, 2))
    ]
    clients = np.sort(np.concatenate(kept))
    train = whole.train.select(clients)
    test = whole.test.select(clients)
    kinds = whole.true_clusters[clients]
    data = whole.with_rows(train, test, kinds)
    method = fk.FLHC(distance="silhouette", metric="cosine", linkage="average", cluster_round=1)
    attack = fk.Byzantine("sign_flip", clients=tuple(np.flatnonzero(kinds == 0)[:4].tolist()))
    rule = fk.RobustAggregation("majority+geometric_median", 0.45, least=2, memory=10)
    work = fk.SGD(epochs=5, batch_size=10, lr=0.1)
    options: dict[str, Any] = {
        "rounds": 4,
        "cohort": 37,
        "local": work,
        "attack": attack,
        "robust": rule,
    }
    run = fk.simulate(
        method,
        data,
        fk.models.mclr(data),
        **simulate_arguments({"callbacks": fk.Progress(False)} | options),
    )
    summary = run.summary()
    few = np.flatnonzero(kinds == 3)
    assert summary["honest_ari"] == 1 and summary["attackers_alone"] == 1
    honest = [
        w for client, w in enumerate(summary["rule_weights"]) if client not in summary["attackers"]
    ]
    assert len(few) == 2 and all(w is not None and w >= 0.5 for w in honest)
