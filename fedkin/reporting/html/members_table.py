"""The report's table of clusters: the clients of each cluster at the end of the run, by name."""

from __future__ import annotations

import numpy as np

from fedkin.core.method import UNASSIGNED
from fedkin.reporting.html.json_values import Json, cluster_name
from fedkin.run.run import Run

CLUSTERS = 24  # largest number of rows
CLIENTS = 20  # largest number of clients in a row
_HEADS = ("cluster", "number", "clients")


def members_table(run: Run) -> Json:
    """The table of clusters after the last round, with at most CLUSTERS rows. It has no rows if all
    clients are in one cluster.

    Args:
        run: the run. A client without a name is shown by its number.
    """
    names = run.client_names
    clusters = np.unique(run.assignment)
    if np.count_nonzero(clusters != UNASSIGNED) < 2:
        return {"heads": list(_HEADS), "rows": [], "note": ""}
    rows = []
    for cluster in clusters[:CLUSTERS].tolist():
        members = np.flatnonzero(run.assignment == cluster).tolist()
        shown = ", ".join(str(names.get(client, client)) for client in members[:CLIENTS])
        more = len(members) - CLIENTS
        rows.append(
            [
                cluster_name(cluster),
                f"{len(members):,}",
                f"{shown} and {more:,} more" if more > 0 else shown,
            ]
        )
    return {"heads": list(_HEADS), "rows": rows, "note": _note(len(clusters))}


def _note(clusters: int) -> str:
    """The note below the table: where all clients are, and how many clusters are left out."""
    where = "After the last round. In Python, run.clients has all clients."
    if clusters <= CLUSTERS:
        return where
    return f"{where} {clusters - CLUSTERS:,} clusters are left out."
