"""What all commands share."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from fedkin.cli.common import command
from fedkin.cli.printed_tables import print_rows


def test_the_next_command_can_be_typed_as_it_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after ``make demo``, which installs into a folder that no shell knows."""
    programs = tmp_path / "my venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "fedkin").write_text("#!/bin/sh\n")
    (programs / "fedkin").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(programs / "fedkin"), "run"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert shlex.split(command()) == ["my venv/bin/fedkin"]
    monkeypatch.setenv("PATH", str(programs))
    assert command() == "fedkin"
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert command() == "fedkin"


def test_a_printed_table_aligns_numbers_right_and_words_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_rows(["method", "bytes"], [["fedavg", 5200], ["ifca", 310]], "gains")
    lines = capsys.readouterr().out.splitlines()
    (first,) = (line for line in lines if "fedavg" in line)
    (second,) = (line for line in lines if "ifca" in line)
    assert first.startswith("fedavg") and second.startswith("ifca ")
    assert first.rstrip().endswith("5,200") and second.rstrip().endswith("310")
    assert len(first.rstrip()) == len(second.rstrip())
    print_rows(["name"], [], "nothing")  # a table without rows has its heads
    assert "name" in capsys.readouterr().out
