"""The code blocks of README and docs, run as a reader would: one after another, in one folder and one Python session.

* ``python`` runs in the session of its page.
* ``toml`` that begins with ``# NAME.toml`` becomes that file, with at most two rounds; one without is only read.
* ``sh``: lines that begin with ``fedkin`` run, with the files that the page has made; those of ``make`` must name
  targets that exist; installing, and looking at results with other programs, is left to the reader.
* Other languages (``text``, ``json``) are not run.

A block that cannot run in a test has its reason right before it, where readers of the source see it::

    <!-- not run: it waits for other processes -->
"""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from typer.testing import CliRunner

from fedkin.cli import app

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("python", "toml", "sh", "text", "json")
FOR_THE_READER = ("pip", "cd", "tensorboard", "mlflow", "MLFLOW_ALLOW_FILE_STORE=true", "wandb")
_FENCE = re.compile(r"(?:^<!-- not run: ([^\n]+?) -->\n\s*)?^```([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: where it begins, and why it is not run, if it is not."""

    page: str
    line: int
    language: str
    code: str
    reason: str | None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    text, name = page.read_text(), str(page.relative_to(ROOT))
    return [
        Block(name, text.count("\n", 0, found.start(2)) + 1, found[2], found[3], found[1])
        for found in _FENCE.finditer(text)
    ]


def run_page(page: Path, folder: Path) -> dict[str, Any]:
    """Run all blocks of a page, with ``folder`` as the current one; returns the session of its Python."""
    session = fresh_session(page.stem)
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{block.place}: a block of {block.language or 'no language'}"
        if block.reason is None:
            run_block(block, folder, session)
    return session


def fresh_session(name: str) -> dict[str, Any]:
    """The names of a new module, as an interpreter has them: dataclasses look up the module that they are made in."""
    module = sys.modules[f"page_{name}"] = ModuleType(f"page_{name}")
    return vars(module)


def run_block(block: Block, folder: Path, session: dict[str, Any]) -> None:
    if block.language == "python":
        filling = "\n" * block.line  # so that a traceback names the line of the page
        exec(compile(filling + block.code, block.page, "exec", dont_inherit=True), session)
    if block.language == "toml":
        tomllib.loads(block.code)
        name = re.match(r"# (\w+\.toml)\n", block.code)
        if name:
            (folder / name[1]).write_text(re.sub(r"^rounds = \d+", "rounds = 2", block.code, flags=re.MULTILINE))
    if block.language == "sh":
        for words in lines(block):
            run_command(words, block.place)


def lines(block: Block) -> Iterator[list[str]]:
    """The commands of a block, as words; a backslash goes on in the next line."""
    for line in block.code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield words


def run_command(words: list[str], place: str) -> None:
    if words[0] == "fedkin":
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, f"{place}: {shlex.join(words)}\n{done.output}\n{done.exception!r}"
    elif words[0] == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert words[1] in targets, f"{place}: the Makefile has no {words[1]}"
    else:
        assert words[0] in FOR_THE_READER, f"{place}: what is {words[0]!r}?"
