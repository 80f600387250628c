"""The table of papers: the answer follows from verdicts and from the collective test."""

from __future__ import annotations

import pytest

from papers import by_paper
from papers.catalogue import PAPERS
from papers.claims import CLAIMS, Verdict
from papers.paper_tables import Paper
from tests.papers.claim_runs import every_run

YES, PARTLY, UNDECIDED, NOT, NEVER = Verdict


@pytest.mark.parametrize(
    ("verdicts", "rejected", "answer"),
    [
        ([YES, YES], [], "yes"),
        ([YES, YES], ["IFCA"], "partly"),
        ([YES, PARTLY, PARTLY, UNDECIDED], [], "mostly"),
        ([YES, NOT], [], "mostly"),
        ([PARTLY, NOT], [], "partly"),
        ([NOT, NOT, NEVER], [], "no"),
        ([YES, NEVER], [], "hardly tested"),
        ([NEVER], [], "hardly tested"),
    ],
)
def test_the_answer_follows_from_the_verdicts(
    verdicts: list[Verdict], rejected: list[str], answer: str
) -> None:
    assert by_paper.answer(verdicts, rejected) == answer


def test_each_paper_with_claims_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims and numbers come from runs that are made up for the claims alone."""
    monkeypatch.setattr(by_paper.collective_section, "rejected_methods", _rejected)
    monkeypatch.setattr(by_paper.collective_section, "attempted_of", _attempted)
    text = by_paper.table(every_run())
    rows = text.splitlines()[2:]
    for store in {claim.store for claim in CLAIMS}:
        row = next(row for row in rows if f"({PAPERS[store].page})" in row)
        assert "reproduced" in row or "not attempted" in row
    assert sum("| 3 of 4 |" in row for row in rows) == len({claim.store for claim in CLAIMS}) - 1
    assert "| IFCA |" in next(row for row in rows if "results-flexcfl.md" in row)
    assert "| prints none |" in next(row for row in rows if "results-panm.md" in row)


def _rejected(paper: Paper, results: object) -> list[str]:
    return ["IFCA"] if paper.page == "results-flexcfl.md" else []


def _attempted(paper: Paper, results: object) -> tuple[int, int]:
    return (0, 0) if paper.page == "results-panm.md" else (3, 4)


def test_without_runs_all_papers_are_hardly_tested() -> None:
    text = by_paper.table({})
    assert text.count("**hardly tested**") == len({claim.store for claim in CLAIMS})
