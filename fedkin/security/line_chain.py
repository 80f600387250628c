"""Chains of lines: each line of a file names the digest of the line before it.

So a line before the last one that is changed, removed or moved later breaks the chain at its place,
and so does a line that is added between others. A chain cannot show by itself that its last line
was changed, that lines were added at its end or cut off, or that the whole file was written again:
for this, the digest of the last line (the head) must be known elsewhere, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

START = "0" * 64  # digest that the first line of all names
_ENTRIES = {"seq": int, "prev": str}  # entries that every line has, with their types
_CHANGED = "was changed: the next line names another digest"


class ChainedLine(NamedTuple):
    """A line of a chain.

    Attributes:
        entries: the line's content.
        digest: SHA-256 of the line's bytes as written, without the end of line.
    """

    entries: dict[str, Any]
    digest: str


class Break(NamedTuple):
    """The first place at which a chain is broken.

    Attributes:
        position: position of the first broken line among all lines, from 0 on.
        reason: the damage, in words.
    """

    position: int
    reason: str


class LineChain(NamedTuple):
    """A chain that was read.

    Attributes:
        lines: the lines before the first break, or all lines.
        broken: the first break; None for a whole chain.
    """

    lines: list[ChainedLine]
    broken: Break | None

    @property
    def head(self) -> str:
        """Digest of the last line; ``START`` without lines."""
        return self.lines[-1].digest if self.lines else START


def line_text(entries: Mapping[str, Any]) -> str:
    """A line with these entries: JSON with sorted keys and without blanks. Raises ValueError for a
    value that JSON cannot hold, such as NaN."""
    return json.dumps(entries, sort_keys=True, separators=(",", ":"), allow_nan=False)


def line_digest(line: bytes) -> str:
    """SHA-256 of a line's bytes as written, without its end of line."""
    return hashlib.sha256(line).hexdigest()


def parse_line(line: bytes) -> ChainedLine | None:
    """The content and the digest of a line; None if the line is no line of a chain."""
    try:
        entries = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entries, dict):
        return None
    if any(type(entries.get(name)) is not kind for name, kind in _ENTRIES.items()):
        return None
    return ChainedLine(entries, line_digest(line))


def read_chain(lines: Iterable[bytes], start: str = START, first: int = 0) -> LineChain:
    """Read a chain up to its first break.

    Args:
        lines: the lines as written, without their ends.
        start: the digest that the first line must name. By default these are the first lines of
            all; after a rotation it is the digest of the last line of the file before.
        first: the number (``seq``) that the first line must have.
    """
    read: list[ChainedLine] = []
    prev = start
    for position, line in enumerate(lines):
        parsed = parse_line(line)
        if parsed is None:
            return LineChain(read, Break(position, "is damaged: it is no line that fedkin wrote"))
        reason = _wrong_number(parsed.entries["seq"], first + position)
        if not reason and parsed.entries["prev"] != prev:
            # The numbers are in order, so the line before is not the one that was written.
            if read:
                return LineChain(read[:-1], Break(position - 1, _CHANGED))
            reason = "is not the first line: it names a line before it"
        if reason:
            return LineChain(read, Break(position, reason))
        read.append(parsed)
        prev = parsed.digest
    return LineChain(read, None)


def _wrong_number(found: int, number: int) -> str:
    """The reason why a line with the number ``found`` cannot stand in the place of ``number``;
    empty if it can."""
    if found > number:
        return f"is not the next line: number {number} is missing, number {found} was found"
    if found < number:
        return f"was added or moved: number {found} was found in the place of number {number}"
    return ""
