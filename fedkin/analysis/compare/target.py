"""The target score (such as an accuracy) of a comparison, and the rounds until a run reaches it."""

from __future__ import annotations

from fedkin.measures.complete_rounds import first_to_reach
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
    """The first complete round of a run, from round 1 on, whose score is at least as good as the
    target; None if there is no such round. Round 0, which a run's summary counts too, compares
    initial models and not methods."""
    record = first_to_reach(run.records, target, first=1)
    return None if record is None else record["round"]
