"""Every promise names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_tests_of_promises_exist() -> None:
    text = (ROOT / "docs/promises.md").read_text()
    rows = [
        line
        for line in text.split("## Sharp edges")[0].splitlines()
        if line.startswith("| ") and "---" not in line
    ]
    promises = [line for line in rows if not line.startswith("| promise |")]
    assert len(promises) > 15 and all("`tests/" in line for line in promises)
    named = re.findall(r"`(tests/[\w/.]+)`", text)
    assert [path for path in named if not (ROOT / path).exists()] == []
