"""Text is printed as it is: nothing in brackets is lost to markup, in help texts,
labels and names."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.console import Console
from typer.testing import CliRunner

from fedkin.cli import app
from fedkin.reporting.comparison_progress import tables
from fedkin.reporting.terminal import plain_console
from tests.analysis.written_comparisons import comparison

RUNNER = CliRunner()
# markup, and the code of an emoji.
LABEL = "[ill]"
SIZES = "5:100:3"


def commands(command: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """All commands below one, with the words that call them."""
    below = getattr(command, "commands", {})
    found = [(path, command)]
    for name, one in below.items():
        found += commands(one, (*path, name))
    return found


COMMANDS = [path for path, _ in commands(typer.main.get_command(app))]


def brackets(text: str | None) -> list[str]:
    """What stands in brackets in a help text as it is written."""
    return re.findall(r"\[[^\]]*\]", (text or "").replace("\\", ""))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_loses_nothing_in_brackets(path: tuple[str, ...]) -> None:
    (command,) = (one for known, one in commands(typer.main.get_command(app)) if known == path)
    shown = RUNNER.invoke(
        app, [*path, "--help"], env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"}
    ).output
    assert "\\[" not in shown
    words = brackets(command.help)
    for parameter in command.params:
        words += brackets(getattr(parameter, "help", None))
    for word in words:
        assert word in shown


def test_there_are_help_texts_with_brackets() -> None:
    shown = RUNNER.invoke(
        app, ["audit", "--help"], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"}
    ).output
    assert "A configuration with [privacy], as for" in shown
    assert len(COMMANDS) > 15


def test_a_paragraph_of_help_is_one_line_on_a_wide_terminal() -> None:
    """The lines of a docstring are no lines of the help."""
    shown = RUNNER.invoke(app, ["--help"], env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"}).output
    lines = [line.strip("│ ") for line in shown.splitlines()]
    (compare,) = (line for line in lines if line.startswith("compare "))
    assert compare.endswith("test which differences are significant.")
    below = RUNNER.invoke(app, ["run", "--help"], env={"COLUMNS": "300"}).output
    assert "\n Without arguments: FedGroup" in below  # paragraphs stay apart


def test_labels_are_printed_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "[x]"
    folder.mkdir()
    rows = [f"[a],{number},{LABEL if number % 2 else ':100:'}" for number in range(20)]
    rows += [f"b,{number},{LABEL if number % 3 else ':100:'}" for number in range(20)]
    (folder / "table.csv").write_text("\n".join(["client,age,label", *rows]) + "\n")
    columns = ["label=label", "client=client"]
    arguments = ["data", "describe", str(folder / "table.csv"), *columns]
    result = RUNNER.invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert LABEL in result.output and ":100:" in result.output


def test_a_plain_console_keeps_brackets_and_codes(capsys: pytest.CaptureFixture[str]) -> None:
    plain_console().print(f"{LABEL} {SIZES} [/x]")
    assert capsys.readouterr().out == f"{LABEL} {SIZES} [/x]\n"


def test_methods_and_settings_of_a_comparison_keep_their_brackets() -> None:
    curves = [[0.1, 0.5], [0.1, 0.6]]
    found = comparison({"[low]": {"[bold]mine": curves}, "[/b]": {"[bold]mine": curves}})
    console = Console(width=120, record=True, file=io.StringIO())
    for table in tables(found, console=console):
        console.print(table)
    text = console.export_text()
    assert "[bold]mine" in text and "[low]" in text and "[/b]" in text
