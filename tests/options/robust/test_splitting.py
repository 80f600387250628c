"""Clusters that are split: the clients that leave, the number of updates before, and a run with
woken sleepers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.plan import Plan
from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.randomness import Stream
from fedkin.core.requirements import DataNeeds, Requirements
from fedkin.measures.cluster_agreement import adjusted_rand_index
from fedkin.options.robust.splitting import Clusters, split, times_left_out
from fedkin.run.cohort_selection import select_cohort
from tests.option_lists import simulate_arguments
from tests.options.robust.test_robust import TrueClusters

RECIPE = fk.RobustAggregation("majority+geometric_median", byzantine=0.4, least=3, split_after=2)
DATA = fk.planted("digits", "rotation", clusters=2, clients=20, samples=30, test_samples=10, seed=0)
SLEEPERS = fk.Byzantine("sign_flip", share=0.3, start=2)
ATTACKERS = SLEEPERS.attackers(20, DATA.true_clusters)


class Splittable(TrueClusters):
    """A user's method that says so."""

    def requirements(self) -> Requirements:
        return Requirements(data=DataNeeds(true_clusters=True), keeps_clusters=True)


METHOD = Splittable()


def go(method: Any = METHOD, robust: Any = RECIPE, **options: Any) -> fk.Run:
    work = fk.SGD(epochs=2, batch_size=10, lr=0.1)
    settings: dict[str, Any] = {
        "rounds": 4,
        "cohort": 20,
        "local": work,
        "attack": SLEEPERS,
        "robust": robust,
    }
    return fk.simulate(method, DATA, fk.models.mclr(DATA), **simulate_arguments(settings | options))


def test_updates_left_out_in_a_row_are_counted_and_one_that_counts_ends_it() -> None:
    """A client that sent nothing, or that was not judged, keeps its number."""
    before = np.array([1, 1, 1, 0])
    judged = np.array([True, True, False, True])
    np.testing.assert_array_equal(
        times_left_out(before, np.array([0.49, 0.5, 0.0, 0.0]), judged), [2, 0, 1, 1]
    )


def test_clients_that_leave_a_cluster_leave_together_with_a_copy_of_its_model() -> None:
    models = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    clusters = Clusters(models, np.array([0, 0, 0, 1, 1, 1, -1]), np.zeros(7, np.int64))
    due = np.array([True, False, False, True, False, False, True])
    after = split(clusters, due, lambda count: count // 3)
    np.testing.assert_array_equal(after.models, models[[0, 1, 0, 1]])
    np.testing.assert_array_equal(after.assignment, [2, 0, 0, 3, 1, 1, -1])
    np.testing.assert_array_equal(after.left_cluster, [1, 0, 0, 2, 0, 0, 0])
    for one, other in zip(split(clusters, due & False, lambda count: count), clusters, strict=True):
        np.testing.assert_array_equal(one, other)


def test_more_than_may_be_byzantine_do_not_leave() -> None:
    """Then the rule may have left out the honest (krum leaves out all but one); nor in parts, one
    after another."""
    clusters = Clusters(np.zeros((1, 2), np.float32), np.zeros(5, np.int64), np.zeros(5, np.int64))
    due, first, second = np.array([[1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0]], bool)
    assert not split(clusters, due, lambda count: count // 2).assignment.any()
    assert split(clusters, due, lambda count: count - 2).assignment.tolist() == [1, 1, 1, 0, 0]
    half = split(clusters, first, lambda count: count // 2)
    assert half.assignment.tolist() == [1, 1, 0, 0, 0]
    # 3 of 5.
    assert split(half, second, lambda count: count // 2).assignment.tolist() == [1, 1, 0, 0, 0]


def test_a_client_that_has_left_does_not_leave_again_and_counts_as_gone() -> None:
    """Two of six leave cluster 0; were one of them to leave its new cluster, another could leave
    cluster 0."""
    left = np.array([1, 1, 0, 0, 0, 0])
    clusters = Clusters(np.zeros((2, 1), np.float32), np.array([1, 1, 0, 0, 0, 0]), left)
    after = split(
        clusters, np.array([True, False, True, False, False, False]), lambda count: count // 3
    )
    assert len(after.models) == 2
    np.testing.assert_array_equal(after.left_cluster, left)


@pytest.mark.parametrize("rule", ["krum", "multi_krum", "mda", "nnm+trimmed_mean"])
def test_rules_that_leave_out_honest_updates_split_nothing(rule: str) -> None:
    with pytest.raises(
        MethodError,
        match=r"split_after: .* excludes honest updates.*robust\.rule to geometric_median",
    ):
        fk.RobustAggregation(rule, split_after=2)


def test_sleepers_that_wake_end_up_alone_and_the_kinds_stay_whole() -> None:
    """They attack in rounds 2 and 3, and are apart from then on. They stay suspects, though they
    are not judged."""
    assert DATA.true_clusters is not None
    run = go()
    before = go(robust=replace(RECIPE, split_after=0))
    assert before.summary()["attackers_alone"] == 0 and run.summary()["attackers_alone"] == 1
    honest = run.assignment[~ATTACKERS]
    assert (
        adjusted_rand_index(honest, DATA.true_clusters[~ATTACKERS]) == 1
        and len(np.unique(honest)) == 2
    )
    assert len(go(rounds=2).models) == 2 < len(run.models) == 4
    weights = np.array(run.summary()["rule_weights"])
    assert (weights[ATTACKERS] < 0.5).all() and (weights[~ATTACKERS] >= 0.5).all()
    assert sorted(run.migrations[-1]["clients"]) == np.flatnonzero(ATTACKERS).tolist()


def test_honest_clients_stay_where_they_are() -> None:
    plain = go(attack=None, robust=replace(RECIPE, split_after=0))
    quiet = go(attack=None)
    np.testing.assert_array_equal(quiet.models, plain.models)
    np.testing.assert_array_equal(quiet.assignment, plain.assignment)


def test_only_new_updates_count_where_old_ones_are_remembered() -> None:
    """Half of the clients are drawn, all are judged in both rounds of the attack: those leave that
    sent two updates."""
    remembered = replace(RECIPE, memory=10)
    run = go(robust=remembered, rounds=3, cohort=10)
    second, third = (
        select_cohort(np.arange(20), 20, Plan(3, 10), Stream(0, round, "cohort"))
        for round in (2, 3)
    )
    twice = np.intersect1d(second, third)
    left = np.flatnonzero(run.assignment >= 2)
    assert (
        left.tolist() == np.intersect1d(twice, np.flatnonzero(ATTACKERS)).tolist()
        and 0 < len(left) < ATTACKERS.sum()
    )
    later = go(robust=remembered, rounds=14, cohort=10)
    assert (
        later.summary()["attackers_alone"] > run.summary()["attackers_alone"]
        and later.summary()["honest_ari"] == 1
    )


def test_before_clusters_are_found_nothing_is_split() -> None:
    """The joint model of FL+HC has one cluster, whomever the rule leaves out; its later clusters
    are split, too."""
    late = fk.FLHC(clusters=2, metric="cosine", linkage="average", cluster_round=4)
    assert len(go(late, rounds=3, attack=replace(SLEEPERS, start=0)).models) == 1
    assert go(late, rounds=6, attack=replace(SLEEPERS, start=5)).summary()["attackers_alone"] == 1


@pytest.mark.parametrize("memory", [0, 3])
def test_a_run_that_splits_resumes_to_the_bit(memory: int, tmp_path: Path) -> None:
    def failing(record: Any) -> None:
        if record["round"] == 3:
            raise RuntimeError

    split = partial(go, robust=replace(RECIPE, memory=memory), rounds=5, checkpoint_every=1)
    whole = split()
    with pytest.raises(RuntimeError):
        split(out=tmp_path / "run", on_round=failing)
    parts = split(out=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(parts.models, whole.models)
    np.testing.assert_array_equal(parts.assignment, whole.assignment)
    assert parts.summary()["rule_weights"] == whole.summary()["rule_weights"]


def test_methods_whose_clusters_cannot_be_split_are_refused_by_name() -> None:
    moving = (fk.FLHC(threshold=1.0, migration="label_blind"), fk.FLHC(threshold=1.0, eta_g=0.1))
    for method in (
        fk.IFCA(clusters=2, weighting="examples"),
        fk.FlexCFL(clusters=2),
        TrueClusters(),
        *moving,
    ):
        with pytest.raises(
            ConfigError,
            match=f"robust.*{type(method).__name__} assigns clients again.*leave out robust",
        ):
            go(method)
    with pytest.raises(
        ConfigError, match=r"stores moments for each cluster.*leave out robust\.split_after"
    ):
        go(server_optimizer=fk.FedAvgM())
    with pytest.raises(MethodError, match="split_after"):
        fk.RobustAggregation("median", split_after=-1)
