"""Tables as LaTeX (booktabs)."""

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
    """A column head as LaTeX, capitalised."""
    return escaped(head[:1].upper() + head[1:])


def tabular(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Iterable[str] = (),
    text_columns: int = 1,
) -> str:
    """A LaTeX table; the first columns are text, the others numbers.

    Args:
        heads: of the columns, as LaTeX.
        rows: cells, as LaTeX; an empty row is a rule.
        notes: comment lines below the table, written unchanged.
        text_columns: number of text columns.
    """
    columns = "l" * text_columns + "r" * (len(heads) - text_columns)
    lines = [r"% \usepackage{booktabs}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [" & ".join(heads) + r" \\", r"\midrule"]
    lines += [" & ".join(row) + r" \\" if row else r"\midrule" for row in rows]
    return (
        "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *(f"% {note}" for note in notes)])
        + "\n"
    )
