"""The sections "What we measured" of docs/papers/*.md, written from the stored runs.

papers/pages/measured has their texts, with places for numbers as in the notes. So no number in them
is older than the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedkin.core.errors import ConfigError
from papers.catalogue import PAPERS
from papers.notes import fill
from papers.reproduction_marks import Results

TEXTS = Path(__file__).parent / "pages" / "measured"
HEAD = "## What we measured\n\n"
NEXT = "\n\n## Next\n"


def pages(results: Mapping[str, Results], docs: Path) -> dict[str, str]:
    """The pages of the methods with their sections, by their names in the documentation.

    Args:
        results: stored runs, by paper.
        docs: the documentation as it is.

    Raises:
        ConfigError: a text names a number that does not exist, or a page has no such section.
    """
    written = {}
    for paper in PAPERS.values():
        text = TEXTS / f"{paper.name}.md"
        if text.is_file():
            name = f"papers/{paper.page_name or paper.name}.md"
            section = fill(
                text.read_text(encoding="utf-8").strip(), paper, results.get(paper.name, [])
            )
            written[name] = with_section((docs / name).read_text(encoding="utf-8"), section)
    return written


def with_section(page: str, section: str) -> str:
    """A page with another section "What we measured", which "Next" follows.

    Args:
        page: the page as it is.
        section: the text below its head.

    Raises:
        ConfigError: the page has no such section.
    """
    before, head, rest = page.partition(HEAD)
    _, following, after = rest.partition(NEXT)
    if not head or not following:
        raise ConfigError("a page of docs/papers: expected the sections What we measured and Next")
    return f"{before}{head}{section}{following}{after}"
