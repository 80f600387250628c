"""docs/results.md, written from the stored runs."""

from __future__ import annotations

from collections.abc import Mapping

from papers import reproduced_share
from papers.catalogue import PAPERS, Paper
from papers.reproduction_marks import SYMBOLS, Mark, Results

ABOUT = f"""\
Written by `make results` from the runs in `papers/results/*.jsonl`, one line a run. Unless a section says otherwise,
each cell shows **ours** (mean over the seeds, lowest - highest) and the *paper's* number. A paper's score is the
highest accuracy of any round, which flatters a method whose accuracy varies; ours is the same statistic, so that the
two can be compared, and the accuracy of the last round stands beside it. Marks: {SYMBOLS[Mark.REPRODUCED]} reproduced
(within 1.5 points, or by the rule of the table), {SYMBOLS[Mark.NOT_REPRODUCED]} not reproduced, {SYMBOLS[Mark.DEFECT]}
reproduced with a defect of the authors' code only; in brackets where our run is not the paper's (fewer rounds, other
data, a variant), which is not counted. `fedkin reproduce` lists all tables, and `fedkin reproduce NAME` runs one."""


def page(results: Mapping[str, Results], notes: Mapping[str, str]) -> str:
    """The whole page: for each paper the tables written from its runs, and hand-written notes on them."""
    parts = ["# Results: the papers' tables, measured again", ABOUT, reproduced_share.section(results)]
    for name, paper in PAPERS.items():
        parts += [section(paper, results.get(name, [])), notes.get(name, "").strip()]
    return "\n\n".join(part for part in parts if part) + "\n"


def section(paper: Paper, results: Results) -> str:
    """The part of one paper."""
    parts = [table.section(results) for table in paper.tables if table.section]
    return "\n\n".join(part for part in (f"## {paper.heading}", paper.about, *parts) if part)
