"""Claims of PANM's poster. It has no numbers and no experiments, so its words are judged on our
federations of planted clusters."""

from __future__ import annotations

from dataclasses import asdict

from papers.claims.claim import NO_NUMBER, Claim, Part
from papers.claims.rules import NOT_BEHIND, at_least
from papers.claims.samples import PERCENT, Sample, difference, sample_of_seeds
from papers.panm import recipes
from papers.panm.numbers import runs_of
from papers.panm.recipes import FEDERATIONS, STAGE_ONE, Place, Question, in_federation
from papers.reproduction_marks import Results

PAPER = "PANM"
METHOD = "PANMGrad"
ORACLE = "oracle"
PRECISE = 95.0  # percent of a peer's neighbours that share its cluster; a threshold of ours


def _row(question: Question) -> str:
    """The row of a question in the table of the other federations."""
    key = asdict(question)
    return next(job.row for job in recipes.jobs("federations") if job.key == key)


def precision_after_stage_one(results: Results, place: Place) -> Sample:
    """Percent of the neighbours that share a peer's cluster, after the last round of stage one.

    Args:
        results: stored runs.
        place: the federation.
    """
    return sample_of_seeds(
        {
            run["seed"]: PERCENT * run["neighbour_precision"][STAGE_ONE]
            for run in runs_of(results, in_federation(place, METHOD))
        }
    )


def ahead_of_oracle(results: Results, place: Place) -> Sample:
    """Points of accuracy in the last round over an oracle that knows the clusters.

    Args:
        results: stored runs.
        place: the federation.
    """
    ours, oracle = (
        {run["seed"]: run["accuracy"][-1] for run in runs_of(results, in_federation(place, name))}
        for name in (METHOD, ORACLE)
    )
    return sample_of_seeds(difference(ours, oracle, PERCENT))


def _precision(place: Place) -> Part:
    question = in_federation(place, METHOD)
    return Part(
        label=_row(question),
        rows=(_row(question),),
        columns=(METHOD,),
        sample=lambda results: precision_after_stage_one(results, place),
        rule=at_least(PRECISE),
        form=".0f",
    )


def _level_with_oracle(place: Place) -> Part:
    question = in_federation(place, METHOD)
    return Part(
        label=_row(question),
        rows=(_row(question),),
        columns=(METHOD, ORACLE),
        sample=lambda results: ahead_of_oracle(results, place),
        rule=NOT_BEHIND,
    )


CLAIMS = (
    Claim(
        paper=PAPER,
        where="1.3",
        quote="few neighbors with high precision",
        table="panm-federations",
        measure="precision in %",
        parts=tuple(map(_precision, FEDERATIONS)),
        evidence=NO_NUMBER,
        counted=True,
    ),
    Claim(
        paper=PAPER,
        where="1.1",
        quote="our new metric is robust and effective in the P2P FL setting",
        table="panm-federations",
        measure="lead over the oracle",
        parts=tuple(map(_level_with_oracle, FEDERATIONS)),
        evidence=NO_NUMBER,
        counted=True,
    ),
)
