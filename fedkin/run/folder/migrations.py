"""Migrations: which clients change to which cluster in each round. The assignment after any round
can be computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from fedkin.core.method import UNASSIGNED

if TYPE_CHECKING:
    import pandas as pd

# The migrations of one round: its number, the clients that changed, and their new clusters (-1:
# none).
Migrations = dict[str, Any]
# If more than this number of clients change in a round, consecutive ids with the same new cluster
# are stored as a span (first id, last id), provided that spans save most entries.
_FEW = 1000
_MOST = 10**8  # limit of clients in a line, since a damaged span could fill all memory


def find_migrations(
    round: int, clients: Int[np.ndarray, "m"], clusters: Int[np.ndarray, "m"]
) -> Migrations:
    """The migrations of a round as an entry (a line) of migrations.jsonl.

    Args:
        round: the round's number.
        clients: ids of the clients whose cluster changes, ascending.
        clusters: the new cluster of each of these clients.
    """
    # Positions at which a span begins: the id does not follow the last one, or the cluster differs.
    # The values put in front make the first client begin a span.
    first = np.flatnonzero(
        (np.diff(clients, prepend=-2) != 1) | (np.diff(clusters, prepend=UNASSIGNED - 1) != 0)
    )
    if len(clients) <= _FEW or 4 * len(first) > len(clients):
        return {"round": round, "clients": clients.tolist(), "clusters": clusters.tolist()}
    last = np.append(first[1:], len(clients)) - 1
    spans = np.stack([clients[first], clients[last]], axis=1)
    return {"round": round, "clients": spans.tolist(), "clusters": clusters[first].tolist()}


def migrants(one: Migrations) -> tuple[Int[np.ndarray, "m"], Int[np.ndarray, "m"]]:
    """The clients whose cluster changes in a round, ascending, and their new clusters.

    Args:
        one: the round's entry (line) of migrations.jsonl, as a dictionary.

    Raises KeyError, TypeError or ValueError for invalid migrations.
    """
    clients = np.asarray(one["clients"], np.int64)
    clusters = np.asarray(one["clusters"], np.int64)
    if clients.ndim < 2 and clients.shape == clusters.shape:
        return clients, clusters
    if clients.shape != (*clusters.shape, 2):
        raise ValueError(
            "invalid migrations: there must be one new cluster for each client, or for each span "
            "[first id, last id] of clients"
        )
    sizes = clients[:, 1] - clients[:, 0] + 1
    if (sizes < 1).any() or (sizes > _MOST).any() or sizes.sum() > _MOST:
        raise ValueError(
            "invalid migrations: a span of clients must be [first id, last id], with the first id "
            f"not above the last, and all spans together at most {_MOST:,} clients"
        )
    # Position of each client in its span: 0, 1, 2, ..., 0, 1, ...
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(clients[:, 0], sizes) + within, np.repeat(clusters, sizes)


def migrations_table(
    migrations: Iterable[Migrations], clients: int, names: Mapping[int, str] | None = None
) -> pd.DataFrame:
    """A table with a row for each change of a client's cluster, sorted by round. The columns are
    round, client, name (if clients have names), from_cluster and to_cluster (-1: none).

    Args:
        migrations: the entries (lines) of migrations.jsonl, each for one round.
        clients: N, the number of clients.
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
    """Yield the assignment [N] after each round, from round 0 on, each as a new array.

    Args:
        migrations: the entries (lines) of migrations.jsonl, each for one round.
        clients: N, the number of clients.
        rounds: number of the last round.

    Raises KeyError, TypeError, ValueError or IndexError for invalid migrations, such as those of a
    client whose id is not below N.
    """
    by_round = {int(one["round"]): one for one in migrations}
    assignment = np.full(clients, UNASSIGNED)
    for round in range(rounds + 1):
        if round in by_round:
            migrated, cluster = migrants(by_round[round])
            assignment[migrated] = cluster
        yield assignment.copy()
