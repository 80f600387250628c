"""Backbones from folders of Hugging Face models: the numbers of transformers, and folders that are
refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jaxtyping
import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

pytest.importorskip("tokenizers", reason="texts need pip install 'fedkin[text]'")

import fedkin as fk
from fedkin.core.errors import ConfigError, DataError, ModelError
from fedkin.data.tokenizer import Tokenizer
from tests.models.tiny_bert import LAYERS, WIDTH, WORDS, weights, write_bert

TEXTS = ["the red cat sat", "dog", "a b c d e f g h", "blue unheard"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("backbone") / "tiny")


def test_hidden_states_are_those_of_transformers(folder: Path) -> None:
    torch = pytest.importorskip("torch", reason="transformers computes with PyTorch")
    transformers = pytest.importorskip("transformers", reason="pip install transformers")
    backbone = fk.models.from_transformers(folder)
    tokens = backbone.tokens(TEXTS, 10)
    theirs = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    with torch.no_grad():
        ids = torch.from_numpy(tokens.astype(np.int64))
        expected = theirs(input_ids=ids, attention_mask=ids != 0).last_hidden_state.numpy()
    hidden, mask = backbone.encoder.inputs(tokens)
    found = np.asarray(backbone.encoder.through(hidden, mask))
    kept = tokens != 0
    np.testing.assert_allclose(found[kept], expected[kept], atol=1e-5)


def test_the_folder_may_be_in_the_home_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    home = f"~/{folder.name}"
    assert fk.models.from_transformers(home).folder == folder
    assert Tokenizer.from_folder(home).digest == Tokenizer.from_folder(folder).digest


def test_its_arrays_are_those_of_the_file(folder: Path) -> None:
    found = fk.models.from_transformers(folder).arrays()
    in_file = {name: array for name, array in weights(0).items() if "pooler" not in name}
    assert found.keys() == in_file.keys()
    for name, array in in_file.items():
        np.testing.assert_array_equal(found[name], array)


def test_padding_changes_nothing(folder: Path) -> None:
    backbone = fk.models.from_transformers(folder)
    short = np.asarray(backbone.encoder(backbone.tokens(TEXTS[:2], 6)))
    long = np.asarray(backbone.encoder(backbone.tokens(TEXTS[:2], 12)))
    np.testing.assert_allclose(short, long, atol=1e-6)


def test_tokens_have_one_length(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    backbone = fk.models.from_transformers(folder)
    cls, sep = WORDS.index("[CLS]"), WORDS.index("[SEP]")
    tokens = backbone.tokens(["the cat", "a b c d e f g h"], 5)
    assert tokens.dtype == np.int32
    assert tokens.tolist() == [
        [cls, WORDS.index("the"), WORDS.index("cat"), sep, 0],
        [cls, WORDS.index("a"), WORDS.index("b"), WORDS.index("c"), sep],
    ]
    # 95% of the texts fit into the length that is chosen, a multiple of 8.
    assert backbone.tokens(TEXTS).shape[1] == 16
    assert backbone.tokens(["dog"] * 3).shape[1] == 8


def test_it_says_how_many_texts_are_cut(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    backbone = fk.models.from_transformers(folder)
    with caplog.at_level("WARNING", "fedkin"):
        backbone.tokens(TEXTS, 5)
    assert caplog.messages == [
        "2 of 4 texts are cut to 5 tokens: the longest has 10; make the data with a larger length, "
        "up to 16"
    ]
    caplog.clear()
    # One text of 20 is cut on purpose, and two are more than 5%.
    backbone.tokens(["dog " * 30] + ["dog"] * 19)
    backbone.tokens(TEXTS, 10)
    assert not caplog.messages
    backbone.tokens(["dog " * 30] * 2 + ["dog"] * 18)
    assert caplog.messages == [
        "2 of 20 texts are cut to 16 tokens: the longest has 32; the model has no more positions; "
        "divide long texts into several rows"
    ]
    caplog.clear()
    # A length that the user gives cuts no text silently.
    backbone.tokens(["dog " * 30] + ["dog"] * 19, 8)
    assert "1 of 20 texts are cut to 8 tokens" in caplog.text


def test_features_and_the_layers_above_are_the_whole_encoder(folder: Path) -> None:
    backbone = fk.models.from_transformers(folder)
    tokens = backbone.tokens(TEXTS, 10)
    data = fk.data.from_arrays(tokens, [0, 1, 0, 1], clients=[0, 0, 1, 1], test=0, integers=True)
    computed = fk.models.features(data, backbone, layer=1)
    assert computed.x.shape == (4, 10, WIDTH)
    assert not computed.x[tokens == 0].any()
    for place in (backbone, folder):
        again = fk.models.layer_inputs(tokens, place, layer=1)
        np.testing.assert_array_equal(again, computed.x)
    above = backbone.starting_at(1).encoder
    assert len(above.layers) == LAYERS - 1
    np.testing.assert_allclose(
        np.asarray(above(computed.x)), np.asarray(backbone.encoder(tokens)), atol=1e-6
    )


def test_half_precision_becomes_float32(tmp_path: Path) -> None:
    folder = write_bert(tmp_path / "half")
    half = {name: array.astype(np.float16) for name, array in weights(0).items()}
    save_file(half, folder / "model.safetensors")
    encoder = fk.models.from_transformers(folder).encoder
    assert encoder.layers[0].output.weight.dtype == np.float32


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "gpt2"}, "model_type is 'gpt2'"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'; fedkin computes 'gelu'"),
        ({"hidden_act": "relu"}, "Give this model as a PyTorch module: fk.lora"),
        ({"is_decoder": True}, "is_decoder is True; fedkin computes False. Give this model as"),
        (
            {"pad_token_id": 5},
            r"pad_token_id is 5, but the tokenizer's padding '\[PAD\]' is token 0",
        ),
        ({"pad_token_id": 5}, 'write "pad_token_id": 0'),
        ({"num_attention_heads": None}, "num_attention_heads is None, not a whole number"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0, not a whole number of at least 1"),
        ({"num_attention_heads": True}, "num_attention_heads is True, not a whole number"),
        ({"num_attention_heads": 5}, "5, which does not divide the width 12 .*; model.save_pre"),
        ({"max_position_embeddings": 17}, 'has 16 positions; write "max_position_embeddings": 16'),
        ({"num_hidden_layers": "two"}, "of at least 1; model.save_pretrained"),
        ({"pad_token_id": None}, "names no pad_token_id"),
        ({"num_hidden_layers": "two"}, "num_hidden_layers is 'two'"),
        ({"num_hidden_layers": 1}, "num_hidden_layers is 1, but model.safetensors has more"),
        ({"hidden_size": 24}, "hidden_size is 24, but the vectors of .* have 12 numbers"),
        ({"num_hidden_layers": 3}, "no array encoder.layer.2.attention.self.query.weight"),
    ],
)
def test_another_model_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        fk.models.from_transformers(write_bert(tmp_path / "other", **changes))


def test_a_folder_that_lacks_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nothing is downloaded"):
        fk.models.from_transformers(tmp_path / "none")
    with pytest.raises(ModelError, match="has no config"):
        fk.models.from_transformers(tmp_path)
    folder = write_bert(tmp_path / "tiny")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="pickles only"):
        fk.models.from_transformers(folder)
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(ModelError, match=r"has no model\.safetensors"):
        fk.models.from_transformers(folder)


def test_quantised_weights_are_refused(tmp_path: Path) -> None:
    folder = write_bert(tmp_path / "tiny")
    arrays = weights(0)
    arrays["encoder.layer.0.output.dense.weight"] = np.zeros((WIDTH, 20), np.int8)
    save_file(arrays, folder / "model.safetensors")
    with pytest.raises(ModelError, match="has the type I8; quantised weights are not read"):
        fk.models.from_transformers(folder)


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        (
            "encoder.layer.1.output.dense.weight",
            np.zeros((WIDTH, 21)),
            r"\[12, 21\], not \[12, 20\]",
        ),
        ("encoder.layer.0.attention.self.key.bias", np.zeros(5), r"the shape \[5\], not \[12\]"),
        ("encoder.layer.0.output.LayerNorm.bias", np.zeros((1, 12)), r"\[1, 12\], not \[12\]"),
        ("embeddings.token_type_embeddings.weight", np.zeros((2, 9)), r"not \[any, 12\]"),
        (
            "embeddings.token_type_embeddings.weight",
            np.zeros((0, 12)),
            r"\[0, 12\], not \[any, 12\]",
        ),
        ("embeddings.word_embeddings.weight", np.zeros(18), r"\[18\], not \[any, any\]"),
        (
            "encoder.layer.1.intermediate.dense.bias",
            np.full(20, np.nan),
            "numbers that are not finite",
        ),
        ("embeddings.position_embeddings.weight", np.full((16, 12), np.inf), "copy the file again"),
    ],
)
def test_arrays_that_do_not_fit_are_named(
    tmp_path: Path, name: str, array: np.ndarray, words: str
) -> None:
    folder = write_bert(tmp_path / "tiny")
    save_file(weights(0) | {name: array.astype(np.float32)}, folder / "model.safetensors")
    with pytest.raises(ModelError, match=rf"model\.safetensors: {name} has .*{words}"):
        fk.models.from_transformers(folder)


def test_an_array_that_is_not_used_may_be_infinite(tmp_path: Path) -> None:
    folder = write_bert(tmp_path / "tiny")
    changed = {"pooler.dense.bias": np.full(WIDTH, np.inf, np.float32)}
    save_file(weights(0) | changed, folder / "model.safetensors")
    assert fk.models.from_transformers(folder).encoder.width == WIDTH


@pytest.mark.parametrize(
    ("content", "words"), [("[]", "holds a list, not an object"), ("{", "is no JSON: ")]
)
def test_settings_that_are_none(tmp_path: Path, content: str, words: str) -> None:
    folder = write_bert(tmp_path / "tiny")
    (folder / "config.json").write_text(content)
    with pytest.raises(ModelError, match=rf"config\.json {words}.*; save_pretrained\(folder\)"):
        fk.models.from_transformers(folder)


def test_weights_in_parts(tmp_path: Path) -> None:
    folder = write_bert(tmp_path / "tiny")
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for size in (len(whole) - 8, 4):
        path.write_bytes(whole[:size])
        with pytest.raises(
            ModelError, match=r"cannot be read: .*; if the copy is incomplete, copy"
        ):
            fk.models.from_transformers(folder)
    path.rename(folder / "model-00001-of-00002.safetensors")
    with pytest.raises(ModelError, match=r"weights in several files; .*max_shard_size"):
        fk.models.from_transformers(folder)


@pytest.mark.parametrize("word", ["red", {"content": "red"}])
def test_the_padding_in_the_settings_of_the_tokenizer_counts(tmp_path: Path, word: Any) -> None:
    folder = write_bert(tmp_path / "tiny")
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps({"pad_token": word}))
    number = WORDS.index("red")
    with pytest.raises(ModelError, match=f"pad_token_id is 0, but .* 'red' is token {number}"):
        fk.models.from_transformers(folder)
    write_bert(folder, pad_token_id=number)
    assert fk.models.from_transformers(folder).tokenizer.padding == number
    # Settings without a padding token, or with one that the tokenizer lacks, say nothing.
    settings.write_text(json.dumps({"pad_token": "unheard"}))
    assert fk.models.from_transformers(folder).tokenizer.padding == number
    settings.unlink()
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    padding = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None}
    padding |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    path.write_text(json.dumps(tokenizer | {"padding": padding}))
    with pytest.raises(ModelError, match=r"but the tokenizer's padding '\[PAD\]' is token 0"):
        fk.models.from_transformers(folder)


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = write_bert(tmp_path / "tiny")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["extra"] = len(WORDS)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(ModelError, match="the tokenizer belongs to another model"):
        fk.models.from_transformers(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"has no tokenizer\.json"):
        fk.models.from_transformers(folder)


def test_texts_that_are_none(folder: Path) -> None:
    backbone = fk.models.from_transformers(folder)
    with pytest.raises(DataError, match="the text in row 1 is nan, not a string"):
        backbone.tokens(["dog", float("nan")])
    with pytest.raises(ConfigError, match="length must be between 2 and 16"):
        backbone.tokens(["dog"], 17)


def test_layers_that_are_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = fk.models.from_transformers(folder)
    tokens = backbone.tokens(TEXTS, 10)
    data = fk.data.from_arrays(tokens, [0, 1, 0, 1], clients=[0, 0, 1, 1], test=0, integers=True)
    with pytest.raises(ModelError, match="layer must be between 1 and 1, got 2"):
        fk.models.features(data, backbone, layer=2)
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    wrong: list[Any] = ["1", True]
    for layer in wrong:
        with pytest.raises(ModelError, match=f"layer must be between 1 and 1, got {layer!r}"):
            fk.models.features(data, backbone, layer=layer)
    number: Any = np.int64(1)
    assert type(fk.models.features(data, backbone, layer=number).features_of.layer) is int
    digits = fk.data.digits(clients=3)
    with pytest.raises(ModelError, match="features are computed from token numbers"):
        fk.models.features(digits, backbone, layer=1)


def test_the_task_is_the_classification_of_texts(tmp_path: Path) -> None:
    folder = write_bert(tmp_path / "tiny")
    assert fk.models.from_transformers(folder, task="text-classification").folder == folder
    with pytest.raises(ConfigError, match=r"task must be 'text-classification', got 'fill-mask'"):
        fk.models.from_transformers(folder, task="fill-mask")


def test_texts_of_another_tokenizer_are_refused(tmp_path: Path) -> None:
    """The numbers fit the word vectors, but stand for other words."""
    folder = write_bert(tmp_path / "tiny")
    other = write_bert(tmp_path / "other")
    path = other / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    words = tokenizer["model"]["vocab"]
    words["cat"], words["dog"] = words["dog"], words["cat"]
    path.write_text(json.dumps(tokenizer))
    table = pd.DataFrame({"remark": TEXTS, "answer": [0, 1, 0, 1], "desk": [0, 0, 1, 1]})
    columns: dict[str, Any] = {"text": "remark", "label": "answer", "client": "desk"}
    data = fk.data.texts(table, tokenizer=other, **columns)
    assert fk.lora(data, other, rank=2).spec.factors
    with pytest.raises(
        ModelError, match=r"another tokenizer .*make the data with tokenizer='.*tiny'"
    ):
        fk.lora(data, folder, rank=2)
    # The tokenizer alone reads texts, too.
    tokens = fk.models.from_transformers(folder).tokenizer
    assert fk.lora(fk.data.texts(table, tokenizer=tokens, **columns), folder, rank=2).spec.factors


def test_all_names_of_layers_are_listed(folder: Path) -> None:
    data = fk.data.from_arrays(
        fk.models.from_transformers(folder).tokens(TEXTS, 6),
        [0, 1, 0, 1],
        clients=[0, 0, 1, 1],
        integers=True,
    )
    with pytest.raises(ModelError, match=r"there are query, key, value, output, intermediate; set"):
        fk.lora(data, folder, targets=("quary",))


def test_features_and_the_new_last_layer_are_of_a_backbone(folder: Path) -> None:
    backbone = fk.models.from_transformers(folder)
    data = fk.data.from_arrays(
        backbone.tokens(["the cat", "blue dog"] * 4, 8),
        [0, 1] * 4,
        clients=[0, 0, 1, 1] * 2,
        integers=True,
    )
    net = eqx.nn.MLP(8, 2, width_size=4, depth=1, key=jax.random.key(0))
    with pytest.raises(ModelError, match=r"backbone of fk\.models\.from_transformers, got MLP"):
        fk.models.features(data, net, layer=1)
    for head in (False, "classifier"):
        with pytest.raises(ModelError, match=f"leave head={head!r} out"):
            fk.lora(data, backbone, rank=2, head=head)
