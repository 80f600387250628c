"""What peers have in the end, from the stored runs: accuracy beside an oracle's, precision and recall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from statistics import mean
from typing import Any

from papers.panm.recipes import BEHIND, PANMS, Place, Question
from papers.reproduction_marks import Results

Run = dict[str, Any]


def runs_of(results: Results, question: Question) -> list[Run]:
    """The runs of a question, in the order of their seeds."""
    runs = [m for m in results if all(m[name] == value for name, value in vars(question).items())]
    return sorted(runs, key=lambda m: m["seed"])


def percent_of(runs: Sequence[Run], figure: str, round: int = -1) -> float:
    """The mean over the runs after a round, the last one by default; NaN where nothing was run."""
    return 100 * mean(run[figure][round] for run in runs) if runs else nan


def in_federation(place: Place, method: str, alpha: float = Question.alpha) -> Question:
    """The question of a method on another federation."""
    base, kind, clusters = place
    return Question("federations", method, base, kind, clusters=clusters, alpha=alpha)


def behind_the_oracle(results: Results, question: Question) -> float:
    """Points of accuracy in the last round that the oracle has more; NaN where either was not run.

    Args:
        results: stored runs.
        question: a method of peers, on the federation in question.
    """
    oracle = replace(question, method="oracle", alpha=Question.alpha)
    return percent_of(runs_of(results, oracle), "accuracy") - percent_of(runs_of(results, question), "accuracy")


def by_alpha(results: Results, alpha: float) -> tuple[list[float], list[float], list[float]]:
    """Of PANMGrad on each federation of ``BEHIND``: points behind the oracle, precision and recall in the end."""
    questions = [in_federation(place, PANMS[0], alpha) for place in BEHIND]
    gaps = [behind_the_oracle(results, question) for question in questions]
    stored = [runs_of(results, question) for question in questions]
    precision, recall = ([percent_of(runs, f"neighbour_{name}") for runs in stored] for name in ("precision", "recall"))
    return gaps, precision, recall
