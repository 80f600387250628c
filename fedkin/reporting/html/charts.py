"""The figures of a report that come from the records: curves, marks, bytes and the table of methods.

All of it is plain JSON: None where there is nothing, numbers rounded to what can be seen. S seeds, R rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.analysis.statistics import LEAST_SEEDS, interval
from fedkin.analysis.tables import mean_and_interval
from fedkin.core.method import UNASSIGNED
from fedkin.reporting.html.read_runs import Subject
from fedkin.run.results import Run

POINTS = 400  # of a curve, at most
Json = dict[str, Any]


def overall(runs: Sequence[Run]) -> Json:
    """Accuracy of all clients and of the worst tenth of them; over several seeds the mean and its 95% interval.

    Rounds in which some client had no cluster yet (in any seed) are told apart (``pale``).
    """
    length = min(len(run.records) for run in runs)
    accuracy, worst = (_column(runs, name, length) for name in ("accuracy", "bottom_decile"))
    marked = [[bool(r.get("partial")) for r in run.records[:length]] for run in runs]
    partial: np.ndarray = np.logical_or.reduce(np.array(marked), axis=0)
    complete, decile = _band(accuracy, ~partial), _band(worst, np.ones(length, bool))
    rounds = thinned(length)
    shown = {"rounds": rounds.tolist(), "seeds": len(runs)}
    for name, band in (("accuracy", complete), ("worst", decile)):
        shown |= {
            f"{name}{end}": plain(values[rounds]) for end, values in zip(("", "_low", "_high"), band, strict=True)
        }
    if partial.any():
        beside = partial | np.append(partial[1:], False) | np.append(False, partial[:-1])
        shown["pale"] = plain(np.where(beside, accuracy.mean(axis=0), np.nan)[rounds])
    return shown


def by_cluster(run: Run, shown: Sequence[int]) -> Json:
    """Accuracy of the clients of each of these clusters; those that never had one are left out."""
    rounds = thinned(len(run.records))
    scored = [run.records[r].get("accuracy_by_cluster") or [] for r in rounds]
    known = max(map(len, scored), default=0)
    series = {
        k: plain([row[k] if k < len(row) and row[k] is not None else np.nan for row in scored])
        for k in shown
        if k < known
    }
    lines = [{"cluster": k, "accuracy": values} for k, values in series.items()]
    return {"rounds": rounds.tolist(), "lines": lines, "left_out": known - len(lines)}


def marks(run: Run, assignments: Sequence[Int[np.ndarray, "N"]]) -> Json:
    """Rounds in which the data of more than a quarter of the clients moved, and in which clients got their first
    cluster after round 0; each where it is the exception (at most a quarter of the rounds)."""
    moved = [r["round"] for r in run.records if 4 * (r.get("data_shifts") or 0) > len(run.assignment)]
    placed = [
        r + 1
        for r, (before, after) in enumerate(zip(assignments, assignments[1:], strict=False))
        if ((before == UNASSIGNED) & (after != UNASSIGNED)).any()
    ]
    rare = len(run.records) / 4
    return {"shift": moved if len(moved) <= rare else [], "placed": placed if len(placed) <= rare else []}


def traffic(run: Run) -> Json:
    """Bytes [down, up] by verb so far: the method's own, and those of the measurement and between servers."""
    by_verb = run.records[-1].get("bytes_by_operation") or {}
    apart = ("scoring.", "servers.")
    rows = [
        {"verb": verb, "down": int(d), "up": int(u), "own": not verb.startswith(apart)}
        for verb, (d, u) in by_verb.items()
    ]
    return {"rows": sorted(rows, key=lambda row: (not row["own"], -row["down"] - row["up"]))}


def figures(run: Run) -> Json:
    """What the table of methods says of one run."""
    complete = [r for r in run.records if r.get("accuracy") is not None and not r.get("partial")]
    last = run.records[-1]
    scored = [r for r in run.records if r.get("accuracy") is not None]
    return {
        "best": max((r["accuracy"] for r in complete), default=None),
        "final": scored[-1]["accuracy"] if scored else None,
        "worst": scored[-1].get("bottom_decile") if scored else None,
        "clusters": run.state.clusters,
        "rounds": last["round"],
        "down": last.get("bytes_down"),
        "up": last.get("bytes_up"),
        "seconds": run.seconds,
    }


def table(subject: Subject) -> Json:
    """One row per setting and method, as texts: means over its seeds, with half their 95% interval from 3 seeds on."""
    several = len(subject.settings) > 1
    heads = [*(["setting"] if several else []), "method", "seeds", "rounds", "best accuracy", "final accuracy"]
    heads += ["worst decile", "clusters", "bytes down", "bytes up", "seconds"]
    rows = []
    for setting in subject.settings:
        for method in subject.methods:
            runs = subject.of(setting, method)
            if runs:
                rows.append([*([setting] if several else []), method, str(len(runs)), *_row(runs)])
    return {"heads": heads, "rows": rows}


def _row(runs: Sequence[Run]) -> list[str]:
    told = [figures(run) for run in runs]
    columns = {name: [one[name] for one in told] for name in told[0]}
    shares = [share(columns[name]) for name in ("best", "final", "worst")]
    rounds, clusters = (_range(columns[name]) for name in ("rounds", "clusters"))
    down, up = ("-" if None in columns[name] else size(float(np.mean(columns[name]))) for name in ("down", "up"))
    return [rounds, *shares, clusters, down, up, f"{np.mean(columns['seconds']):,.1f}"]


def share(values: Sequence[float | int | None]) -> str:
    """``81.2%``, or with an interval ``81.2 ± 0.6%``; ``-`` where a seed has no number."""
    told = mean_and_interval("share", [None if value is None else float(value) for value in values])
    mean, high = told["share"], told["share_high"]
    if mean is None:
        return "-"
    return f"{100 * mean:.1f}%" if high is None else f"{100 * mean:.1f} ± {100 * (high - mean):.1f}%"


def size(count: float | int) -> str:
    """Bytes as a person reads them."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    raise AssertionError


def thinned(length: int) -> Int[np.ndarray, "r"]:
    """Places 0 .. length-1, evenly fewer where there are too many; the ends are in."""
    return np.unique(np.linspace(0, length - 1, min(length, POINTS)).round().astype(np.int64))


def plain(values: Any, digits: int = 4) -> list[Any]:
    """Numbers as JSON holds them; None for what is not finite."""
    array = np.asarray(values, np.float64)
    return [round(float(v), digits) if np.isfinite(v) else None for v in array]


def _column(runs: Sequence[Run], name: str, length: int) -> Float[np.ndarray, "S R"]:
    rows = [[r.get(name) for r in run.records[:length]] for run in runs]
    return np.array([[np.nan if value is None else value for value in row] for row in rows], np.float64)


def _band(values: Float[np.ndarray, "S R"], wanted: Bool[np.ndarray, "R"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, low and high in the rounds that are wanted and that all seeds have; the interval from 3 seeds on."""
    known = wanted & np.isfinite(values).all(axis=0)
    band = interval(np.where(known, values, 0.0))
    mean, low, high = (np.where(known, curve, np.nan) for curve in (band.mean, band.low, band.high))
    if len(values) < LEAST_SEEDS:
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    return mean, low, high


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
