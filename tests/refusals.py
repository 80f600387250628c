"""How a command refuses."""

from __future__ import annotations

from click.testing import Result


def refused(result: Result, *words: str) -> None:
    """One clear line on stderr, nothing on stdout, status 2."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1 and result.stderr.startswith("error: "), (
        result.stderr
    )
    for word in words:
        assert word in result.stderr, f"{word!r} is not in {result.stderr!r}"
