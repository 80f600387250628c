"""Formatting of tables as LaTeX, for the package booktabs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def escaped(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {character: "\\" + character for character in "&%$#_{}"}
    special |= {"[": "{[}", "*": "{*}"}  # after a line break \\ they would be read as its arguments
    special["±"] = r"$\pm$"
    return "".join(special.get(character, character) for character in text)


def latex_head(head: str) -> str:
    """A column heading as LaTeX, with a capital first letter."""
    return escaped(head[:1].upper() + head[1:])


def tabular(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Iterable[str] = (),
    text_columns: Collection[int] = (0,),
    caption: str = "",
    label: str = "",
) -> str:
    """A LaTeX table. Columns of text are aligned left, columns of numbers right. With a caption it
    is a floating table.

    Args:
        heads: column headings, as LaTeX.
        rows: cells of each row, as LaTeX; an empty row draws a horizontal line.
        notes: notes that are added as comments below the table.
        text_columns: indices of the columns of text.
        caption: the caption, as plain text; empty: no floating table.
        label: name of a floating table for references, without ``tab:``.
    """
    columns = "".join("l" if place in text_columns else "r" for place in range(len(heads)))
    lines = [r"% \usepackage{booktabs}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [" & ".join(heads) + r" \\", r"\midrule"]
    lines += [" & ".join(row) + r" \\" if row else r"\midrule" for row in rows]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if caption:
        package, *body = lines
        lines = [package, r"\begin{table}[t]", r"\centering", *body]
        lines += [rf"\caption{{{escaped(caption)}}}", rf"\label{{tab:{label}}}", r"\end{table}"]
    return "\n".join([*lines, *(f"% {note}" for note in notes)]) + "\n"
