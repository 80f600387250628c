"""``fedkin export`` and ``fedkin predict``: their files, and refusals."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

import fedkin as fk
from fedkin import export
from fedkin.cli import app
from fedkin.server.deploy.node_disk import NodeDisk
from tests.refusals import refused


def fedkin(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of four hospitals, and a run on it."""
    folder = tmp_path_factory.mktemp("patients")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(120, 3)).round(3), columns=["age", "pressure", "pulse"])
    table["hospital"] = np.repeat(["north", "south", "east", "west"], 30)
    table["outcome"] = np.where(
        (table["age"] > 0) ^ table["hospital"].isin(["east", "west"]), "ill", "well"
    )
    table.to_csv(folder / "patients.csv", index=False)
    result = fedkin(
        "run",
        "data.name=file",
        f"data.path={folder / 'patients.csv'}",
        "data.label=outcome",
        "data.client=hospital",
        "method.name=ifca",
        "method.clusters=2",
        "run.rounds=3",
        "run.cohort=4",
        "local.lr=0.5",
        "local.epochs=5",
        "--out",
        folder / "run",
    )
    assert result.exit_code == 0, result.output
    assert fedkin("export", folder / "run", "--out", folder / "export").exit_code == 0
    return folder


def test_predictions_are_those_of_the_run(patients: Path, tmp_path: Path) -> None:
    """Each row by its own hospital's model, or all rows by one hospital's model."""
    run = fk.Run.load(patients / "run")
    table = pd.read_csv(patients / "patients.csv")
    x = table[["age", "pressure", "pulse"]].to_numpy(np.float32)
    result = fedkin(
        "predict", patients / "export", patients / "patients.csv", "--out", tmp_path / "p.csv"
    )
    assert result.exit_code == 0, result.output
    found = pd.read_csv(tmp_path / "p.csv")
    for hospital in ("north", "east"):
        own = (table["hospital"] == hospital).to_numpy()
        assert found["prediction"][own].tolist() == run.predict(x[own], client=hospital).tolist()
    share = float(np.mean(found["prediction"].to_numpy() == table["outcome"].to_numpy()))
    assert (
        f"accuracy on the labels of {patients / 'patients.csv'}: {share:.3f}" in result.stderr
        and share > 0.8
    )
    printed = fedkin("predict", patients / "export", patients / "patients.csv", "--client", "west")
    west = pd.read_csv(StringIO(printed.stdout))
    expected = run.predict(x, client="west", proba=True)
    np.testing.assert_allclose(west[["probability_ill", "probability_well"]], expected, atol=1e-6)
    cluster = str(run.assignment[run.trained.client_number("west")])
    assert (
        fedkin(
            "predict", patients / "export", patients / "patients.csv", "--cluster", cluster
        ).stdout
        == printed.stdout
    )
    assert (
        fedkin(
            "predict",
            patients / "export",
            patients / "patients.csv",
            "--model",
            f"cluster-{cluster}",
        ).stdout
        == printed.stdout
    )


def test_a_run_from_python_remembers_the_columns_of_its_frame(
    patients: Path, tmp_path: Path
) -> None:
    data = fk.data.from_pandas(
        pd.read_csv(patients / "patients.csv"), label="outcome", client="hospital"
    )
    fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=4).export(tmp_path / "e")
    assert export.load(tmp_path / "e").card["columns"] == {
        "label": "outcome",
        "client": "hospital",
        "labels": "names",
    }
    result = fedkin("predict", tmp_path / "e", patients / "patients.csv")
    assert result.exit_code == 0 and "accuracy on the labels" in result.stderr, result.output


def test_names_of_clients_are_taken_as_they_are_written(tmp_path: Path) -> None:
    """A client 01 and a client 1: in the data, in a table that is predicted, on the command line,
    and in Python."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=80).round(3)
    owner = np.repeat(["01", "1"], 40)
    table = pd.DataFrame(
        {"x0": x, "y": np.where((x > 0) ^ (owner == "1"), 1, 0), "client_id": owner}
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    data = fk.data.load(tmp_path / "t.csv")
    assert data.client_names == ("01", "1")
    local = fk.SGD(epochs=5, batch_size=5, lr=1.0)
    run = fk.simulate(
        fk.FedPer(), data, fk.models.mlp(data, hidden=8), rounds=5, cohort=2, local=local
    )
    run.export(tmp_path / "e")
    rows = table["x0"].to_numpy(np.float32)[:, None]
    for name in ("01", "1"):
        printed = fedkin("predict", tmp_path / "e", tmp_path / "t.csv", "--client", name)
        assert (
            pd.read_csv(StringIO(printed.stdout))["prediction"].tolist()
            == run.predict(rows, client=name).tolist()
        )
    assert (
        run.predict(rows, client=1) == export.load(tmp_path / "e").model(client=1).predict(rows)
    ).all()
    result = fedkin("predict", tmp_path / "e", tmp_path / "t.csv")
    share = float(result.stderr.split()[-1])
    # Each by its own model.
    assert share > 0.8 > (run.predict(rows, client="01") == table["y"]).mean()
    refused(
        fedkin("predict", tmp_path / "e", tmp_path / "t.csv", "--client", "001"),
        "unknown client '001'",
    )


def test_columns_are_taken_by_name_and_labels_may_be_absent(patients: Path, tmp_path: Path) -> None:
    table = pd.read_csv(patients / "patients.csv")
    table[["pulse", "age", "pressure"]].head(5).to_csv(tmp_path / "new.csv", index=False)
    table.head(5).to_csv(tmp_path / "head.csv", index=False)
    one, two = (
        fedkin("predict", patients / "export", tmp_path / name, "--client", "north")
        for name in ("new.csv", "head.csv")
    )
    assert one.exit_code == 0 and one.stdout == two.stdout and "accuracy" not in one.stderr
    np.savez(tmp_path / "x.npz", x=table[["age", "pressure", "pulse"]].to_numpy()[:5])
    assert (
        fedkin("predict", patients / "export", tmp_path / "x.npz", "--client", "north").stdout
        == one.stdout
    )


def test_wrong_tables_and_clients_are_one_line(patients: Path, tmp_path: Path) -> None:
    table = pd.read_csv(patients / "patients.csv")
    export = patients / "export"

    def predict(frame: pd.DataFrame, *options: str) -> Result:
        frame.to_csv(tmp_path / "t.csv", index=False)
        return fedkin("predict", export, tmp_path / "t.csv", *options)

    refused(
        predict(table.rename(columns={"pulse": "puls"})),
        "unknown column 'pulse'; did you mean 'puls'",
        "t.csv",
    )
    refused(predict(table.assign(pulse="x")), "expected numbers in column 'pulse'")
    refused(
        predict(table.assign(pulse=np.nan)), "column 'pulse', row 0 (rows count from 0) holds NaN"
    )
    refused(
        predict(table.assign(outcome="wel")),
        "unknown label 'wel'; did you mean 'well'",
        "trained without this label",
    )
    refused(
        predict(table.assign(hospital="nort")),
        "unknown client 'nort'; did you mean 'north'",
        "find its cluster with fedkin place RUN TABLE",
        ".place(x, y)",
    )
    refused(
        predict(table.drop(columns="hospital")),
        "no column 'hospital'",
        "--client NAME or --cluster K",
    )
    refused(predict(table, "--client", "nort"), "unknown client 'nort'; did you mean 'north'")
    refused(
        predict(table, "--cluster", "7"), "no model of cluster 7; it has the models of cluster 0, 1"
    )
    refused(fedkin("predict", export, tmp_path / "absent.csv"), "absent.csv", "no such file")
    refused(
        fedkin("predict", tmp_path, patients / "patients.csv"),
        "holds no export",
        "fedkin export RUN",
    )


def test_a_table_of_another_width_is_refused(run_folder: Path, tmp_path: Path) -> None:
    """Columns without known names are counted."""
    assert fedkin("export", run_folder, "--out", tmp_path / "e").exit_code == 0
    pd.DataFrame(np.zeros((2, 63))).to_csv(tmp_path / "t.csv", index=False)
    refused(
        fedkin("predict", tmp_path / "e", tmp_path / "t.csv", "--cluster", "0"),
        "needs 64 features",
        "has 63",
    )
    pd.DataFrame(np.zeros((2, 64))).to_csv(tmp_path / "t.csv", index=False)
    assert fedkin("predict", tmp_path / "e", tmp_path / "t.csv", "--cluster", "0").exit_code == 0


def test_an_unfinished_run_is_refused_or_its_last_checkpoint_taken(
    run_folder: Path, tmp_path: Path
) -> None:
    whole = fedkin("export", run_folder, "--out", tmp_path / "whole")
    assert (
        whole.exit_code == 0
        and "cluster-0: " in whole.stdout
        and "test accuracy 0." in whole.stdout
    )
    (run_folder / "summary.json").unlink()
    refused(
        fedkin("export", run_folder, "--out", tmp_path / "e"),
        "not finished",
        "--resume",
        "--checkpoint",
    )
    assert fedkin("export", run_folder, "--out", tmp_path / "e", "--checkpoint").exit_code == 0
    one, two = (fk_export(tmp_path / name) for name in ("whole", "e"))
    assert two.card["finished"] is False and two.card["rounds"] == one.card["rounds"]
    assert one.card["finished"] is True
    assert [entry["sha256"] for entry in one.card["models"]] == [
        entry["sha256"] for entry in two.card["models"]
    ]


def test_the_last_checkpoint_of_a_finished_run_is_of_a_finished_run(
    run_folder: Path, tmp_path: Path
) -> None:
    told = fedkin("export", run_folder, "--out", tmp_path / "e", "--checkpoint")
    assert told.exit_code == 0, told.output
    card = json.loads((tmp_path / "e/card.json").read_text())
    assert card["finished"] is True
    assert "not finished" not in (tmp_path / "e/cards/cluster-0/README.md").read_text()


def fk_export(folder: Path) -> export.Export:
    return export.load(folder)


def test_other_refusals_are_one_line(run_folder: Path, tmp_path: Path) -> None:
    refused(
        fedkin("export", run_folder, "--format", "onx", "--out", tmp_path / "e"),
        "unknown format 'onx'",
        "onnx",
    )
    refused(fedkin("export", tmp_path / "absent", "--out", tmp_path / "e"), "holds no run")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    refused(fedkin("export", run_folder, "--out", tmp_path / "full"), "is not empty")
    refused(fedkin("export", run_folder), "--out")


SITE = """
[client]
name = "north"
[samples]
shape = [3]
classes = 2
[model]
name = "mclr"
[data]
name = "file"
path = "mine.csv"
label = "outcome"
label_names = ["ill", "well"]
"""


def test_a_site_exports_the_model_in_its_state_folder(tmp_path: Path) -> None:
    """The newest run's models, in the layout in which a node stores them."""
    (tmp_path / "client.toml").write_text(SITE)
    refused(
        fedkin("export", tmp_path / "client.toml", "--out", tmp_path / "e"),
        "holds no model of north",
        "export RUN",
    )
    rng = np.random.default_rng(0)
    cluster, personal = rng.normal(size=(2, 8)).astype(np.float32)
    disk = NodeDisk(tmp_path / "state")
    disk.save_models("trial-ifca-1", {"cluster": cluster})
    disk.save_models("trial-ifca-1", {"personal": personal})
    assert fedkin("export", tmp_path / "client.toml", "--out", tmp_path / "e").exit_code == 0
    exported = fk_export(tmp_path / "e")
    x = rng.normal(size=(4, 3)).astype(np.float32)
    for name, vector in (("cluster", cluster), ("personal", personal)):
        expected = x @ vector[:6].reshape(2, 3).T + vector[6:]
        np.testing.assert_allclose(exported.model(name)(x), expected, atol=1e-5)
    assert set(exported.model(client="north").predict(x)) <= {"ill", "well"}
    pd.DataFrame(x, columns=["a", "b", "c"]).assign(outcome="ill").to_csv(
        tmp_path / "new.csv", index=False
    )
    result = fedkin("predict", tmp_path / "e", tmp_path / "new.csv", "--model", "personal")
    assert result.exit_code == 0 and result.stdout.startswith(
        "prediction,probability_ill,probability_well\n"
    )
    disk.save_models("trial-ifca-1", {"cluster": cluster[:4]})
    refused(
        fedkin("export", tmp_path / "client.toml", "--out", tmp_path / "f"),
        "4 parameters, but [model] has 8",
    )


@pytest.mark.parametrize("named", [True, False])
def test_a_sites_export_takes_columns_in_the_order_of_training(named: bool, tmp_path: Path) -> None:
    """As [data] has them, or as the site's own table, which another table may have otherwise."""
    x = np.random.default_rng(0).normal(size=(20, 3)).round(3)
    # Only the first column decides: one model is wrong for all others.
    labels = np.where(x[:, 0] > 0, "well", "ill")
    table = pd.DataFrame(x, columns=["c", "a", "b"]).assign(client_id="n", outcome=labels)
    other = table[["a", "b", "c", "client_id", "outcome"]]
    (other if named else table).to_csv(tmp_path / "mine.csv", index=False)
    other.to_csv(tmp_path / "new.csv", index=False)
    (tmp_path / "client.toml").write_text(SITE + ('features = ["c", "a", "b"]' if named else ""))
    vector = np.array([-9, 0, 0, 9, 0, 0, 0, 0], np.float32)
    NodeDisk(tmp_path / "state").save_models("trial-ifca-1", {"cluster": vector})
    assert fedkin("export", tmp_path / "client.toml", "--out", tmp_path / "e").exit_code == 0
    assert export.load(tmp_path / "e").card["input"]["features"] == ["c", "a", "b"]
    result = fedkin("predict", tmp_path / "e", tmp_path / "new.csv")
    assert "1.000" in result.stderr, result.output
