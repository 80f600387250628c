"""Sentences about the column "worse than alone" of a comparison: its meaning, the clients that do
not count, and why a number is missing."""

from __future__ import annotations

from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.compare.harm import harm, local_label
from fedkin.analysis.own_models import LOCAL, loss_words
from fedkin.measures.worse_than_alone import LEAST_SAMPLES, MARGIN, WORSE_THAN_ALONE
from fedkin.run.run import Run

_NAME = WORSE_THAN_ALONE.head.capitalize()


def harm_notes(comparison: Comparison) -> list[str]:
    """How to read the column, or how to get it without the method ``local``. Empty if no run is
    finished.

    Args:
        comparison: the comparison.
    """
    if not comparison.finished:
        return []
    local = local_label(comparison.grid)
    if local is None:
        return [
            f"{_NAME} -: it needs each client's own model; add the method {LOCAL!r}, by which "
            "every client trains alone."
        ]
    lines = definition(comparison)
    rows = [harm(comparison, s, m) for s in comparison.settings for m in comparison.methods]
    if any(one is None for row in rows for one in row):
        lines.append(f"{_NAME} -: {local} has no finished run with the same seed.")
    known = [one for row in rows for one in row if one is not None]
    most = max(known, key=lambda one: (one.clients - one.counted) / one.clients, default=None)
    if most is not None and most.counted < most.clients:
        lines.append(
            f"Up to {most.clients - most.counted} of {most.clients} clients do not count there: "
            f"{_causes(comparison)}."
        )
    alone = [run for (_, method, _), run in comparison.finished.items() if method == local]
    return lines + _cohort_notes(alone)


def definition(comparison: Comparison) -> list[str]:
    """A sentence that says what the column is. Empty without the method ``local``.

    Args:
        comparison: the comparison.
    """
    local = local_label(comparison.grid)
    if local is None:
        return []
    return [
        f"{_NAME}: share of clients whose mean {loss_words(comparison.run_scores)} on test samples "
        f"is more than {MARGIN:.0%} higher than with the model that they train alone ({local}, "
        "same seed), after the last round."
    ]


def _causes(comparison: Comparison) -> str:
    """Why clients do not count, as a part of a sentence."""
    causes = [f"fewer than {LEAST_SAMPLES} test samples", "no own model"]
    if any(run.final.get("attackers") for run in comparison.finished.values()):
        causes.append("attackers")
    return f"{', '.join(causes)}, or not scored"


def _cohort_notes(alone: list[Run]) -> list[str]:
    """A sentence that own models are weaker than they could be, if clients train them only in the
    rounds of their cohorts."""
    for run in alone:
        cohort = run.config.cohort
        clients = len(run.assignment)
        if isinstance(cohort, int) and cohort < clients:
            return [
                f"Clients train their own models only in the rounds of their cohorts ({cohort} of "
                f"{clients} clients a round), so these models are weaker than they could be; "
                f"run.cohort={clients} trains all in every round."
            ]
    return []
