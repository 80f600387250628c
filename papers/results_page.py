"""docs/results.md and its pages, written from the stored runs.

docs/results.md has the findings, the share of reproduced numbers and a table of the pages. Each
paper or subject has a page (docs/results-fedgroup.md, ...), and docs/results-inventory.md lists all
tables and figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from papers import derived_numbers, findings, inventory, reproduced_share
from papers.catalogue import PAPERS, Paper, Table
from papers.notes import fill
from papers.reproduction_marks import SYMBOLS, Mark, Results
from papers.tables_markdown import markdown

OVERVIEW = "results.md"
OVERVIEW_LINK = f"[Results]({OVERVIEW}): the findings, and how much was reproduced"
INVENTORY = "results-inventory.md"
INVENTORY_TITLE = "All tables and figures of the papers"
INVENTORY_LINK = f"[{INVENTORY_TITLE}]({INVENTORY})"
LEAD = (
    "`make results` writes this page from the stored runs. "
    f"[Results]({OVERVIEW}#how-to-read-the-tables) explains cells, marks, causes and terms."
)
ABOUT = f"""\
`make results` writes this page and [a page for each paper](#the-tables-paper-by-paper) \
from the runs in
`papers/results/*.jsonl`, one line a run. `fedkin reproduce` lists all
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


def pages(
    results: Mapping[str, Results],
    notes: Mapping[str, str],
    left_out: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, str]:
    """All pages, by their names in the documentation: the overview, a page for each paper with the
    tables written from its runs and hand-written notes on them, and the inventory.

    Args:
        results: stored runs of today's recipes, by paper.
        notes: text by paper.
        left_out: lines of the stores that the pages do not use, in words, by paper.
    """
    written = {OVERVIEW: _overview(results, left_out or {})}
    papers = list(PAPERS.values())
    following = [*(f"{_link(paper)}: the next page" for paper in papers[1:]), INVENTORY_LINK]
    for paper, next_page in zip(papers, following, strict=True):
        runs = results.get(paper.name, [])
        note = fill(notes.get(paper.name, "").strip(), paper, runs)
        steps = [OVERVIEW_LINK, next_page, paper.read_next]
        written[paper.page] = _joined([section(paper, runs), note, _next(steps)])
    written[INVENTORY] = _inventory()
    return written


def _overview(results: Mapping[str, Results], left_out: Mapping[str, Sequence[str]]) -> str:
    """The page of the findings, of the share of reproduced numbers, and of links to the others."""
    return _joined(
        [
            "# Results: the papers' tables, measured again",
            findings.section(results),
            "## How to read the tables",
            ABOUT,
            reproduced_share.section(results),
            _left_out(left_out),
            "## The tables, paper by paper",
            _table_of_pages(),
            _next(
                [
                    f"{_link(next(iter(PAPERS.values())))}: the first paper",
                    "[Reproduce a paper](compare.md#reproduce-a-paper): run a table yourself",
                    "[Which method wins where](benchmark-field.md): the methods on other data",
                ]
            ),
        ]
    )


def _table_of_pages() -> str:
    """A line for each paper: its page, and its tables and figures."""
    lines = [
        [_link(paper), ", ".join(f"`{table.name}`" for table in paper.tables)]
        for paper in PAPERS.values()
    ]
    lines.append([INVENTORY_LINK, "each with its recipe, or the reason why it has none"])
    return markdown(["page", "tables and figures, as `fedkin reproduce` names them"], lines)


def _inventory() -> str:
    """The page that lists all tables and figures of the papers."""
    return _joined(
        [
            f"# {INVENTORY_TITLE}",
            f"`fedkin reproduce NAME` runs a recipe. [Results]({OVERVIEW}) says how much was "
            "reproduced.",
            inventory.markdown_table(),
            derived_numbers.section(),
            _next(
                [
                    OVERVIEW_LINK,
                    "[Reproduce a paper](compare.md#reproduce-a-paper): how to run a recipe",
                ]
            ),
        ]
    )


def _joined(parts: Sequence[str]) -> str:
    """The text of a page; empty parts are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"


def _link(paper: Paper) -> str:
    return f"[{paper.heading}]({paper.page})"


def _next(links: Sequence[str]) -> str:
    """The last section of a page."""
    return "\n".join(["## Next", "", *(f"* {link}" for link in links if link)])


def _left_out(left_out: Mapping[str, Sequence[str]]) -> str:
    """Stored lines that do not count, and why; empty if there are none."""
    lines = [f"* {paper}: {words}" for paper, of_paper in left_out.items() for words in of_paper]
    return "\n".join(["Left out of every count and table:", "", *lines]) if lines else ""


def section(paper: Paper, results: Results) -> str:
    """The page of one paper without its notes: each table, and the causes of its differences."""
    parts = [
        part
        for table in paper.tables
        for part in (_table(table, results), differences(table, results))
    ]
    return "\n\n".join(part for part in (f"# {paper.heading}", LEAD, paper.about, *parts) if part)


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
    return f"### {table.name}: what differs, and why\n\n{markdown(head, lines)}" if lines else ""
