"""A paper and its tables, as listed in the catalogue and shown on the page and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from papers.reproduction_marks import ComparedNumber, Results
from papers.result_store import Job, unique_jobs

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
        return [replace(number, table=self.name) for number in self.compare(results)]


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
        return unique_jobs(
            job for table in self.tables if not table.same_runs for job in table.jobs
        )

    def jobs_among(self, selected: Iterable[Job]) -> list[Job]:
        """The jobs of its tables whose runs are those of selected jobs.

        Args:
            selected: jobs of its tables, also of a table that shows the runs of another.
        """
        identities = {job.identity for job in selected}
        return [job for job in self.jobs() if job.identity in identities]
