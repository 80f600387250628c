"""``fedkin place`` for tables without labels: methods that need none, and the refusal of others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedkin.cli import app
from tests.models.tiny_bert import write_bert
from tests.refusals import refused

COMMON = ["local.lr=0.1", "run.rounds=1", "run.against=[]", "method.clusters=2"]


def fedkin(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def hospitals(names: list[str]) -> pd.DataFrame:
    """Twenty patients of each hospital; those in the south are older."""
    rng = np.random.default_rng(len(names))
    tables = []
    for name in names:
        table = pd.DataFrame(rng.normal(size=(20, 2)), columns=["age", "dose"])
        table["age"] += 5 if name.startswith("south") else 0
        outcome = np.where(table["dose"] > 0, "ill", "well")
        tables.append(table.assign(outcome=outcome, hospital=name))
    return pd.concat(tables)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of FedRouter and one of IFCA on six hospitals, and a table of two new
    ones."""
    folder = tmp_path_factory.mktemp("place")
    known = [f"{side}-{number}" for number in range(3) for side in ("north", "south")]
    hospitals(known).to_csv(folder / "train.csv", index=False)
    hospitals(["north-9", "south-9"]).drop(columns="outcome").to_csv(
        folder / "new.csv", index=False
    )
    settings = [
        f"data.path={folder / 'train.csv'}",
        "data.label=outcome",
        "data.client=hospital",
        "data.scale=standard",
        "run.cohort=6",
        *COMMON,
    ]
    for method in ("fedrouter", "ifca"):
        out = folder / method
        result = fedkin("run", *settings, f"method.name={method}", "--out", out)
        assert result.exit_code == 0, result.output
    return folder


def placed(*arguments: str | Path) -> dict[str, dict]:
    result = fedkin("place", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return {row["client"]: row for row in json.loads(result.stdout)}


def test_features_are_enough_for_fedrouter(folder: Path) -> None:
    clients = pd.read_parquet(folder / "fedrouter" / "clients.parquet")
    cluster = dict(zip(clients["name"], clients["cluster"].tolist(), strict=True))
    assert cluster["north-0"] != cluster["south-0"]
    rows = placed(folder / "fedrouter", folder / "new.csv")
    assert rows["north-9"]["cluster"] == cluster["north-0"]
    assert rows["south-9"]["cluster"] == cluster["south-0"]
    assert rows["north-9"]["samples"] == 20
    assert rows["north-9"]["decided"] == "by embeddings of samples"
    # The same clients with labels, and with another name of the column of clients.
    labelled = hospitals(["north-9", "south-9"])
    labelled.to_csv(folder / "labelled.csv", index=False)
    assert placed(folder / "fedrouter", folder / "labelled.csv") == rows
    renamed = labelled.drop(columns="outcome").rename(columns={"hospital": "site"})
    renamed.to_csv(folder / "sites.csv", index=False)
    assert placed(folder / "fedrouter", folder / "sites.csv", "client=site") == rows
    # Without a column of clients, all rows are one client.
    single = placed(folder / "fedrouter", folder / "sites.csv")
    assert list(single) == ["sites"] and single["sites"]["samples"] == 40


def test_other_methods_need_labels(folder: Path) -> None:
    refused(
        fedkin("place", folder / "ifca", folder / "new.csv"),
        "new.csv: has no column 'outcome', and ifca needs labels to place a client",
        "label=COLUMN (methods that need none: flux, feroma, fedrouter)",
    )


def test_bad_tables(folder: Path) -> None:
    run = folder / "fedrouter"
    new = folder / "new.csv"
    refused(fedkin("place", run, new, "client=hospitl"), "did you mean 'hospital'?")
    refused(fedkin("place", run, new, "label=result"), "unknown column 'result'")
    refused(fedkin("place", run, new, "lable=outcome"), "did you mean 'label'?")
    pd.read_csv(new).drop(columns="dose").to_csv(folder / "short.csv", index=False)
    refused(fedkin("place", run, folder / "short.csv"), "dose")


def test_texts_without_labels(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("tokenizers", reason="texts need pip install 'fedkin[text]'")
    write_bert(tmp_path / "tiny")
    topics = ("the red cat sat", "blue dog e f")
    rng = np.random.default_rng(0)
    rows = [
        {"desk": f"d{desk}", "queue": number % 2, "text": " ".join(words)}
        for desk in range(4)
        for number in range(8)
        for words in [rng.permutation(topics[desk % 2].split())]
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "train.csv", index=False)
    settings = [
        "data.name=texts",
        f"data.path={tmp_path / 'train.csv'}",
        *("data.text=text", "data.label=queue", "data.client=desk", "data.length=8"),
        f"data.tokenizer={tmp_path / 'tiny'}",
        *("model.name=lora", f"model.backbone={tmp_path / 'tiny'}", "model.rank=2"),
        *("method.name=fedrouter", "run.cohort=4"),
        *COMMON,
    ]
    run = tmp_path / "run"
    result = fedkin("run", *settings, "--out", run)
    assert result.exit_code == 0, result.output
    assert not caplog.messages
    cut = fedkin("run", *settings, "data.length=5", "--out", tmp_path / "cut")
    assert cut.exit_code == 0, cut.output
    (message,) = caplog.messages
    assert message.startswith(f"{tmp_path / 'train.csv'}: 32 of 32 texts are cut to 5 tokens: ")
    new = [{"desk": f"new {topic}", "text": topics[topic]} for topic in range(2)]
    pd.DataFrame(new).to_csv(tmp_path / "new.csv", index=False)
    found = placed(run, tmp_path / "new.csv")
    known = placed(run, tmp_path / "train.csv")
    assert known["d0"]["decided"] == "a client of the run"
    assert found["new 0"]["cluster"] == known["d0"]["cluster"]
    assert found["new 1"]["cluster"] == known["d1"]["cluster"]
    assert found["new 0"]["cluster"] != found["new 1"]["cluster"]
    pd.DataFrame(new).drop(columns="text").to_csv(tmp_path / "empty.csv", index=False)
    refused(fedkin("place", run, tmp_path / "empty.csv"), "unknown column 'text'")
