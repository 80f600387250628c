"""Every public function of ``fedkin.measures`` has a caller in the library or in the papers'
tables, or stands in the documentation's table of functions for the user's own analyses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.syntax_trees import tree_of

ROOT = Path(__file__).resolve().parents[2]
MEASURES = ROOT / "fedkin" / "measures"
PAGE = ROOT / "docs" / "design" / "measures-and-tables.md"


def names_in(node: ast.AST) -> set[str]:
    """All names and attributes that a piece of code uses."""
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Attribute):
            found.add(part.attr)
    return found


def statements(folder: str) -> Iterator[tuple[Path, ast.stmt]]:
    """The statements of all modules in a folder, except imports."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in tree_of(path).body:
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                yield path, node


def roots() -> set[str]:
    """Names that code outside of the measures uses, and names that users can read about."""
    found = set(re.findall(r"import \w+ as (\w+)", (ROOT / "fedkin" / "__init__.py").read_text()))
    found |= set(re.findall(r"`\w+\.(\w+)`", PAGE.read_text()))
    for path, node in (*statements("fedkin"), *statements("papers")):
        is_measure = path.parent == MEASURES and isinstance(node, (ast.FunctionDef, ast.ClassDef))
        if not is_measure:
            found |= names_in(node)
    return found


def test_a_function_without_a_caller_is_documented() -> None:
    uses = {
        node.name: names_in(node)
        for path, node in statements("fedkin/measures")
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    reached = roots() & uses.keys()
    found = list(reached)
    while found:
        new = uses[found.pop()] & uses.keys() - reached
        reached |= new
        found += new
    assert not {name for name in uses.keys() - reached if not name.startswith("_")}
