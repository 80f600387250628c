"""Claims of PANM's poster. It has no numbers and no experiments, so its words are judged on our
federations of planted clusters, the one with rotated digits first."""

from __future__ import annotations

from dataclasses import asdict

from papers.claims.claim import Claim, Part
from papers.claims.rules import ABOVE, NOT_BEHIND, Rule, at_least
from papers.claims.samples import PERCENT, Sample, difference, sample_of_seeds
from papers.panm import recipes
from papers.panm.numbers import runs_of
from papers.panm.recipes import (
    BY_ALPHA,
    FEDERATIONS,
    FIRST,
    QUARTER,
    STAGE_ONE,
    Place,
    Question,
    in_federation,
    name_of,
)
from papers.reproduction_marks import Results

PAPER = "PANM"
METHOD = "PANMGrad"
ORACLE = "oracle"
RANDOM = "gossip"
PRECISE = 95.0  # percent of a peer's neighbours that share its cluster; a threshold of ours
PLACES = (FIRST, *FEDERATIONS)


def _row(question: Question) -> str:
    """The row of a question in the table of federations."""
    key = asdict(question)
    return next(job.row for job in recipes.of_federations() if job.key == key)


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


def ahead_of(results: Results, place: Place, other: str, alpha: float = Question.alpha) -> Sample:
    """Points of accuracy in the last round over another method.

    Args:
        results: stored runs.
        place: the federation.
        other: the other method.
        alpha: PANM's weight of a round's own updates.
    """
    ours, theirs = (
        {run["seed"]: run["accuracy"][-1] for run in runs_of(results, question)}
        for question in (in_federation(place, METHOD, alpha), in_federation(place, other))
    )
    return sample_of_seeds(difference(ours, theirs, PERCENT))


def _precision(place: Place) -> Part:
    question = in_federation(place, METHOD)
    return Part(
        label=name_of(place),
        rows=(_row(question),),
        columns=(METHOD,),
        sample=lambda results: precision_after_stage_one(results, place),
        rule=at_least(PRECISE),
        form=".0f",
    )


def _lead(place: Place, other: str, rule: Rule, group: str, alpha: float = Question.alpha) -> Part:
    question = in_federation(place, METHOD)
    return Part(
        label=name_of(place),
        rows=(_row(question),),
        columns=(METHOD, other),
        sample=lambda results: ahead_of(results, place, other, alpha),
        rule=rule,
        group=group,
    )


CLAIMS = (
    Claim(
        paper=PAPER,
        where="1.3",
        quote="few neighbors with high precision",
        table="panm-federations",
        measure="precision after stage one, %",
        parts=tuple(map(_precision, PLACES)),
        counted=True,
    ),
    Claim(
        paper=PAPER,
        where="1.1",
        quote="our new metric is robust and effective in the P2P FL setting",
        table="panm-federations",
        measure="lead",
        parts=(
            *(_lead(place, RANDOM, ABOVE, "over random peers") for place in PLACES),
            *(_lead(place, ORACLE, NOT_BEHIND, "over an oracle") for place in PLACES),
        ),
        counted=True,
        shown=tuple(
            _lead(place, ORACLE, NOT_BEHIND, f"over an oracle with alpha {QUARTER:g}", QUARTER)
            for place in BY_ALPHA
        ),
    ),
)
