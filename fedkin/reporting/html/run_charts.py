"""The report's small charts of a run: soft membership, bytes of each operation, accuracy of each
client."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedkin.core.method import UNASSIGNED
from fedkin.measures.fairness import bottom_decile
from fedkin.reporting.html.json_values import Json, rounded, thinned
from fedkin.run.metrics.membership import by_largest_share, memberships
from fedkin.run.results import Run

_NOT_COUNTED = {"scoring.": "not counted", "servers.": "between servers"}  # prefixes of operations


def membership_chart(run: Run) -> Json | None:
    """Clients with a cluster, ordered by cluster and by falling share of it; None where membership
    is hard.

    ``clients`` are their names (numbers, where they have none), ``total`` is their count before
    they are thinned, ``shares`` [K] [r] what they have of each cluster, ``clear`` the part of them
    with more than half of one cluster.

    Args:
        run: finished, or not.
    """
    whole = memberships(run.state)
    if whole is None:
        return None
    known = np.flatnonzero(run.assignment != UNASSIGNED)
    ordered = known[by_largest_share(whole[known])]
    if not len(ordered):
        return None
    named = {"client", "name"} <= set(run.clients)
    names = dict(zip(run.clients["client"], run.clients["name"], strict=True)) if named else {}
    shown = ordered[thinned(len(ordered))]
    return {
        "clients": [str(names.get(c, c)) for c in shown.tolist()],
        "total": len(ordered),
        "shares": [rounded(row, 3) for row in whole[shown].T],
        "clear": round(float((whole[ordered].max(axis=1) > 0.5).mean()), 4),
    }


def communication(run: Run) -> list[Json]:
    """Bytes of each operation so far, the method's own first; ``kind`` says what of others is not
    counted as its."""
    by_operation = run.records[-1].get("bytes_by_operation") or {}
    rows = [_row(operation, int(down), int(up)) for operation, (down, up) in by_operation.items()]
    return sorted(rows, key=lambda row: (row["kind"] != "", -row["download"] - row["upload"]))


def _row(operation: str, download: int, upload: int) -> Json:
    prefix, kind = next(
        ((p, k) for p, k in _NOT_COUNTED.items() if operation.startswith(p)), ("", "")
    )
    return {
        "operation": operation.removeprefix(prefix),
        "kind": kind,
        "download": download,
        "upload": upload,
    }


def client_accuracy(runs: Sequence[Run]) -> Json | None:
    """Accuracies of the clients of one method, lowest first, those of all seeds together; None
    where no run has them.

    ``shares`` are their places from 0 (lowest) to 1; ``bottom`` is the mean of the bottom 10%,
    ``spread`` the standard deviation, ``quartiles`` are at 25, 50 and 75%.
    """
    by_run = [
        run.clients["accuracy"].to_numpy(np.float64) for run in runs if "accuracy" in run.clients
    ]
    accuracies = np.concatenate([np.zeros(0), *by_run])
    accuracies = np.sort(accuracies[np.isfinite(accuracies)])
    if not len(accuracies):
        return None
    places = thinned(len(accuracies))
    return {
        "shares": rounded((places + 0.5) / len(accuracies)),
        "accuracy": rounded(accuracies[places]),
        "clients": len(accuracies),
        "bottom": bottom_decile(accuracies),
        "quartiles": rounded(np.quantile(accuracies, [0.25, 0.5, 0.75])),
        "spread": round(float(accuracies.std()), 4),
    }
