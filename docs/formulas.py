"""Formulas of the site: TeX becomes MathML when the site is built, which browsers draw without a
script and without a network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from latex2mathml.converter import convert


def block(lines: Iterable[Sequence[str]]) -> str:
    """Formulas below each other, aligned between their left and right sides, as HTML.

    Args:
        lines: left side, right side and a note for each formula; the sides are TeX.
    """
    rows = [
        f"<tr><td>{math(left)}</td><td>{math(right)}</td><td>{note}</td></tr>"
        for left, right, note in lines
    ]
    return f'<div class="formulas"><table class="formulas-table">{"".join(rows)}</table></div>'


def math(tex: str) -> str:
    """One formula as MathML, with the large forms of fractions and sums."""
    return convert(tex, display="block")


def paragraph(text: str) -> str:
    """A text in which each TeX between dollar signs has become MathML, as HTML.

    It is one line of HTML, because Markdown would begin a paragraph at a formula.
    """
    line = " ".join(text.split())
    return f"<p>{re.sub(r'[$]([^$]+)[$]', lambda found: convert(found[1]), line)}</p>"
