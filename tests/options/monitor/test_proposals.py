"""Proposals of the monitor, from counts by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.measures.e_values import discordant_e_value, not_worse_e_value
from fedkin.options.monitor.proposals import (
    Act,
    log_of,
    not_worse,
    probe_rows,
    read_probes,
    splits,
    unions,
)


def test_a_client_is_compared_with_every_other_cluster() -> None:
    clients, pairs = probe_rows(np.array([7, 3]), np.array([0, 2]), np.array([0, 1, 2]))
    assert clients.tolist() == [7, 7, 3, 3]
    assert pairs.tolist() == [[0, 1], [0, 2], [2, 0], [2, 1]]
    _, none = probe_rows(np.array([7]), np.array([0]), np.array([0]))
    assert none.shape == (0, 2)


def test_the_best_other_cluster_is_proposed_with_the_mean_evidence() -> None:
    counts = np.array([[15, 1, 20], [3, 4, 20]])
    (probe,) = read_probes(np.array([7, 7]), np.array([[0, 1], [0, 2]]), counts, alpha=0.05)
    evidence = discordant_e_value(np.array([15, 3]), np.array([1, 4])).mean()
    assert (probe.client, probe.cluster, probe.to) == (7, 0, 1)
    assert probe.e_value == pytest.approx(evidence) and evidence > 20
    assert probe.passes


def test_clients_are_judged_together() -> None:
    """Alone, an e-value of 482 passes 1 / 0.05; of 30 probed clients the largest needs 600."""
    one = np.array([[15, 1, 20]])
    many = np.array([[15, 1, 20]] + [[1, 1, 20]] * 29)
    pairs = np.tile([0, 1], (30, 1))
    assert read_probes(np.arange(1), pairs[:1], one, alpha=0.05)[0].passes
    assert not any(probe.passes for probe in read_probes(np.arange(30), pairs, many, alpha=0.05))


def test_a_client_without_a_better_cluster_has_none() -> None:
    (probe,) = read_probes(np.array([2]), np.array([[0, 1]]), np.array([[2, 2, 9]]), alpha=0.05)
    assert probe.to is None and not probe.passes


def test_a_cluster_is_two_if_enough_of_its_clients_fit_nowhere() -> None:
    assignment = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 1, -1])
    stray = np.array([1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1], bool)
    assert splits(stray, assignment, share=0.3) == [0]
    assert splits(stray, assignment, share=0.6) == []
    # If all clients are stray, the cluster has drifted as a whole, and is still one.
    assert splits(assignment == 0, assignment, share=0.3) == []


def test_a_split_is_proposed_in_words() -> None:
    words = Act(3, "split", 1).in_words({})
    assert words == "cluster 1 should be split in two: clients that fit no cluster are in it"


def test_evidence_for_a_union_sums_the_samples_of_a_cluster() -> None:
    pairs = np.array([[0, 1], [0, 1], [1, 0]])
    counts = np.array([[1, 0, 40], [0, 2, 60], [0, 0, 0]])
    e_values = not_worse(pairs, counts, clusters=2, margin=0.05)
    expected = not_worse_e_value(np.array([1]), np.array([2]), np.array([100]), 0.05)
    assert e_values[0, 1] == pytest.approx(expected[0])
    assert e_values[1, 0] == 0  # no samples


def test_two_clusters_are_one_only_with_evidence_in_both_directions() -> None:
    e_values = np.array([[0.0, 900.0], [5.0, 0.0]])
    # Cluster 0 can take the model of cluster 1, which would serve all.
    (act,) = unions(e_values, alpha=0.05, round=7)
    assert (act.kind, act.to, act.log_evidence) == ("one_model", 1, log_of(900.0))
    kinds = [act.kind for act in unions(np.array([[0.0, 900.0], [800.0, 0.0]]), 0.05, 7)]
    assert kinds == ["merge", "one_model"]
    # Three questions at 0.05: 60 is needed.
    assert not unions(np.array([[0.0, 59.0], [59.0, 0.0]]), 0.05, 7)


def test_one_model_must_serve_every_other_cluster() -> None:
    e_values = np.array([[0.0, 900.0, 0.1], [900.0, 0.0, 0.1], [0.1, 900.0, 0.0]])
    acts = unions(e_values, alpha=0.05, round=1)
    assert [(act.kind, act.cluster, act.to) for act in acts] == [
        ("merge", 0, 1),
        ("one_model", 1, 1),
    ]


def test_an_act_in_a_record_has_only_what_applies() -> None:
    act = Act(3, "alarm", 1, client=4, log_evidence=log_of(np.e))
    assert act.plain() == {
        "round": 3,
        "kind": "alarm",
        "cluster": 1,
        "client": 4,
        "log_evidence": 1.0,
        "done": False,
    }
    assert (log_of(0.0), log_of(float("inf"))) == (-1000.0, 1000.0)
