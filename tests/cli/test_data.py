"""``fedkin data`` and ``fedkin run`` on a file of the user's own."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedkin.cli import app
from fedkin.data.catalogue import FoundEntry
from fedkin.run.run import Run
from tests.refusals import refused


@pytest.fixture(autouse=True)
def patients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """patients.csv in the current folder: 90 samples of three hospitals, labels in words."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(90, 2))
    table = pd.DataFrame(x, columns=["age", "weight"]).assign(
        outcome=np.where(x[:, 0] > 0, "well", "ill")
    )
    table.assign(hospital=np.repeat(["north", "east", "west"], 30)).to_csv(
        "patients.csv", index=False
    )
    return tmp_path / "patients.csv"


def fedkin(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


QUICK = [
    "data.path=patients.csv",
    "data.label=outcome",
    "run.rounds=1",
    "run.cohort=3",
    "run.against=[]",
]
COLUMNS = ["label=outcome", "client=hospital"]


def test_a_run_on_columns_by_name() -> None:
    result = fedkin("run", *QUICK, "data.client=hospital", "method.name=fedavg", "--out", "mine")
    assert result.exit_code == 0, result.output
    run = Run.load("mine")
    assert run.config.data["label_names"] == ["ill", "well"] and len(run.assignment) == 3
    again = fedkin("run", "--resume", "mine", "run.rounds=2")
    assert again.exit_code == 0, again.output
    assert len(Run.load("mine").records) == 3


def test_a_comparison_of_text_labels_is_finished_once(tmp_path: Path) -> None:
    """The names of classes in a cell's folder do not make it another run."""
    assert (
        fedkin(
            "compare",
            *QUICK[:-1],
            "data.client=hospital",
            "--methods",
            "fedavg,local",
            "--seeds",
            "1",
            "--out",
            "grid",
        ).exit_code
        == 0
    )
    result = fedkin("compare", "--resume", "grid", "--seeds", "1")
    assert result.exit_code == 0, result.output


def test_any_partition_of_a_file() -> None:
    result = fedkin(
        "run",
        *QUICK,
        "data.features=['age', 'weight']",
        "data.partition=dirichlet",
        "data.alpha=0.5",
        "data.clients=4",
        "method.name=fedavg",
        "--out",
        "mine",
    )
    assert result.exit_code == 0, result.output
    assert len(Run.load("mine").assignment) == 4


def test_a_column_that_is_not_there_suggests_the_nearest() -> None:
    refused(
        fedkin("run", *QUICK, "data.client=hospitl"),
        "data: patients.csv",
        "'hospitl'",
        "did you mean 'hospital'",
    )
    refused(fedkin("run", *QUICK), "unknown column 'client_id'", "client=", "partition=")
    refused(
        fedkin("run", *QUICK, "data.clinet=hospital"),
        "data.clinet: unknown key",
        "did you mean 'client'",
    )
    refused(fedkin("data", "describe", "patients.csv", "label=outcom"), "did you mean 'outcome'")


def test_a_file_is_described_by_its_path(tmp_path: Path) -> None:
    result = fedkin("data", "describe", "patients.csv", *COLUMNS)
    assert result.exit_code == 0, result.output
    assert "ill, well" in result.stdout and (tmp_path / "data-patients.png").exists()
    assert "columns of the training samples before scaling; scale: standard" in result.stdout
    unscaled = fedkin("data", "describe", "patients.csv", *COLUMNS, "scale=none", "drop=age")
    assert "scale: none" in unscaled.stdout and "age" not in unscaled.stdout
    Path("study.toml").write_text(
        '[data]\nname = "file"\npath = "patients.csv"\nlabel = "outcome"\n'
    )
    by_study = fedkin("data", "describe", "study.toml", "client=hospital")
    assert (
        by_study.exit_code == 0
        and by_study.stdout.splitlines()[:8] == result.stdout.splitlines()[:8]
    )
    result = fedkin("data", "describe", "file", "path=patients.csv", *COLUMNS)
    assert result.exit_code == 0, result.output


def test_paths_of_data_sets_are_broken_at_slashes_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    deep = "/home/someone/projects/federated-learning/data sets/MNIST"
    entries = [
        FoundEntry(
            name="mnist",
            where=deep,
            clients=10,
            samples="70,000",
            about="handwritten digits of so many people that it wraps",
        )
    ]
    monkeypatch.setattr("fedkin.data.catalogue.found_entries", lambda: entries)
    result = fedkin("data", "list")
    assert result.exit_code == 0, result.output
    words = " ".join(line[6:35] for line in result.stdout.splitlines()).split()
    assert max(map(len, result.stdout.splitlines()[:-1])) <= 80
    assert {"/home/someone/projects/", "federated-learning/data", "sets/MNIST"} <= set(words), (
        result.stdout
    )


@pytest.mark.parametrize("given", ["clients=5", "data.clients=5"])
def test_options_next_to_a_file_work_as_in_fedkin_run(given: str) -> None:
    Path("study.toml").write_text('[data]\nname = "digits"\nclients = 9\nclasses_per_client = 2\n')
    for named in (["study.toml"], ["digits", "data.classes_per_client=2"]):
        result = fedkin("data", "describe", *named, given, "--out", "figure.png")
        assert result.exit_code == 0, result.output
        assert re.search(r"clients +5 +5", result.stdout)
    whole = fedkin("data", "describe", "study.toml", "data.clients=default", "--out", "figure.png")
    assert re.search(r"clients +60 +60", whole.stdout)
    refused(fedkin("data", "describe", "study.toml", "data.clint=5"), "did you mean 'clients'")
    refused(fedkin("data", "describe", "study.toml", "run.rounds=5"), "run.rounds")


def test_the_columns_of_two_sites_are_joined_by_sums(tmp_path: Path) -> None:
    table = pd.read_csv("patients.csv").drop(columns="hospital")
    table["job"] = ["nurse", "clerk", "nurse"] * 29 + ["nurse", "nurse", "astronaut"]
    table.loc[3:5, "age"] = np.nan
    table[:40].to_csv("a.csv", index=False)
    table[40:].to_csv("b.csv", index=False)
    for site in "ab":
        one = [f"{site}.csv", "label=outcome", "partition=iid", "clients=1", "train_fraction=1"]
        result = fedkin("data", "sums", *one, "--least", "5", "--out", f"{site}.json")
        assert result.exit_code == 0, result.output
        assert "nurse (" in result.output and "astronaut" not in result.output
        assert "training samples of 1 client" in result.output
        assert "say much about each" not in result.output
    assert "astronaut" not in Path("b.json").read_text()
    joined = fedkin("data", "join", "a.json", "b.json")
    assert joined.exit_code == 0, joined.output
    assert "age_missing" in joined.output and "job_infrequent" in joined.output
    described = fedkin("data", "describe", "a.csv", *one[1:4], "scale_from=columns.json")
    assert described.exit_code == 0, described.output
    assert "job_nurse" in described.output
    # The same commands replace their own files, and no other ones.
    assert fedkin("data", "join", "a.json", "b.json").exit_code == 0
    refused(fedkin("data", "join", "a.json", "--out", "b.csv"), "b.csv")
    refused(fedkin("data", "join", "a.csv"), "expected the sums of a table")
    narrow = fedkin("data", "sums", *one, "drop=age", "--out", "narrow.json")
    assert narrow.exit_code == 0, narrow.output
    refused(fedkin("data", "join", "a.json", "narrow.json"), "of a.json and narrow.json")
    refused(fedkin("data", "sums", "a.csv", "label=outcome", "--out", "a.csv"), "a.csv")
