"""Migrations: the changes of the assignment, round by round, and the assignments that they add up to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.method import UNASSIGNED

Migrations = dict[str, Any]  # round, clients, and the cluster that each of them has from then on (-1: none)


def find_migrations(round: int, before: Int[np.ndarray, "N"], after: Int[np.ndarray, "N"]) -> Migrations:
    """The clients whose cluster changes in a round.

    Args:
        round: its number.
        before: cluster of each client before it.
        after: cluster of each client after it.
    """
    migrated = np.flatnonzero(before != after)
    return {"round": round, "clients": migrated.tolist(), "clusters": after[migrated].tolist()}


def replay(migrations: Iterable[Migrations], clients: int, rounds: int) -> Iterator[Int[np.ndarray, "N"]]:
    """The assignment after each round from 0 on; one array [N] at a time, each its own.

    Args:
        migrations: as the run folder has them.
        clients: N.
        rounds: the last round.

    Raises KeyError, TypeError, ValueError or IndexError for what are no migrations of so many clients.
    """
    by_round = {int(one["round"]): one for one in migrations}
    assignment = np.full(clients, UNASSIGNED)
    for round in range(rounds + 1):
        if round in by_round:
            migrated = np.asarray(by_round[round]["clients"], np.int64)
            assignment[migrated] = np.asarray(by_round[round]["clusters"], np.int64)
        yield assignment.copy()
