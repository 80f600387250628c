"""docs/results.md, written from the stored runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from papers import findings, inventory, reproduced_share
from papers.catalogue import PAPERS, Paper, Table
from papers.notes import fill
from papers.reproduction_marks import SYMBOLS, Mark, Results
from papers.tables_markdown import markdown

ABOUT = f"""\
`make results` writes this page from the runs in `papers/results/*.jsonl`, one line a run. \
`fedkin reproduce` lists all
tables, and `fedkin reproduce NAME` runs one.

**Cells.** Unless a section says otherwise, each cell shows **ours** \
(mean over the seeds, lowest - highest) and the
*paper's* number. A paper's score is the highest accuracy of any round. \
It favours methods with an accuracy that varies.
Ours is the same statistic, so that the two can be compared. \
The accuracy of the last round has a separate table.

**Marks.** {SYMBOLS[Mark.REPRODUCED]} is reproduced (within 1.5 points, or by the rule of the \
table), {SYMBOLS[Mark.NOT_REPRODUCED]} is
not reproduced. A mark in brackets does not count, because our run is not the paper's: \
it has fewer rounds, other data, or
is a variant.

**Causes.** Below each table are the numbers in percentage points that differ by more, \
each with its cause and the runs
that show it. Numbers in brackets have no cause.

| term | meaning |
| --- | --- |
| MCLR | multinomial logistic regression |
| MLP | a network of one hidden layer |
| RCC, RAC | FedGroup with random cluster centres, and with random assignment of newcomers |
| IFCA-MIG | IFCA with clients that may change their cluster after a shift |
| m | the number of clusters |
| eta_g | FlexCFL's inter-group learning rate |
| discrepancy | distance of the clients' models from the aggregated one |
| EDC, MADC | FedGroup's two distances of clients: Euclidean distance of decomposed cosine \
similarity, and mean absolute difference of cosine similarities |
| PNI | FedSim's index of how far data are from IID |
| ARI | adjusted Rand index: 1 if two clusterings are equal |"""


def page(
    results: Mapping[str, Results],
    notes: Mapping[str, str],
    left_out: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The whole page: for each paper the tables written from its runs, and hand-written notes on
    them.

    Args:
        results: stored runs of today's recipes, by paper.
        notes: text by paper.
        left_out: lines of the stores that the page does not use, in words, by paper.
    """
    parts = ["# Results: the papers' tables, measured again", findings.section(results)]
    parts += [ABOUT, reproduced_share.section(results)]
    parts.append(_left_out(left_out or {}))
    for name, paper in PAPERS.items():
        runs = results.get(name, [])
        parts += [section(paper, runs), fill(notes.get(name, "").strip(), paper, runs)]
    parts += ["## All tables and figures of the papers", inventory.markdown_table()]
    return "\n\n".join(part for part in parts if part) + "\n"


def _left_out(left_out: Mapping[str, Sequence[str]]) -> str:
    """Stored lines that do not count, and why; empty if there are none."""
    lines = [f"* {paper}: {words}" for paper, of_paper in left_out.items() for words in of_paper]
    return "\n".join(["Left out of every count and table:", "", *lines]) if lines else ""


def section(paper: Paper, results: Results) -> str:
    """The part of one paper: each table, and the causes of its differences."""
    parts = [
        part
        for table in paper.tables
        for part in (_table(table, results), differences(table, results))
    ]
    return "\n\n".join(part for part in (f"## {paper.heading}", paper.about, *parts) if part)


def _table(table: Table, results: Results) -> str:
    return table.section(results) if table.section else ""


def differences(table: Table, results: Results) -> str:
    """Every number that differs by more than the margin, its cause, and the runs that show it."""
    lines = [
        [
            n.row,
            n.column,
            n.ours,
            n.published,
            f"{n.difference:+.1f}",
            n.cause_words,
            n.shown_by or "-",
        ]
        for n in table.numbers(results)
        if n.cause is not None
    ]
    head = ["", "", "ours", "paper", "difference", "cause", "shown by, or tried"]
    return f"#### {table.name}: what differs, and why\n\n{markdown(head, lines)}" if lines else ""
