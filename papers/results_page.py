"""docs/results.md and its pages, written from the stored runs.

docs/results.md has the claims of the papers and a list of the pages, and
docs/results-collective-test.md the test of all printed numbers. Each paper or subject has a page
(docs/results-fedgroup.md, ...), written in papers/pages with places for numbers and tables.
papers/results.csv has all numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedkin.core.errors import ConfigError, unknown
from papers import by_paper, claims, collective_section, difference_figure
from papers.catalogue import PAPERS, Paper
from papers.notes import fill
from papers.number_table import number_table
from papers.reproduction_marks import LEGEND, Results

OVERVIEW = "results.md"
COLLECTIVE = "results-collective-test.md"
OVERVIEW_LINK = f"[Results]({OVERVIEW}): what reproduces and what does not, on one screen"
COLLECTIVE_LINK = f"[The collective test]({COLLECTIVE}): all printed numbers together"
TEXTS = Path(__file__).parent / "pages"
TABLE = re.compile(r"\[\[([a-z0-9-]+)\]\]")
FILES = "https://github.com/fedkin/fedkin/blob/main/papers"
CSV = f"{FILES}/results.csv"
CLAIMS_CSV = f"{FILES}/claims.csv"
FEMNIST = """\
† The authors' FEMNIST file is not published. Ours has ten letters and, inferred from a log, three
labels a client; clients share images. FedGroup prints 62 classes and FedSim 26. The reading decides
the size of FedGroup's gain: [four readings](results-fedgroup.md#four-readings-of-femnist)."""
ABOUT = f"""\
`make results` writes these pages from the runs in `papers/results/*.jsonl`, one line a run.
`fedkin reproduce` lists all tables, `fedkin reproduce NAME --stored` prints one, and with
`--out NEWFOLDER` instead it makes the runs again. `make results HOURS=2` makes missing runs for two
hours.

Marks: {LEGEND}. A paper's score is the highest accuracy of any round, and ours is the same
statistic; the last round is next to it. Shortened runs, other data and variants of ours are not
counted: no page marks them, or in brackets.

[papers/results.csv]({CSV}) has all numbers, one row a number, also of variants, other readings of
the data and other draws. `symbol` is the mark of the page. `counted` is true for the printed
numbers in percentage points, except 28 of ATHENA-FL (shortened runs); `mark` says which were run.
`in_test` is the group of the collective test, `p` the p-value, and `deviation` says why a row is
not counted.

* *MCLR* is multinomial logistic regression, *MLP* a network of one hidden layer.
* *FedGroup* clusters clients by the direction of their first update. *FlexCFL* also moves clients
  after a shift of their data. *RCC* has random centres, *RAC* random assignment of newcomers.
* *IFCA*: a client takes the model with the lowest loss. *FeSEM*: the nearest model. *IFCA-MIG* is
  IFCA with clients that may move after a shift.
* *FedSim* averages similar clients first, then the clusters. *PANM*: peers find similar peers.
  *Gossip* averages with random peers, an *oracle* with peers of the true cluster.
* *m* is the number of clusters, *mu* the weight of FedProx's proximal term, *eta_g* the
  inter-group learning rate, *alpha* of FedGroup the number of clients of the cold start per group.
* *PNI* is FedSim's index of how much clients' features differ. *Draws* are federations of the same
  generator; *matched* ones were chosen by the number of samples or by the authors' test files."""


def pages(
    results: Mapping[str, Results], left_out: Mapping[str, Sequence[str]] | None = None
) -> dict[str, str]:
    """All pages, by their names in the documentation: the overview, and a page for each paper.

    Args:
        results: stored runs of today's recipes, by paper.
        left_out: lines of the stores that the pages do not use, in words, by paper.
    """
    written = {
        OVERVIEW: _overview(results, left_out or {}),
        COLLECTIVE: _collective_test(results),
    }
    papers = list(PAPERS.values())
    following = [*(f"{_link(paper)}: the next page" for paper in papers[1:]), OVERVIEW_LINK]
    for paper, next_page in zip(papers, following, strict=True):
        steps = dict.fromkeys([OVERVIEW_LINK, next_page, paper.read_next])
        text = page(paper, results.get(paper.name, []))
        written[paper.page] = _joined([text, _next(list(steps))])
    return written


def page(paper: Paper, results: Results) -> str:
    """The page of a paper: its text, with its tables and numbers.

    Args:
        paper: whose page.
        results: its stored runs.

    Raises:
        ConfigError: the text names a table, a part or a number that does not exist.
    """
    text = (TEXTS / f"{paper.name}.md").read_text(encoding="utf-8").strip()
    return TABLE.sub(lambda place: _table(place[1], paper, results), fill(text, paper, results))


def _table(name: str, paper: Paper, results: Results) -> str:
    """What stands at a place ``[[NAME]]``: a part of the page, or a table of numbers."""
    of_name = {table.name: table for table in paper.tables}
    if name == "verdict":
        return collective_section.verdict(paper, results)
    if name in paper.parts:
        return paper.parts[name](results)
    if name not in of_name:
        raise ConfigError(f"papers/pages/{paper.name}.md: {unknown('table', name, of_name)}")
    return number_table(of_name[name].numbers(results)) or "not run"


def _overview(results: Mapping[str, Results], left_out: Mapping[str, Sequence[str]]) -> str:
    """One screen: the claims by paper, then how to read them, then the pages."""
    return _joined(
        [
            "# Results: do the papers reproduce?",
            _in_short(results),
            by_paper.table(results),
            "## The claims",
            "`fedkin reproduce KEY --stored` prints the runs behind a claim; with `--out "
            "NEWFOLDER` instead it makes them again. What the marks and rules mean is [below the "
            "tables](#marks-and-rules-of-the-claims).",
            claims.markdown_tables(results),
            FEMNIST,
            "### Marks and rules of the claims",
            claims.LEGEND.format(csv=CLAIMS_CSV),
            "## How to read the pages",
            ABOUT,
            _left_out(left_out),
            "## The pages",
            _list_of_pages(),
            _next(
                [
                    COLLECTIVE_LINK,
                    f"{_link(next(iter(PAPERS.values())))}: the first paper",
                    "[Reproduce a paper](reproduce.md): run a table yourself",
                    "[Which method wins where](benchmark-field.md): the methods on other data",
                ]
            ),
        ]
    )


def _collective_test(results: Mapping[str, Results]) -> str:
    """The page of the collective test: the numbers that were run, the test, and the numbers
    outside."""
    return _joined(
        [
            "# The collective test: do printed numbers look like runs of ours?",
            collective_section.section(results),
            f"![ours minus printed, for every number](images/{difference_figure.NAME})",
            _next([OVERVIEW_LINK, f"{_link(next(iter(PAPERS.values())))}: the first paper"]),
        ]
    )


def _in_short(results: Mapping[str, Results]) -> str:
    """The verdicts on the claims, counted, and the result of the collective test."""
    return (
        f"**Of {len(claims.CLAIMS)} claims of five texts: {claims.counts_in_words(results)}.** "
        "The texts are four papers and a poster (PANM). ATHENA-FL's is its authors' summary of two "
        "papers. A rule judges each claim from stored runs.\n\n"
        f"[The collective test]({COLLECTIVE}) judges printed numbers together. "
        f"{collective_section.headline(results)}"
    )


def _list_of_pages() -> str:
    """A link to the page of each paper."""
    return "\n".join(f"* {_link(paper)}" for paper in PAPERS.values())


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
