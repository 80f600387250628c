"""Who went where: the changes of the assignment, round by round, and the assignments that they add up to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.method import UNASSIGNED

Migrations = dict[str, Any]  # round, clients, and the cluster that each of them has from then on (-1: none)


def changes(round: int, before: Int[np.ndarray, "N"], after: Int[np.ndarray, "N"]) -> Migrations:
    """The clients whose cluster is another one after a round than before it."""
    moved = np.flatnonzero(before != after)
    return {"round": round, "clients": moved.tolist(), "clusters": after[moved].tolist()}


def replay(moves: Iterable[Migrations], clients: int, rounds: int) -> Iterator[Int[np.ndarray, "N"]]:
    """The assignment [N] after each of the rounds 0 .. ``rounds``, from the changes; one array at a time, each its own.

    Raises KeyError, TypeError, ValueError or IndexError for what are no moves of so many clients.
    """
    by_round = {int(one["round"]): one for one in moves}
    assignment = np.full(clients, UNASSIGNED)
    for round in range(rounds + 1):
        if round in by_round:
            moved = np.asarray(by_round[round]["clients"], np.int64)
            assignment[moved] = np.asarray(by_round[round]["clusters"], np.int64)
        yield assignment.copy()
