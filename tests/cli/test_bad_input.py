"""Unusual input also ends as one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fedkin.cli import app
from fedkin.config.run import load
from fedkin.core.errors import FedkinError
from tests.refusals import refused

QUICK = ["run.rounds=1", "run.cohort=2", "local.epochs=1", "data.clients=4", "run.against=[]"]


def fedkin(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("run.rounds=" + "9" * 4500, ["run.rounds", "4,502 characters"]),
        ("data.clients=" + "[" * 3000, ["too many brackets"]),
        ("local.epochs=9223372036854775807", ["local.epochs", "2147483647"]),
        ("local.epochs=2000000", ["epochs must be an integer from 1 to 1,000,000"]),
        ("data.classes_per_client=100000000000000000000", ["classes_per_client"]),
        ("run.cohort=1e20", ["run.cohort"]),
    ],
)
def test_numbers_and_brackets_without_end(override: str, words: list[str], tmp_path: Path) -> None:
    result = fedkin("run", override, "--out", tmp_path / "run")
    refused(result, *words)
    assert len(result.stderr) < 500
    assert not list(tmp_path.iterdir())


def test_a_model_that_does_not_fit_is_refused_before_it_is_made(tmp_path: Path) -> None:
    result = fedkin("run", "model.name=mlp", "model.hidden=1000000000", "--out", tmp_path / "run")
    refused(result, "GB of memory", "for models", "use a smaller model")
    assert not list(tmp_path.iterdir())


def test_a_file_of_brackets(tmp_path: Path) -> None:
    file = tmp_path / "deep.toml"
    file.write_text("x = " + "[" * 3000)
    refused(fedkin("run", file), "deep.toml", "too many brackets")


def test_brackets_in_a_folders_name_are_no_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = fedkin("run", *QUICK, "--out", "[red]a[/nope]")
    assert result.exit_code == 0, result.output
    assert "run: [red]a[/nope]" in result.stdout


# --- one line with the place, the reason and a right example


RUN = '[data]\nname = "digits"\n[run]\n{key} = 1\n'


def test_a_misspelt_key_of_a_run_and_of_a_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(RUN.format(key="rouns"))
    words = ["run.toml: run.rouns: ", "did you mean 'rounds'?", "For example rounds = 50"]
    refused(fedkin("run", "run.toml"), *words)
    refused(fedkin("compare", "run.toml"), *words)
    Path("compare.toml").write_text(RUN.format(key="rounds") + "[compare]\nmetods = ['ifca']\n")
    words = ["compare.toml: compare.metods: ", "did you mean 'methods'?", "For example methods = ["]
    refused(fedkin("compare", "compare.toml"), *words)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_misspelt_key_of_a_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert fedkin("peer", "init", "ring", "--peers", "2").exit_code == 0
    file = Path("ring/peer-0/peer.toml")
    text = file.read_text()
    assert "\nlisten" in text
    file.write_text(text.replace("\nlisten", "\nlisen"))
    refused(
        fedkin("peer", "--config", file),
        f"{file}: network.lisen: ",
        "did you mean 'listen'?",
        "For example listen = [",
    )


@pytest.mark.parametrize(
    ("value", "reason", "example"),
    [
        ("log(0.3,0.01)", "first bound must be below the second", "log(0.01, 0.3)"),
        ("log(0,1)", "must be above 0", "log(0.001, 1)"),
        ("range(5,1)", "unknown distribution 'range'", "for example log(0.01, 0.3)"),
        ("", "expected section.key=value,value", "for example --grid local.lr=0.01,0.1"),
    ],
)
def test_a_range_that_is_none(value: str, reason: str, example: str, tmp_path: Path) -> None:
    grid = ["--grid", f"local.lr={value}", "--trials", "3"]
    result = fedkin("compare", *QUICK, *grid, "--out", tmp_path / "c")
    refused(result, "local.lr", reason, example)
    assert not list(tmp_path.iterdir())


TABLE = "age,weight,outcome\n50,70,ill\n51,inf,well\n52,72,ill\n53,73,well\n"
OWN = ["data.path=t.csv", "data.label=outcome", "data.partition=iid", "data.clients=2"]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("data.seed=1", ["t.csv", "column weight, row 1 holds infinity", "correct it"]),
        (
            "data.rename={age='weight'}",
            ["t.csv: rename", "a column 'weight' already", 'rename = {age = "weight_2"}'],
        ),
        ("data.rename={aeg='years'}", ["t.csv: rename", "did you mean 'age'?"]),
    ],
)
def test_a_table_that_cannot_be_used(
    setting: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(TABLE)
    refused(fedkin("run", *OWN, setting, "--out", "run"), *words)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


NUMBERS = "hospital,age,days,years\n" + "".join(
    f"h{row % 2},{50 + row},{row % 5},1.0\n" for row in range(20)
)
COUNTS = ["data.path=n.csv", "data.client=hospital", "data.label=days"]


@pytest.mark.parametrize(
    ("settings", "change", "words"),
    [
        (
            ["data.task=regression"],
            ("h1,51,1,", "h1,51,long,"),
            ["'days'", "row 1", "h1", "'long'"],
        ),
        (
            ["data.task=count"],
            ("h1,51,1,", "h1,51,-1,"),
            ["'days'", "row 1", "client h1", "0 or more"],
        ),
        (
            ["data.task=count", "data.exposure=years"],
            ("h1,51,1,1.0", "h1,51,1,0"),
            ["column 'years'", "row 1", "client h1", "must be above 0"],
        ),
        (
            ["data.task=regression", "data.label=years"],
            ("", ""),
            ["'years'", "all training labels are 1"],
        ),
        (["data.quantiles=0.9,0.1"], ("", ""), ["quantiles", "ascending order", "[0.1, 0.5, 0.9]"]),
        (
            ["data.task=regresion"],
            ("", ""),
            ["data.task: unknown task", "did you mean 'regression'"],
        ),
        (["data.loss=huber", "data.loss_options={delt=2.0}"], ("", ""), ["delt", "delta"]),
        (
            ["data.task=count", "data.categories=agee"],
            ("", ""),
            ["categories", "did you mean 'age'"],
        ),
    ],
)
def test_numbers_that_cannot_be(
    settings: list[str],
    change: tuple[str, str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("n.csv").write_text(NUMBERS.replace(*change, 1) if change[0] else NUMBERS)
    refused(fedkin("run", *COUNTS, *settings, "--out", "run"), *words)
    assert [path.name for path in tmp_path.iterdir()] == ["n.csv"]


def test_a_scale_of_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x = np.zeros((8, 4, 4, 1), np.float32)
    np.savez("images.npz", x=x, y=np.arange(8) % 2, client_id=np.arange(8) // 4)
    own = ["data.path=images.npz", "data.scale=standard", "--out", "run"]
    refused(
        fedkin("run", *own),
        "images.npz: scale = 'standard' applies to the columns of a table",
        "which may hold images",
        "x = (x - x.mean(axis=0)) / x.std(axis=0)",
    )
    digits = fedkin("run", "data.name=digits", "data.scale=standard", "--out", "run")
    refused(digits, "data.scale: applies to the columns of a file", 'data.path = "patients.csv"')


def test_a_split_of_several_columns_is_refused(tmp_path: Path) -> None:
    split = np.zeros(8, [("a", "i4"), ("b", "f4")])
    np.savez(
        tmp_path / "odd.npz",
        split=split,
        x=np.zeros((8, 2), np.float32),
        y=np.arange(8) % 2,
        client_id=np.arange(8) // 4,
    )
    refused(
        fedkin(
            "run",
            *QUICK,
            "data.name=file",
            f"data.path={tmp_path / 'odd.npz'}",
            "data.clients=default",
        ),
        "split",
    )


def test_boolean_labels_are_two_classes(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "yes.npz",
        x=np.eye(8, dtype=np.float32),
        y=np.arange(8) % 2 == 0,
        client_id=np.arange(8) // 4,
    )
    result = fedkin(
        "run",
        *QUICK,
        "data.name=file",
        f"data.path={tmp_path / 'yes.npz'}",
        "data.clients=default",
        "method.name=fedavg",
        "--out",
        tmp_path / "run",
    )
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("command", [["data", "list"], ["run", *QUICK]])
def test_an_output_that_takes_no_more_is_one_line(command: list[str], tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fedkin.cli", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert "error: standard output cannot be written" in done.stderr


_KEYS = st.sampled_from(
    ["data", "model", "method", "local", "run", "scenario", "shift", "server_optimizer", "nonsense"]
)
_NAMES = st.sampled_from(
    "name clients classes alpha hidden lr epochs batch_size steps clusters rounds cohort seed "
    "seeds against target evaluate_every dropout stragglers momentum schedule class_weights until "
    "patience path label features".split()
)
_VALUES = st.one_of(
    st.text(max_size=20),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(
        [
            "true",
            "[]",
            "{}",
            "[1, 2]",
            '["a"]',
            "{a = 1}",
            "1979-05-27",
            "nan",
            "-inf",
            "'",
            '"',
            "\\",
            "1e400",
        ]
    ),
    st.recursive(st.just("1"), lambda inner: inner.map(lambda text: f"[{text}]"), max_leaves=30),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(_KEYS, _NAMES, _VALUES), min_size=1, max_size=4))
def test_any_text_is_read_or_refused(overrides: list[tuple[str, str, str]]) -> None:
    try:
        load(None, [f"{section}.{key}={value}" for section, key, value in overrides])
    except FedkinError as error:
        assert str(error) and len(str(error)) < 2000
