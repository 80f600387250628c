"""Chains of lines, against the vectors of ``production.json`` and by planted changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedkin.security.line_chain import START, line_digest, line_text, parse_line, read_chain

VECTORS = json.loads((Path(__file__).parents[1] / "oracles/production.json").read_text())["ledger"]
WRITTEN = [line.encode() for line in VECTORS["as_written"]["lines"]]


def chain(count: int, start: str = START, first: int = 0) -> list[bytes]:
    """The lines of a whole chain."""
    lines: list[bytes] = []
    prev = start
    for number in range(first, first + count):
        lines.append(line_text({"seq": number, "prev": prev, "bytes": 10 * number}).encode())
        prev = line_digest(lines[-1])
    return lines


def found(lines: list[bytes]) -> tuple[int, str]:
    """Position and reason of the first break."""
    broken = read_chain(lines).broken
    assert broken is not None
    return broken.position, broken.reason


def test_the_head_of_the_vector() -> None:
    read = read_chain(WRITTEN)
    assert read.broken is None
    assert read.head == VECTORS["as_written"]["head"]
    assert [line.entries["bytes"] for line in read.lines] == [2266, 6380, 350]
    # Our lines are written as the vector's are.
    assert [line_text(json.loads(line)).encode() for line in WRITTEN] == WRITTEN


def test_the_altered_line_of_the_vector() -> None:
    altered = VECTORS["altered"]
    place = altered["line"]
    entries = json.loads(WRITTEN[place])
    entries[altered["field"]] += 1
    lines = [*WRITTEN]
    lines[place] = line_text(entries).encode()
    assert found(lines)[0] == altered["first_broken_line"]
    # A chain alone cannot show that its last line was changed or removed.
    assert read_chain(WRITTEN[:-1]).broken is None


def test_an_empty_chain_and_one_that_goes_on() -> None:
    assert read_chain([]).head == START
    whole = chain(6)
    rest = read_chain(whole[3:], start=line_digest(whole[2]), first=3)
    assert rest.broken is None
    assert rest.head == read_chain(whole).head


def test_each_kind_of_change_is_named() -> None:
    lines = chain(6)
    removed = [*lines[:2], *lines[3:]]
    assert found(removed) == (2, "is not the next line: number 2 is missing, number 3 was found")
    added = [*lines[:3], lines[1], *lines[3:]]
    assert found(added) == (
        3,
        "was added or moved: number 1 was found in the place of number 3",
    )
    moved = [*lines[:2], lines[3], lines[2], *lines[4:]]
    assert found(moved)[0] == 2
    # The whole file is another site's, or begins in the middle with a false number.
    false_start = line_text({"seq": 0, "prev": "1" * 64}).encode()
    assert found([false_start]) == (0, "is not the first line: it names a line before it")


@pytest.mark.parametrize(
    "line",
    [b"", b"not json", b"[1]", b'{"seq":1}', b'{"seq":"1","prev":""}', b'{"seq":true,"prev":""}'],
)
def test_a_damaged_line_is_named(line: bytes) -> None:
    assert parse_line(line) is None
    lines = [*chain(2), line]
    assert found(lines) == (2, "is damaged: it is no line that fedkin wrote")


def test_a_line_nested_too_deeply_is_damaged() -> None:
    assert parse_line(b"[" * 100_000) is None


def test_a_chain_alone_does_not_show_changes_at_its_end() -> None:
    lines = chain(5)
    assert b'"bytes":40' in lines[-1]
    changed = lines[-1].replace(b'"bytes":40', b'"bytes":41')
    for other in ([*lines[:-1], changed], lines[:-1], chain(6)):
        read = read_chain(other)
        assert read.broken is None
        assert read.head != read_chain(lines).head
