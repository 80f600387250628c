"""The README keeps its word: its code runs, its commands work, its tables are complete and its links lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fedkin.data import DATASETS
from fedkin.methods import METHODS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands(program: str) -> list[list[str]]:
    lines = [shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()]
    return [line[1:] for line in lines if line[:1] == [program]]


def fedkin(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    start = [sys.executable, "-c", "from fedkin.cli import main; main()"]
    return subprocess.run([*start, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another in one session, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {}
    assert len(blocks("python")) >= 3
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), session)


def test_commands_run(tmp_path: Path) -> None:
    """In the order they are printed, with the file that is printed; only the number of rounds is cut."""
    [config] = blocks("toml")
    (tmp_path / "study.toml").write_text(re.sub(r"rounds = \d+", "rounds = 2", config))
    assert commands("fedkin")
    for arguments in commands("fedkin"):
        done = fedkin(arguments, tmp_path)
        assert done.returncode == 0, f"fedkin {' '.join(arguments)}\n{done.stderr}"
    assert (tmp_path / "runs/study/config.toml").is_file()


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wanted = {target for line in commands("make") for target in line}
    assert wanted and wanted <= targets


def test_every_method_is_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", README, re.MULTILINE)
    assert dict(rows) == {name: method.__name__ for name, method in METHODS.items()}


def test_every_data_set_is_named() -> None:
    section = README.split("## Data\n")[1].split("\n## ")[0]
    assert DATASETS.keys() <= set(re.findall(r"`(\w+)`", section))


def test_links_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if not link.startswith("http")]
    missing = [link for link in links if not (ROOT / link).exists()]
    assert links and not missing
