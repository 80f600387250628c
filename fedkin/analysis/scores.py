"""The score by which a run is compared with others, or the reason why it has none."""

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
    """The score of a run. A run without a score has NaN and a reason."""

    value: float
    reason: str = ""


def score(run: Run, measure: Measure) -> Score:
    """The score of a run for a measure: the value by which it is compared.

    If some clients had no cluster or were absent in the last round, the final score (such as the
    accuracy) covers only the other clients. A comparison with a method that covers all clients
    would be unfair, so such a run is compared by its score over all clients
    (``accuracy_all_clients``). If that is unknown, the run has no final score. Other measures of
    the last round, such as the bottom 10%, are not defined over all clients, so the run has no
    score for them. The best score, also on validation samples, is taken over complete rounds only.
    """
    summary = run.summary()
    of_complete = measure.moment == "best"
    if measure.by == "validation" and measure.name not in summary:
        return Score(float("nan"), "no validation samples; set data.validation=0.2")
    value = summary.get(measure.name)
    if not of_complete and is_partial(run):
        value = summary.get(measure.over_all)
        if value is None:
            return Score(float("nan"), _why_partial(run))
    if value is None:
        return Score(
            float("nan"), "no complete round" if of_complete else "not evaluated in the last round"
        )
    return Score(float(value))


def _why_partial(run: Run) -> str:
    """The reason why a run's last round does not cover all clients, as text."""
    scored = scored_text(run.records[-1])
    return (
        f"clients away in the last round ({scored})"
        if scored
        else "clients without a cluster in the last round"
    )


def is_partial(run: Run) -> bool:
    """Whether some clients had no cluster or were absent in the evaluation of the last round.

    This is read from the round's record, or from the summary if the round was evaluated later.
    """
    return bool(run.final.get("final_partial", run.records[-1]["partial"]))


def scores_by_method(
    runs: Mapping[str, Sequence[Run | None]], measure: Measure
) -> tuple[dict[str, Float[np.ndarray, "S"]], dict[str, str]]:
    """Scores by method, one for each seed (NaN if missing), and the reasons of missing scores by
    method.

    Args:
        runs: for each method, a run or None for each seed.
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
    """Seeds as text: ``seed 1`` or ``seeds 1, 2``."""
    return f"seed{'' if len(seeds) == 1 else 's'} {', '.join(seeds)}"


def log_reasons(reasons: Iterable[str]) -> None:
    """Log the reasons why seeds are left out of tests, each reason once per process."""
    for reason in reasons:
        _log_once(reason)


@cache
def _log_once(reason: str) -> None:
    """Log a reason why seeds are left out. Calls with the same reason are cached, so it is logged
    only once."""
    _log.warning("left out of the tests, because a score is missing: %s", reason)
