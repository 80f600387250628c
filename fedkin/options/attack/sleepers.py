"""Vectors that attackers send instead of their updates while the server finds clusters, so that it
finds wrong ones.

Attackers know the honest rows (updates of honest clients) of the same model, and the kind of each
client, which is its true cluster. A row is one update with p parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int

Row = Float64[np.ndarray, "p"]


class Honest(NamedTuple):
    """Honest rows (updates of honest clients) of one model, and the kind (true cluster) of each
    row's client."""

    rows: Float64[np.ndarray, "h p"]
    kinds: Int[np.ndarray, "h"]

    def mean(self, kind: int) -> Row:
        """The mean of the honest rows (updates) of one kind (true cluster)."""
        return self.rows[self.kinds == kind].mean(axis=0)

    def other(self, kind: int) -> int:
        """The next kind (true cluster) that has honest rows (updates); after the last kind, the
        first."""
        kinds = np.unique(self.kinds)
        later = kinds[kinds > kind]
        return int(later[0] if len(later) else kinds[0])


def imitation(honest: Honest, kind: int, count: int) -> Float64[np.ndarray, "count p"]:
    """The mean update of another true cluster, so that the server takes the attackers for clients
    of that cluster.

    Args:
        honest: honest updates of the same model.
        kind: true cluster of these attackers; it has honest clients.
        count: number of attackers of this kind that train the model.
    """
    return np.repeat(honest.mean(honest.other(kind))[None], count, axis=0)


def splitting(honest: Honest, kind: int, count: int) -> Float64[np.ndarray, "count p"]:
    """Updates of two groups of attackers, on opposite sides of the mean of the attackers' true
    cluster.

    These updates lie on the direction in which the cluster's honest updates vary most, as far from
    the mean as honest updates are on average. The server then splits the true cluster into two
    clusters. If the number of clusters is fixed, it also merges two other true clusters.

    Args:
        honest: honest updates of the same model.
        kind: true cluster of these attackers; it has honest clients.
        count: number of attackers of this kind that train the model.
    """
    rows = honest.rows[honest.kinds == kind]
    mean = rows.mean(axis=0)
    apart = rows - mean
    # The first right singular vector: the direction in which the honest rows vary most.
    along = np.linalg.svd(apart, full_matrices=False)[2][0]
    sides = np.where(np.arange(count) % 2, -1.0, 1.0)
    distance = np.linalg.norm(apart, axis=1).mean()
    return mean + sides[:, None] * distance * along


def blob(honest: Honest, kind: int, count: int) -> Float64[np.ndarray, "count p"]:
    """The mean of all honest updates, sent by every attacker.

    The attackers form a dense cluster in the middle, which attracts a centre.

    Args:
        honest: honest updates of the same model.
        kind: true cluster of these attackers; it has honest clients.
        count: number of attackers of this kind that train the model.
    """
    return np.repeat(honest.rows.mean(axis=0)[None], count, axis=0)


def bridge(honest: Honest, kind: int, count: int) -> Float64[np.ndarray, "count p"]:
    """Vectors at equal steps on the line from the mean of the attackers' true cluster to the mean
    of another one.

    A method that links neighbouring updates then puts both true clusters into one cluster.

    Args:
        honest: honest updates of the same model.
        kind: true cluster of these attackers; it has honest clients.
        count: number of attackers of this kind that train the model.
    """
    start = honest.mean(kind)
    end = honest.mean(honest.other(kind))
    steps = np.arange(1, count + 1) / (count + 1)
    return start + steps[:, None] * (end - start)


DISGUISES: dict[str, Callable[[Honest, int, int], Float64[np.ndarray, "count p"]]] = {
    "imitation": imitation,
    "splitting": splitting,
    "blob": blob,
    "bridge": bridge,
}
