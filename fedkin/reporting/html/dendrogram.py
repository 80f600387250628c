"""In which order clients stand in a matrix, and the tree beside it. Letters: n clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from fedkin.core.method import UNASSIGNED

Polyline = list[tuple[float, float]]
Split = tuple[int, int, int]  # round, the cluster that was cut, the cluster that came of it


@dataclass(frozen=True)
class Tree:
    """``order`` is the row at each place; lines are (height, place), and ``kind`` says what a height is: the
    dissimilarity at which two parts merge ("dendrogram"), or the round in which a cluster was cut ("splits")."""

    kind: str
    order: Int[np.ndarray, "n"]
    lines: list[Polyline]


def dendrogram(distances: Float[np.ndarray, "n n"], group: Int[np.ndarray, "n"]) -> Tree:
    """Average linkage inside every group, and then of the groups: each stays together, in the order of the tree.

    Groups may be nearer to each other than their own parts are; a merge is then drawn at the height of those.
    """
    kinds = [np.flatnonzero(group == name) for name in np.unique(group)]
    between = np.array([[distances[np.ix_(a, b)].mean() for b in kinds] for a in kinds])
    tops, outer = _linked(between)
    inner = {k: _linked(distances[np.ix_(kinds[k], kinds[k])]) for k in tops}
    order = np.concatenate([kinds[k][inner[k][0]] for k in tops])
    place = np.empty(len(order))
    place[order] = np.arange(len(order))
    lines: list[Polyline] = []
    roots = {}
    for k, (_, merges) in inner.items():
        leaves = [(0.0, float(place[client])) for client in kinds[k]]
        roots[k] = _joined(leaves, merges, lines)
    _joined([roots[k] for k in range(len(kinds))], outer, lines)
    return Tree("dendrogram", order, lines)


def _linked(distances: Float[np.ndarray, "n n"]) -> tuple[Int[np.ndarray, "n"], np.ndarray]:
    """The order of the leaves and the merges [n-1, 4], as SciPy numbers them."""
    if len(distances) < 2:
        return np.arange(len(distances)), np.zeros((0, 4))
    symmetric = (distances + distances.T) / 2
    np.fill_diagonal(symmetric, 0)
    merges = linkage(squareform(symmetric.clip(min=0), checks=False), "average")
    return leaves_list(merges).astype(np.int64), merges


def _joined(nodes: list[tuple[float, float]], merges: np.ndarray, lines: list[Polyline]) -> tuple[float, float]:
    """Draw merges of nodes (height, place) into ``lines``; the last node of all."""
    nodes = list(nodes)
    for a, b, height, _ in merges:
        (low, left), (high, right) = nodes[int(a)], nodes[int(b)]
        at = max(float(height), low, high)
        lines.append([(low, left), (at, left), (at, right), (high, right)])
        nodes.append((at, (left + right) / 2))
    return nodes[-1]


def splits(assignments: Sequence[Int[np.ndarray, "N"]]) -> list[Split] | None:
    """How one cluster became many by being cut in two; None where that is not what happened."""
    known = set(np.unique(assignments[0][assignments[0] != UNASSIGNED]).tolist()) if len(assignments) else set()
    if len(known) != 1:
        return None
    found: list[Split] = []
    for round in range(1, len(assignments)):
        before, after = assignments[round - 1], assignments[round]
        cut = []
        for new in sorted(set(np.unique(after[after != UNASSIGNED]).tolist()) - known):
            came = before[(after == new) & (before != UNASSIGNED)]
            if not len(came):
                return None
            cut.append(int(np.bincount(came).argmax()))
            found.append((round, cut[-1], new))
            known.add(new)
        if len(set(cut)) < len(cut):
            return None  # into more than two at once
    return found or None


def split_tree(
    cuts: Sequence[Split], group: Int[np.ndarray, "n"], distances: Float[np.ndarray, "n n"], last: int
) -> Tree:
    """The cuts of a run, its clients in the order of their clusters in it; heights are rounds."""
    row = [cuts[0][1]]
    for _, parent, new in cuts:  # a new cluster stands beside the one that it came of
        row.insert(row.index(parent) + 1, new)
    row += [k for k in np.unique(group).tolist() if k not in row]  # such as clients without a cluster
    orders = []
    for k in row:
        members = np.flatnonzero(group == k)
        orders.append(members[_linked(distances[np.ix_(members, members)])[0]])
    order, edges = np.concatenate(orders).astype(np.int64), np.cumsum([0, *(len(part) for part in orders)])
    node = {k: (float(last), (edges[i] + edges[i + 1] - 1) / 2) for i, k in enumerate(row)}
    lines: list[Polyline] = []
    for round, parent, new in reversed(cuts):
        (a, up), (b, down) = node[parent], node[new]
        lines.append([(a, up), (float(round), up), (float(round), down), (b, down)])
        node[parent] = (float(round), (up + down) / 2)
    root = node[cuts[0][1]]
    lines.append([root, (0.0, root[1])])
    return Tree("splits", order, lines)
