"""The commands by which docs/deploy.md starts, follows and ends a federation, in their smallest
form."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="a deployment needs pip install 'fedkin[flower]'")
from fedkin.server.deploy.processes import SITE, STARTER, SUPERLINK, Program, stop
from tests.docs.code_blocks import ROOT, blocks, language_of, read
from tests.docs.shell_words import simple_commands
from tests.free_ports import free_ports

if not Path("/proc/self/environ").is_file():
    pytest.skip(
        f"processes are found in /proc, which {sys.platform} has not", allow_module_level=True
    )
SITES = 2
LIMIT = 500  # seconds for a command
INIT = ["--clients", str(SITES), "run.rounds=1", "run.against=[]", "local.epochs=1", "run.cohort=2"]


@pytest.fixture
def folder(short_path: Path) -> Iterator[Path]:
    """The current folder of the commands; at the end no process is left."""
    yield short_path
    sites = [Program(short_path / "fed" / f"site-{k}", SITE) for k in range(SITES)]
    server = [Program(short_path / "fed", kind) for kind in (SUPERLINK, STARTER)]
    stop([*server, *sites], 0.0)


def commands() -> list[list[str]]:
    """The commands of the page from `fedkin deploy init fed` to `fedkin deploy down fed`."""
    shell = [
        block.parsed
        for block in blocks(read(ROOT / "docs/deploy.md"))
        if language_of(block) == "sh"
    ]
    words = [command for block in shell for command in simple_commands(block)]
    first = words.index(["fedkin", "deploy", "init", "fed"])
    last = words.index(["fedkin", "deploy", "down", "fed"])
    return words[first : last + 1]


def smallest(words: list[str]) -> list[str] | None:
    """The form in which a command ends soon; None for one that serves a page until it is
    interrupted."""
    if "init" in words:
        return [*words, "--port", str(free_ports(1)[0]), *INIT]
    if "up" in words:
        return [*words, "--wait"]
    if "--web" in words:
        return None
    return [word for word in words if word != "--follow"]


def test_the_commands_of_the_page_do_a_run(folder: Path) -> None:
    run = [form for words in commands() if (form := smallest(words)) is not None]
    assert [words[2] for words in run] == ["init", "up", "status", "logs", "fed/run", "down"]
    said: dict[str, str] = {}
    for words in run:
        program = [sys.executable, "-m", "fedkin.cli", *words[1:]]
        done = subprocess.run(
            program,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}"
        said[words[2]] = done.stdout
    assert "site-1: takes part" in said["up"] and "flexcfl finished" in said["status"]
    assert "superlink" in said["logs"] and (folder / "fed/run/report.html").is_file()
    assert "ended: superlink, site-0, site-1" in said["down"]
