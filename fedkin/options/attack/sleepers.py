"""Vectors that attackers send instead of their updates while the server finds clusters, so that it
finds wrong ones.

Attackers know the honest rows (updates of honest clients) of the same model, and the kind of each
client, which is its true cluster. Rows are [n p].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int

Row = Float64[np.ndarray, "p"]


class Honest(NamedTuple):
    """Honest rows of one model, and the kind (true cluster) of each row's client."""

    rows: Float64[np.ndarray, "h p"]
    kinds: Int[np.ndarray, "h"]

    def mean(self, kind: int) -> Row:
        """The mean of the honest rows of one kind."""
        return self.rows[self.kinds == kind].mean(axis=0)

    def other(self, kind: int) -> int:
        """The next kind that has honest rows; after the last kind, the first."""
        kinds = np.unique(self.kinds)
        later = kinds[kinds > kind]
        return int(later[0] if len(later) else kinds[0])


def imitation(honest: Honest, kind: int, count: int) -> Float64[np.ndarray, "count p"]:
    """The mean of another kind, so that the server takes the attackers for clients of that kind.

    Args:
        honest: rows of the same model.
        kind: kind of these attackers; it has honest rows.
        count: number of attackers of this kind that train the model.
    """
    return np.repeat(honest.mean(honest.other(kind))[None], count, axis=0)


def splitting(honest: Honest, kind: int, count: int) -> Float64[np.ndarray, "count p"]:
    """Two groups of attackers on either side of their kind's mean, as far away as honest rows are.

    They lie along the direction of largest variation. The kind is then split in two clusters, and
    two other kinds are merged if the number of clusters is fixed.

    Args:
        honest: rows of the same model.
        kind: kind of these attackers; it has honest rows.
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
    """The mean of all honest rows, sent by every attacker.

    The attackers form a dense cluster in the middle, which attracts a centre.

    Args:
        honest: rows of the same model.
        kind: kind of these attackers; it has honest rows.
        count: number of attackers of this kind that train the model.
    """
    return np.repeat(honest.rows.mean(axis=0)[None], count, axis=0)


def bridge(honest: Honest, kind: int, count: int) -> Float64[np.ndarray, "count p"]:
    """Rows at equal steps on the line from their kind's mean to another kind's mean.

    A method that links neighbouring rows then puts both kinds into one cluster.

    Args:
        honest: rows of the same model.
        kind: kind of these attackers; it has honest rows.
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
