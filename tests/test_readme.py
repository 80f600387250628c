"""The README keeps its word: its code runs, its commands work, its tables are complete and its links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedkin.cli import app
from fedkin.data import DATASETS
from fedkin.methods import METHODS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands(program: str) -> list[list[str]]:
    lines = [shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()]
    return [line[1:] for line in lines if line[:1] == [program]]


def test_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another in one session, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {}
    assert len(blocks("python")) >= 3
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), session)


def test_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order they are printed, with the files that are printed; only the number of rounds is cut."""
    for config in blocks("toml"):
        name = re.match(r"# (\w+\.toml)\n", config)
        assert name
        (tmp_path / name[1]).write_text(re.sub(r"rounds = \d+", "rounds = 2", config))
    assert commands("fedkin")
    monkeypatch.chdir(tmp_path)
    for arguments in commands("fedkin"):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"fedkin {' '.join(arguments)}\n{done.stderr}"
    assert (tmp_path / "runs/study/config.toml").is_file() and (tmp_path / "eps.png").is_file()


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
