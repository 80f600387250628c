"""Checks of commands that are not run: programs, subcommands, options, settings, files and packages
exist."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import click
import typer

from fedkin.cli import app
from fedkin.config import run as run_config
from tests.docs.packages import PACKAGES_OF_OTHERS, WHEEL, extras_of, name_of, requirement_of

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PLACEHOLDER = re.compile(r"\.\.\.|[A-Z][A-Z-]+")  # a word for the reader to replace

# Programs that a machine may lack, with the reason; their options are not checked.
OF_OTHERS = {
    "tensorboard": "the viewer is not needed to write the events; the page installs it",
    "docker": "an engine is needed; tests/server/deploy/test_compose.py checks the compose file",
    "scp": "it copies between machines",
    "ssh-keygen": "it has no --help",
    "srun": "it is a part of Slurm",
    "scontrol": "it is a part of Slurm",
    "curl": "it asks a running server",
    "sleep": "it is a part of every system",
    "kill": "it is a part of every system",
    "rm": "it is a part of every system",
    "head": "it is a part of every system",
    "cd": "it is a part of the shell",
    "jobs": "it is a part of the shell",
    "mkdir": "it is a part of every system",
    "pre-commit": "its hooks come from a network",
}


def check(words: Sequence[str]) -> None:
    """Check a command without running it. Raises AssertionError that names the mistake."""
    program = Path(words[0]).name
    checks: dict[str, Callable[[Sequence[str]], None]] = {
        "fedkin": check_fedkin,
        "make": check_make,
        "pip": check_pip,
        "python": check_python,
        "bash": check_script,
    }
    if program in checks:
        checks[program](words)
    elif program in DEPTH:
        check_options([program, *words[1:]])
    else:
        assert program in OF_OTHERS, f"{program!r} is not a known program"


def check_fedkin(words: Sequence[str]) -> None:
    """Subcommands and options are parsed as the command line does; settings of a run are loaded."""
    command = _all_commands()
    path: list[str] = []
    rest = list(words[1:])
    while rest and rest[0] in getattr(command, "commands", {}):
        path.append(rest.pop(0))
        command = command.commands[path[-1]]  # type: ignore[attr-defined]
    if path and not rest:
        return  # the name of a command, in a sentence
    if path == ["peer"] and rest[0] == "--config":
        command = command.commands["run"]  # type: ignore[attr-defined]
    if path == ["config"] and not rest[0].startswith("-"):
        command = command.commands["show"]  # type: ignore[attr-defined]
    is_group = hasattr(command, "commands")
    assert not (is_group and rest and not rest[0].startswith("-")), (
        f"fedkin has no command {rest[0]}"
    )
    context = command.make_context(path[-1] if path else "fedkin", rest)
    if path == ["run"] and not context.params["resume"]:
        check_settings(context.params["settings"] or [])


@cache
def _all_commands() -> click.Command:
    """The command line of fedkin. Building it takes a while, so it is done once."""
    return typer.main.get_command(app)


def check_settings(settings: Sequence[str]) -> None:
    """Settings of ``fedkin run`` are valid, with the file that they change if it exists."""
    known = [text for text in settings if not PLACEHOLDER.fullmatch(text.partition("=")[2])]
    files = [Path(text) for text in known if "=" not in text]
    overrides = [text for text in known if "=" in text]
    if all(file.exists() for file in files):
        run_config.load(files[0] if files else None, overrides)


def check_make(words: Sequence[str]) -> None:
    """The target exists, and the variables are used."""
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([\w./-]+):", makefile, re.MULTILINE)
    for word in words[1:]:
        variable, equals, _ = word.partition("=")
        if equals:
            assert f"$({variable})" in makefile or f"{variable}," in makefile, (
                f"the Makefile has no {variable}"
            )
        else:
            assert word in targets, f"the Makefile has no {word}"


def check_pip(words: Sequence[str]) -> None:
    """Packages are fedkin, its requirements, or in a table; extras exist, and files do."""
    assert words[1] == "install", words
    arguments = iter(words[2:])
    for word in arguments:
        if word in ("-c", "--constraint"):
            assert (ROOT / next(arguments)).is_file()
        elif word in ("--editable", "-e", ".", WHEEL):
            continue
        else:
            _check_package(requirement_of(word))


def _check_package(word: str) -> None:
    assert not word.startswith("-"), f"pip install {word} is not checked"
    name = name_of(word)
    extras = re.findall(r"[\w-]+", word.partition("[")[2])
    if name == "fedkin":
        unknown = set(extras) - extras_of().keys()
        assert not unknown, f"fedkin has no extra {unknown}"
    elif extras:
        offered = importlib.metadata.metadata(name).get_all("Provides-Extra") or []
        assert set(extras) <= set(offered), f"{name} has no extra {extras}"
    else:
        needed = {name_of(text) for texts in extras_of().values() for text in texts}
        assert name in needed | PACKAGES_OF_OTHERS.keys(), f"the package {name!r} is not known"


def check_python(words: Sequence[str]) -> None:
    """The module or the script exists, and knows the options."""
    if words[1] == "-m":
        _check_module(words[2], words[3:])
    elif words[1] != "-c":
        script = ROOT / words[1]
        assert script.is_file(), f"{words[1]} does not exist"
        _check_flags([sys.executable, str(script)], words[2:])


def _check_module(module: str, arguments: Sequence[str]) -> None:
    """A module can be found. Its source, or a module of its package that it imports, has the
    options."""
    parent, _, last = module.rpartition(".")
    if PLACEHOLDER.fullmatch(last):
        assert importlib.util.find_spec(parent), f"there is no package {parent}"
        return
    found = importlib.util.find_spec(module)
    assert found, f"there is no module {module}"
    if found.submodule_search_locations:
        found = importlib.util.find_spec(f"{module}.__main__")
        assert found and found.origin, f"{module} cannot be run"
    text = "".join(path.read_text() for path in _sources(Path(str(found.origin))))
    for flag in _flags(arguments):
        assert f'"{flag}"' in text, f"python -m {module} has no option {flag}"


def _sources(path: Path) -> list[Path]:
    """A module of this repository, and the modules of the repository that it imports."""
    if not path.is_relative_to(ROOT) or ".venv" in path.parts:
        return [path]
    names = [
        node.module
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
    ]
    names += [
        f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    files = [ROOT / f"{name.replace('.', '/')}.py" for name in names if name]
    return [path, *(file for file in files if file.is_file())]


def check_script(words: Sequence[str]) -> None:
    """The script exists."""
    assert (ROOT / words[1]).is_file(), f"{words[1]} does not exist"


# Programs that other packages install, and how many subcommands they have.
DEPTH = {
    "flwr": 1,
    "ray": 1,
    "mlflow": 1,
    "wandb": 1,
    "jupyter": 1,
    "flower-superlink": 0,
    "flower-supernode": 0,
}


# Subcommands that have subcommands themselves.
GROUPS = {("flwr", "supernode"), ("mlflow", "experiments"), ("mlflow", "runs")}


def check_options(words: Sequence[str]) -> None:
    """The help of a program names the options of a command."""
    depth = DEPTH[words[0]] + (tuple(words[:2]) in GROUPS)
    program = [str(BIN / words[0]), *words[1 : 1 + depth]]
    _check_flags(program, words[1 + depth :])


def _check_flags(program: Sequence[str], arguments: Sequence[str]) -> None:
    text = help_of(tuple(program))
    for flag in _flags(arguments):
        assert re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text), (
            f"{' '.join(program)} has no option {flag}"
        )


def _flags(arguments: Sequence[str]) -> list[str]:
    """The options among some arguments, without their values."""
    return [word.partition("=")[0] for word in arguments if re.match(r"--?[A-Za-z]", word)]


@cache
def help_of(program: tuple[str, ...]) -> str:
    """What a program prints about its options."""
    wide = {**os.environ, "COLUMNS": "200", "TERM": "dumb"}
    done = subprocess.run([*program, "--help"], capture_output=True, text=True, env=wide)
    text = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)
    assert done.returncode == 0, f"{' '.join(program)} --help: {text[-400:]}"
    return text
