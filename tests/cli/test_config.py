"""``fedkin config``: sections, keys, search, and the check of files. ``-h``, ``--rounds`` and
``--seeds`` on the commands that people type them at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from fedkin.cli import app
from fedkin.config import reference
from tests.refusals import refused

QUICK = ["data.clients=4", "run.cohort=2", "local.epochs=1", "run.against=[]"]


def fedkin(*arguments: str | Path) -> Result:
    runner = CliRunner(env={"COLUMNS": "80"})
    return runner.invoke(app, [str(argument) for argument in arguments])


def printed(*arguments: str | Path) -> str:
    """What a command prints, if it succeeds."""
    result = fedkin(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_without_arguments_all_sections_are_listed() -> None:
    text = printed("config")
    assert [name for name in reference.SECTIONS if f"[{name}]" not in text] == []


@pytest.mark.parametrize("section", reference.SECTIONS)
def test_a_section_is_readable_in_80_columns(section: str) -> None:
    text = printed("config", section)
    # Paths, module names and examples are never broken.
    long = [line for line in text.splitlines() if len(line) > 80]
    assert [line for line in long if "example: " not in line and len(line.split()) > 1] == []
    for row in reference.rows(section):
        assert f"{row.key.name}: " in text


def test_a_key_has_type_default_meaning_and_example() -> None:
    text = printed("config", "local.lr")
    assert text.splitlines() == [
        "lr: number, above 0; default 0.03",
        "    Learning rate",
        "    example: lr = 0.03",
        "",
        "in a file: [local]",
        "           lr = 0.03",
        "on the command line: local.lr=0.03",
    ]


def test_one_method_and_the_readers_of_tables() -> None:
    text = printed("config", "method", "flexcfl")
    assert "clusters: integer; default 3" in text
    assert "averaging: " in printed("config", "method", "ifca") and "averaging: " not in text
    assert "label_names: list of texts; not set" in printed("config", "data", "csv")
    assert printed("config", "[local]") == printed("config", "local")


def test_any_other_word_is_searched() -> None:
    text = printed("config", "dropout")
    assert "scenario.dropout: " in text and "secret.dropout: " in text
    assert "local.lr: " not in text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["locall"], ["no section is called 'locall'", "did you mean 'local'?"]),
        (["local.lrr"], ["local.lrr: unknown key 'lrr'; did you mean 'lr'?", "config local.lr"]),
        (["locl.lr"], ["unknown section 'locl'; did you mean 'local'?"]),
        (["method", "flexclf"], ["[method]: unknown method 'flexclf'; did you mean 'flexcfl'?"]),
        (["local", "lr"], ["[local] has no entries", "local.lr"]),
        (["a", "b", "c"], ["expected SECTION [NAME]", "config method flexcfl"]),
    ],
)
def test_a_word_that_is_nothing_is_refused(words: list[str], expected: list[str]) -> None:
    refused(fedkin("config", *words), *expected)


def test_check_of_files(tmp_path: Path) -> None:
    right = tmp_path / "right.toml"
    right.write_text('[method]\nname = "fedavg"\n')
    assert printed("config", "check", right) == f"{right}: a run file (fedkin run), no errors\n"
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[run]\nrouns = 3\n[local]\nlr = 'high'\n")
    result = fedkin("config", "check", wrong, right)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{wrong}: a run file (fedkin run), 2 errors",
        f"{right}: a run file (fedkin run), no errors",
    ]
    assert result.stderr.splitlines() == [
        f"error: {wrong}: run.rouns: unknown key 'rouns'; did you mean 'rounds'? For example "
        "rounds = 50",
        f"error: {wrong}: local.lr: expected a valid number, got 'high'; for example lr = 0.03",
    ]
    refused(fedkin("config", "check", tmp_path / "none.toml"), "there is no such file")


# --- forms that people type


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The names of all commands and subcommands."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


ALL = list(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_by_one_letter(path: tuple[str, ...]) -> None:
    assert printed(*path, "-h") == printed(*path, "--help")


def test_rounds_and_seeds_of_a_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    text = printed(
        "run", *QUICK, "method.name=fedavg", "--rounds", "2", "--seeds", "2", "--json", "--out", out
    )
    summary = json.loads(text.splitlines()[-1])
    assert len(list((out / "seeds").iterdir())) == 2 and summary["out"] == str(out)
    config = next((out / "seeds").glob("*/config.toml")).read_text()
    assert "rounds = 2" in config


def test_rounds_and_seeds_of_a_comparison(tmp_path: Path) -> None:
    out = tmp_path / "grid"
    methods = ["--methods", "fedavg", "--rounds", "1", "--seeds", "2"]
    printed("compare", *QUICK, *methods, "--out", out)
    configs = [path.read_text() for path in out.glob("cells/*/*/*/config.toml")]
    assert len(configs) == 2 and all("rounds = 1\n" in text for text in configs)


def test_an_option_and_a_setting_of_the_same_key_exclude_each_other() -> None:
    words = ["--rounds 2 and run.rounds=3", "leave out one"]
    refused(fedkin("run", "--rounds", "2", "run.rounds=3"), *words)
    refused(fedkin("compare", "--rounds", "2", "run.rounds=3"), *words)
    refused(fedkin("run", "--rounds", "0"), "--rounds", "0")


def test_rounds_are_part_of_the_grid_of_a_comparison(tmp_path: Path) -> None:
    refused(fedkin("compare", "--resume", tmp_path, "--rounds", "2"), "takes its grid from")
