"""Which methods noisy sums are enough for, as the page on privacy has it, from the methods' own declarations.

Run by ``python -m tests.docs.privacy_table``, which writes the table into docs/privacy.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedkin.config.registry import method_title, methods
from fedkin.methods.ifca import IFCA
from fedkin.options.privacy.private import refusal

PAGE = Path(__file__).resolve().parents[2] / "docs" / "privacy.md"
BEGIN, END = "<!-- methods -->\n", "<!-- /methods -->\n"
HEAD = "| method | private? |\n|---|---|\n"
OPTIONS: dict[str, Any] = {"IFCA(weighting='examples')": IFCA(weighting="examples")}


def table() -> str:
    """A row for each method with its defaults, and for options that make one private."""
    known = {method_title(name): kind() for name, kind in methods().items()} | OPTIONS
    return HEAD + "".join(f"| `{name}` | {answer(method)} |\n" for name, method in sorted(known.items()))


def answer(method: Any) -> str:
    """Whether, and why not."""
    why = refusal(method)
    return "yes" if not why else "no: " + why.partition("; privacy.")[0].partition(" ")[2].replace("|", "/")


def main() -> None:
    """Write the table."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
