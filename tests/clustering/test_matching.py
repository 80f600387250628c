"""Clusters keep their numbers from one clustering to the next."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from fedkin.clustering.matching import match_labels


def matched(labels: list[int], before: list[int], clusters: int, new: bool = False) -> list[int]:
    return match_labels(
        np.array(labels, np.int64), np.array(before, np.int64), clusters, new
    ).tolist()


def test_most_clients_keep_their_number() -> None:
    assert matched([0, 0, 1, 1, 1], [1, 1, 1, 0, 0], 2) == [1, 1, 0, 0, 0]


def test_the_best_matching_is_not_always_cluster_by_cluster() -> None:
    """Both new clusters have most of their clients from 0: three and two of them. The second keeps
    none as 1. So the first is 1, where it keeps two, and the second is 0."""
    assert matched([0] * 5 + [1] * 2, [0, 0, 0, 1, 1, 0, 0], 2) == [1] * 5 + [0] * 2


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_best_of_all_permutations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before, labels = rng.integers(-1, 4, size=(2, 30))
    labels = np.abs(labels)
    numbers = match_labels(labels, before, 4)
    best = max(int((np.array(order)[labels] == before).sum()) for order in permutations(range(4)))
    assert int((numbers == before).sum()) == best
    assert len({*zip(labels.tolist(), numbers.tolist(), strict=True)}) == len(np.unique(labels))


def test_a_cluster_of_newcomers_gets_a_new_number_or_a_free_one() -> None:
    labels = [0, 0, 1, 1]
    before = [1, 1, -1, -1]
    assert matched(labels, before, 2, new=True) == [1, 1, 2, 2]
    assert matched(labels, before, 2) == [1, 1, 0, 0]


def test_a_split_and_a_merge() -> None:
    assert matched([0, 0, 0, 1, 1], [0, 0, 0, 0, 0], 1, new=True) == [0, 0, 0, 1, 1]
    assert matched([0, 0, 0], [0, 1, 1], 2, new=True) == [1, 1, 1]


def test_the_first_clustering_and_none() -> None:
    assert matched([0, 1, 0], [-1, -1, -1], 0, new=True) == [0, 1, 0]
    assert matched([], [], 3) == []


def test_a_client_may_count_more_than_others() -> None:
    labels = np.array([0, 0, 1])
    before = np.array([0, 0, 0])
    assert match_labels(labels, before, 2).tolist() == [0, 0, 1]
    assert match_labels(labels, before, 2, weights=np.array([1, 1, 3])).tolist() == [1, 1, 0]
