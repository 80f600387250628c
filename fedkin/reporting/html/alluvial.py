"""Who moved when, as a ribbon: clusters as bands over the rounds, and between them the clients that went over.

Letters: N clients, T rounds, c columns (rounds at which the ribbon is drawn), b bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from fedkin.core.method import UNASSIGNED

COLUMNS = 40  # at most: more cannot be told apart on a screen
BANDS = 10  # clusters with a band, and a colour, of their own
OTHERS = -2
_GAP = 0.012  # between bands, of all clients
_SLOPE = 0.02  # of the rounds: as wide as a flow is drawn, where there is room

Polygon = list[tuple[float, float]]


@dataclass(frozen=True)
class Flow:
    """``count`` clients that went from band ``source`` in one column to band ``target`` in the next, and the corners
    (round, height) of their way, from where the bands of the column end."""

    column: int
    source: int
    target: int
    count: int
    shape: Polygon


@dataclass(frozen=True)
class Alluvial:
    """Bands from the bottom up: cluster numbers, OTHERS, UNASSIGNED; with ``sizes`` and ``base`` in every column."""

    rounds: Int[np.ndarray, "c"]
    bands: list[int]
    sizes: Int[np.ndarray, "c b"]
    base: np.ndarray  # [c b], height at which a band begins
    flows: list[Flow]
    ends: list[float]  # [c], round at which the bands of a column end, and what goes to the next begins
    last: int  # round
    left_out: int  # rounds in which somebody moved, and that have no column: flows tell what came of them in all


def alluvial(assignments: Sequence[Int[np.ndarray, "N"]], shown: Sequence[int], columns: int = COLUMNS) -> Alluvial:
    """The ribbon of a run from its assignments after rounds 0 .. T. Clusters that are not ``shown`` share a band."""
    moved = np.array([0, *(int((a != b).sum()) for a, b in zip(assignments, assignments[1:], strict=False))])
    rounds = chosen_rounds(moved, columns)
    banded, names = _banded(np.stack([assignments[r] for r in rounds]), shown)
    sizes = np.stack([np.bincount(column, minlength=len(names)) for column in banded])
    clients, last = banded.shape[1], len(assignments) - 1
    gap = _GAP * clients * (sizes.sum(axis=0) > 0)
    base = np.cumsum(sizes + gap, axis=1) - (sizes + gap)
    width = max(1.0, _SLOPE * last)
    starts = np.maximum(rounds[:-1], rounds[1:] - width)
    flows = [
        flow
        for column, start in enumerate(starts.tolist())
        for flow in _flows(
            column, banded[column : column + 2], base[column : column + 2], start, float(rounds[column + 1])
        )
    ]
    ends = [*starts.tolist(), max(last, rounds[-1] + width)]
    left_out = len(np.setdiff1d(np.flatnonzero(moved), rounds))
    return Alluvial(rounds, names, sizes, base, flows, [float(end) for end in ends], last, left_out)


def migrations(assignments: Sequence[Int[np.ndarray, "N"]]) -> dict[int, list[tuple[int, int, int]]]:
    """Who changed cluster when: by round (clients, from, to), the most first. Rounds without are left out, and clients
    that had no cluster before or have none after."""
    found = {}
    for round, (before, after) in enumerate(zip(assignments, assignments[1:], strict=False), 1):
        moved = (before != after) & (before != UNASSIGNED) & (after != UNASSIGNED)
        if moved.any():
            pairs, clients = np.unique(np.stack([before, after])[:, moved], axis=1, return_counts=True)
            rows = zip(clients.tolist(), *pairs.tolist(), strict=True)
            found[round] = sorted(rows, key=lambda row: -row[0])
    return found


def chosen_rounds(moved: Int[np.ndarray, "R"], limit: int) -> Int[np.ndarray, "c"]:
    """Round 0 and the rounds in which somebody moved, ``limit`` at most; where there are more, those at which equal
    shares of all moves are done, so that columns are close where much happens."""
    busy = np.flatnonzero(moved)
    if len(busy) < limit:
        return np.unique(np.concatenate([[0], busy]))
    done = np.cumsum(moved)
    shares = np.linspace(0, done[-1], limit)[1:]
    return np.unique(np.concatenate([[0], np.searchsorted(done, shares)]))


def _banded(columns: Int[np.ndarray, "c N"], shown: Sequence[int]) -> tuple[Int[np.ndarray, "c N"], list[int]]:
    """The band of each client in each column, and the bands' names."""
    own = [k for k in shown if (columns == k).any()]
    rest = ~np.isin(columns, own) & (columns != UNASSIGNED)
    names = [*own, *([OTHERS] if rest.any() else []), *([UNASSIGNED] if (columns == UNASSIGNED).any() else [])]
    banded = np.zeros(columns.shape, np.int64)
    for place, name in enumerate(names):
        banded[rest if name == OTHERS else columns == name] = place
    return banded, names


def _flows(column: int, banded: Int[np.ndarray, "2 N"], base: np.ndarray, start: float, end: float) -> list[Flow]:
    """Everybody's way from one column to the next, stacked by where to on the left and by where from on the right."""
    pairs = np.zeros((base.shape[1],) * 2, np.int64)
    np.add.at(pairs, (banded[0], banded[1]), 1)
    low = base[0][:, None] + np.cumsum(pairs, axis=1) - pairs
    high = base[1][None, :] + np.cumsum(pairs, axis=0) - pairs
    flows = []
    for source, target in zip(*np.nonzero(pairs), strict=True):
        count, left, right = int(pairs[source, target]), float(low[source, target]), float(high[source, target])
        shape = [(start, left), (end, right), (end, right + count), (start, left + count)]
        flows.append(Flow(column, int(source), int(target), count, shape))
    return flows
