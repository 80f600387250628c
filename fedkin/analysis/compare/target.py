"""The target accuracy of a comparison, and the rounds until a run reaches it."""

from __future__ import annotations

import numpy as np

from fedkin.analysis.repeated_runs import curve_of
from fedkin.run.run import Run


def last_score(run: Run) -> float | None:
    """A run's accuracy in its last round, on the samples on which rounds are evaluated (validation
    or test)."""
    if run.scored_split == "test":
        return run.summary()["final_accuracy"]
    return run.records[-1]["accuracy"]


def first_round(run: Run, target: float | None) -> int | None:
    """The first round of a run, from round 1 on, in which all clients are scored and the accuracy
    reaches the target; None if there is no such round."""
    accuracy = curve_of(run, "accuracy")[1:]
    reached = np.flatnonzero(accuracy >= target) if target is not None else []
    return int(reached[0]) + 1 if len(reached) else None
