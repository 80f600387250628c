"""The code blocks of README and docs, run as a reader would: one after another, in one folder and
one Python session.

Sybil parses the pages. In the current folder,

* ``python`` runs in the session of its page;
* ``toml`` that begins with ``# NAME.toml`` becomes that file, with at most two rounds; one without
  is only read;
* ``sh``: every command of ``fedkin`` runs, with the files that the page has made. Those that cannot
  run in a test are in the table ``CHECKED_ONLY`` with the reason. They are checked instead, as are
  the commands of other programs: the program, its options, and the settings, files and packages
  that it names exist (``tests.docs.command_checks``);
* other languages (``text``, ``json``) are not run.

A block that cannot run in a test has its reason right before it, where readers of the source see
it::

    <!-- skip: next "it waits for other processes" -->
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import SkipTest
from unittest.mock import patch

from sybil import Document, Example, Region, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import SkipParser
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer
from typer.testing import CliRunner

from fedkin.cli import app
from tests.docs.command_checks import check
from tests.docs.shell_words import simple_commands

ROOT = Path(__file__).resolve().parents[2]
RUN = {"fedkin", "rm", "mkdir", "cp", "ssh-keygen"}  # programs that run, in the folder of the test

# Programs of the examples that make the files of a page, in seconds.
MAKERS = ("examples/adapters/remarks.py", "examples/adapters/toy_backbone.py")

# Commands of fedkin that are checked and not run, by page and beginning, with the reason.
CHECKED_ONLY = {
    ("adapters/README.md", "fedkin "): "tests/process/test_examples.py runs it",
    (
        "deploy.md",
        "fedkin deploy up",
    ): "it starts processes; tests/process/test_documented_deployment.py runs the block",
    ("deploy.md", "fedkin deploy status fed --web"): "it serves a page until it is interrupted",
    ("serve.md", "fedkin serve models --port 8080"): "it serves models until it is interrupted",
    ("deploy.md", "fedkin deploy status"): "as fedkin deploy up",
    ("deploy.md", "fedkin deploy logs"): "as fedkin deploy up",
    ("deploy.md", "fedkin report fed/run"): "as fedkin deploy up",
    ("deploy.md", "fedkin deploy down"): "as fedkin deploy up",
    (
        "deploy-machines.md",
        "fedkin deploy check .",
    ): "it is for another machine, where the folder is copied to",
    ("deploy-sites.md", "fedkin deploy up"): "as fedkin deploy up of deploy.md",
    ("deploy-sites.md", "fedkin deploy restart"): "as fedkin deploy up of deploy.md",
    (
        "deploy-sites.md",
        "fedkin deploy rotate .",
    ): "it is for another machine, where the folder is copied to",
    (
        "deploy-sites.md",
        "fedkin deploy rotate wards site-0 --public-key",
    ): "as the command before it",
    (
        "egress.md",
        "fedkin egress verify site-0 --against fed",
    ): "it compares with the run of a federation; tests/cli/test_egress.py runs it",
    ("deploy-backup.md", "fedkin deploy restart"): "as fedkin deploy up of deploy.md",
    ("deploy-backup.md", "fedkin deploy check restored"): "it shows a copy as failed",
    (
        "deploy-machines.md",
        "fedkin report run",
    ): "it reads the run of the commands before it, which need several processes",
    ("peers.md", "fedkin peer --config"): "eight processes that go on until they are stopped",
    ("many-machines.md", "fedkin run study.toml run.engine=ray:"): "it needs a cluster that is up",
    ("forecast/README.md", "fedkin"): "tests/process/test_examples.py runs all of it",
    ("hospital/README.md", "fedkin"): "tests/process/test_examples.py runs its short form",
    ("length_of_stay/README.md", "fedkin"): "tests/process/test_examples.py runs most of it",
}
# Files of other pages that a page uses: the page, the file, and the page that shows it.
GIVEN = {
    ("many-machines.md", "study.toml"): "quickstart.md",
    ("write-a-method.md", "study.toml"): "quickstart.md",
}
# The file that a page calls its first block, for configurations that import it.
NAMED_FILES = {"write-a-method.md": "signature.py", "write-a-measure.md": "mymeasures.py"}


def read(page: Path) -> Document:
    """A page, its blocks, and its Python session: a module, in which dataclasses look up
    their names."""
    document = Sybil([SkipParser(), fences]).parse(page)
    module = sys.modules[f"page_{page.stem}"] = ModuleType(f"page_{page.stem}")
    document.namespace = vars(module)
    return document


def fences(document: Document) -> Iterator[Region]:
    """All fenced blocks; one of an unknown language is an error."""
    for region in FencedCodeBlockLexer(".*")(document):
        language = region.lexemes["language"]
        region.parsed = region.lexemes["source"]
        assert language in EVALUATORS, (
            f"{document.region_details(region)}: a block of {language or 'no language'}"
        )
        region.evaluator = EVALUATORS[language]
        yield region


def blocks(document: Document) -> list[Example]:
    """The fenced blocks of a page, skipped ones too."""
    return [example for example in document.examples() if example.region.lexemes]


def language_of(block: Example) -> str:
    """The language that a block names."""
    return block.region.lexemes["language"]


def skipped(document: Document) -> list[str]:
    """The reasons of the blocks that are not run."""
    return [str(example.parsed[1]) for example in document.examples() if not example.region.lexemes]


def run_page(page: Path) -> dict[str, Any]:
    """Run all blocks of a page in the current folder; returns the session of its Python."""
    document = read(page)
    write_given(page)
    for example in document.examples():
        with suppress(SkipTest):
            example.evaluate()
    return document.namespace


def write_toml(block: Example) -> None:
    """Check the block, and write it as the file that it names."""
    tomllib.loads(block.parsed)
    if name := re.match(r"# (\w+\.toml)\n", block.parsed):
        Path(name[1]).write_text(
            re.sub(r"^rounds = \d+", "rounds = 2", block.parsed, flags=re.MULTILINE)
        )


def run_commands(block: Example) -> None:
    """Run or check the commands of a block, one after another."""
    page = Path(block.path)
    for words in simple_commands(block.parsed):
        place = f"{page.name}, line {block.line}: {shlex.join(words)}"
        try:
            if reason_not_to_run(page, words) is None:
                run_command(words)
            else:
                check(words)
        except AssertionError as error:
            raise AssertionError(f"{place}\n{error}") from error


def reason_not_to_run(page: Path, words: Sequence[str]) -> str | None:
    """Why a command is checked and not run; None for one that runs."""
    command = " ".join(words)
    name = (
        page.name
        if page.name != "README.md" or page.parent == ROOT
        else f"{page.parent.name}/README.md"
    )
    for (where, beginning), reason in CHECKED_ONLY.items():
        if name == where and command.startswith(beginning):
            return reason
    if words[0] in RUN or is_maker(words):
        return None
    return "a program of others, or an installation"


def is_maker(words: Sequence[str]) -> bool:
    """Whether a command runs a program that makes the files of a page."""
    return words[0] == "python" and len(words) > 1 and words[1] in MAKERS


def run_command(words: Sequence[str]) -> None:
    """Run a command in the current folder; it must end well."""
    if is_maker(words):
        program = [sys.executable, str(ROOT / words[1]), *words[2:]]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    elif words[0] != "fedkin":
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    elif "run.engine=ray" in words or any(word.startswith("signature:") for word in words):
        # Functions that the tests check for types cannot travel to other processes.
        program = [sys.executable, "-m", "fedkin.cli"]
        done = subprocess.run([*program, *words[1:]], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    else:
        # A command that sets the format of logs sets it for its own process only.
        last_resort = patch.object(logging, "lastResort", logging.lastResort)
        with patch.dict(os.environ), last_resort:
            result = CliRunner().invoke(app, list(words[1:]))
        assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"


def write_given(page: Path) -> None:
    """Write the files that a page uses and another page shows."""
    for (name, file), source in GIVEN.items():
        if name == page.name:
            shown = [
                block
                for block in blocks(read(page.parent / source))
                if language_of(block) == "toml"
            ]
            write_toml(next(block for block in shown if block.parsed.startswith(f"# {file}\n")))
    if page.name in NAMED_FILES:  # its first block is a file
        first = next(block for block in blocks(read(page)) if language_of(block) == "python")
        Path(NAMED_FILES[page.name]).write_text(first.parsed)


def leave(block: Example) -> None:
    """Do nothing: the block is an output, or a file of another program."""


EVALUATORS = {
    "python": PythonEvaluator(),
    "toml": write_toml,
    "sh": run_commands,
    "text": leave,
    "json": leave,
}
