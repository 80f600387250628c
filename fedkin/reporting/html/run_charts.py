"""Small charts of a run: soft membership, bytes by operation, score of each client."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedkin.core.method import UNASSIGNED
from fedkin.measures.fairness import worst_decile
from fedkin.measures.number_texts import byte_ticks
from fedkin.measures.run_scores import scores_in
from fedkin.reporting.client_scores import ranked_scores
from fedkin.reporting.html.json_values import Json, rounded, rounded_scores, thinned
from fedkin.run.metrics.soft_membership import by_largest_share, memberships
from fedkin.run.run import Run

_NOT_COUNTED = {"scoring.": "not counted", "servers.": "between servers"}  # prefixes of operations


def membership_chart(run: Run) -> Json | None:
    """Chart of soft membership: the share of each cluster in each client. None if every client
    belongs to one cluster only.

    Clients with a cluster are ordered by cluster and descending share. ``clients`` are the names
    (or numbers) of the r drawn clients, and ``total`` is the number before thinning. ``shares`` [K]
    [r] are the shares of each cluster. ``clear`` is the fraction of clients with more than half of
    one cluster.

    Args:
        run: the run, finished or not.
    """
    whole = memberships(run.state)
    if whole is None:
        return None
    known = np.flatnonzero(run.assignment != UNASSIGNED)
    ordered = known[by_largest_share(whole[known])]
    if not len(ordered):
        return None
    names = run.client_names
    shown = ordered[thinned(len(ordered))]
    return {
        "clients": [str(names.get(c, c)) for c in shown.tolist()],
        "total": len(ordered),
        "shares": [rounded(row, 3) for row in whole[shown].T],
        "clear": round(float((whole[ordered].max(axis=1) > 0.5).mean()), 4),
    }


def communication(run: Run) -> list[Json]:
    """Bytes of the run so far, by operation, with the method's operations first.

    ``kind`` marks operations that do not count as the method's traffic.
    """
    by_operation = run.records[-1].get("bytes_by_operation") or {}
    rows = [_row(operation, int(down), int(up)) for operation, (down, up) in by_operation.items()]
    return sorted(rows, key=lambda row: (row["kind"] != "", -row["download"] - row["upload"]))


def communication_ticks(rows: Sequence[Json]) -> Json:
    """The ticks of the chart of bytes: ``values`` and ``texts``, all in one unit.

    Args:
        rows: the entries of the chart, from ``communication``.
    """
    ticks = byte_ticks(max((max(row["download"], row["upload"]) for row in rows), default=0))
    return {"values": [value for value, _ in ticks], "texts": [text for _, text in ticks]}


def _row(operation: str, download: int, upload: int) -> Json:
    """The entry of an operation in the chart of bytes. The prefix of the operation's name becomes
    ``kind`` (see ``_NOT_COUNTED``)."""
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
    """Chart of the clients' scores of one method, pooled over all seeds; None if they are unknown.

    ``accuracy`` has the scores, the worst first (accuracies in ascending order, errors in
    descending order), and ``shares`` are the relative ranks from 0 (worst) to 1. ``bottom`` is the
    mean of the worst 10%, ``spread`` the standard deviation, and ``quartiles`` are at 25, 50 and
    75%. ``unranked`` is the number of clients of a run that are left out, because
    they have too few test samples.
    """
    measure = scores_in(runs[0].records[-1]).of_round
    sign = measure.sign
    by_run = [ranked for run in runs if (ranked := ranked_scores(run)) is not None]
    pooled = np.concatenate([np.zeros(0), *(ranked.values for ranked in by_run)])
    scores = np.sort(pooled[np.isfinite(pooled)])[::sign]
    if not len(scores):
        return None
    places = thinned(len(scores))
    return {
        "shares": rounded((places + 0.5) / len(scores)),
        "accuracy": rounded_scores(scores[places], measure.unit),
        "clients": len(scores),
        "bottom": worst_decile(scores, sign),
        "quartiles": rounded_scores(np.quantile(scores, [0.25, 0.5, 0.75]), measure.unit),
        "spread": rounded_scores([scores.std()], measure.unit)[0],
        "unranked": max(ranked.unranked for ranked in by_run),
    }
