"""Sentences of the documentation's pages, for the tests of their length.

``python -m tests.docs.readability [PAGE ...]`` prints the figures of each page and its longest
sentences.
"""

from __future__ import annotations

import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 40  # words of a sentence
WORDS_OF_A_PAGE = 2500

_FENCE = re.compile(r"^(?P<indent> *)(```+|~~~+).*?^(?P=indent)\2[^\n]*$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TAG = re.compile(r"<[^>\n]+>")
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)(\{[^}]*\})?")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)(\{[^}]*\})?")
_CODE = re.compile(r"`[^`\n]+`")
_FORMULA = re.compile(r"\$[^$\n]+\$")
# A new list item, heading, table row, quotation or block of an admonition starts a new text.
_STARTS = re.compile(r"^\s*([-*+]|\d+\.|#+|\||>|!!!|\?\?\?|:)(\s|$)")
_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_]*[A-Z0-9`\u2192])")
_ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|cf|vs|etc|Fig|Figs|Sec|Eq|eq|Alg|No|al|approx)\.")


def page_words(text: str) -> int:
    """Words of a page, its code blocks aside; a table's words count."""
    text = _TAG.sub(" ", _COMMENT.sub(" ", _FENCE.sub("\n", text)))
    text = _LINK.sub(r"\1", _IMAGE.sub(" ", text))
    return len(re.findall(r"\w[^\s|]*", text))


def words_to_read(text: str) -> int:
    """Words of a page's headings, running text and code blocks; tables are looked up, not read."""
    blocks = [block.group().splitlines()[1:-1] for block in _FENCE.finditer(text)]
    code = sum(len(line.split()) for lines in blocks for line in lines)
    rows = [line for line in _FENCE.sub("", text).splitlines() if not line.lstrip().startswith("|")]
    return page_words("\n".join(rows)) + code


def sentences(text: str) -> list[str]:
    """The sentences of a page's running text: neither code blocks, tables nor headings."""
    text = _COMMENT.sub("", _FENCE.sub("\n\n", text))
    text = _LINK.sub(r"\1", _IMAGE.sub("", text))
    text = _TAG.sub("", _FORMULA.sub("formula", _CODE.sub("Code", text)))
    text = _ABBREVIATIONS.sub(r"\1", text)
    found: list[str] = []
    for passage in _passages(text):
        found += [part for part in _END.split(passage) if len(part.split()) > 1]
    return found


def _passages(text: str) -> list[str]:
    """Paragraphs and list items, each as one line."""
    passages: list[str] = []
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        new = _STARTS.match(line)
        if (new or not line.strip()) and lines:
            passages.append(" ".join(lines))
            lines = []
        if not line.strip() or line.lstrip().startswith(("#", "|")):
            continue
        lines.append(_STARTS.sub("", line).strip())
    return passages


def lengths(text: str) -> list[int]:
    """Words of each sentence."""
    return [len(sentence.split()) for sentence in sentences(text)]


def main() -> None:
    """Print the figures of the pages that the command line names (all of docs/ without names)."""
    pages = [Path(name) for name in sys.argv[1:]] or sorted((ROOT / "docs").rglob("*.md"))
    everything: list[int] = []
    for page in pages:
        text = page.read_text()
        counts = lengths(text)
        if not counts:
            continue
        everything += counts
        below = sum(count < 30 for count in counts) / len(counts)
        print(
            f"{page}: {page_words(text)} words, {len(counts)} sentences, "
            f"mean {statistics.mean(counts):.1f}, {below:.0%} below 30, longest {max(counts)}"
        )
        if len(sys.argv) > 1:
            for sentence in sorted(sentences(text), key=lambda text: -len(text.split())):
                if len(sentence.split()) > LONGEST:
                    print(f"  {len(sentence.split())}: {sentence}")
    below = sum(count < 30 for count in everything) / len(everything)
    mean = statistics.mean(everything)
    print(f"all: {len(everything)} sentences, mean {mean:.1f}, {below:.1%} below 30")


if __name__ == "__main__":
    main()
