"""docs/results.md, written from the stored runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from papers import findings, inventory, reproduced_share
from papers.catalogue import PAPERS, Paper, Table
from papers.notes import fill
from papers.reproduction_marks import SYMBOLS, Mark, Results
from papers.tables_markdown import markdown

ABOUT = f"""\
Written by `make results` from the runs in `papers/results/*.jsonl`, one line a run. \
Unless a section says otherwise,
each cell shows **ours** (mean over the seeds, lowest - highest) and the *paper's* number. \
A paper's score is the
highest accuracy of any round, which flatters a method whose accuracy varies; \
ours is the same statistic, so that the
two can be compared, and the accuracy of the last round stands beside it. Marks: \
{SYMBOLS[Mark.REPRODUCED]} reproduced
(within 1.5 points, or by the rule of the table), {SYMBOLS[Mark.NOT_REPRODUCED]} not reproduced; \
in brackets where our
run is not the paper's (fewer rounds, other data, a variant), which is not counted. \
Below each table stands the
cause of every number in percentage points that differs by more, and the runs that show it; \
for one in brackets none is
looked for, as our run is not the paper's. `fedkin reproduce` lists all tables, \
and `fedkin reproduce NAME` runs one.

Abbreviations: *MCLR*, multinomial logistic regression; *MLP*, a network of one hidden layer; \
*RCC* and *RAC*, FedGroup
with random centres of clusters and with random assignment of newcomers; *IFCA-MIG*, \
IFCA whose clients may change their
cluster after a shift; *m*, the number of clusters; *eta_g*, FlexCFL's inter-group learning rate; \
*discrepancy*, the
distance of the clients' models from the aggregated one; *EDC* and *MADC*, \
FedGroup's two distances of clients,
Euclidean distance of decomposed cosine similarity and mean absolute difference of cosine \
similarities; *PNI*, FedSim's
index of how far data are from IID; *ARI*, the adjusted Rand index, \
1 where two clusterings are the same."""


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
    """Stored lines that count nowhere, and why; nothing where there are none."""
    lines = [f"* {paper}: {words}" for paper, of_paper in left_out.items() for words in of_paper]
    return "\n".join(["Left out of every count and table:", "", *lines]) if lines else ""


def section(paper: Paper, results: Results) -> str:
    """The part of one paper: each table, and the causes of what differs in it."""
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
