"""The report's alluvial chart: each cluster is a band over the rounds. The height of a band is the
cluster's number of clients. Flows between bands are clients that changed their cluster
(migrations).

Shapes: N clients, T rounds, c columns (rounds at which the chart is drawn), b bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.method import UNASSIGNED
from fedkin.reporting.html.json_values import Json, cluster_name

COLUMNS = 40  # largest number of columns that can be distinguished on a screen
BANDS = 10  # largest number of clusters with a separate band and colour
OTHERS = -2  # the band of all other clusters
_GAP = 0.012  # gap between bands, as a share of all clients
_FLOW_WIDTH = 0.02  # rounds over which a flow extends, as a share of all rounds, if there is room
_BUSIEST = 12  # number of rounds in the table of migrations

Polygon = list[tuple[float, float]]


@dataclass(frozen=True)
class Flow:
    """A flow of ``count`` clients from band ``source`` in a column to band ``target`` in the next
    column.

    ``shape`` has the corners (round, height) of the flow, which starts at the right end of the
    column's bands.
    """

    column: int
    source: int
    target: int
    count: int
    shape: Polygon


@dataclass(frozen=True)
class Alluvial:
    """An alluvial chart. ``bands`` lists the bands from bottom to top: a cluster number, OTHERS
    (all other clusters) or UNASSIGNED (clients without a cluster). In column c (a drawn round),
    ``sizes[c, b]`` is the number of clients of band b, and ``base[c, b]`` is the height at which
    the band begins."""

    rounds: Int[np.ndarray, "c"]
    bands: list[int]
    sizes: Int[np.ndarray, "c b"]
    base: np.ndarray  # [c b]
    flows: list[Flow]
    ends: list[float]  # [c], round at which the bands of a column end and the flows begin
    last: int  # the last round
    omitted: int  # number of rounds with migrations but no column; flows show their net result

    def to_json(self) -> Json:
        """The chart as plain JSON values. A flow is [column, source, target, clients, four
        corners]."""
        flows = [
            [
                f.column,
                f.source,
                f.target,
                f.count,
                [[round(x, 2), round(float(y), 2)] for x, y in f.shape],
            ]
            for f in self.flows
        ]
        return {
            "rounds": self.rounds.tolist(),
            "bands": [{"cluster": band, "name": cluster_name(band)} for band in self.bands],
            "sizes": self.sizes.tolist(),
            "base": [[round(float(y), 2) for y in column] for column in self.base],
            "flows": flows,
            "ends": [round(end, 2) for end in self.ends],
            "last": self.last,
            "omitted": self.omitted,
        }


class Migration(NamedTuple):
    """The number of clients that migrated from one cluster to another in a round."""

    clients: int
    source: int
    target: int


def alluvial(
    assignments: Sequence[Int[np.ndarray, "N"]], clusters: Sequence[int], columns: int = COLUMNS
) -> Alluvial:
    """Compute the alluvial chart of a run.

    Args:
        assignments: the cluster of each client after rounds 0 .. T.
        clusters: clusters with a separate band; all others share one.
        columns: maximum number of drawn rounds.
    """
    steps = zip(assignments, assignments[1:], strict=False)
    changes = np.array([0, *(int((before != after).sum()) for before, after in steps)])
    rounds = select_rounds(changes, columns)
    banded, bands = _banded(np.stack([assignments[r] for r in rounds]), clusters)
    sizes = np.stack([np.bincount(column, minlength=len(bands)) for column in banded])
    clients = banded.shape[1]
    last = len(assignments) - 1
    # Only bands that exist in some column need a gap above them.
    gap = _GAP * clients * (sizes.sum(axis=0) > 0)
    base = np.cumsum(sizes + gap, axis=1) - (sizes + gap)
    width = max(1.0, _FLOW_WIDTH * last)
    # A flow ends at the next column, and starts ``width`` rounds before it, or at its own column.
    starts = np.maximum(rounds[:-1], rounds[1:] - width)
    flows = []
    for column, start in enumerate(starts.tolist()):
        flows += _flows(
            column=column,
            banded=banded[column : column + 2],
            base=base[column : column + 2],
            start=start,
            end=float(rounds[column + 1]),
        )
    ends = [*starts.tolist(), max(last, rounds[-1] + width)]
    return Alluvial(
        rounds=rounds,
        bands=bands,
        sizes=sizes,
        base=base,
        flows=flows,
        ends=[float(end) for end in ends],
        last=last,
        omitted=len(np.setdiff1d(np.flatnonzero(changes), rounds)),
    )


def migrations(assignments: Sequence[Int[np.ndarray, "N"]]) -> dict[int, list[Migration]]:
    """Migrations by round, with the largest migrations first.

    Rounds without migrations are left out. Clients without a cluster before or after do not count.
    """
    by_round = {}
    for round, (before, after) in enumerate(zip(assignments, assignments[1:], strict=False), 1):
        if (moved := migrated(before, after)).any():
            pairs, clients = np.unique(
                np.stack([before, after])[:, moved], axis=1, return_counts=True
            )
            rows = [Migration(*row) for row in zip(clients.tolist(), *pairs.tolist(), strict=True)]
            by_round[round] = sorted(rows, key=lambda row: -row.clients)
    return by_round


def migrated(before: Int[np.ndarray, "N"], after: Int[np.ndarray, "N"]) -> Bool[np.ndarray, "N"]:
    """Whether each client migrated: it has a cluster in both assignments, but not the same one."""
    return (before != after) & (before != UNASSIGNED) & (after != UNASSIGNED)


def migration_table(assignments: Sequence[Int[np.ndarray, "N"]]) -> Json:
    """The table of migrations: their number, the number of rounds with migrations, and a row for
    each of the rounds with most migrations (round, clients, from and to)."""
    by_round = migrations(assignments)
    counts = {round: sum(row.clients for row in rows) for round, rows in by_round.items()}
    busiest = sorted(counts, key=lambda round: -counts[round])[:_BUSIEST]
    return {
        "total": sum(counts.values()),
        "rounds": len(counts),
        "peak": busiest[0] if busiest else None,
        "busiest": [
            [
                r,
                counts[r],
                [
                    [n, cluster_name(source), cluster_name(target)]
                    for n, source, target in by_round[r][:4]
                ],
            ]
            for r in sorted(busiest)
        ],
    }


def select_rounds(changes: Int[np.ndarray, "R"], limit: int) -> Int[np.ndarray, "c"]:
    """Select the rounds to draw: round 0 and the rounds with changes, at most ``limit``.

    If there are more, rounds are chosen at equal shares of the cumulative changes, so that columns
    are dense where many clients migrate.
    """
    busy = np.flatnonzero(changes)
    if len(busy) < limit:
        return np.unique(np.concatenate([[0], busy]))
    done = np.cumsum(changes)
    # Round 0 takes one of the columns.
    shares = np.linspace(0, done[-1], limit)[1:]
    return np.unique(np.concatenate([[0], np.searchsorted(done, shares)]))


def _banded(
    columns: Int[np.ndarray, "c N"], clusters: Sequence[int]
) -> tuple[Int[np.ndarray, "c N"], list[int]]:
    """For the alluvial chart: the band of each client in each drawn round (column), and the cluster
    of each band."""
    bands = [k for k in clusters if (columns == k).any()]
    is_unassigned = columns == UNASSIGNED
    in_others = ~np.isin(columns, bands) & ~is_unassigned
    if in_others.any():
        bands.append(OTHERS)
    if is_unassigned.any():
        bands.append(UNASSIGNED)
    banded = np.zeros(columns.shape, np.int64)
    for index, band in enumerate(bands):
        banded[in_others if band == OTHERS else columns == band] = index
    return banded, bands


def _flows(
    column: int, banded: Int[np.ndarray, "2 N"], base: np.ndarray, start: float, end: float
) -> list[Flow]:
    """The flows of clients from the bands of one column of the chart to the bands of the next.
    Flows that leave a band are stacked in the order of their targets, and flows that enter a band
    in the order of their sources, so that few flows cross."""
    pairs = np.zeros((base.shape[1],) * 2, np.int64)
    np.add.at(pairs, (banded[0], banded[1]), 1)
    # Heights at which each flow starts in the left column, and ends in the right one.
    low = base[0][:, None] + np.cumsum(pairs, axis=1) - pairs
    high = base[1][None, :] + np.cumsum(pairs, axis=0) - pairs
    flows = []
    for source, target in zip(*np.nonzero(pairs), strict=True):
        count = int(pairs[source, target])
        left = float(low[source, target])
        right = float(high[source, target])
        shape = [(start, left), (end, right), (end, right + count), (start, left + count)]
        flows.append(
            Flow(
                column=column,
                source=int(source),
                target=int(target),
                count=count,
                shape=shape,
            )
        )
    return flows
