"""The syntax trees of source files, shared by all tests of a process: parsing all of fedkin takes
seconds, and so do several walks through its trees. No test changes them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file, in the order of ``ast.walk``."""
    return tuple(ast.walk(tree_of(path)))
