"""The table of papers counts verdicts, and says what the collective test finds."""

from __future__ import annotations

import re

import pytest

from papers import by_paper, claims
from papers.catalogue import PAPERS
from papers.claims import CLAIMS, Verdict
from tests.papers.claim_runs import every_run

STORES = {claim.store for claim in CLAIMS}


def rows_of(text: str) -> dict[str, list[str]]:
    """The cells of each row, by the page of its paper."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines()[2:]]
    return {cells[0].partition("](")[2].rstrip(")"): cells for cells in rows}


def test_each_verdict_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs are made up for the claims alone."""
    monkeypatch.setattr(by_paper.collective_section, "attempted_of", lambda *_: (3, 4))
    monkeypatch.setattr(by_paper.collective_section, "in_short", lambda *_: "nothing outside")
    results = every_run()
    rows = rows_of(by_paper.table(results))
    assert set(rows) == {PAPERS[store].page for store in STORES}
    judged = claims.judgements(results).values()
    for store in STORES:
        of_paper = [each.verdict for each in judged if each.claim.store == store]
        counts = [str(of_paper.count(verdict)) for verdict in Verdict]
        assert rows[PAPERS[store].page][1:] == [*counts, "3 of 4", "nothing outside"]
        assert sum(map(int, counts)) == sum(claim.store == store for claim in CLAIMS)


def test_without_runs_nothing_was_attempted() -> None:
    rows = rows_of(by_paper.table({}))
    for store in STORES:
        claims_of_paper = sum(claim.store == store for claim in CLAIMS)
        assert rows[PAPERS[store].page][1:6] == ["0"] * 4 + [str(claims_of_paper)]
    assert rows["results-panm.md"][6:] == ["prints none", "no number to test"]
    assert re.fullmatch(r"0 of \d+", rows["results-fedgroup.md"][6])
