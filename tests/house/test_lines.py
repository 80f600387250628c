"""Lines that read in one pass, as far as a machine can see.

The linter holds the width of 100 characters.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache

from tests.house.test_imports import FILES
from tests.syntax_trees import nodes_of

# Functions of other libraries that have the name of one of ours.
ARRAYS = ("np", "jnp", "jax", "lax", "pd", "torch")


@cache
def ours() -> set[str]:
    """The names of all functions and classes of fedkin."""
    return {
        node.name
        for path in FILES.values()
        for node in nodes_of(path)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }


def test_one_statement_assigns_one_value() -> None:
    """No tuple on both sides of an assignment, but for a swap."""
    assert not [place for module, path in FILES.items() for place in tuples(module, nodes_of(path))]


def test_no_literal_is_made_to_be_splatted() -> None:
    assert not [place for module, path in FILES.items() for place in splats(module, nodes_of(path))]


def test_calls_of_ours_name_their_arguments() -> None:
    """At most four positional arguments."""
    assert not [
        place
        for module, path in FILES.items()
        for place in positional(module, nodes_of(path), ours())
    ]


def test_the_checks_find_each_fault() -> None:
    wrong = nodes(
        "def f(x):\n    a, b = x, 1\n    more = {'k': 1}\n    g(**more)\n    f(1, 2, 3, 4, 5)\n"
    )
    assert list(tuples("m", wrong)) == ["m:2"]
    assert list(splats("m", wrong)) == ["m:3"]
    assert list(positional("m", wrong, {"f"})) == ["m:5"]
    right = nodes("def f(x):\n    a, b = b, a\n    c, d = g(x)\n    h(*x)\n    f(1, 2, 3, 4)\n")
    assert not [*tuples("m", right), *splats("m", right), *positional("m", right, {"f"})]


def nodes(text: str) -> list[ast.AST]:
    """All nodes of a text's syntax tree."""
    return list(ast.walk(ast.parse(text)))


def tuples(module: str, nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Assignments of a tuple display to a tuple of targets, but for swaps."""
    for node in nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
            continue
        target = node.targets[0]
        if isinstance(target, ast.Tuple) and not is_swap(target, node.value):
            yield f"{module}:{node.lineno}"


def is_swap(target: ast.Tuple, value: ast.Tuple) -> bool:
    """Whether an assignment exchanges the values of its targets."""
    return sorted(map(ast.unparse, target.elts)) == sorted(map(ast.unparse, value.elts))


def splats(module: str, nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Literals of a function that have no other use than to be splatted into a call."""
    for function in nodes:
        if not isinstance(function, ast.FunctionDef):
            continue
        literals: dict[str, int] = {}
        loads: dict[str, int] = {}
        splatted: dict[str, int] = {}
        for node in ast.walk(function):
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name) and is_literal(node.value):
                    literals[target.id] = node.lineno
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                loads[node.id] = loads.get(node.id, 0) + 1
            elif isinstance(node, ast.Call):
                for name in splatted_names(node):
                    splatted[name] = splatted.get(name, 0) + 1
        for name, line in literals.items():
            if splatted.get(name) and splatted[name] == loads.get(name):
                yield f"{module}:{line}"


def is_literal(value: ast.expr | None) -> bool:
    """Whether an expression is a dictionary, a tuple or a list that is not empty."""
    if isinstance(value, ast.Dict):
        return bool(value.keys)
    return isinstance(value, (ast.Tuple, ast.List)) and bool(value.elts)


def splatted_names(call: ast.Call) -> list[str]:
    """The names that a call splats."""
    starred = [entry.value for entry in call.args if isinstance(entry, ast.Starred)]
    starred += [keyword.value for keyword in call.keywords if keyword.arg is None]
    return [value.id for value in starred if isinstance(value, ast.Name)]


def positional(module: str, nodes: Iterable[ast.AST], names: set[str]) -> Iterator[str]:
    """Calls of functions of these names with more than four positional arguments."""
    for node in nodes:
        if not isinstance(node, ast.Call) or len(node.args) <= 4:
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in names:
            yield f"{module}:{node.lineno}"
        if isinstance(called, ast.Attribute) and called.attr in names:
            owner = called.value.id if isinstance(called.value, ast.Name) else ""
            if owner not in ARRAYS:
                yield f"{module}:{node.lineno}"
