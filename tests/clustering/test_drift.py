"""Clustering by drift: the authors' code in one time step, and hand cases where another rule gives
something else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from fedkin.clustering.drift import choose_models, drift_distances, merge_models, recycled


def step(case: dict[str, Any]) -> tuple[Any, np.ndarray, np.ndarray]:
    """The models that clients chose, the models after the merge, and where each one went."""
    models = np.array(case["model_parameters"])
    owner = np.array(case["history_model_of_client_at_0"])[:, None]
    now = np.array(case["accuracy_models_by_clients_now"]).T
    accuracy = np.full((len(now), len(models)), -np.inf)
    accuracy[:, : now.shape[1]] = now
    no_client = np.zeros(len(now), bool)
    before = np.array(case["accuracy_before"])
    chosen = choose_models(
        models=models,
        owner=owner,
        model=owner[:, 0],
        accuracy=accuracy,
        before=before,
        alone=no_client,
        delta=case["delta"],
    )
    owner = np.hstack([chosen.owner, chosen.model[:, None]])
    candidates = np.intersect1d(np.arange(now.shape[1]), chosen.owner)
    between = np.array(case["cluster_accuracy_i_on_data_of_j"])[np.ix_(candidates, candidates)]
    after, into = merge_models(
        models=chosen.models,
        fresh=np.zeros_like(models),
        owner=owner,
        candidates=candidates,
        accuracy=between,
        threshold=case["delta_prime"],
        linkage=case["linkage"],
    )
    return chosen, after, np.append(into, -1)[owner]


def test_the_authors_step(oracle: Callable[[str], dict[str, Any]]) -> None:
    cases = oracle("methods2")["feddrift"]
    assert len(cases) >= 4
    for case in cases:
        chosen, models, owner = step(case)
        assert_close = partial(
            np.testing.assert_allclose, atol=case["tolerance"], rtol=0, err_msg=case["case"]
        )
        distances = drift_distances(np.array(case["cluster_accuracy_i_on_data_of_j"]))
        assert_close(distances, case["distance"])
        np.testing.assert_array_equal(owner[:, 1], case["model_of_client_now"], case["case"])
        assert np.flatnonzero(chosen.drifted).tolist() == [
            int(client) for client in case["isolated"]
        ]
        assert_close(models, case["parameters_after"])
        assert_close(chosen.accuracy, list(case["accuracy_stored_after"].values()))
        for time, weights in case["weights_after"].items():
            owns = owner[:, int(time)] == np.arange(len(models))[:, None]
            np.testing.assert_array_equal(owns, np.array(weights) > 0, case["case"])


MODELS = np.arange(8.0).reshape(4, 2)
OUT = -np.inf


def choose(
    accuracy: list[list[float]], before: list[float], owner: list[int], **options: Any
) -> Any:
    no_client = options.pop("alone", np.zeros(len(before), bool))
    table = np.array(accuracy, float)
    return choose_models(
        models=options.pop("models", MODELS),
        owner=np.array(owner)[:, None],
        model=np.array(owner),
        accuracy=table,
        before=np.array(before),
        alone=no_client,
        delta=0.1,
        **options,
    )


def test_drift_is_strict_and_asks_for_the_best_model() -> None:
    accuracy = [[0.5, 0.75, OUT, OUT], [0.5, 0.25, OUT, OUT], [0.5, 0.5, OUT, OUT]]
    chosen = choose(accuracy, [0.75 + 0.1, 0.75, np.nan], [0, 1, 1])
    # 0.1 is not more than delta; a newcomer has no accuracy yet.
    assert chosen.drifted.tolist() == [False, True, False]
    assert chosen.model.tolist() == [1, 2, 0] and np.array_equal(chosen.models[2], MODELS[0])
    assert chosen.accuracy.tolist() == [0.75, 0.5, 0.5]  # before training


def test_eager_clients_share_one_new_model() -> None:
    accuracy = [[0.5, 0.25, OUT, OUT], [0.25, 0.5, OUT, OUT], [0.9, 0.2, OUT, OUT]]
    apart, shared = (choose(accuracy, [0.9] * 3, [0, 1, 0], eager=eager) for eager in (False, True))
    assert apart.model.tolist() == [2, 3, 0] and shared.model.tolist() == [2, 2, 0]
    assert np.array_equal(shared.models[2], MODELS[0]) and np.array_equal(
        shared.models[3], MODELS[3]
    )


def test_a_client_alone_or_without_new_samples_keeps_its_model() -> None:
    accuracy = [[0.9, 0.2, OUT, OUT], [OUT] * 4]
    chosen = choose(accuracy, [0.9, 0.9], [1, 1], alone=np.array([True, False]))
    assert (
        chosen.model.tolist() == [1, 1] and not chosen.drifted.any() and chosen.accuracy[0] == 0.2
    )


def test_no_place_no_drift() -> None:
    accuracy = [[0.9, 0, 0, 0], [0, 0.9, 0, 0], [0, 0, 0.9, 0], [0, 0, 0, 0.9], [0.3, 0.2, 0, 0]]
    chosen = choose(accuracy, [0.9] * 5, [0, 1, 2, 3, 0])
    assert (
        not chosen.drifted.any() and chosen.model[4] == 0 and np.array_equal(chosen.models, MODELS)
    )


def test_a_new_model_never_replaces_one_that_a_client_still_uses() -> None:
    # Client 0 stays on model 2. The others drift: the best model of client 1 is 1, and the best of
    # clients 2 and 3 is 0.
    accuracy = [[0.2, 0.1, 0.9], [0.2, 0.3, 0.1], [0.3, 0.2, 0.1], [0.3, 0.2, 0.1]]
    before = [0.9] * 4
    full = choose(accuracy, before, [2, 1, 0, 0], models=MODELS[:3])
    assert full.model.tolist() == [2, 1, 0, 0]
    assert not full.drifted.any()
    # With one more slot client 1 leaves model 1, so client 2 can take its slot. Client 3 finds
    # none, and keeps model 0, which no client has replaced.
    table = [[*row, OUT] for row in accuracy]
    one_slot = choose(table, before, [2, 1, 0, 0])
    assert one_slot.model.tolist() == [2, 3, 1, 0]
    assert one_slot.drifted.tolist() == [False, True, True, False]
    assert np.array_equal(one_slot.models, MODELS[[0, 0, 2, 1]])


def test_the_place_of_the_model_used_longest_ago() -> None:
    owner = np.array([[0, 1, 1], [2, 2, 1], [3, 3, 0]])
    # Last used in step 1, as 3; 0 in step 2.
    assert recycled(owner, np.array([False, True, False, False])) == 2
    assert recycled(owner, np.array([False, True, True, True])) == 0
    assert recycled(owner, np.zeros(5, bool)) == 4 and recycled(owner, np.ones(4, bool)) is None


def test_a_forgotten_model_owns_no_samples() -> None:
    accuracy = [[0.9, 0.2, 0.2, 0.2], [0.2, 0.9, 0.2, 0.2], [0.2, 0.2, 0.2, 0.1], [0.9, 0, 0, 0]]
    chosen = choose(accuracy, [0.9, 0.9, 0.9, 0.9], [0, 1, 2, 3])
    assert chosen.model.tolist() == [0, 1, 2, 0] and chosen.owner[:, 0].tolist() == [0, 1, -1, 3]


def test_models_without_samples_do_not_merge() -> None:
    accuracy = np.array([[0.9, np.nan], [0.9, np.nan]])
    assert drift_distances(accuracy)[0, 1] > 1
    after, into = merge_models(
        models=MODELS,
        fresh=0 * MODELS,
        owner=np.array([[0], [1]]),
        candidates=np.array([0, 1]),
        accuracy=accuracy,
        threshold=0.5,
    )
    assert np.array_equal(after, MODELS) and into.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("linkage", "groups"), [("complete", 2), ("average", 1)])
def test_complete_linkage_asks_all_pairs(linkage: str, groups: int) -> None:
    # Distances 0.05, 0.2, 0.05.
    accuracy = np.array([[0.9, 0.85, 0.7], [0.9, 0.9, 0.85], [0.9, 0.9, 0.9]])
    owner = np.array([[0], [1], [2]])
    _, into = merge_models(
        models=MODELS,
        fresh=0 * MODELS,
        owner=owner,
        candidates=np.arange(3),
        accuracy=accuracy,
        threshold=0.15,
        linkage=linkage,
    )
    assert len(np.unique(into[:3])) == groups
