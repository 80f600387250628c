"""Backbones and adapters that cannot be used: the command says in one line where, why, and what to
do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

pytest.importorskip("tokenizers", reason="texts need pip install 'fedkin[text]'")

from typer.testing import CliRunner

from fedkin.cli import app
from tests.models.tiny_bert import weights, write_bert


def pickles(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def whole_numbers(folder: Path) -> None:
    changed = weights(0)
    name = "encoder.layer.0.attention.self.query.weight"
    save_file(changed | {name: changed[name].astype(np.int8)}, folder / "model.safetensors")


def infinite(folder: Path) -> None:
    changed = weights(0)
    changed["encoder.layer.0.output.dense.bias"][3] = np.inf
    save_file(changed, folder / "model.safetensors")


def few_words(folder: Path) -> None:
    changed = weights(0)
    name = "embeddings.word_embeddings.weight"
    save_file(changed | {name: changed[name][:10]}, folder / "model.safetensors")


def broken_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")


# Changes of config.json, a change of the folder, settings, and the place, reason and way on.
Case = tuple[dict[str, Any], Callable[[Path], Any] | None, list[str], str, str, str]
CASES: dict[str, Case] = {
    "targets": ({}, None, ['model.targets=["no"]'], "model: ", "there are query", "set targets"),
    "rank 0": ({}, None, ["model.rank=0"], "model: ", "between 1 and 12", "rank = 8"),
    "rank 13": ({}, None, ["model.rank=13"], "model: ", "got 13", "rank = 8"),
    "quantised": (
        {"quantization_config": {"bits": 4}},
        None,
        [],
        "config.json: ",
        "the weights are quantised",
        "give the model before quantisation",
    ),
    "integers": ({}, whole_numbers, [], ".safetensors: ", "type I8", "before quantisation"),
    "tokenizer": ({}, few_words, [], "tokenizer.json ", "18 tokens", "copy the one of this model"),
    "broken": ({}, broken_tokenizer, [], "data: ", "cannot be read", "save_pretrained"),
    "no padding": ({"pad_token_id": None}, None, [], "config.json ", "no pad_token_id", "write"),
    "length": ({}, None, ["data.length=40"], "data: ", "between 2 and 16", "length = 16"),
    "another padding": ({"pad_token_id": 5}, None, [], "config.json: ", "is token 0", "write"),
    "no heads": (
        {"num_attention_heads": 0},
        None,
        [],
        "config.json: ",
        "num_attention_heads is 0",
        "save_pretrained",
    ),
    "not finite": ({}, infinite, [], ".safetensors: ", "not finite", "copy the file again"),
    "pickles": ({}, pickles, [], "model: ", "pickles only", "save_pretrained"),
    "another": (
        {},
        None,
        ["model.backbone_digest=d6c5eb1c0b7e"],
        "model: ",
        "has the digest",
        "give the folder of that backbone",
    ),
    "no such layer": (
        {},
        None,
        ["data.features_layer=9"],
        "data: ",
        "the layers 0 to 1",
        "layer must be between 1 and 1",
    ),
    "below features": (
        {},
        None,
        ["data.features_layer=1", "model.layers=[0]"],
        "model: ",
        "no layer 0",
        "there are 1",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_line_with_place_reason_and_way_on(name: str, tmp_path: Path) -> None:
    changes, change, settings, place, reason, way_on = CASES[name]
    folder = write_bert(tmp_path / "backbone", **changes)
    if change is not None:
        change(folder)
    table = tmp_path / "t.csv"
    table.write_text("remark,label,client_id\n" + "the cat,yes,a\nblue dog,no,b\n" * 4)
    command = [
        "run",
        "data.name=texts",
        f"data.path={table}",
        "data.text=remark",
        "data.label=label",
        "data.client=client_id",
        f"data.tokenizer={folder}",
        f"model.backbone={folder}",
        "method.name=fedavg",
        "run.rounds=1",
        "run.cohort=2",
        *settings,
        "--out",
        str(tmp_path / "run"),
    ]
    result = CliRunner().invoke(app, command)
    (line,) = result.stderr.strip().splitlines()
    assert result.exit_code == 2 and line.startswith("error: ")
    for part in (place, reason, way_on):
        assert part in line
    assert not (tmp_path / "run").exists()
