"""``fedkin run``, ``fedkin export`` and ``fedkin predict`` with adapters of a backbone."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

pytest.importorskip("tokenizers", reason="texts need pip install 'fedkin[text]'")

import fedkin as fk
from fedkin.cli import app
from tests.models.tiny_bert import write_bert
from tests.refusals import refused


def fedkin(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two backbones, a file of token numbers and a run."""
    folder = tmp_path_factory.mktemp("adapters")
    backbone = fk.models.from_transformers(write_bert(folder / "tiny"))
    write_bert(folder / "other", seed=1)
    tokens = backbone.tokens(["the red cat sat", "blue dog", "a b c d", "e f g h"] * 6, 6)
    labels = np.tile([0, 1, 1, 0], 6)
    np.savez(folder / "texts.npz", x=tokens, y=labels, client_id=np.repeat([0, 1, 2, 3], 6))
    result = fedkin(
        "run",
        f"data.path={folder / 'texts.npz'}",
        "data.integers=true",
        "data.train_fraction=0.7",
        f"model.backbone={folder / 'tiny'}",
        "model.rank=2",
        "model.targets=query,value",
        "method.name=ifca",
        "method.clusters=2",
        "run.against=[]",
        "run.rounds=1",
        "run.cohort=4",
        "--out",
        folder / "run",
    )
    assert result.exit_code == 0, result.output
    return folder


def test_predictions_are_those_of_the_run(place: Path, tmp_path: Path) -> None:
    result = fedkin("export", place / "run", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "DATA.csv --backbone FOLDER" in result.output
    predict = ("predict", tmp_path / "out", place / "texts.npz")
    refused(fedkin(*predict), "the adapters of the backbone 'tiny'", "but not its weights")
    other = fedkin(*predict, "--backbone", place / "other")
    refused(other, "the backbone 'other' has the digest")
    result = fedkin(*predict, "--backbone", place / "tiny")
    assert result.exit_code == 0, result.output
    found = pd.read_csv(StringIO(result.stdout))
    with np.load(place / "texts.npz") as file:
        arrays = dict(file)
    run = fk.Run.load(place / "run")
    for client in range(4):
        rows = arrays["client_id"] == client
        expected = run.predict(arrays["x"][rows], client=client, proba=True)
        np.testing.assert_allclose(found.loc[rows, "probability_1"], expected[:, 1], rtol=1e-6)


def test_the_copy_of_the_backbone_is_found(place: Path, tmp_path: Path) -> None:
    result = fedkin("export", place / "run", "--out", tmp_path / "out", "--with-backbone")
    assert result.exit_code == 0 and "--backbone" not in result.output
    assert fedkin("predict", tmp_path / "out", place / "texts.npz").exit_code == 0


@pytest.mark.parametrize("format", ["peft", "merged"])
def test_each_cluster_has_a_folder(format: str, place: Path, tmp_path: Path) -> None:
    result = fedkin("export", place / "run", "--format", format, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "use: the README.md" in result.output
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert [entry["name"] for entry in card["models"]] == [
        path.name for path in sorted((tmp_path / "out").iterdir()) if path.is_dir()
    ]
    for entry in card["models"]:
        assert (tmp_path / "out" / entry["file"]).is_file()
        assert (tmp_path / "out" / entry["name"] / "head.safetensors").is_file()
    read = fedkin("predict", tmp_path / "out", place / "texts.npz")
    refused(read, "export the run as 'safetensors'")


def test_other_formats_are_one_line(place: Path, tmp_path: Path) -> None:
    result = fedkin("export", place / "run", "--format", "onnx", "--out", tmp_path / "out")
    refused(result, "'peft' or 'merged'")
    result = fedkin("export", place / "run", "--format", "pept", "--out", tmp_path / "out")
    refused(result, "did you mean 'peft'")
