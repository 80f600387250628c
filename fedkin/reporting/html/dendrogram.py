"""Order of the clients in the similarity matrix, and the tree on its left. Shapes: n clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from fedkin.core.method import UNASSIGNED

Polyline = list[tuple[float, float]]


class Split(NamedTuple):
    """In round ``round``, a cluster was split: some clients of cluster ``parent`` became cluster
    ``new``."""

    round: int
    parent: int
    new: int


@dataclass(frozen=True)
class Tree:
    """A tree to be drawn. ``order`` lists the clients (rows of the similarity matrix) from the
    first position to the last. Each of the ``lines`` is a list of points (height, position).

    ``kind`` defines the height: for "dendrogram" the dissimilarity at which two subtrees merge, for
    "splits" the round in which a cluster was split.
    """

    kind: str
    order: Int[np.ndarray, "n"]
    lines: list[Polyline]


def dendrogram(distances: Float[np.ndarray, "n n"], clusters: Int[np.ndarray, "n"]) -> Tree:
    """Tree by average linkage, first within every cluster and then of the clusters, so that each
    cluster stays together.

    Two clusters may be closer to each other than the clients within them. Their merge is then drawn
    at the height of the merges within, so that no line runs backwards.
    """
    members = [np.flatnonzero(clusters == k) for k in np.unique(clusters)]
    # The distance of two clusters is the mean distance of their clients (average linkage).
    between = np.array([[distances[np.ix_(a, b)].mean() for b in members] for a in members])
    outer_order, outer = _linkage(between)
    inner = {k: _linkage(distances[np.ix_(members[k], members[k])]) for k in outer_order}
    order = np.concatenate([members[k][inner[k][0]] for k in outer_order])
    place = np.empty(len(order))
    place[order] = np.arange(len(order))
    lines: list[Polyline] = []
    roots = {}
    for k, (_, merges) in inner.items():
        leaves = [(0.0, float(place[client])) for client in members[k]]
        roots[k] = _draw_merges(leaves, merges, lines)
    _draw_merges([roots[k] for k in range(len(members))], outer, lines)
    return Tree("dendrogram", order, lines)


def _linkage(distances: Float[np.ndarray, "n n"]) -> tuple[Int[np.ndarray, "n"], np.ndarray]:
    """Average linkage of items with these distances: the order of the items (leaves of the tree),
    and the merges [n-1, 4] in SciPy's format."""
    if len(distances) < 2:
        return np.arange(len(distances)), np.zeros((0, 4))
    symmetric = (distances + distances.T) / 2
    np.fill_diagonal(symmetric, 0)
    merges = linkage(squareform(symmetric.clip(min=0), checks=False), "average")
    return leaves_list(merges).astype(np.int64), merges


def _draw_merges(
    nodes: list[tuple[float, float]], merges: np.ndarray, lines: list[Polyline]
) -> tuple[float, float]:
    """Add the lines of merges to ``lines``, starting from ``nodes``, which are points (height,
    position). Returns the point of the root."""
    nodes = list(nodes)
    for a, b, height, _ in merges:
        low, left = nodes[int(a)]
        high, right = nodes[int(b)]
        at = max(float(height), low, high)
        lines.append([(low, left), (at, left), (at, right), (high, right)])
        nodes.append((at, (left + right) / 2))
    return nodes[-1]


def splits(assignments: Sequence[Int[np.ndarray, "N"]]) -> list[Split] | None:
    """The splits by which one cluster became many. None if clusters were formed in another way."""
    if not len(assignments):
        return None
    clusters = _clusters_of(assignments[0])
    if len(clusters) != 1:
        return None
    history: list[Split] = []
    for round in range(1, len(assignments)):
        before = assignments[round - 1]
        after = assignments[round]
        parents = []
        for new in sorted(_clusters_of(after) - clusters):
            origins = before[(after == new) & (before != UNASSIGNED)]
            if not len(origins):
                return None
            parents.append(int(np.bincount(origins).argmax()))
            history.append(Split(round, parents[-1], new))
            clusters.add(new)
        # A split into more than two clusters in one round cannot be drawn as a binary tree.
        if len(set(parents)) < len(parents):
            return None
    return history or None


def _clusters_of(assignment: Int[np.ndarray, "N"]) -> set[int]:
    """The set of the clusters that have clients."""
    return set(np.unique(assignment[assignment != UNASSIGNED]).tolist())


def split_tree(
    splits: Sequence[Split],
    clusters: Int[np.ndarray, "n"],
    distances: Float[np.ndarray, "n n"],
    last: int,
) -> Tree:
    """The tree of a run's splits, with clients in the order of their clusters.

    Args:
        splits: the splits in the order of their rounds.
        clusters: final cluster of each client.
        distances: distances of all pairs of clients, which order the clients within a cluster.
        last: the last round, at which the leaves are drawn.
    """
    row = [splits[0].parent]
    # A new cluster is placed next to its parent.
    for _, parent, new in splits:
        row.insert(row.index(parent) + 1, new)
    # Clients outside these clusters come last.
    row += [k for k in np.unique(clusters).tolist() if k not in row]
    orders = []
    for k in row:
        members = np.flatnonzero(clusters == k)
        orders.append(members[_linkage(distances[np.ix_(members, members)])[0]])
    order = np.concatenate(orders).astype(np.int64)
    edges = np.cumsum([0, *(len(part) for part in orders)])
    node = {k: (float(last), (edges[i] + edges[i + 1] - 1) / 2) for i, k in enumerate(row)}
    lines: list[Polyline] = []
    for round, parent, new in reversed(splits):
        a, up = node[parent]
        b, down = node[new]
        lines.append([(a, up), (float(round), up), (float(round), down), (b, down)])
        node[parent] = (float(round), (up + down) / 2)
    root = node[splits[0].parent]
    lines.append([root, (0.0, root[1])])
    return Tree("splits", order, lines)
