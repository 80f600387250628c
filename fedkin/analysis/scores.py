"""The number by which a run is compared with others, or why it has none."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from fedkin.measures.measure import Measure
from fedkin.run.metrics.partial_rounds import scored_text
from fedkin.run.results import Run

_log = logging.getLogger("fedkin")


class Score(NamedTuple):
    """A run's number, NaN where it has none, and then why."""

    value: float
    reason: str = ""


def score(run: Run, measure: Measure) -> Score:
    """The number of a measure.

    The accuracy of a last round in which some clients had no cluster, or were away, is that of the
    others, and no fair match for a method that served all: such a run is compared by
    ``accuracy_all_clients``, and where that is not known it has no final accuracy to be compared
    by. Other measures of the last round, such as the bottom 10%, have no number over all clients.
    The best accuracy is that of complete rounds only, as is that on validation samples.
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
    """Whether some clients had no cluster, or were away, when the last round was scored; its record
    says so, or the summary where it was scored after it."""
    return bool(run.final.get("final_partial", run.records[-1]["partial"]))


def scores_by_method(
    runs: Mapping[str, Sequence[Run | None]], measure: Measure
) -> tuple[dict[str, Float[np.ndarray, "S"]], dict[str, str]]:
    """Scores by method, one a seed, NaN where there is none; and by method why seeds are left out,
    where some are.

    Args:
        runs: by method, a run or none from each seed.
        measure: what is compared.
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
    """Log why pairs of methods are compared over fewer seeds, or not at all; each reason once in a
    process."""
    for reason in reasons:
        _log_once(reason)


@cache
def _log_once(reason: str) -> None:
    _log.warning("left out of the tests, because a score is missing: %s", reason)
