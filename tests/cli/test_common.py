"""What all commands share."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from fedkin.cli.common import command


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
