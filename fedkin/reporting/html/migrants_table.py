"""The report's table of single migrations: round, client, former and new cluster."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from fedkin.reporting.html.alluvial import migrated
from fedkin.reporting.html.json_values import Json, cluster_name
from fedkin.run.run import Run

LIMIT = 50  # largest number of rows
_HEADS = ("round", "client", "from and to")


def migrants_table(run: Run, assignments: Sequence[Int[np.ndarray, "N"]]) -> Json:
    """The table of migrations of single clients, latest first, with at most LIMIT rows.

    Args:
        run: the run, for the names of clients. A client without a name is shown by its number.
        assignments: the cluster of each client after rounds 0 .. T; empty if unknown.
    """
    names = run.client_names
    rows: list[list[str]] = []
    total = 0
    for round in range(len(assignments) - 1, 0, -1):
        before, after = assignments[round - 1 : round + 1]
        clients = np.flatnonzero(migrated(before, after)).tolist()
        total += len(clients)
        rows += [
            [
                str(round),
                str(names.get(c, c)),
                f"{cluster_name(int(before[c]))} to {cluster_name(int(after[c]))}",
            ]
            # Rows end at LIMIT, but all migrations are counted for the note.
            for c in clients[: LIMIT - len(rows)]
        ]
    return {"heads": list(_HEADS), "rows": rows, "note": _note(len(rows), total)}


def _note(shown: int, total: int) -> str:
    """The note below the table of migrations: whether the table shows all of them."""
    if shown == total:
        return "All migrations of the run, the latest first." if total else ""
    return (
        f"The latest {shown} migrations. In Python, run.migrations_frame() has {total - shown:,} "
        "more."
    )
