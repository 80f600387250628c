"""Exports of adapters: folders that peft and transformers read, and fedkin's own without and with
the backbone."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

pytest.importorskip("tokenizers", reason="texts need pip install 'fedkin[text]'")

import fedkin as fk
from fedkin.core.errors import ConfigError, ModelError
from fedkin.export import load, write_model
from fedkin.export.adapters import transformers_path
from fedkin.export.predictor import Predictor
from tests.models.tiny_bert import WORDS, weights, write_bert

TEXTS = ["the red cat sat", "dog", "a b c d e f", "blue dog"]
# Targets and layers that short names of peft can name, and such that need whole paths.
ADAPTERS: list[dict[str, Any]] = [
    {"targets": ("query", "value")},
    {"targets": ("query", "value"), "layers": (1,), "train": "B"},
    {"targets": ("output",)},  # of attention, and of the layer
    {"targets": ("attention.output", "intermediate", "key")},
    {"targets": ("1.output", "0.attention.query")},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_bert(tmp_path / "tiny")


def token_data(folder: Path) -> Any:
    tokens = fk.models.from_transformers(folder).tokens(TEXTS, 8)
    return fk.data.from_arrays(
        tokens, [0, 1, 2, 1], clients=[0, 0, 1, 1], test=0, integers=True, name="texts"
    )


def trained(folder: Path, **options: Any) -> Predictor:
    """A model whose factors and last layer are drawn, so that all of them matter."""
    data = token_data(folder)
    model = fk.lora(data, folder, rank=2, alpha=6, **options)
    drawn = np.random.default_rng(5).normal(size=model.spec.parameters)
    vector = (0.3 * drawn).astype(np.float32)
    return Predictor(name="cluster-0", model=model, vectors=vector[None], samples=data)


def scores_of(network: Any, head: dict[str, np.ndarray], tokens: np.ndarray) -> np.ndarray:
    """Scores of a model of transformers and a last layer on the mean over the tokens."""
    import torch

    ids = torch.from_numpy(tokens.astype(np.int64))
    with torch.inference_mode():
        hidden = network.eval()(input_ids=ids, attention_mask=ids != 0).last_hidden_state.numpy()
    mask = (tokens != 0)[..., None]
    mean = (hidden * mask).sum(axis=1) / mask.sum(axis=1)
    return mean @ head["weight"].T + head["bias"]


@pytest.mark.parametrize("options", ADAPTERS)
def test_peft_computes_the_same_scores(
    options: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    peft = pytest.importorskip("peft")
    predictor = trained(folder, **options)
    write_model(predictor, tmp_path / "out", "peft")
    adapter = tmp_path / "out" / "cluster-0"
    base = transformers.AutoModel.from_pretrained(folder, local_files_only=True)
    head = load_file(adapter / "head.safetensors")
    x = predictor.samples.x
    of_backbone = scores_of(base, head, x)
    network = peft.PeftModel.from_pretrained(base, str(adapter))
    found = scores_of(network, head, x)
    np.testing.assert_allclose(found, predictor(x), atol=1e-5)
    assert np.abs(found - of_backbone).max() > 0.01
    # No layer has factors in peft that fedkin did not write.
    adapted = {name for name, _ in network.named_modules() if name.endswith("lora_A")}
    assert len(adapted) == len(predictor.model.spec.factors)


@pytest.mark.parametrize("options", ADAPTERS)
def test_a_merged_model_needs_no_peft(
    options: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    predictor = trained(folder, **options)
    write_model(predictor, tmp_path / "out", "merged")
    merged = tmp_path / "out" / "cluster-0"
    network = transformers.AutoModel.from_pretrained(merged, local_files_only=True)
    head = load_file(merged / "head.safetensors")
    x = predictor.samples.x
    np.testing.assert_allclose(scores_of(network, head, x), predictor(x), atol=1e-5)
    # The folder is a backbone again.
    again = fk.models.from_transformers(merged)
    assert again.tokens(TEXTS, 8).tolist() == x.tolist()


def test_the_lines_of_the_readme_run(folder: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("peft")
    # A tokenizer folder needs the names of its special tokens.
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), pad_token="[PAD]", unk_token="[UNK]"
    )
    tokenizer.save_pretrained(folder)
    predictor = trained(folder)
    for format in ("peft", "merged"):
        write_model(predictor, tmp_path / format, format)
        out = tmp_path / format / "cluster-0"
        page = (out / "README.md").read_text()
        found = re.search(r"```python\n(.+?)```", page, re.DOTALL)
        assert found is not None
        script = tmp_path / f"{format}.py"
        script.write_text(found[1])
        given = {"BASE": str(folder), "FOLDER": str(out), "texts": TEXTS}
        scores = runpy.run_path(str(script), given)["scores"].numpy()
        np.testing.assert_allclose(scores, predictor(predictor.samples.x), atol=1e-5)


def test_the_names_and_the_configuration_of_peft(folder: Path, tmp_path: Path) -> None:
    predictor = trained(folder, layers=(1,), train="B")
    write_model(predictor, tmp_path / "out", "peft")
    adapter = tmp_path / "out" / "cluster-0"
    arrays = load_file(adapter / "adapter_model.safetensors")
    place = "base_model.model.encoder.layer.1.attention.self"
    assert sorted(arrays) == [
        f"{place}.{module}.lora_{factor}.weight"
        for module in ("query", "value")
        for factor in ("A", "B")
    ]
    # A is frozen, and equal to the A of the model which trains both.
    model: Any = predictor.model
    a = arrays[f"{place}.query.lora_A.weight"]
    np.testing.assert_array_equal(a, np.asarray(model.frozen.tree.a[0]))
    assert a.shape == (2, 12)
    config = json.loads((adapter / "adapter_config.json").read_text())
    assert config["peft_type"] == "LORA"
    assert (config["r"], config["lora_alpha"]) == (2, 6)
    assert config["target_modules"] == ["query", "value"]
    assert config["layers_to_transform"] == [1]
    assert config["base_model_name_or_path"] == "tiny"
    assert transformers_path("layers.3.output") == "encoder.layer.3.output.dense"


def test_features_give_the_adapter_of_the_whole_backbone(folder: Path, tmp_path: Path) -> None:
    whole = trained(folder, layers=(1,))
    computed = fk.models.features(token_data(folder), folder, layer=1)
    model = fk.lora(computed, folder, rank=2, alpha=6)
    upper = Predictor(name="cluster-0", model=model, vectors=whole.vectors, samples=computed)
    for name, predictor in (("whole", whole), ("upper", upper)):
        write_model(predictor, tmp_path / name, "peft")
    files = [
        tmp_path / name / "cluster-0" / "adapter_model.safetensors" for name in ("whole", "upper")
    ]
    assert files[0].read_bytes() == files[1].read_bytes()
    # fedkin's own export takes features, as the run did.
    write_model(upper, tmp_path / "own")
    again = load(tmp_path / "own", backbone=folder).model()
    np.testing.assert_allclose(again(computed.x), whole(whole.samples.x), atol=1e-5)


@pytest.mark.parametrize("train", ["AB", "B"])
def test_an_export_names_its_backbone_and_does_not_have_it(
    train: str, folder: Path, tmp_path: Path
) -> None:
    predictor = trained(folder, train=train, seed=3)
    x = predictor.samples.x
    card = write_model(predictor, tmp_path / "out")
    described = json.loads(card.read_text())
    digest = fk.models.from_transformers(folder).digest
    assert described["backbone"] == {"name": "tiny", "digest": digest}
    assert str(tmp_path) not in card.read_text()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "card.json",
        "cards",
        "cluster-0.safetensors",
    ]
    with pytest.raises(ConfigError, match=r"adapters of the backbone 'tiny' \(digest .*--backbone"):
        load(tmp_path / "out").model()
    other = write_bert(tmp_path / "other", seed=1)
    with pytest.raises(ModelError, match="the backbone 'other' has the digest"):
        load(tmp_path / "out", backbone=other).model()
    moved = folder.rename(tmp_path / "moved")
    again = load(tmp_path / "out", backbone=moved).model()
    np.testing.assert_array_equal(again(x), predictor(x))


def test_an_export_with_the_backbone(folder: Path, tmp_path: Path) -> None:
    from fedkin.export.folder import ModelEntry, write

    predictor = trained(folder)
    write([ModelEntry(predictor)], {}, tmp_path / "out", "safetensors", with_backbone=True)
    x = predictor.samples.x
    expected = predictor(x)
    (folder / "model.safetensors").unlink()
    np.testing.assert_array_equal(load(tmp_path / "out").model()(x), expected)
    with pytest.raises(ConfigError, match="with_backbone applies to format 'safetensors' only"):
        write([ModelEntry(predictor)], {}, tmp_path / "no", "peft", with_backbone=True)


def test_a_backbone_that_has_changed_is_not_merged(folder: Path, tmp_path: Path) -> None:
    predictor = trained(folder)
    save_file(weights(1), folder / "model.safetensors")
    with pytest.raises(ModelError, match="tiny has changed: its digest is"):
        write_model(predictor, tmp_path / "out", "merged")
    assert not (tmp_path / "out").exists()


def test_half_precision_is_merged_in_float32(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = write_bert(tmp_path / "half", dtype="float16", architectures=["BertForMaskedLM"])
    half = {f"bert.{name}": array.astype(np.float16) for name, array in weights(0).items()}
    save_file(half, folder / "model.safetensors", metadata={"format": "pt"})
    predictor = trained(folder)
    write_model(predictor, tmp_path / "out", "merged")
    merged = tmp_path / "out" / "cluster-0"
    network = transformers.AutoModel.from_pretrained(merged, local_files_only=True)
    head = load_file(merged / "head.safetensors")
    x = predictor.samples.x
    np.testing.assert_allclose(scores_of(network, head, x), predictor(x), atol=1e-5)


def test_other_models_and_formats(folder: Path, tmp_path: Path) -> None:
    digits = fk.data.digits(clients=3)
    model = fk.models.mclr(digits)
    vectors = np.zeros((1, model.spec.parameters), np.float32)
    plain = Predictor(name="cluster-0", model=model, vectors=vectors, samples=digits)
    for format in ("peft", "merged"):
        with pytest.raises(ModelError, match=f"cannot be exported with format '{format}'"):
            write_model(plain, tmp_path / "plain", format)
    with pytest.raises(ModelError, match="'peft' or 'merged', which peft and transformers read"):
        write_model(trained(folder), tmp_path / "out", "torch")
    write_model(trained(folder), tmp_path / "peft", "peft")
    with pytest.raises(ConfigError, match="to predict with fedkin, export the run as"):
        load(tmp_path / "peft")


def test_tokens_of_another_tokenizer_are_refused(folder: Path) -> None:
    tokens = np.array([[2, len(WORDS)], [2, 3]])
    data = fk.data.from_arrays(tokens, [0, 1], clients=[0, 1], test=0, integers=True)
    with pytest.raises(ModelError, match=f"has the tokens 0 to {len(WORDS) - 1}"):
        fk.lora(data, folder)
