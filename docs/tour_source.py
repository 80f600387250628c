"""The functions and classes that ``tour.md`` shows.

In the repository a stop of the tour ends with a link to a file. On the site there are no such
files, so ``generate_pages.py`` puts the source of the named function in the link's place.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
# A line such as [fedkin/run/loop.py, run_round](../fedkin/run/loop.py).
_LINK = re.compile(r"^\[(?P<file>[\w/]+\.py), (?P<name>[\w.]+)\]\(\.\./(?P<target>[^)]+)\)$", re.M)


class Shown(NamedTuple):
    """A function or class that a page shows."""

    file: str  # from the root of the repository
    name: str  # as in the file: ``function``, or ``Class.function``
    target: str  # of the link

    @property
    def source(self) -> str:
        """Its lines, without decorators and without the indentation of its class.

        Raises LookupError if the file has no such function or class.
        """
        text = (ROOT / self.file).read_text()
        first, *inner = self.name.split(".")
        found = self._definition(ast.parse(text), first)
        for name in inner:
            found = self._definition(found, name)
        lines = text.splitlines()[found.lineno - 1 : found.end_lineno]
        return textwrap.dedent("\n".join(lines))

    def _definition(self, scope: ast.AST, name: str) -> ast.FunctionDef | ast.ClassDef:
        """The function or class of a name directly inside a module or class."""
        for child in ast.iter_child_nodes(scope):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)) and child.name == name:
                return child
        raise LookupError(f"{self.file}, {self.name}: there is no {name}")


def shown(page: str) -> Iterator[Shown]:
    """The functions and classes that a page shows, in its order."""
    return (Shown(**match.groupdict()) for match in _LINK.finditer(page))


def with_sources(page: str) -> str:
    """The page with the source of each shown function or class in the place of its link."""

    def block(match: re.Match[str]) -> str:
        item = Shown(**match.groupdict())
        return f"`{item.file}`, `{item.name}`:\n\n```python\n{item.source}\n```"

    return _LINK.sub(block, page)
