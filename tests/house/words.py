"""Words and phrases that code, messages and documentation avoid, with plain ones instead.

``python -m tests.house.words [PATH ...]`` lists where they occur.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READ = ("fedkin", "papers", "benchmarks", "examples", "tests", "docs")
PAGES = (
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"),
    *("Makefile", "pyproject.toml", "mkdocs.yml"),
)
# This list, and the examples of its test.
NOT_READ = (Path(__file__), Path(__file__).with_name("test_words.py"))
SUFFIXES = (".py", ".md", ".toml", ".css", ".html", ".js", ".ipynb")

# The phrase, as a pattern without regard to case, and a plain way to say it.
REFUSED = {
    r"anew": "again",
    r"besides?": "next to; in addition; compared with",
    r"of (its|their|his|her|our|your|one's) own": "its own, their own; separate",
    r"likewise": "also",
    r"all the same": "nevertheless; equal",
    r"for want of": "without",
    r"at their most": "(say the bound)",
    r"nobody|somebody": "no client, no process; a user, a reviewer",
    r"that of": "(repeat the noun)",
    r"such as it is": "(leave it out)",
    r"(goes|go|went|gone|going) with": "belongs to; can be combined with",
    # A question may begin so; a statement names its subject.
    r"what (is|was|has)(?![^.!\n]*\?)": "(name the subject)",
}
_FOUND = {
    phrase: re.compile(
        rf"(?<![A-Za-z])({phrase})(?![A-Za-z])".replace(" ", r"[\s_]+(?:[#*]\s+)?"), re.IGNORECASE
    )
    for phrase in REFUSED
}
# A text without a match of this pattern has none of the phrases. One search is faster than one for
# each phrase, and nearly all files have none.
_ANY = re.compile("|".join(pattern.pattern for pattern in _FOUND.values()), re.IGNORECASE)


def files(root: Path = ROOT) -> Iterator[Path]:
    """The files whose words are read."""
    for name in READ:
        for path in sorted((root / name).rglob("*")):
            if path.suffix in SUFFIXES and "__pycache__" not in path.parts and path not in NOT_READ:
                yield path
    yield from (root / page for page in PAGES)


def refused(text: str) -> list[tuple[int, str]]:
    """Line numbers and phrases of ``text`` that have a plainer word."""
    if not _ANY.search(text):
        return []
    found = []
    for pattern in _FOUND.values():
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append((line, match.group()))
    return sorted(found)


def main() -> None:
    """Print each place as ``file:line: phrase``; the folders and files of the command line only."""
    chosen = [Path(name).resolve() for name in sys.argv[1:]]
    for path in files():
        if chosen and not any(path == place or place in path.parents for place in chosen):
            continue
        for line, phrase in refused(path.read_text()):
            print(f"{path.relative_to(ROOT)}:{line}: {' '.join(phrase.split())}")


if __name__ == "__main__":
    main()
