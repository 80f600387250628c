"""A folder of a tiny BERT model with random weights and a tokenizer of a few words, as
``save_pretrained`` of transformers writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

WIDTH = 12
LAYERS = 2
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *"a b c d e f g h the red blue cat dog sat".split())
CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": len(WORDS),
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "hidden_act": "gelu",
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}


def write_bert(folder: Path, seed: int = 0, **changes: Any) -> Path:
    """Write the folder of a model.

    Args:
        folder: the folder; it is made.
        seed: seed of the weights.
        changes: entries of ``config.json``; an entry that is None is left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = {key: value for key, value in (CONFIG | changes).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights(seed), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer()))
    return folder


def weights(seed: int) -> dict[str, np.ndarray]:
    """Random weights, by the names of transformers."""
    rng = np.random.default_rng(seed)

    def drawn(*shape: int) -> np.ndarray:
        return (0.3 * rng.normal(size=shape)).astype(np.float32)

    arrays = {
        "embeddings.word_embeddings.weight": drawn(len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": drawn(16, WIDTH),
        "embeddings.token_type_embeddings.weight": drawn(2, WIDTH),
        "embeddings.LayerNorm.weight": 1 + drawn(WIDTH),
        "embeddings.LayerNorm.bias": drawn(WIDTH),
    }
    for number in range(LAYERS):
        place = f"encoder.layer.{number}"
        shapes = {
            "attention.self.query": (WIDTH, WIDTH),
            "attention.self.key": (WIDTH, WIDTH),
            "attention.self.value": (WIDTH, WIDTH),
            "attention.output.dense": (WIDTH, WIDTH),
            "intermediate.dense": (20, WIDTH),
            "output.dense": (WIDTH, 20),
        }
        for name, shape in shapes.items():
            arrays[f"{place}.{name}.weight"] = drawn(*shape)
            arrays[f"{place}.{name}.bias"] = drawn(shape[0])
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            arrays[f"{place}.{name}.weight"] = 1 + drawn(WIDTH)
            arrays[f"{place}.{name}.bias"] = drawn(WIDTH)
    arrays["pooler.dense.weight"] = drawn(WIDTH, WIDTH)
    arrays["pooler.dense.bias"] = drawn(WIDTH)
    return arrays


def _tokenizer() -> dict[str, Any]:
    """A tokenizer that splits at spaces and adds [CLS] and [SEP]."""
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    special = [
        {
            "id": number,
            "content": word,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for word, number in list(vocabulary.items())[:4]
    ]
    template = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]
    return {
        "version": "1.0",
        # A file may ask for a length; fedkin sets its own.
        "truncation": {
            "direction": "Right",
            "max_length": 4,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "padding": None,
        "added_tokens": special,
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": template,
            "pair": [*template, *template[1:]],
            "special_tokens": {
                "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]},
            },
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
