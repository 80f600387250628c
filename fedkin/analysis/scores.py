"""The score by which a run is compared with others, or why it has none."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from fedkin.measures.measure import Measure
from fedkin.run.metrics.partial_rounds import scored_text
from fedkin.run.run import Run

_log = logging.getLogger("fedkin")


class Score(NamedTuple):
    """A run's score; NaN with a reason if it has none."""

    value: float
    reason: str = ""


def score(run: Run, measure: Measure) -> Score:
    """A run's score for a measure.

    If some clients had no cluster or were absent in the last round, its accuracy covers only the
    other clients. Comparing it with a method that served all would be unfair, so such a run is
    compared by ``accuracy_all_clients``; if that is unknown, the run has no final score. Other
    measures of the last round, such as the bottom 10%, have no value over all clients. The best
    accuracy, also on validation samples, is taken over complete rounds only.
    """
    summary = run.summary()
    of_complete = measure.moment == "best"
    if measure.by == "validation" and measure.name not in summary:
        return Score(
            float("nan"), "no validation samples; data.validation=0.2 sets a part of the data aside"
        )
    value = summary.get(measure.name)
    if not of_complete and is_partial(run):
        value = summary.get(measure.over_all)
        if value is None:
            return Score(float("nan"), _why_partial(run))
    if value is None:
        return Score(
            float("nan"), "no complete round" if of_complete else "not scored in the last round"
        )
    return Score(float(value))


def _why_partial(run: Run) -> str:
    """Why the last round is partial."""
    scored = scored_text(run.records[-1])
    return (
        f"clients away in the last round ({scored})"
        if scored
        else "clients without a cluster in the last round"
    )


def is_partial(run: Run) -> bool:
    """Whether some clients had no cluster or were absent when the last round was scored.

    This is read from its record, or from the summary if it was scored later.
    """
    return bool(run.final.get("final_partial", run.records[-1]["partial"]))


def scores_by_method(
    runs: Mapping[str, Sequence[Run | None]], measure: Measure
) -> tuple[dict[str, Float[np.ndarray, "S"]], dict[str, str]]:
    """Scores by method, one per seed (NaN if missing), and the reasons of missing scores by method.

    Args:
        runs: by method, a run or None for each seed.
        measure: the compared measure.
    """
    values = {}
    reasons = {}
    for method, several in runs.items():
        scores = [Score(float("nan")) if run is None else score(run, measure) for run in several]
        values[method] = np.array([run_score.value for run_score in scores], np.float64)
        lacking: dict[str, list[str]] = {}
        for run_score, run in zip(scores, several, strict=True):
            if run is not None and run_score.reason:
                lacking.setdefault(run_score.reason, []).append(str(run.config.seed))
        if lacking:
            parts = (f"{reason} ({_seeds(seeds)})" for reason, seeds in lacking.items())
            reasons[method] = f"{method}: {', '.join(parts)}."
    return values, reasons


def _seeds(seeds: Sequence[str]) -> str:
    return f"seed{'' if len(seeds) == 1 else 's'} {', '.join(seeds)}"


def log_reasons(reasons: Iterable[str]) -> None:
    """Log why pairs are compared over fewer seeds or not at all; each reason once per process."""
    for reason in reasons:
        _log_once(reason)


@cache
def _log_once(reason: str) -> None:
    _log.warning("left out of the tests, because a score is missing: %s", reason)
