"""Migrations: the changes of the assignment in each round, and the assignments that result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from fedkin.core.method import UNASSIGNED

if TYPE_CHECKING:
    import pandas as pd

# Round, clients, and the new cluster of each of them (-1: none). Changed in place.
Migrations = dict[str, Any]
# For clients with consecutive ids and one cluster, only the first and the last id are stored, if
# that saves most of them.
_FEW = 1000  # clients up to this number are always listed individually
_MOST = 10**8  # most clients in a line: a damaged line could fill all memory


def find_migrations(
    round: int, clients: Int[np.ndarray, "m"], clusters: Int[np.ndarray, "m"]
) -> Migrations:
    """The entry of a round: who migrated, with consecutive ids that go to one cluster as spans.

    Args:
        round: its number.
        clients: clients whose cluster changes, ascending.
        clusters: their new clusters.
    """
    first = np.flatnonzero(
        (np.diff(clients, prepend=-2) != 1) | (np.diff(clusters, prepend=UNASSIGNED - 1) != 0)
    )
    if len(clients) <= _FEW or 4 * len(first) > len(clients):
        return {"round": round, "clients": clients.tolist(), "clusters": clusters.tolist()}
    last = np.append(first[1:], len(clients)) - 1
    spans = np.stack([clients[first], clients[last]], axis=1)
    return {"round": round, "clients": spans.tolist(), "clusters": clusters[first].tolist()}


def migrants(one: Migrations) -> tuple[Int[np.ndarray, "m"], Int[np.ndarray, "m"]]:
    """The clients whose cluster changes in a round, ascending, and their clusters.

    Args:
        one: the migrations of the round.

    Raises KeyError, TypeError or ValueError for invalid migrations.
    """
    clients = np.asarray(one["clients"], np.int64)
    clusters = np.asarray(one["clusters"], np.int64)
    if clients.ndim < 2 and clients.shape == clusters.shape:
        return clients, clusters
    if clients.shape != (*clusters.shape, 2):
        raise ValueError(
            "these are no migrations: as many clusters as clients, or as pairs of these, are needed"
        )
    sizes = clients[:, 1] - clients[:, 0] + 1
    if (sizes < 1).any() or (sizes > _MOST).any() or sizes.sum() > _MOST:
        raise ValueError("these are no migrations: a pair of clients is its first and its last one")
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(clients[:, 0], sizes) + within, np.repeat(clusters, sizes)


def migrations_table(
    migrations: Iterable[Migrations], clients: int, names: Mapping[int, str] | None = None
) -> pd.DataFrame:
    """One row per change of a client's cluster, by round: round, client, name if clients have
    names, from_cluster and to_cluster (-1: none).

    Args:
        migrations: as in the run folder.
        clients: N.
        names: names by client, as far as known.
    """
    import pandas as pd  # slow to import, and no round needs it

    assignment = np.full(clients, UNASSIGNED)
    parts = []
    for one in sorted(migrations, key=lambda one: one["round"]):
        migrated, cluster = migrants(one)
        parts.append(
            np.stack(
                [np.full(len(migrated), one["round"]), migrated, assignment[migrated], cluster]
            )
        )
        assignment[migrated] = cluster
    rows = np.concatenate(parts, axis=1).T if parts else np.empty((0, 4), np.int64)
    table = pd.DataFrame(rows, columns=["round", "client", "from_cluster", "to_cluster"])
    if names:
        table.insert(2, "name", [names.get(client) for client in table["client"].tolist()])
    return table


def replay(
    migrations: Iterable[Migrations], clients: int, rounds: int
) -> Iterator[Int[np.ndarray, "N"]]:
    """The assignment after each round from 0 on: one new array [N] at a time.

    Args:
        migrations: as in the run folder.
        clients: N.
        rounds: the last round.

    Raises KeyError, TypeError, ValueError or IndexError for invalid migrations of this many
    clients.
    """
    by_round = {int(one["round"]): one for one in migrations}
    assignment = np.full(clients, UNASSIGNED)
    for round in range(rounds + 1):
        if round in by_round:
            migrated, cluster = migrants(by_round[round])
            assignment[migrated] = cluster
        yield assignment.copy()
