"""Text that an encoding lacks, the home folder, addresses, and names that a shell would split."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app
from fedkin.cli.common import home_expanded
from fedkin.core.object_repr import shell_command
from tests.refusals import refused

LABELS = ("αβ", "→ja")
RUN = ["data.path=t.csv", "run.rounds=1", "run.cohort=4", "method.clusters=2", "run.against=[]"]
NOT_UTF8 = os.fsdecode(b"r\xe4")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder is the home folder,
    and has a table with Greek labels and German clients."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    rows = "".join(f"{i},{LABELS[i % 2]},Köln{i % 4}\n" for i in range(40))
    (tmp_path / "t.csv").write_text(f"größe,y,client_id\n{rows}", encoding="utf-8")
    return tmp_path


def fedkin(*arguments: str, charset: str = "utf-8") -> Result:
    return CliRunner(charset=charset).invoke(app, list(arguments))


def done(*arguments: str, charset: str = "utf-8") -> Result:
    result = fedkin(*arguments, charset=charset)
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize("charset", ["ascii", "latin-1"])
def test_any_text_is_printed_in_any_encoding(charset: str) -> None:
    assert r"\u03b1\u03b2" in done("data", "describe", "t.csv", charset=charset).stdout
    done("run", *RUN, "--out", "run", charset=charset)
    done("export", "run", "--out", "export", charset=charset)
    done("evaluate", "run", charset=charset)
    done("report", "run", charset=charset)
    done("check", "run", charset=charset)
    done("data", "list", charset=charset)
    result = fedkin("predict", "export", "t.csv", "--client", "αγ", charset=charset)
    refused(result, r"unknown client '\u03b1\u03b3'")


@pytest.mark.parametrize("charset", ["ascii", "utf-8"])
def test_predictions_are_printed_in_utf8(charset: str) -> None:
    """They are data: as escapes, they would be other labels."""
    done("run", *RUN, "--out", "run")
    done("export", "run", "--out", "export")
    done("predict", "export", "t.csv", "--out", "p.csv")
    printed = done("predict", "export", "t.csv", charset=charset)
    assert printed.stdout_bytes == Path("p.csv").read_bytes()
    assert "probability_→ja" in Path("p.csv").read_text(encoding="utf-8")


def test_the_home_folder_is_expanded(home: Path) -> None:
    (home / "c.toml").write_text('[data]\npath = "~/t.csv"\n')
    done("run", "~/c.toml", *RUN[1:], "--out=~/run")
    done("run", *RUN[1:], "data.path=~/t.csv", "--out", "~/other")
    done("data", "describe", "~/t.csv", "--out", "~/figure.png")
    done("report", "~/run", "--out=~/page.html")
    done("export", "~/run", "--out", "~/export")
    done("predict", "~/export", "~/t.csv", "--out", "~/p.csv")
    names = {"run", "other", "figure.png", "page.html", "export", "p.csv"}
    assert names <= {path.name for path in home.iterdir()} and not (home / "~").exists()


def test_the_home_folder_in_python(home: Path) -> None:
    data = fk.data.load("~/t.csv")
    run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=4, out="~/run")
    run.export("~/export")
    run.evaluate().save("~/evaluation")
    fk.report("~/run", "~/page.html", figures="~/figures")
    fk.data.pack(data, "~/packed")
    assert fk.Run.load("~/run").summary() == run.summary() and len(fk.data.load("~/packed").y) == 40
    assert {"run", "export", "evaluation", "page.html", "figures", "packed"} <= {
        path.name for path in home.iterdir()
    }
    assert not (home / "~").exists()


@pytest.mark.parametrize(
    ("argument", "expanded"),
    [
        ("~", "{home}"),
        ("~/t.csv", "{home}/t.csv"),
        ("--out=~/run", "--out={home}/run"),
        (
            "data.path=~/t.csv",
            "data.path=~/t.csv",
        ),  # a value of the configuration, which expands it itself
        ("a~b", "a~b"),
        ("./~", "./~"),
    ],
)
def test_which_arguments_are_expanded(argument: str, expanded: str, home: Path) -> None:
    assert home_expanded(argument) == expanded.format(home=home)


def test_addresses_are_refused_by_name() -> None:
    done("run", *RUN, "--out", "run")
    done("export", "run", "--out", "export")
    address = "https://example.org/t.csv"
    for command in (
        ("data", "describe", address),
        ("run", *RUN[1:], f"data.path={address}", "--out", "x"),
        ("predict", "export", address),
        ("evaluate", "run", "--data", address),
    ):
        refused(fedkin(*command), address, "got an address", "download it first")
    refused(fedkin("data", "describe", "file:///data/t.csv"), "name the path alone: /data/t.csv")
    with pytest.raises(
        fk.ConfigError, match=r"s3://bucket/t\.parquet: expected a path on this machine"
    ):
        fk.data.load("s3://bucket/t.parquet")


def test_names_that_are_not_utf8() -> None:
    """Folders and figures may have them; the data of a configuration cannot."""
    done("run", *RUN, "--out", NOT_UTF8)
    done("report", NOT_UTF8)
    done("export", NOT_UTF8, "--out", f"{NOT_UTF8}-export")
    done("evaluate", NOT_UTF8)
    done("data", "describe", "t.csv", "--out", f"{NOT_UTF8}.png")
    table = Path(f"{NOT_UTF8}.csv")
    table.write_bytes(Path("t.csv").read_bytes())
    done("predict", f"{NOT_UTF8}-export", str(table), "--out", f"{NOT_UTF8}-p.csv")
    assert len(fk.data.load(table).y) == 40
    for command in (["data", "describe", str(table)], ["run", *RUN[1:], f"data.path={table}"]):
        refused(fedkin(*command), "path: expected a name in UTF-8", r"mv $'r\xe4.csv' NAME")


def test_hints_can_be_typed_as_they_are_printed(home: Path) -> None:
    result = done("run", *RUN, "--out", "my run")
    next_command = next(line for line in result.stdout.splitlines() if line.startswith("next: "))
    assert shlex.split(next_command)[-2:] == ["report", "my run"]
    result = done("export", "my run", "--out", "my export")
    hint = result.stdout.splitlines()[-1].removeprefix("predict: ")
    assert shlex.split(hint) == ["fedkin", "predict", "my export", "DATA.csv"]
    done(*["t.csv" if word == "DATA.csv" else word for word in shlex.split(hint)[1:]])
    result = done("data", "make", "t.csv", "--out", "my data")
    assert shlex.split(result.stdout.splitlines()[-1])[-2:] == [
        "data.name=file",
        "data.path=my data",
    ]
    result = done("peer", "init", "my peers", "--peers", "2")
    assert [shlex.split(line)[-1] for line in result.stdout.splitlines()[1:]] == [
        "my peers/peer-0/peer.toml",
        "my peers/peer-1/peer.toml",
    ]


def test_a_shell_command_is_quoted() -> None:
    assert shell_command("fedkin", "report", Path("my run")) == "fedkin report 'my run'"
    assert shlex.split(shell_command("a", "it's", "$HOME", "")) == ["a", "it's", "$HOME", ""]


@pytest.mark.parametrize("name", ["train", "test", "validation", "valid", "index", "quantity"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_may_be_called_as_a_split_is(name: str, ending: str) -> None:
    import pandas as pd

    table = pd.read_csv("t.csv")
    path = f"{name}.{ending}"
    table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
    result = done("data", "describe", path)
    assert (
        f"figure: data-{name}.png" in result.stdout and "clients without samples" in result.stdout
    )


def test_a_run_on_train_csv_is_evaluated_on_test_csv() -> None:
    for name in ("train.csv", "test.csv"):
        Path(name).write_bytes(Path("t.csv").read_bytes())
    done("run", *RUN[1:], "data.path=train.csv", "--out", "run")
    done("evaluate", "run", "--data", "test.csv")
    done("export", "run", "--out", "export")
    done("predict", "export", "test.csv", "--out", "p.csv")
    done("data", "make", "train.csv")
    done("data", "pni", "test.csv", "--models", "1")
    done("report", "run")
