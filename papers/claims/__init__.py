"""Claims of the five papers, judged by stored runs: the first screen of the report."""

from papers.claims.request import request
from papers.claims.rules import Verdict
from papers.claims.table import (
    CLAIMS,
    LEGEND,
    counts,
    counts_in_words,
    judgements,
    keys,
    markdown_tables,
    of_table,
)

__all__ = [
    "CLAIMS",
    "LEGEND",
    "Verdict",
    "counts",
    "counts_in_words",
    "judgements",
    "keys",
    "markdown_tables",
    "of_table",
    "request",
]
