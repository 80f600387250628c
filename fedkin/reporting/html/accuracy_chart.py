"""The report's charts of scores, such as the accuracy: curves over the rounds, curves by cluster,
and marked events.

Shapes: S seeds, R rounds, N clients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.analysis.statistics import LEAST_SEEDS, Band, interval
from fedkin.core.method import UNASSIGNED
from fedkin.measures.measure import Measure
from fedkin.measures.run_scores import scores_in
from fedkin.reporting.html.json_values import Json, rounded_scores, thinned
from fedkin.run.run import Run

_LOWEST = {"share": 0.0, "index": -1.0}  # lowest value by unit, if there is a highest one


def accuracy_over_rounds(runs: Sequence[Run]) -> Json:
    """Curves over the rounds for the page's charts. For several seeds they are means with 95%
    intervals.

    The curves are the score of all clients (with the key ``accuracy``) and of the worst 10%
    (``bottom_decile``), the agreement with the true clusters (``ari``, if known), and the user's
    measures. Rounds that were not scored
    (``run.evaluate_every``) are left out, so that lines join the scored ones.

    In some rounds, a client may have no cluster yet or be absent. Scores of such rounds (in any
    seed) cover only the other clients. They are in ``partial`` instead of ``accuracy``, and the
    page draws them pale.
    """
    length = min(len(run.records) for run in runs)
    scores = scores_in(runs[0].records[-1])
    unit = scores.of_round.unit
    limits = _limits(scores.of_round)
    accuracy = _column(runs, scores.names.score, length)
    decile = _column(runs, scores.names.worst, length)
    ari = _column(runs, "ari", length)
    flags = [[bool(r.get("partial")) for r in run.records[:length]] for run in runs]
    partial: np.ndarray = np.logical_or.reduce(np.array(flags), axis=0)
    scored = _scored(accuracy)
    rounds = scored[thinned(len(scored))]
    chart: Json = {"rounds": rounds.tolist(), "seeds": len(runs)}
    bands = {
        "accuracy": _band(accuracy, ~partial, *limits),
        "bottom_decile": _band(decile, np.full(length, True), *limits),
    }
    if np.isfinite(ari).any():
        bands["ari"] = _band(ari, np.full(length, True), least=-1.0)
    units = {"accuracy": unit, "bottom_decile": unit}
    units |= {measure.name: measure.unit for measure in runs[0].measures}
    for measure in runs[0].measures:
        least, most = _limits(measure)
        bands[measure.name] = _band(
            _column(runs, measure.column, length), np.full(length, True), least, most
        )
    for name, band in bands.items():
        for ending, values in (("", band.mean), ("_low", band.low), ("_high", band.high)):
            chart[f"{name}{ending}"] = rounded_scores(values[rounds], units.get(name, ""))
    if partial.any():
        # With the neighbouring rounds, so that the pale line joins the line of complete rounds.
        pale = partial[scored]
        adjacent = np.zeros(length, bool)
        adjacent[scored] = pale | np.append(pale[1:], False) | np.append(False, pale[:-1])
        pale_curve = np.where(adjacent, accuracy.mean(axis=0), np.nan)
        chart["partial"] = rounded_scores(pale_curve[rounds], unit)
    return chart


def accuracy_by_cluster(run: Run, clusters: Sequence[int]) -> Json:
    """Score over the rounds of each cluster in ``clusters``. Clusters without any recorded score
    are left out; ``omitted`` counts the other ones that are not in ``clusters``."""
    scores = scores_in(run.records[-1])
    names = scores.names
    scored = _scored(_column([run], names.score, len(run.records)))
    rounds = scored[thinned(len(scored))]
    rows = [run.records[r].get(names.by_cluster) or [] for r in rounds]
    # Clusters may be added during the run, so the last rows may be longer than the first ones.
    known = sorted({k for row in rows for k, value in enumerate(row) if value is not None})
    lines = [
        {
            "cluster": k,
            "accuracy": rounded_scores(
                [row[k] if k < len(row) and row[k] is not None else np.nan for row in rows],
                scores.of_round.unit,
            ),
        }
        for k in clusters
        if k in known
    ]
    return {"rounds": rounds.tolist(), "lines": lines, "omitted": len(known) - len(lines)}


def events(run: Run, assignments: Sequence[Int[np.ndarray, "N"]]) -> Json:
    """The events that the charts mark: rounds with data shifts, and rounds in which newcomers got
    their first cluster.

    A shift counts if the data of more than a quarter of the clients changed. Each kind of event is
    shown only if it is rare (in at most a quarter of the rounds).
    """
    shifts = [
        r["round"] for r in run.records if 4 * (r.get("data_shifts") or 0) > len(run.assignment)
    ]
    newcomers = [
        r + 1
        for r, (before, after) in enumerate(zip(assignments, assignments[1:], strict=False))
        if ((before == UNASSIGNED) & (after != UNASSIGNED)).any()
    ]
    # Marks in most rounds would hide the curves.
    rare = len(run.records) / 4
    return {
        "shifts": shifts if len(shifts) <= rare else [],
        "newcomers": newcomers if len(newcomers) <= rare else [],
    }


def _limits(measure: Measure) -> tuple[float, float]:
    """The lowest and the highest possible value of a measure. Errors without a unit, such as MASE,
    may be above 1."""
    if math.isinf(measure.highest):
        return -math.inf, math.inf
    return _LOWEST[measure.unit], measure.highest


def _scored(accuracy: Float[np.ndarray, "S R"]) -> Int[np.ndarray, "r"]:
    """The rounds that were scored with any seed, and the first and the last round, with which the
    chart's axis begins and ends. All rounds if none was scored."""
    known = np.asarray(np.isfinite(accuracy).any(axis=0))
    ends = np.isin(np.arange(len(known)), (0, len(known) - 1))
    return np.flatnonzero(known | ends if known.any() else np.ones_like(known))


def _column(runs: Sequence[Run], name: str, length: int) -> Float[np.ndarray, "S R"]:
    """The values ``name`` in the runs' records (one record per round), with a row for each seed;
    NaN if missing."""
    rows = [[r.get(name) for r in run.records[:length]] for run in runs]
    return np.array(
        [[np.nan if value is None else value for value in row] for row in rows], np.float64
    )


def _band(
    values: Float[np.ndarray, "S R"],
    rounds: Bool[np.ndarray, "R"],
    least: float = 0.0,
    most: float = 1.0,
) -> Band:
    """Mean over the seeds and its 95% interval in each round that all seeds have. The interval is
    clipped to ``least`` .. ``most``, the possible values of the measure.

    With fewer than 3 seeds, the interval is NaN.
    """
    known = rounds & np.isfinite(values).all(axis=0)
    band = interval(np.where(known, values, 0.0))
    mean, low, high = (np.where(known, curve, np.nan) for curve in (band.mean, band.low, band.high))
    if len(values) < LEAST_SEEDS:
        return Band(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
    return Band(mean, low.clip(least, most), high.clip(least, most))
