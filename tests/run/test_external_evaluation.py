"""Evaluation of a finished run on data that it has not seen: clients, features and labels are
matched by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app
from fedkin.config import run as configuration
from fedkin.run.simulate import execute
from tests.refusals import refused

COLUMNS = ["data.path=mine.csv", "data.label=outcome", "data.client=hospital"]


def drawn(seed: int, clients: tuple[str, str]) -> pd.DataFrame:
    """Two clients whose outcomes have opposite signs of the age."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.normal(size=60), "dose": 5 + rng.normal(size=60)})
    ill = (table["age"] > 0) ^ (np.arange(60) < 30)
    return table.assign(outcome=np.where(ill, "ill", "well"), hospital=np.repeat(clients, 30))


NEW = drawn(1, ("elm", "ash"))  # in another order than the run's


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("other")
    drawn(0, ("elm", "ash")).to_csv(place / "mine.csv", index=False)
    NEW.to_csv(place / "new.csv", index=False)
    changes = [
        "method.name=ifca",
        "method.clusters=2",
        "run.rounds=2",
        "run.cohort=2",
        "run.against=[]",
        "local.lr=0.3",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        execute(configuration.load(None, [*COLUMNS, *changes]), out=Path("run"))
    return place


def federated(table: pd.DataFrame) -> fk.data.FederatedData:
    return fk.data.from_pandas(table, label="outcome", client="hospital")


def test_every_sample_is_predicted_by_the_model_of_its_client(folder: Path) -> None:
    run = fk.Run.load(folder / "run")
    mixed: Any = NEW[["hospital", "outcome", "dose", "age"]]  # columns in another order
    found = run.evaluate(data=federated(mixed))
    assert found.split == "all" and found.summary["samples"] == 60
    for row in found.clients.to_dict("records"):
        own = NEW[NEW["hospital"] == row["name"]]
        expected = np.mean(run.predict(own, client=row["name"]) == own["outcome"])
        assert row["accuracy"] == pytest.approx(expected) and row["samples"] == 30
        assert row["cluster"] == run.model_for(row["name"]).cluster
    assert found.clients["name"].tolist() == ["ash", "elm"]
    by_one = run.evaluate(data=federated(NEW.assign(hospital="oak")), cluster=0)
    assert by_one.summary["accuracy"] == pytest.approx(
        np.mean(run.predict(NEW, cluster=0) == NEW["outcome"])
    )


def test_other_data_that_do_not_fit_are_refused(folder: Path) -> None:
    run = fk.Run.load(folder / "run")
    with pytest.raises(
        fk.ConfigError, match=r"unknown client 'oak'.*run\.place\(x, y\).*--cluster K"
    ):
        run.evaluate(data=federated(NEW.replace({"elm": "oak"})))
    with pytest.raises(fk.DataError, match="unknown column 'dose'; did you mean 'doze'"):
        run.evaluate(data=federated(NEW.rename(columns={"dose": "doze"})))
    with pytest.raises(fk.DataError, match="unknown label 'dead'"):
        run.evaluate(data=federated(NEW.replace({"ill": "dead"})))
    with pytest.raises(fk.ConfigError, match="leave them out with data="):
        run.evaluate(data=federated(NEW), fine_tune_epochs=1)
    with pytest.raises(fk.ConfigError, match="applies to external data only"):
        run.evaluate(cluster=1)


def test_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    drawn(2, ("elm", "ash")).to_csv("mine.csv", index=False)  # the own file may have changed
    done = CliRunner().invoke(app, ["evaluate", "run", "--data", "new.csv"])
    assert done.exit_code == 0, done.output
    assert pd.read_csv("run/evaluation-new-all.csv")["samples"].tolist() == [30, 30]
    NEW.rename(columns={"outcome": "what"}).drop(columns="hospital").to_csv(
        "pooled.csv", index=False
    )
    done = CliRunner().invoke(
        app, ["evaluate", "run", "label=what", "--data", "pooled.csv", "--cluster", "1"]
    )
    assert done.exit_code == 0, done.output
    assert pd.read_csv("run/evaluation-pooled-cluster-1-all.csv")["samples"].tolist() == [60]
    assert pd.read_csv("run/evaluation-new-all.csv")["samples"].tolist() == [30, 30]
    # The same once more.
    assert CliRunner().invoke(app, ["evaluate", "run", "--data", "new.csv"]).exit_code == 0
    Path("later").mkdir()
    NEW.iloc[::-1].to_csv("later/new.csv", index=False)
    later = ["evaluate", "run", "--data", "later/new.csv"]
    refused(
        CliRunner().invoke(app, later),
        "evaluation-new-all.json is an evaluation of other data",
        "--out",
    )
    assert CliRunner().invoke(app, [*later, "--out", "later"]).exit_code == 0
    refused(
        CliRunner().invoke(app, ["evaluate", "run", "label=what"]),
        "--data FILE label=what",
        "evaluate --help",
    )
    refused(
        CliRunner().invoke(app, ["evaluate", "run", "new.csv"]),
        "--data new.csv (see: fedkin evaluate --help)",
    )
