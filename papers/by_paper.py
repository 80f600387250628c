"""The table of docs/results.md that says for each paper whether it reproduces.

The answer follows from the verdicts on the paper's claims and from the collective test of its
numbers. It is no statistic: it sums up both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from papers import claims, collective_section
from papers.catalogue import PAPERS
from papers.claims import Verdict
from papers.paper_tables import Paper
from papers.reproduction_marks import Results
from papers.tables_markdown import markdown

MOSTLY = 0.5  # least mean score of the attempted claims of a paper that mostly reproduces
# What a claim adds to the score of its paper.
SCORES = {
    Verdict.REPRODUCED: 1.0,
    Verdict.PARTLY: 0.5,
    Verdict.UNDECIDED: 0.5,
    Verdict.NOT: 0.0,
}
HEAD = ["paper", "does it reproduce?", "claims", "numbers run at its size", "not reproduced"]
RULE = (
    "Attempted claims score 1 (reproduced), 0.5 (partly or undecided) or 0 (not). *Yes*: all score "
    "1, and the collective test rejects no method of the paper. *Mostly*: it rejects none, and the "
    f"mean score is at least {MOSTLY:g}. *No*: the mean score is 0. *Partly*: all others. *Hardly "
    "tested*: at least half of the claims were not attempted."
)


def table(results: Mapping[str, Results]) -> str:
    """A row for each paper, with the rule of its answer below.

    Args:
        results: stored runs, by paper.
    """
    verdicts: dict[str, list[Verdict]] = {}
    failed: dict[str, list[str]] = {}
    for judgement in claims.judgements(results):
        store = judgement.claim.store
        verdicts.setdefault(store, []).append(judgement.verdict)
        if judgement.verdict == Verdict.NOT:
            failed.setdefault(store, []).append(f"“{judgement.claim.quote}”")
    lines = []
    for store, of_paper in verdicts.items():
        paper = PAPERS[store]
        rejected = collective_section.rejected_methods(paper, results)
        lines.append(
            [
                f"[{paper.heading}]({paper.page})",
                f"**{answer(of_paper, rejected)}**",
                _counts(of_paper),
                _numbers(paper, results),
                "; ".join([*rejected, *failed.get(store, [])]) or "–",
            ]
        )
    return f"{markdown(HEAD, lines)}\n\n{RULE}"


def answer(verdicts: Sequence[Verdict], rejected: Sequence[str]) -> str:
    """Whether a paper reproduces, in a word or two.

    Args:
        verdicts: on its claims.
        rejected: methods whose numbers the collective test rejects.
    """
    scores = [SCORES[verdict] for verdict in verdicts if verdict in SCORES]
    if 2 * len(scores) <= len(verdicts):
        return "hardly tested"
    score = sum(scores) / len(scores)
    if score == 1.0 and not rejected:
        return "yes"
    if score >= MOSTLY:
        return "partly" if rejected else "mostly"
    return "partly" if score > 0 else "no"


def _counts(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdicts)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])


def _numbers(paper: Paper, results: Mapping[str, Results]) -> str:
    ran, total = collective_section.attempted_of(paper, results)
    return f"{ran} of {total}" if total else "prints none"
