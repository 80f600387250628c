"""A paper and its tables, as listed in the catalogue and shown on the page and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from papers.reproduction_marks import ComparedNumber, Results
from papers.result_store import Job

Comparison = Callable[[Results], list[ComparedNumber]]


@dataclass(frozen=True)
class Table:
    """A table or a figure of a paper. ``without_recipe``: how many of its numbers no run here can
    reproduce, by the reason. ``same_runs``: the table that has its runs, if it has no separate
    ones. ``more``: further numbers for results.csv, which no page compares."""

    name: str
    title: str
    statistic: str
    rule: str
    jobs: tuple[Job, ...]
    compare: Comparison
    also: tuple[str, ...] = ()
    without_recipe: Mapping[str, int] = field(default_factory=dict)
    same_runs: str = ""
    more: Comparison | None = None

    def numbers(self, results: Results) -> list[ComparedNumber]:
        """The published numbers and ours."""
        return self.compare(results)


@dataclass(frozen=True)
class Paper:
    """A paper, or a subject: its store (``name``.jsonl), its page, and its tables in their order
    there.

    Attributes:
        name: of the store, and of the paper on the command line.
        heading: the title of its page.
        tables: its tables and figures.
        parts: parts of its page that are no table of numbers, by the name in the page's text.
        draw: draws the figures of the page into the folder of the documentation.
        page_name: the last part of its page's name; the default is ``name``.
        read_next: a link to the page that explains the subject, as Markdown.
    """

    name: str
    heading: str
    tables: tuple[Table, ...]
    parts: Mapping[str, Callable[[Results], str]] = field(default_factory=dict)
    draw: Callable[[Results, Path], None] | None = None
    page_name: str = ""
    read_next: str = ""

    @property
    def page(self) -> str:
        """The file of its page in the documentation."""
        return f"results-{self.page_name or self.name}.md"

    def jobs(self) -> list[Job]:
        """The jobs of all its tables, each once."""
        by_key = {
            tuple(job.key.items()): job
            for table in self.tables
            if not table.same_runs
            for job in table.jobs
        }
        return list(by_key.values())
