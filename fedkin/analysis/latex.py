"""Tables as LaTeX, with the package booktabs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def escaped(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {character: "\\" + character for character in "&%$#_{}"}
    special |= {"[": "{[}", "*": "{*}"}  # at the start of a line they belong to the \\ before it
    special["±"] = r"$\pm$"
    return "".join(special.get(character, character) for character in text)


def tabular(heads: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()) -> str:
    """A table whose first column is text and whose others are numbers.

    Args:
        heads: of the columns, as LaTeX.
        rows: cells, as LaTeX.
        notes: lines of comment below it, as they are.
    """
    lines = [r"% \usepackage{booktabs}", rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}", r"\toprule"]
    lines += [" & ".join(heads) + r" \\", r"\midrule", *(" & ".join(row) + r" \\" for row in rows)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *(f"% {note}" for note in notes)]) + "\n"
