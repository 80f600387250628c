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


def latex_head(head: str) -> str:
    """The head of a column, which begins with a capital letter."""
    return escaped(head[:1].upper() + head[1:])


def tabular(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Iterable[str] = (),
    text_columns: int = 1,
) -> str:
    """A table of which the first columns are text and the others numbers.

    Args:
        heads: of the columns, as LaTeX.
        rows: cells, as LaTeX; an empty row is a rule.
        notes: lines of comment below it, as they are.
        text_columns: how many are text.
    """
    columns = "l" * text_columns + "r" * (len(heads) - text_columns)
    lines = [r"% \usepackage{booktabs}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [" & ".join(heads) + r" \\", r"\midrule"]
    lines += [" & ".join(row) + r" \\" if row else r"\midrule" for row in rows]
    return (
        "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *(f"% {note}" for note in notes)])
        + "\n"
    )
