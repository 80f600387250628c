"""The shape of the package: imports point only downwards, and files and functions stay small."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "fedkin"
FILES = sorted(PACKAGE.rglob("*.py"))

# What each part may import, besides itself and fedkin.core.errors.
METHOD_SIDE = {"measures", "clustering", "aggregation", "policies", "peers", "world", "method", "randomness"}
BELOW: dict[str, set[str]] = {
    "errors": set(),
    "randomness": set(),
    "world": {"randomness"},
    "label_memory": {"measures"},
    "fake_world": {"label_memory", "measures", "world", "randomness"},
    "peers": {"measures", "method", "world", "randomness"},
    "policies": {"aggregation", "method", "world", "randomness"},
    "method": {"world", "randomness"},
    "measures": set(),
    "clustering": {"randomness"},
    "aggregation": set(),
    "methods": METHOD_SIDE,
    "layout": {"world"},
    "models": {"layout", "world", "randomness"},
    "data": {"randomness"},
    "scenarios": {"data", "world", "models", "randomness"},
    "simulator": {"data.federated", "scenarios", "aggregation", "label_memory", "measures"}
    | {"layout", "world", "models", "randomness"},
    "pytorch": {"data.federated", "simulator.batching", "layout", "measures", "world", "randomness"},
    "federation": {"aggregation", "measures", "peers", "world", "models", "randomness"},
}
BELOW["experiment"] = METHOD_SIDE | {"methods", "models", "data", "scenarios", "simulator", "pytorch", "federation"}
BELOW["cli"] = BELOW["experiment"] | {"experiment"}
BELOW[""] = BELOW["cli"]  # fedkin/__init__.py gathers the public names

# What a method, or the arithmetic it stands on, must be able to live without.
SERVER_FREE = (
    "methods",
    "measures",
    "clustering",
    "aggregation",
    "policies",
    "peers",
    "method",
    "world",
    "randomness",
    "errors",
)
FORBIDDEN_THERE = {"jax", "equinox", "optax", "pandas", "pyarrow", "matplotlib", "flwr", "torch", "pooch", "typer"} | {
    "rich", "pydantic", "requests", "urllib", "socket", "http", "zenoh", "pathlib", "os", "io", "subprocess", "pickle"
}  # fmt: skip


def module_of(path: Path) -> str:
    """``fedkin/data/files.py`` is ``data.files``; a package is its own name; the root is empty."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path) for path in FILES}


def part_of(module: str) -> str:
    return module.split(".")[0]


def imported(path: Path) -> set[str]:
    """Every module that a file imports, inside functions too, by its full dotted name."""
    package = ["fedkin", *module_of(path).split(".")]
    package = package if path.name == "__init__.py" else package[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            stem = [p for p in package if p][: len(package) - node.level + 1] if node.level else []
            base = ".".join([*stem, *([node.module] if node.module else [])])
            names = [alias.name for alias in node.names if alias.name != "__version__"]
            # `from fedkin import data` imports a module, `from fedkin.data import load` a name of one
            found |= {f"{base}.{name}" if f"{base}.{name}"[7:] in MODULES else base for name in names}
    return found


def inner(path: Path) -> set[str]:
    """The fedkin modules that a file imports, without ``fedkin.`` in front."""
    return {name[7:] for name in imported(path) if name == "fedkin" or name.startswith("fedkin.")}


def allowed(path: Path, target: str) -> bool:
    part = part_of(module_of(path))
    below = BELOW[part] | {part, "errors"}
    return any(target == name or target.startswith(f"{name}.") for name in below)


def test_every_part_has_its_rule() -> None:
    assert {part_of(module_of(path)) for path in FILES} <= BELOW.keys()


def test_the_rules_themselves_have_no_cycle() -> None:
    reach = {part: {part_of(target) for target in below} - {part} for part, below in BELOW.items()}
    for part in BELOW:
        seen: set[str] = set()
        todo = set(reach[part])
        while todo:
            nxt = todo.pop()
            seen.add(nxt)
            todo |= reach.get(nxt, set()) - seen
        assert part not in seen, f"{part} can reach itself"


@pytest.mark.parametrize("path", FILES, ids=lambda p: module_of(p) or "fedkin")
def test_imports_point_downwards(path: Path) -> None:
    wrong = {target for target in inner(path) if not allowed(path, target)}
    assert not wrong, f"fedkin.{module_of(path)} may not import {sorted(wrong)}"


@pytest.mark.parametrize("path", [p for p in FILES if part_of(module_of(p)) in SERVER_FREE], ids=module_of)
def test_method_side_needs_no_device_network_or_file(path: Path) -> None:
    wrong = {name.split(".")[0] for name in imported(path)} & FORBIDDEN_THERE
    assert not wrong, f"fedkin.{module_of(path)} may not import {sorted(wrong)}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: module_of(p) or "fedkin")
def test_no_pickle(path: Path) -> None:
    assert not {name.split(".")[0] for name in imported(path)} & {"pickle", "dill", "cloudpickle", "joblib"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: module_of(p) or "fedkin")
def test_files_are_short(path: Path) -> None:
    limit = 150 if part_of(module_of(path)) == "methods" else 300
    assert len(path.read_text().splitlines()) <= limit


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function, its docstring not counted."""
    body = function.body
    docstring = body[0] if ast.get_docstring(function, clean=False) is not None else None
    doc = docstring.end_lineno - docstring.lineno + 1 if docstring and docstring.end_lineno else 0
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1 - doc


@pytest.mark.parametrize("path", FILES, ids=lambda p: module_of(p) or "fedkin")
def test_functions_are_short(path: Path) -> None:
    functions = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)]
    long = {f.name: code_lines(f) for f in functions if code_lines(f) > 60}
    assert not long, f"over 60 lines: {long}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: module_of(p) or "fedkin")
def test_every_argument_is_annotated(path: Path) -> None:
    bare = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and not is_fake(path, node):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            bare += [f"{node.name}({a.arg})" for a in arguments if not a.annotation and a.arg not in ("self", "cls")]
            bare += [f"{node.name} -> ?"] if node.returns is None else []
    assert not bare, f"without annotation: {bare}"


def is_fake(path: Path, function: ast.FunctionDef) -> bool:
    """FakeWorld repeats the signatures of the World protocol, and leaves out what they say."""
    return path.name == "fake_world.py"
