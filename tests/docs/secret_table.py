"""Which methods secret sums are enough for, as their page has it, from the methods' own declarations.

Run by ``python -m tests.docs.secret_table``, which writes the table into docs/secret-sums.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedkin.config.registry import method_title, methods
from fedkin.methods.ifca import IFCA
from fedkin.options.secret.secret_sums import SecretSums, refusal

PAGE = Path(__file__).resolve().parents[2] / "docs" / "secret-sums.md"
BEGIN, END = "<!-- methods -->\n", "<!-- /methods -->\n"
HEAD = "| method | with secret sums? |\n|---|---|\n"
OPTIONS: dict[str, Any] = {"IFCA(weighting='examples')": IFCA(weighting="examples")}
HIDDEN = "yes, with `hide_choice`: its clients choose as they train"


def table() -> str:
    """A row for each method with its defaults, and for options with which sums are enough."""
    known = {method_title(name): kind() for name, kind in methods().items()} | OPTIONS
    return HEAD + "".join(f"| `{name}` | {answer(method)} |\n" for name, method in sorted(known.items()))


def answer(method: Any) -> str:
    """Whether, and why not."""
    why = refusal(method, SecretSums())
    if why:
        return "no: " + why.partition(", and secret sums")[0].partition("; secret.")[0].partition(" ")[2].replace(
            "|", "/"
        )
    return HIDDEN if isinstance(method, IFCA) else "yes"


def main() -> None:
    """Write the table."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
