"""The table of all measures in docs/write-a-measure.md, from their list: ``python -m
tests.docs.measure_table``."""

from __future__ import annotations

import re

from fedkin.measures.measure import Measure
from fedkin.measures.table import EXTRA, PLACED
from tests.docs.code_blocks import ROOT

PAGE = ROOT / "docs" / "write-a-measure.md"
BEGIN = "<!-- measures -->\n"
END = "<!-- /measures -->\n"
HEAD = "| measure | what it is | unit | better | stands in |\n|---|---|---|---|---|\n"
_WHERE = {
    "round": "records",
    "run": "summary",
    "both": "records, summary",
    "comparison": "tables of comparisons",
}


def table() -> str:
    """A row for each measure."""
    return HEAD + "".join(_row(measure) for measure in (*PLACED, *EXTRA))


def _row(measure: Measure) -> str:
    better = "" if measure.direction == "neither" else measure.direction
    by = "" if measure.by == measure.name else f" (`--by {measure.by}`)"
    return (
        f"| `{measure.name}`{by} | {measure.title} | {measure.unit} | {better} | "
        f"{_WHERE[measure.kept]} |\n"
    )


def stored() -> str:
    """The table that the page has."""
    found = re.search(f"{BEGIN}(.*?){END}", PAGE.read_text(), re.DOTALL)
    return found[1] if found else ""


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}")
