"""The structure of the code: packages import only the packages of their line in the table; files
and functions are short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.syntax_trees import nodes_of, tree_of

ROOT = Path(__file__).resolve().parents[2]

# What the files of each package may import, in addition to their own. A folder inside a folder is
# a separate package. Everything else is forbidden, imports inside functions and for type checkers
# included.
PACKAGES: dict[str, str] = {
    "aggregation": "",
    "core": "aggregation",
    "clustering": "core",
    "measures": "core",
    "task_types": "core measures",
    "security": "core",
    "secret": "core security",
    "tasks": "core clustering measures task_types security secret",
    "methods": "aggregation core clustering measures tasks",
    "models": "core task_types data",
    "data": "core task_types measures",
    "scenarios": "core data",
    "tracking": "core measures",
    "options": "core task_types",
    "options.personal": "core tasks options",
    "options.robust": "core clustering measures options",
    "options.attack": "core measures data scenarios options options.robust",
    "options.noise": "core data scenarios options",
    "options.late": "aggregation core options",
    "options.asynchronous": "aggregation core options",
    "options.monitor": "core measures tasks options",
    "options.quorum": "core options",
    "options.secret": "core security secret tasks options",
    "options.privacy": "core secret tracking options options.secret",
    "simulation": "core task_types data scenarios simulation.jax simulation.ray",
    "simulation.jax": "core task_types models data simulation",
    "simulation.torch": "core task_types models data simulation simulation.jax",
    "simulation.ray": "core data simulation",
    "config": "core measures task_types methods models data scenarios options simulation.torch",
    "export": "core measures task_types models data simulation simulation.torch config",
    "service": "core data task_types export",
    "server": "core task_types measures security tasks config",
    "p2p": "core security task_types tasks methods simulation config",
    "run.folder": "core models data tracking options simulation config",
    "run.metrics": "core task_types measures tasks methods options options.monitor simulation "
    "run.folder",
    "run.trained": "core task_types measures tasks data scenarios options options.secret "
    "simulation simulation.torch config export service run.folder",
    "run": "core measures task_types methods data scenarios tracking options options.robust "
    "simulation simulation.torch config export run.folder run.metrics run.trained",
    "removal": "core tasks data scenarios options config run.folder run.trained run",
    "server.deploy": "core measures task_types security secret data tracking options simulation "
    "simulation.torch config export service server run.folder run.metrics run.trained run "
    "reporting",
    "analysis": "core clustering measures tasks methods data tracking options options.secret "
    "options.privacy simulation simulation.ray config run.folder run.metrics run",
    "analysis.compare": "core measures data config run.folder run analysis",
    "analysis.advise": "core clustering measures tasks methods data options.monitor simulation "
    "config run.metrics run analysis",
    "analysis.serving": "core task_types measures methods data options config export run.trained "
    "run",
    "reporting": "core task_types measures options.monitor options.privacy config run.folder "
    "run.metrics run analysis analysis.compare analysis.advise",
    "reporting.html": "core measures tasks data simulation config run.folder run.metrics run "
    "analysis analysis.compare analysis.serving reporting",
    "estimator": "core task_types data config export run.trained run",
    "cli": "core measures data tracking config export service p2p run.folder run.trained run "
    "removal server.deploy analysis analysis.compare analysis.advise analysis.serving reporting "
    "reporting.html papers",
    # fedkin/__init__.py gathers the public names, fedkin/__main__.py is the command.
    "": "every package",
}
NAMES_OF_ALL = ("__version__",)  # names that any file may take from fedkin itself

# What a method, and the arithmetic it stands on, must be able to live without.
PURE = ("core", "aggregation", "measures", "clustering", "tasks", "methods")
PURE_WITHOUT = {
    *(
        "jax",
        "equinox",
        "optax",
        "pandas",
        "pyarrow",
        "matplotlib",
        "flwr",
        "torch",
        "pooch",
        "typer",
        "rich",
    ),
    *(
        "pydantic",
        "requests",
        "urllib",
        "socket",
        "http",
        "zenoh",
        "pathlib",
        "os",
        "io",
        "subprocess",
    ),
}
TOUCHES_FILES = {"core.storage"}  # the one module of these packages that does
NO_PICKLE = {"pickle", "dill", "cloudpickle", "joblib"}


def module_of(path: Path) -> str:
    """``fedkin/data/files.py`` is ``fedkin.data.files``; a package has the name of its folder."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_of(path): path for path in sorted((ROOT / "fedkin").rglob("*.py"))}


@cache
def trees() -> dict[str, ast.Module]:
    """The syntax trees of all modules. Parsing takes seconds: an import of this file does not."""
    return {module: tree_of(path) for module, path in FILES.items()}


@cache
def package_of(module: str) -> str:
    """The folder of a module below fedkin, as a dotted name. A file next to the folders is a
    separate package."""
    if module in ("fedkin", "fedkin.__main__"):
        return ""
    folder = FILES[module].relative_to(ROOT / "fedkin").parts[:-1]
    return ".".join(folder) or module.removeprefix("fedkin.")


@cache
def imports(module: str) -> tuple[str, ...]:
    """Every module that a module imports, lazily too; of fedkin only real modules."""
    return tuple(imported_names(module))


def imported_names(module: str) -> Iterator[str]:
    """The names of the import statements of a module."""
    for node in nodes_of(FILES[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level and node.module, f"{module}: write imports with their full names"
            for alias in node.names:
                if alias.name not in NAMES_OF_ALL:
                    inner = f"{node.module}.{alias.name}"
                    yield inner if inner in FILES else node.module


@cache
def inner() -> dict[str, set[str]]:
    """The modules of fedkin that each module imports."""
    return {
        module: {name for name in imports(module) if name in FILES} - {module} for module in FILES
    }


def test_every_package_has_its_line() -> None:
    assert {package_of(module) for module in FILES} == PACKAGES.keys()


def test_packages_import_only_the_packages_of_their_line() -> None:
    wrong = []
    for module, targets in inner().items():
        own = package_of(module)
        allowed = {own, *PACKAGES[own].split()}
        wrong += [
            f"{module} -> {target}"
            for target in sorted(targets)
            if package_of(target) not in allowed and own
        ]
    assert not wrong


def test_every_line_is_needed() -> None:
    """An unused pair goes from the table."""
    for own, line in PACKAGES.items():
        used = {
            package_of(t)
            for module, targets in inner().items()
            if package_of(module) == own
            for t in targets
        }
        used |= {
            n.split(".")[0]
            for m in FILES
            if package_of(m) == own
            for n in imports(m)
            if n[:6] == "papers"
        }
        assert not own or set(line.split()) <= used, (
            f"{own} no longer imports {set(line.split()) - used}"
        )


def test_no_module_reaches_itself() -> None:
    """No cycle of imports, whatever their depth, and lazy ones count."""
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path[path.index(module) :], module))
        if module not in done:
            for target in sorted(inner()[module]):
                visit(target, (*path, module))
            done.add(module)

    for module in FILES:
        visit(module, ())


def test_pure_packages_need_no_device_network_or_file() -> None:
    pure = [
        m for m in FILES if package_of(m) in PURE and m.removeprefix("fedkin.") not in TOUCHES_FILES
    ]
    wrong = {
        module: bad
        for module in pure
        if (bad := {n.split(".")[0] for n in imports(module)} & PURE_WITHOUT)
    }
    assert not wrong


def test_no_pickle() -> None:
    assert not {m: bad for m in FILES if (bad := {n.split(".")[0] for n in imports(m)} & NO_PICKLE)}


def test_no_package_is_a_fifth_of_the_code() -> None:
    lines = {module: len(path.read_text().splitlines()) for module, path in FILES.items()}
    tops = {module: package_of(module).split(".")[0] for module in FILES}
    sizes = {top: sum(lines[m] for m in FILES if tops[m] == top) for top in set(tops.values())}
    assert max(sizes.values()) <= sum(sizes.values()) / 5, sizes


def test_files_are_short() -> None:
    lines = {module: len(path.read_text().splitlines()) for module, path in FILES.items()}
    limits = {module: 250 if package_of(module) == "methods" else 450 for module in FILES}
    # These two are no methods: they hold code that methods share.
    limits["fedkin.methods.decentralized"] = 450
    limits["fedkin.methods.cluster_steps"] = 450
    assert not {module: count for module, count in lines.items() if count > limits[module]}


def functions(module: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (
        n for n in nodes_of(FILES[module]) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function's statements, its parameters and its docstring not counted. A reader of
    tables has a parameter for each key of the section [data]."""
    body = function.body
    docstring = body[0] if ast.get_docstring(function, clean=False) is not None else None
    doc = docstring.end_lineno - docstring.lineno + 1 if docstring and docstring.end_lineno else 0
    assert function.end_lineno is not None
    return function.end_lineno - body[0].lineno + 1 - doc


def test_functions_are_short() -> None:
    assert not {
        f"{m}.{f.name}": code_lines(f) for m in FILES for f in functions(m) if code_lines(f) > 60
    }


def test_every_argument_and_return_is_annotated() -> None:
    bare = []
    for module in FILES:
        for function in functions(module):
            arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            bare += [
                f"{module}.{function.name}({a.arg})"
                for a in arguments
                if not a.annotation and a.arg not in SELF
            ]
            bare += [f"{module}.{function.name} -> ?"] if function.returns is None else []
    assert not bare


SELF = ("self", "cls")


def public_definitions(module: str) -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """Public classes, functions and methods of a module, with their dotted names."""
    for node in trees()[module].body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield f"{module}.{node.name}", node
            if isinstance(node, ast.ClassDef):
                inner = (
                    n
                    for n in node.body
                    if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")
                )
                yield from ((f"{module}.{node.name}.{n.name}", n) for n in inner)


def test_everything_public_has_a_docstring() -> None:
    """A method that a protocol or a base class describes needs no second description."""
    bare = {
        name
        for module in FILES
        for name, node in public_definitions(module)
        if not ast.get_docstring(node)
    }
    described = {
        name.rsplit(".", 1)[1]
        for m in FILES
        for name, n in public_definitions(m)
        if ast.get_docstring(n)
    }
    modules = {module for module, tree in trees().items() if not ast.get_docstring(tree)}
    assert (
        not {
            name for name in bare if name.count(".") < 4 or name.rsplit(".", 1)[1] not in described
        }
        | modules
    )


@cache
def constants(package: str) -> dict[str, str]:
    """The values of the constants of a package's modules, as code, by name."""
    return {
        target.id: ast.unparse(node.value)
        for module, tree in trees().items()
        if package_of(module) == package
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def has_help(argument: ast.arg, module: str) -> bool:
    """Whether an argument is an option of a command, with its help: in its annotation, or in the
    constant of its package that the annotation names."""
    if argument.annotation is None:
        return False
    text = ast.unparse(argument.annotation)
    return "help=" in constants(package_of(module)).get(text, text)


def test_functions_of_three_and_more_parameters_describe_them() -> None:
    """Public functions have an Args section that names every parameter; a command's options have
    their help instead."""
    wrong = {}
    for module in FILES:
        for name, node in public_definitions(module):
            # The methods of a class too.
            if isinstance(node, ast.ClassDef) or name.rsplit(".", 2)[1][0].isupper():
                continue
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            names = [a.arg for a in arguments if not has_help(a, module)]
            doc = ast.get_docstring(node) or ""
            if len(names) >= 3 and (
                "Args:" not in doc or any(n not in doc.split("Args:", 1)[1] for n in names)
            ):
                wrong[name] = names
    assert not wrong


def test_the_room_of_a_run_is_small() -> None:
    """The folder has at most 20 files, and at most 8 levels of imports among its files and the
    files
    of its folders."""
    own = {module for module in FILES if module.startswith("fedkin.run.")}
    assert sum(package_of(module) == "run" for module in own) <= 20

    def level(module: str) -> int:
        return 1 + max((level(target) for target in inner()[module] if target in own), default=0)

    assert max(level(module) for module in own) <= 8


def test_a_simulation_has_few_arguments() -> None:
    simulate = next(f for f in functions("fedkin.run.simulate") if f.name == "simulate")
    assert len(simulate.args.args) + len(simulate.args.kwonlyargs) <= 16
