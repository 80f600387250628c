"""The target score (such as an accuracy) of a comparison, and the rounds until a run reaches it."""

from __future__ import annotations

import numpy as np

from fedkin.analysis.repeated_runs import curve_of
from fedkin.measures.run_scores import scores_in
from fedkin.run.run import Run


def last_score(run: Run) -> float | None:
    """A run's score in its last round, on the samples on which rounds are evaluated (validation or
    test)."""
    names = scores_in(run.records[-1]).names
    if run.scored_split == "test":
        return run.summary()[names.final]
    return run.records[-1][names.score]


def first_round(run: Run, target: float | None) -> int | None:
    """The first round of a run, from round 1 on, in which all clients are scored and the score is
    at least as good as the target; None if there is no such round."""
    if target is None:
        return None
    score = scores_in(run.records[-1]).of_round
    curve = curve_of(run, score.name)[1:]
    reached = np.flatnonzero(score.sign * curve >= score.sign * target)
    return int(reached[0]) + 1 if len(reached) else None
