"""Results of peers at the end, from the stored runs: accuracy relative to an oracle's, precision
and recall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from statistics import mean
from typing import Any

from papers.accuracy_numbers import figure_of_job
from papers.panm.recipes import BY_ALPHA, STAGE_ONE, Question, in_federation
from papers.reproduction_marks import ComparedNumber, Results
from papers.result_store import Job

Run = dict[str, Any]


FROM_ROUND = 10  # the lowest precision is over this round and later ones


def runs_of(results: Results, question: Question) -> list[Run]:
    """The runs of a question, in the order of their seeds."""
    runs = [m for m in results if all(m[name] == value for name, value in vars(question).items())]
    return sorted(runs, key=lambda m: m["seed"])


def percent_of(runs: Sequence[Run], figure: str, round: int = -1) -> float:
    """The mean over the runs after a round, the last one by default; NaN without runs."""
    return 100 * mean(run[figure][round] for run in runs) if runs else nan


def behind_the_oracle(results: Results, question: Question) -> float:
    """Points of accuracy in the last round that the oracle has more, in the mean over the seeds of
    both; NaN for none.

    Args:
        results: stored runs.
        question: a method of peers, on the federation in question.
    """
    oracle = replace(
        question, method="oracle", panel=_panel_of_oracle(question), alpha=Question.alpha
    )
    theirs, ours = (
        {run["seed"]: run["accuracy"][-1] for run in runs_of(results, q)}
        for q in (oracle, question)
    )
    gaps = [100 * (theirs[seed] - ours[seed]) for seed in sorted(theirs.keys() & ours.keys())]
    return mean(gaps) if gaps else nan


def _panel_of_oracle(question: Question) -> str:
    return "compared" if question.panel == "alpha" else question.panel


def behind_by_alpha(results: Results, alpha: float) -> list[float]:
    """Points of PANMGrad behind the oracle on each federation of ``BY_ALPHA``; NaN without runs.

    Args:
        results: stored runs.
        alpha: the weight of the round's own update.
    """
    return [
        behind_the_oracle(results, in_federation(place, "PANMGrad", alpha)) for place in BY_ALPHA
    ]


NEIGHBOURS = {  # figure, round
    "precision after stage one": ("neighbour_precision", STAGE_ONE),
    "precision, end": ("neighbour_precision", -1),
    "recall, end": ("neighbour_recall", -1),
}


def of_neighbours(results: Results, jobs: Sequence[Job]) -> list[ComparedNumber]:
    """Precision and recall of the neighbours of each job's runs, in percent.

    Args:
        results: stored runs.
        jobs: of a table of peers; those without neighbours are left out.
    """
    return [
        _of_neighbours(results, job, name)
        for job in jobs
        if any(job.matches(line) and line["neighbour_recall"][-1] is not None for line in results)
        for name in NEIGHBOURS
    ]


def _of_neighbours(results: Results, job: Job, name: str) -> ComparedNumber:
    figure, round = NEIGHBOURS[name]
    number = figure_of_job(job, results, lambda run: 100 * run[figure][round], "%")
    return replace(number, column=f"{job.column}: {name}")
