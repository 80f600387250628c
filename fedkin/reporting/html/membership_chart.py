"""The report's chart of soft membership: how much each client has of every cluster."""

from __future__ import annotations

import numpy as np

from fedkin.core.method import UNASSIGNED
from fedkin.reporting.html.json_values import Json, rounded, thinned
from fedkin.run.metrics.membership import by_largest_share, memberships
from fedkin.run.results import Run


def membership_chart(run: Run) -> Json | None:
    """Clients with a cluster, ordered by cluster and by falling share of it; None where membership is hard.

    ``clients`` are their names (numbers, where they have none), ``total`` is their count before they are thinned,
    ``shares`` [K] [r] what they have of each cluster, ``clear`` the part of them with more than half of one cluster.

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
