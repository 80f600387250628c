"""Trees next to the similarity matrix, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Int

from fedkin.reporting.html.dendrogram import Split, dendrogram, split_tree, splits


def test_a_dendrogram_keeps_groups_together_and_merges_at_mean_distances() -> None:
    at = np.array([0.0, 10.0, 1.0, 14.0])  # groups {0, 2} and {1, 3}
    distances = np.abs(at[:, None] - at[None])
    tree = dendrogram(distances, np.array([0, 1, 0, 1]))
    assert sorted(tree.order.tolist()[:2]) in ([0, 2], [1, 3])
    tops = sorted(max(h for h, _ in line) for line in tree.lines)
    # Inside, inside, mean of the pairs across.
    assert tops == [
        1.0,
        4.0,
        pytest.approx((10 + 14 + 9 + 13) / 4),
    ]


def test_a_group_of_one_client_is_a_leaf() -> None:
    tree = dendrogram(np.array([[0.0, 2.0], [2.0, 0.0]]), np.array([5, 7]))
    assert tree.order.tolist() == [0, 1]
    assert tree.lines == [[(0.0, 0.0), (2.0, 0.0), (2.0, 1.0), (0.0, 1.0)]]
    assert dendrogram(np.zeros((1, 1)), np.array([0])).lines == []


def split_twice() -> list[Int[np.ndarray, "N"]]:
    """All in one cluster; in round 2 clients 3 to 5 leave it, in round 4 client 5 leaves them."""
    return [
        np.array(row)
        for row in ([0] * 6, [0] * 6, [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 2])
    ]


def test_splits_are_found_in_the_assignments() -> None:
    assert splits(split_twice()) == [(2, 0, 1), (4, 1, 2)]


def test_other_changes_are_no_splits() -> None:
    assert splits([np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])]) is None  # two from the start
    assert splits([np.zeros(3, np.int64), np.array([0, 1, 2])]) is None  # three at once
    assert splits([np.zeros(3, np.int64)] * 2) is None  # never cut
    assert splits([]) is None


def test_a_split_tree_has_its_splits_at_their_rounds() -> None:
    rows = split_twice()
    distances = np.ones((6, 6)) - np.eye(6)
    tree = split_tree([Split(2, 0, 1), Split(4, 1, 2)], rows[-1], distances, 4)
    assert tree.kind == "splits"
    assert sorted(tree.order[:3].tolist()) == [0, 1, 2] and tree.order[5] == 5
    (_, cut, _, _), (_, first, _, _), root = tree.lines
    assert cut[0] == 4 and first[0] == 2 and root[-1][0] == 0
    assert first[1] == 1.0  # the middle of the three that stayed
