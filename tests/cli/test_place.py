"""``fedkin place``: new clients of a table in the clusters of a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedkin.cli import app
from tests.refusals import refused


def hospitals(names: list[str], reversed_labels: list[bool], seed: int) -> pd.DataFrame:
    """Thirty patients of each hospital. In some hospitals the labels are reversed."""
    rng = np.random.default_rng(seed)
    tables = []
    for name, is_reversed in zip(names, reversed_labels, strict=True):
        table = pd.DataFrame(rng.normal(size=(30, 2)), columns=["age", "dose"])
        outcome = np.where((table["age"] > 0) ^ is_reversed, "ill", "well")
        tables.append(table.assign(outcome=outcome, hospital=name))
    return pd.concat(tables)


def fedkin(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of IFCA on eight hospitals, its export, and tables of new hospitals."""
    folder = tmp_path_factory.mktemp("place")
    known = [f"h{number}" for number in range(8)]
    hospitals(known, [False, True] * 4, 0).to_csv(folder / "train.csv", index=False)
    new = hospitals(["north", "south"], [False, True], 1)
    new.to_csv(folder / "new.csv", index=False)
    mixed = hospitals(["h1", "north"], [True, False], 2)
    mixed.to_csv(folder / "mixed.csv", index=False)
    new[new["hospital"] == "south"].drop(columns="hospital").to_csv(
        folder / "south.csv", index=False
    )
    settings = [
        f"data.path={folder / 'train.csv'}",
        "data.label=outcome",
        "data.client=hospital",
        "method.name=ifca",
        "method.clusters=2",
        "local.lr=0.1",
        "run.rounds=3",
        "run.cohort=8",
        "run.against=[]",
    ]
    assert fedkin("run", *settings, "--out", folder / "run").exit_code == 0
    assert fedkin("export", folder / "run", "--out", folder / "models").exit_code == 0
    return folder


def cluster_of(folder: Path, hospital: str) -> int:
    """The cluster of a hospital of the run."""
    clients = pd.read_parquet(folder / "run" / "clients.parquet")
    return dict(zip(clients["name"], clients["cluster"].tolist(), strict=True))[hospital]


def test_new_clients_join_the_cluster_of_their_kind(folder: Path) -> None:
    result = fedkin("place", folder / "run", folder / "new.csv", "--json")
    north, south = json.loads(result.stdout)
    assert [north["client"], south["client"]] == ["north", "south"]
    assert north["cluster"] == cluster_of(folder, "h0")
    assert south["cluster"] == cluster_of(folder, "h1")
    assert north["cluster"] != south["cluster"]
    assert north["samples"] == 30 and north["confidence"] == 1.0
    assert north["decided"] == "lowest loss of the clusters' models"


def test_the_table_says_how_and_names_the_file(folder: Path) -> None:
    out = folder / "placed.csv"
    result = fedkin(
        *("place", folder / "run", folder / "mixed.csv"),
        *("--models", folder / "models", "--out", out),
    )
    assert result.exit_code == 0
    for text in ("client", "samples", "cluster", "confidence", "decided by", "model file"):
        assert text in result.stdout
    assert ".safetensors" in result.stdout and f"model files: {folder / 'models'}" in result.stdout
    known, north = pd.read_csv(out).to_dict("records")
    # A client of the run keeps its cluster, and nothing is tried.
    assert known["client"] == "h1" and known["decided"] == "a client of the run"
    assert known["cluster"] == cluster_of(folder, "h1")
    assert np.isnan(known["confidence"])
    file = folder / "models" / f"cluster-{north['cluster']}.safetensors"
    assert north["model"] == str(file) and file.exists()


def test_a_table_without_clients_is_one_client(folder: Path) -> None:
    result = fedkin("place", folder / "run", folder / "south.csv")
    assert result.exit_code == 0 and "south" in result.stdout
    assert "model files: fedkin export" in result.stdout and "--models MODELS" in result.stdout


def test_bad_input(folder: Path) -> None:
    run = folder / "run"
    new = folder / "new.csv"
    refused(fedkin("place", folder / "none", new), "holds no run")
    refused(fedkin("place", run, folder / "none.csv"), "none.csv", "no such file")
    refused(
        fedkin("place", run, new, "lable=outcome"),
        "unknown option 'lable'; did you mean 'label'?",
        "fedkin place --help",
    )
    refused(fedkin("place", run, new, "--resamples", "0"), "resamples must be an integer")
    refused(fedkin("place", run, new, "--models", run), "holds no export", "fedkin export RUN")
    refused(fedkin("place", run, new, "--out", new), "new.csv")
    table = pd.read_csv(new)
    table.assign(outcome="unknown").to_csv(folder / "labels.csv", index=False)
    refused(fedkin("place", run, folder / "labels.csv"), "unknown")


def test_models_of_another_run_are_refused(folder: Path) -> None:
    card = json.loads((folder / "models" / "card.json").read_text())
    other = folder / "other"
    other.mkdir()
    (other / "card.json").write_text(json.dumps({**card, "run": "0" * 64}))
    refused(
        fedkin("place", folder / "run", folder / "new.csv", "--models", other),
        "is the export of another run",
        "fedkin export RUN --out MODELS",
    )


def test_columns_of_features_are_given_by_commas(folder: Path) -> None:
    new = pd.read_csv(folder / "new.csv").assign(room=7)
    new.to_csv(folder / "rooms.csv", index=False)
    done = fedkin("place", folder / "run", folder / "rooms.csv", "features=age,dose", "--json")
    assert done.exit_code == 0, done.output
    placed = json.loads(done.stdout)
    plain = json.loads(fedkin("place", folder / "run", folder / "new.csv", "--json").stdout)
    assert [one["cluster"] for one in placed] == [one["cluster"] for one in plain]


def test_a_renamed_column_of_clients_keeps_its_names(tmp_path: Path) -> None:
    """ "01" is a name, and no number 1."""
    table = hospitals(["01", "02"], [False, True], 0).rename(columns={"hospital": "site"})
    table.to_csv(tmp_path / "sites.csv", index=False)
    settings = [
        f"data.path={tmp_path / 'sites.csv'}",
        "data.label=outcome",
        "data.client=hospital",
        "data.rename={site='hospital'}",
        "method.name=fedavg",
        "run.rounds=1",
        "run.cohort=2",
        "run.against=[]",
    ]
    assert fedkin("run", *settings, "--out", tmp_path / "run").exit_code == 0
    assert fedkin("export", tmp_path / "run", "--out", tmp_path / "models").exit_code == 0
    done = fedkin("predict", tmp_path / "models", tmp_path / "sites.csv")
    assert done.exit_code == 0, done.output
