"""Runs whose model is adapters of a backbone in a folder: configuration, resumed runs, and models
of a stored run."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

pytest.importorskip("tokenizers", reason="texts need pip install 'fedkin[text]'")

import fedkin as fk
from fedkin.cli import app
from fedkin.config.reference import rows
from fedkin.config.run import RunConfig, from_dict
from fedkin.config.run import load as load_config
from fedkin.core.errors import CheckpointError, ConfigError, DataError, ModelError
from fedkin.export import load
from fedkin.export.predict_table import predict_file
from fedkin.run.export_folder import export_folder
from fedkin.run.run import Run
from fedkin.run.simulate import execute
from fedkin.run.trained.external_evaluation import load_other
from fedkin.run.trained.place_table import place_clients
from tests.models.tiny_bert import write_bert

CLIENTS = 4


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two backbones and a file of token numbers."""
    folder = tmp_path_factory.mktemp("adapters")
    write_bert(folder / "tiny")
    write_bert(folder / "other", seed=1)
    texts = ["the red cat sat", "blue dog", "a b c d", "e f g h"] * 6
    tokens = fk.models.from_transformers(folder / "tiny").tokens(texts, 6)
    owners = np.repeat(np.arange(CLIENTS), len(texts) // CLIENTS)
    np.savez(folder / "texts.npz", x=tokens, y=np.tile([0, 1, 1, 0], 6), client_id=owners)
    return folder


def config_of(place: Path, backbone: Path, rounds: int = 1, **model: Any) -> RunConfig:
    return from_dict(
        {
            "data": {
                "name": "file",
                "path": str(place / "texts.npz"),
                "integers": True,
                "train_fraction": 0.7,
            },
            "model": {"backbone": str(backbone), "rank": 2, **model},
            "method": {"name": "fedavg"},
            "run": {"rounds": rounds, "cohort": CLIENTS},
        }
    )


@pytest.fixture(scope="module")
def stored(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of one round. A test that changes it takes a copy."""
    out = tmp_path_factory.mktemp("runs") / "run"
    execute(config_of(place, place / "tiny"), out=out)
    return out


def test_a_configuration_names_the_folder(place: Path) -> None:
    config = config_of(place, place / "tiny", targets=["key"], layers=[1], train="B", seed=4)
    assert config.model.name == "lora"
    data = config.make_data()
    assert data.x.dtype == np.int32
    model = config.model.make(data)
    expected = fk.lora(
        data, place / "tiny", rank=2, targets=("key",), layers=(1,), train="B", seed=4
    )
    assert list(model.spec.slices) == ["layers.1.attention.key.lora_B", "head.weight", "head.bias"]
    assert model.spec.frozen == expected.spec.frozen


def test_the_keys_have_meanings() -> None:
    found = {row.key.name: row.key for row in rows("model", "lora")}
    assert set(found) == {
        "name",
        "backbone",
        "rank",
        "alpha",
        "targets",
        "layers",
        "train",
        "seed",
        "backbone_digest",
    }
    assert all(key.meaning and key.example is not None for key in found.values())
    assert found["backbone"].type == "text" and found["backbone"].default == "required"


def test_the_demonstration_gives_its_model_up_for_a_backbone(place: Path) -> None:
    config = load_config(overrides=[f"model.backbone={place / 'tiny'}"])
    assert config.model.name == "lora" and config.data.name == "digits"


def test_integers_are_for_arrays(place: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="takes token numbers"):
        fk.lora(fk.data.load(place / "texts.npz"), place / "tiny")
    (tmp_path / "table.csv").write_text("a,y,client_id\n1,0,0\n2,1,1\n")
    with pytest.raises(ConfigError, match="integers = true applies to arrays"):
        fk.data.load(tmp_path / "table.csv", integers=True)
    np.savez(tmp_path / "half.npz", x=np.full((2, 3), 0.5), y=[0, 1], client_id=[0, 1])
    with pytest.raises(DataError, match="integers"):
        fk.data.load(tmp_path / "half.npz", integers=True)


def test_a_run_names_its_backbone_and_resumes(place: Path, stored: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stored, tmp_path / "run"))
    digest = fk.models.from_transformers(place / "tiny").digest
    assert Run.load(folder).config.model["backbone_digest"] == digest
    # The same weights in another folder are the same backbone.
    moved = Path(shutil.copytree(place / "tiny", tmp_path / "moved"))
    resumed = execute(config_of(place, moved, rounds=2), out=folder, resume=True)
    whole = execute(config_of(place, place / "tiny", rounds=2), out=tmp_path / "whole")
    np.testing.assert_array_equal(resumed.models, whole.models)


def test_another_backbone_is_not_resumed(place: Path, stored: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stored, tmp_path / "run"))
    with pytest.raises(CheckpointError, match=r"another backbone: model\.backbone_digest is"):
        execute(config_of(place, place / "other", rounds=2), out=folder, resume=True)
    # The stored configuration names the digest, so the folder may not hold other weights either.
    digest = Run.load(folder).config.model["backbone_digest"]
    pinned = config_of(place, place / "other", rounds=2, backbone_digest=digest)
    with pytest.raises(ModelError, match="the backbone 'other' has the digest"):
        execute(pinned, out=folder, resume=True)


def test_a_stored_run_predicts_with_its_backbone(place: Path, stored: Path, tmp_path: Path) -> None:
    x = np.load(place / "texts.npz")["x"]
    here = Path(shutil.copytree(place / "tiny", tmp_path / "tiny"))
    config = config_of(place, here)
    run = execute(config, out=tmp_path / "run")
    expected = run.predict(x, proba=True)
    np.testing.assert_array_equal(Run.load(tmp_path / "run").predict(x, proba=True), expected)
    here.rename(tmp_path / "away")
    with pytest.raises(ConfigError, match=r"does not exist; give its place: Run\.load"):
        Run.load(tmp_path / "run").predict(x)
    again = Run.load(tmp_path / "run", backbone=tmp_path / "away")
    np.testing.assert_array_equal(again.predict(x, proba=True), expected)
    with pytest.raises(ModelError, match="the backbone 'other' has the digest"):
        Run.load(tmp_path / "run", backbone=place / "other")
    export_folder(tmp_path / "run", tmp_path / "out", "peft", backbone=tmp_path / "away")
    assert (tmp_path / "out" / "cluster-0" / "adapter_model.safetensors").is_file()


def test_a_relative_path_is_found_from_elsewhere(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    execute(config_of(place, Path("tiny")), out=tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert "backbone_from_here" in environment
    x = np.load(place / "texts.npz")["x"]
    assert Run.load(tmp_path / "run").predict(x).shape == (len(x),)


def test_the_tokenizer_of_texts_moves_with_its_backbone(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(place / "tiny", tmp_path / "tiny")
    lines = "".join(f"the red cat,{k % 2},{k // 6}\n" for k in range(12))
    (tmp_path / "texts.csv").write_text(f"remark,y,client_id\n{lines}")
    values = {
        "data": {
            "name": "texts",
            "path": "texts.csv",
            "text": "remark",
            "label": "y",
            "client": "client_id",
            "tokenizer": "tiny",
        },
        "model": {"backbone": "tiny", "rank": 2},
        "method": {"name": "fedavg"},
        "run": {"rounds": 1, "cohort": 2},
    }
    monkeypatch.chdir(tmp_path)
    run = execute(from_dict(values), out=tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    tokens = np.array([[2, 5, 7, 3, 0, 0, 0, 0]])
    expected = run.predict(tokens, proba=True)
    found = Run.load(tmp_path / "run").predict(tokens, proba=True)
    np.testing.assert_array_equal(found, expected)
    (tmp_path / "tiny").rename(tmp_path / "moved")
    again = Run.load(tmp_path / "run", backbone=tmp_path / "moved")
    np.testing.assert_array_equal(again.predict(tokens, proba=True), expected)


def test_a_backbone_is_for_runs_that_have_one(tmp_path: Path) -> None:
    config = from_dict(
        {
            "data": {"name": "digits", "clients": 3},
            "method": {"name": "fedavg"},
            "run": {"rounds": 1, "cohort": 3},
        }
    )
    execute(config, out=tmp_path / "run")
    with pytest.raises(ConfigError, match="does not apply to the model 'mclr' of the run"):
        Run.load(tmp_path / "run", backbone=tmp_path)


def test_k_adapters_share_one_backbone(place: Path, tmp_path: Path) -> None:
    data = config_of(place, place / "tiny").make_data()
    model = fk.lora(data, place / "tiny", rank=2)
    run = fk.simulate(fk.IFCA(clusters=2), data, model, rounds=1, cohort=CLIENTS)
    card = run.export(tmp_path / "out", with_backbone=True)
    described = json.loads(card.read_text())
    assert described["backbone"]["digest"] == fk.models.from_transformers(place / "tiny").digest
    export = load(tmp_path / "out")
    for entry in described["models"]:
        cluster = entry["cluster"]
        found = export.model(cluster=cluster).predict(data.x, proba=True)
        np.testing.assert_array_equal(found, run.predict(data.x, cluster=cluster, proba=True))
    # One copy of the backbone, and small files of the clusters.
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "out").rglob("*.safetensors")}
    assert sizes["cluster-0.safetensors"] < sizes["model.safetensors"] / 5


WORDS = ("the red cat sat", "blue dog", "a b c d", "e f g h")


def texts_config(folder: Path, method: str, **data: Any) -> RunConfig:
    """A run on a table of texts in a folder, which also has the backbone."""
    lines = [
        f"{WORDS[(client % 2) * 2 + row % 2]},{'yes' if row % 2 else 'no'},c{client}"
        for client in range(CLIENTS)
        for row in range(8)
    ]
    (folder / "texts.csv").write_text("\n".join(["remark,answer,desk", *lines]) + "\n")
    layers = {"layers": [1]} if "features_layer" in data else {}
    return from_dict(
        {
            "data": {
                "name": "texts",
                "path": str(folder / "texts.csv"),
                "text": "remark",
                "label": "answer",
                "client": "desk",
                "tokenizer": str(folder / "tiny"),
                "length": 8,
                **data,
            },
            "model": {"backbone": str(folder / "tiny"), "rank": 2, **layers},
            "method": {"name": method, **({"clusters": 2} if method == "fedrouter" else {})},
            "run": {"rounds": 1, "cohort": CLIENTS},
        }
    )


def test_features_are_kept_for_the_next_run(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(place / "tiny", tmp_path / "tiny")
    file = tmp_path / "kept" / "features.npz"
    config = texts_config(tmp_path, "fedavg", features_layer=1, features_file=str(file))
    first = execute(config, out=tmp_path / "first")
    plain = execute(texts_config(tmp_path, "fedavg", features_layer=1), out=tmp_path / "plain")
    np.testing.assert_array_equal(first.models, plain.models)

    def computed(*arguments: Any) -> Any:
        raise AssertionError("features are computed again")

    # The package has the function of this name, which hides the module.
    module = sys.modules["fedkin.models.features"]
    monkeypatch.setattr(module, "hidden_states", computed)
    second = execute(config, out=tmp_path / "second")
    np.testing.assert_array_equal(first.models, second.models)
    np.testing.assert_array_equal(
        Run.load(tmp_path / "first").predict(first._for_other_data().parts.samples.x),
        first.predict(first._for_other_data().parts.samples.x),
    )


def test_kept_features_of_something_else_are_refused(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "tiny", tmp_path / "tiny")
    file = tmp_path / "features.npz"
    config = texts_config(tmp_path, "fedavg", features_layer=1, features_file=str(file))
    config.make_data()
    content = file.read_bytes()
    longer = texts_config(tmp_path, "fedavg", features_layer=1, features_file=str(file), length=10)
    with pytest.raises(
        DataError, match=r"^\S*features\.npz: has the features of other texts: .* name"
    ):
        longer.make_data()
    # Another tokenizer is another backbone, also with the same weights and the same numbers.
    path = tmp_path / "tiny" / "tokenizer.json"
    path.write_text(path.read_text() + " ")
    with pytest.raises(DataError, match=r"^\S*features\.npz: has the features of another backbone"):
        config.make_data()
    for damaged in (b"", content[:300], content[:-5]):
        file.write_bytes(damaged)
        with pytest.raises(DataError, match=r"has no features .* delete this one to compute"):
            config.make_data()
    alone = texts_config(tmp_path, "fedavg", features_file=str(file))
    with pytest.raises(ConfigError, match="name it, such as features_layer = 1"):
        alone.make_data()


def test_features_of_another_backbone_than_the_models(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "tiny", tmp_path / "tiny")
    config = texts_config(tmp_path, "fedavg", features_layer=1)
    with pytest.raises(ModelError, match="the features were computed by the backbone 'tiny'"):
        fk.lora(config.make_data(), place / "other", rank=2)


@pytest.mark.parametrize("features", [{}, {"features_layer": 1}], ids=["tokens", "features"])
def test_commands_read_texts_with_a_moved_backbone(
    features: dict[str, Any], place: Path, tmp_path: Path
) -> None:
    shutil.copytree(place / "tiny", tmp_path / "tiny")
    run = execute(texts_config(tmp_path, "fedrouter", **features), out=tmp_path / "run")
    (tmp_path / "tiny").rename(tmp_path / "moved")
    new = tmp_path / "new.csv"
    new.write_text("remark,answer,desk\nthe cat sat,no,new\nthe red cat,no,new\nblue dog,yes,c0\n")
    options = ["--backbone", str(tmp_path / "moved")]

    def printed(*arguments: Any) -> Any:
        result = CliRunner().invoke(app, [str(one) for one in (*arguments, "--json", *options)])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    known, placed = printed("place", tmp_path / "run", new)
    # Client c0 writes about the same, and client c1 does not.
    assert placed["cluster"] == run.assignment[0] == known["cluster"] != run.assignment[1]
    assert placed["decided"] == "by embeddings of samples" and placed["samples"] == 2

    (summary,) = printed("evaluate", tmp_path / "run", "--data", tmp_path / "texts.csv")
    parts = [run.evaluate(split) for split in ("train", "test")]
    counts = [part.clients["samples"].to_numpy().sum() for part in parts]
    assert sum(counts) == 8 * CLIENTS
    correct = np.dot(counts, [part.summary["accuracy"] for part in parts])
    np.testing.assert_allclose(summary["accuracy"] * sum(counts), correct)
    printed("evaluate", tmp_path / "run")
    result = CliRunner().invoke(app, ["evaluate", str(tmp_path / "run")])
    assert result.exit_code == 2 and "give its place" in result.stderr


def test_a_run_from_python_reads_a_newer_table_of_texts(place: Path, tmp_path: Path) -> None:
    """Its description has no section of texts: the columns of its samples say it."""
    shutil.copytree(place / "tiny", tmp_path / "tiny")
    texts_config(tmp_path, "fedavg")
    backbone = fk.models.from_transformers(tmp_path / "tiny")
    options: dict[str, Any] = {"text": "remark", "label": "answer", "client": "desk"}
    table = tmp_path / "texts.csv"
    data = fk.data.texts(table, tokenizer=backbone, length=8, **options)
    hf = pytest.importorskip("datasets", reason="pip install 'fedkin[hf]'")
    dataset = hf.Dataset.from_pandas(pd.read_csv(table))
    same = fk.data.from_hf(dataset, tokenizer=backbone, length=8, **options)
    for made in (data, same):
        model = fk.lora(made, backbone, rank=2)
        run = fk.simulate(fk.FedRouter(clusters=2), made, model, rounds=1, cohort=CLIENTS)
        parts = run._for_other_data().parts
        other = load_other(
            table, run.config.data, parts.samples, options={}, pooled=True, model=parts.model
        )
        np.testing.assert_array_equal(other.x, data.x)
        assert run.evaluate(data=other).summary["accuracy"] is not None
        placed = place_clients(run.trained, other, name="new", export=None, resamples=2)
        assert [one.cluster for one in placed] == run.assignment.tolist()


def test_a_table_without_clients_is_one_client(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "tiny", tmp_path / "tiny")
    run = execute(texts_config(tmp_path, "fedrouter"), out=tmp_path / "run")
    parts = run._for_other_data().parts
    new = tmp_path / "new.csv"
    new.write_text("remark,answer\nthe cat sat,no\nthe red cat,no\n")

    def loaded(model: Any, **options: Any) -> Any:
        own = run.config.data
        return load_other(new, own, parts.samples, options=options, pooled=True, model=model)

    assert loaded(parts.model).clients == 1
    with pytest.raises(ConfigError, match="no backbone of a folder, whose tokenizer"):
        loaded(fk.models.mclr(fk.data.digits(clients=2)))
    with pytest.raises(ConfigError, match="reads one column of texts"):
        loaded(parts.model, features="remark")


def test_an_export_of_features_predicts_texts(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "tiny", tmp_path / "tiny")
    run = execute(texts_config(tmp_path, "fedavg", features_layer=1), out=tmp_path / "run")
    run.export(tmp_path / "out")
    export = load(tmp_path / "out", backbone=tmp_path / "tiny")
    found = predict_file(export, tmp_path / "texts.csv")
    expected = run.predict(run._for_other_data().parts.samples.x)
    assert found.table["prediction"].tolist() == expected.tolist()
