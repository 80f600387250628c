"""The table of docs/results.md that counts, for each paper, the verdicts on its claims, the numbers
that were run, and what the collective test says of them. It weighs nothing against anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from papers import claims, collective_section
from papers.catalogue import PAPERS
from papers.claims import Verdict
from papers.paper_tables import Paper
from papers.reproduction_marks import Results
from papers.tables_markdown import markdown

HEAD = ["paper", *map(str, Verdict), "numbers run of printed", "collective test"]


def table(results: Mapping[str, Results]) -> str:
    """A row for each paper.

    Args:
        results: stored runs, by paper.
    """
    verdicts: dict[str, Counter[Verdict]] = {}
    for judgement in claims.judgements(results).values():
        verdicts.setdefault(judgement.claim.store, Counter())[judgement.verdict] += 1
    lines = [
        [
            f"[{PAPERS[store].heading}]({PAPERS[store].page})",
            *(str(counts[verdict]) for verdict in Verdict),
            _numbers(PAPERS[store], results),
            collective_section.in_short(PAPERS[store], results),
        ]
        for store, counts in verdicts.items()
    ]
    return markdown(HEAD, lines)


def _numbers(paper: Paper, results: Mapping[str, Results]) -> str:
    ran, total = collective_section.attempted_of(paper, results)
    return f"{ran} of {total}" if total else "prints none"
