"""The code blocks of README and docs, run as a reader would: one after another, in one folder and one Python session.

Sybil parses the pages. In the current folder,

* ``python`` runs in the session of its page;
* ``toml`` that begins with ``# NAME.toml`` becomes that file, with at most two rounds; one without is only read;
* ``sh``: lines that begin with ``fedkin`` run, with the files that the page has made; those of ``make`` must name
  targets that exist; installing, and looking at results with other programs, is left to the reader;
* other languages (``text``, ``json``) are not run.

A block that cannot run in a test has its reason right before it, where readers of the source see it::

    <!-- skip: next "it waits for other processes" -->
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import SkipTest

from sybil import Document, Example, Region, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import SkipParser
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer
from typer.testing import CliRunner

from fedkin.cli import app

ROOT = Path(__file__).resolve().parents[2]
FOR_THE_READER = ("pip", "cd", "tensorboard", "mlflow", "MLFLOW_ALLOW_FILE_STORE=true", "wandb")


def read(page: Path) -> Document:
    """A page, its blocks, and a Python session of its own: a module, in which dataclasses look up their names."""
    document = Sybil([SkipParser(), fences]).parse(page)
    module = sys.modules[f"page_{page.stem}"] = ModuleType(f"page_{page.stem}")
    document.namespace = vars(module)
    return document


def fences(document: Document) -> Iterator[Region]:
    """All fenced blocks; one of an unknown language is an error."""
    for region in FencedCodeBlockLexer(".*")(document):
        language, region.parsed = region.lexemes["language"], region.lexemes["source"]
        assert language in EVALUATORS, f"{document.region_details(region)}: a block of {language or 'no language'}"
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
    for example in document.examples():
        with suppress(SkipTest):
            example.evaluate()
    return document.namespace


def write_toml(block: Example) -> None:
    """Check the block, and write it as the file that it names."""
    tomllib.loads(block.parsed)
    if name := re.match(r"# (\w+\.toml)\n", block.parsed):
        Path(name[1]).write_text(re.sub(r"^rounds = \d+", "rounds = 2", block.parsed, flags=re.MULTILINE))


def run_commands(block: Example) -> None:
    """Run the commands of a block; a backslash goes on in the next line."""
    for line in block.parsed.replace("\\\n", " ").splitlines():
        words, place = shlex.split(line, comments=True), f"{block.path}:{block.line}"
        if "run.engine=ray" in words:  # functions that the tests check for types cannot travel to other processes
            done = subprocess.run(
                [sys.executable, "-m", "fedkin.cli", *words[1:]], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{place}: {line}\n{done.stdout}\n{done.stderr}"
        elif words[:1] == ["fedkin"]:
            result = CliRunner().invoke(app, words[1:])
            assert result.exit_code == 0, f"{place}: {line}\n{result.output}\n{result.exception!r}"
        elif words[:1] == ["make"]:
            targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            assert words[1] in targets, f"{place}: the Makefile has no {words[1]}"
        else:
            assert not words or words[0] in FOR_THE_READER, f"{place}: what is {words[0]!r}?"


def leave(block: Example) -> None:
    """Do nothing: the block is an output, or a file of another program."""


EVALUATORS = {"python": PythonEvaluator(), "toml": write_toml, "sh": run_commands, "text": leave, "json": leave}
